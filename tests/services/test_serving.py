"""Access to served runs: one-time codes, session cookies, and the time of last use."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.errors import Conflict, FairleadError, Unauthenticated, Unavailable
from fairlead.lifecycle.attempts import execution_of
from fairlead.model.records import IdempotencyRecord, RunRecord
from fairlead.model.runs import Endpoint
from fairlead.ports import Principal, Store
from fairlead.services import registry
from fairlead.services.runs.serving import ServedHosts, Serving
from fairlead.services.transactions.unit_of_work import Call
from tests.contracts.executors import MemoryExecutor
from tests.making import SERVED
from tests.services.worlds import MAIN, World, call_as, error_text, initialize_world

HOSTS = ServedHosts.of("http://127.0.0.1:8470")
ENDPOINT = Endpoint("http://127.0.0.1:9000")
SERVER = "s1"


class EndpointExecutor(MemoryExecutor):
    """An executor with endpoints set by tests."""

    def find_endpoint(self, run_id: str) -> Endpoint:
        """The endpoint of a run."""
        if run_id not in self.endpoints:
            raise Unavailable(f"run {run_id} does not answer yet")
        return self.endpoints[run_id]


class Scene:
    """A platform with served runs."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.executor = EndpointExecutor()
        self.execution = registry.ExecutionOptions(ExecutorRegistry({"kubernetes": self.executor}), server_id=SERVER)
        self.world: World = initialize_world(store, monkeypatch, execution=self.execution)
        self.serving: Serving = self.world.services.serving

    def serve(self, action: str = "serve", **overrides: object) -> RunRecord:
        """Submit a run, and mark it as ready."""
        submitted = self.world.submit(function=SERVED, action=action)
        fields = {"state": "running", "reason": "Ready", "message": "answers", "server_id": SERVER, **overrides}
        run_record = replace(submitted, **fields, revision=submitted.revision + 1)  # type: ignore[arg-type]
        with self.world.store.recording() as tx:
            tx.save(run_record)
        self.executor.endpoints[execution_of(run_record.id, run_record.attempt)] = ENDPOINT
        return run_record

    def run(self, run_id: str) -> RunRecord:
        """The stored run."""
        with self.world.store.reading() as tx:
            record = tx.get(RunRecord, id=run_id)
        assert record is not None
        return record

    def make_code(self, run: RunRecord, call: Call | None = None) -> str:
        """A one-time code for a run."""
        return self.serving.open(call or self.world.root, run.id, HOSTS).url.partition("code=")[2]


@pytest.fixture
def scene(store: Store, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A platform for runs that serve HTTP."""
    return Scene(store, monkeypatch)


@pytest.mark.every_store
def test_code_works_once(scene: Scene) -> None:
    run = scene.serve()
    code = scene.make_code(run)
    cookie = scene.serving.redeem_code(Call(), run.id, code)
    assert scene.serving.authorize(Call(), run.id, cookie.value).endpoint == ENDPOINT
    with pytest.raises(Unauthenticated, match="has already been used"):
        scene.serving.redeem_code(Call(), run.id, code)


@pytest.mark.every_store
def test_only_one_of_many_concurrent_uses_of_a_code_succeeds(scene: Scene) -> None:
    run = scene.serve()
    # Several servers with one store and no shared memory.
    servers = [registry.build_services(scene.world.store, scene.world.keyring)[0].serving for _ in range(4)]
    code, start, outcomes = scene.make_code(run), threading.Barrier(4), list[str]()

    def redeem(serving: Serving) -> None:
        start.wait()
        try:
            serving.redeem_code(Call(), run.id, code)
            outcomes.append("in")
        except Unauthenticated as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=redeem, args=(serving,)) for serving in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["in", *["this link has already been used"] * 3]


def test_used_codes_are_deleted_after_they_expired(scene: Scene) -> None:
    run = scene.serve()
    for _ in range(3):
        scene.serving.redeem_code(Call(), run.id, scene.make_code(run))
    scene.world.clock.pass_by(days=3)
    scene.serving.redeem_code(Call(), run.id, scene.make_code(run))
    with scene.world.store.reading() as tx:
        assert tx.count(IdempotencyRecord) == 1


def test_failed_sign_in_does_not_use_the_code(scene: Scene) -> None:
    run = scene.serve()
    code = scene.make_code(run)
    scene.world.services.runs.stop(scene.world.root, run.id)
    with pytest.raises(Conflict):
        scene.serving.redeem_code(Call(), run.id, code)
    with scene.world.store.reading() as tx:
        assert tx.count(IdempotencyRecord) == 0


def test_usage_is_recorded_at_most_once_a_minute(scene: Scene) -> None:
    run, clock = scene.serve(), scene.world.clock
    authorize = scene.serving.authorize
    authorize(scene.world.root, run.id)
    first = scene.run(run.id)
    assert first.last_used_at is not None
    clock.pass_by(seconds=59)
    authorize(scene.world.root, run.id)
    assert scene.run(run.id) == first
    clock.pass_by(seconds=2)
    authorize(scene.world.root, run.id)
    second = scene.run(run.id)
    assert second.last_used_at is not None
    assert second.last_used_at - first.last_used_at > timedelta(minutes=1)
    assert second == replace(first, last_used_at=second.last_used_at, revision=first.revision + 1)


def test_usage_recorded_by_a_fast_clock_is_corrected(scene: Scene) -> None:
    run, clock = scene.serve(), scene.world.clock
    clock.pass_by(days=30)
    scene.serving.authorize(scene.world.root, run.id)
    clock.pass_by(days=-30)
    scene.serving.authorize(scene.world.root, run.id)
    assert (scene.run(run.id).last_used_at or clock()) < clock()


def test_session_cookie_expires_with_the_identity_of_its_user(scene: Scene) -> None:
    run, now = scene.serve(), scene.world.clock()
    for until, max_seconds in ((now + timedelta(minutes=10), 10 * 60), (None, 12 * 3600)):
        call = Call(principal=Principal("root", until=until))
        cookie = scene.serving.redeem_code(Call(), run.id, scene.make_code(run, call))
        assert max_seconds - 1 < cookie.lifetime.total_seconds() <= max_seconds


def test_current_attempt_of_a_run_is_reached(scene: Scene) -> None:
    run = scene.serve(attempt=3)
    assert list(scene.executor.endpoints) == [f"{run.id}-3"]
    assert scene.serving.authorize(scene.world.root, run.id).endpoint == ENDPOINT


def test_request_to_an_unready_run_counts_as_usage(scene: Scene) -> None:
    run = scene.serve("workspace", state="degraded", reason="CrashLoopBackOff", message="ended with exit code 3")
    scene.executor.endpoints.clear()
    with pytest.raises(Unavailable) as caught:
        scene.serving.authorize(scene.world.root, run.id)
    assert "does not answer yet; state degraded: ended with exit code 3" in error_text(caught)
    assert scene.run(run.id).last_used_at is not None


def test_run_is_visible_only_with_a_role_at_or_above_its_project(scene: Scene) -> None:
    run = scene.serve()
    eve = scene.world.grant("eve", "viewer", "project/lake")
    for operation in (
        lambda: scene.serving.authorize(eve, run.id),
        lambda: scene.serving.open(eve, run.id, HOSTS),
        lambda: scene.serving.describe_url(eve, run.id, HOSTS),
        lambda: scene.serving.authorize(call_as("nobody"), run.id),
    ):
        with pytest.raises(FairleadError, match=r"run .* does not exist"):
            operation()
    assert scene.serving.authorize(scene.world.grant("ida", "viewer", MAIN), run.id).endpoint == ENDPOINT
