"""Admitting waiting runs, and waiting reasons that are written only once."""

from datetime import timedelta
from typing import Any

import pytest
import structlog

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.controllers import admission
from fairlead.controllers.run_state import LEASE, MESSAGE_INTERVAL
from fairlead.manifests.attempts import demand_of
from fairlead.model.nodes import Node
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import BlobRecord, PlanRecord, RunRecord, SecretRecord
from fairlead.model.runs import Observation, Phase
from fairlead.ports import Transaction
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS
from fairlead.scheduling.fair_shares import URGENT_SECONDS
from fairlead.services.transactions.unit_of_work import Call
from tests.contracts.executors import MemoryExecutor
from tests.making import PYTHON
from tests.scheduling.nodes import make_amounts
from tests.services.executing import CODE, DIGEST, FAR, HERE, HOME, OTHER, Platform
from tests.services.worlds import OTHER_KEY

SHARED = {"name": "data", "volume_type": "shared_volume", "mount_path": "/data", "spec": {"claim_name": "sets"}}


def test_run_that_does_not_fit_is_queued_with_the_reason_until_it_fits(platform: Platform) -> None:
    first, second = (platform.submit(resources={"mem": "20Gi"}) for _ in range(2))
    controller = platform.control()
    controller.sync(set())
    assert (platform.state(first.id)[0], platform.state(second.id)) == ("pending", ("queued", "Unschedulable"))
    assert platform.run(second.id).message == "waiting for 20 GiB memory"
    platform.executor.end(first.id)
    controller.sync({first.id})
    assert platform.state(second.id)[0] == "pending"


def test_wait_reason_is_recorded_once(platform: Platform) -> None:
    platform.submit(resources={"cpu": 8})
    second, controller = platform.submit(resources={"cpu": 1}), platform.control()
    for _ in range(5):
        controller.sync(set())
        platform.world.clock.pass_by(seconds=10)
    assert platform.events(second.id) == [("queued", "Queued"), ("queued", "Unschedulable")]
    platform.control().sync(set())  # another server writes nothing new
    assert len(platform.events(second.id)) == 2


def test_admitted_runs_never_exceed_the_capacity(platform: Platform) -> None:
    submitted = [platform.submit(resources={"mem": "16Gi"}) for _ in range(12)]
    controller = platform.control()
    for _ in range(20):
        controller.sync(set(platform.executor.list_runs()))
        active = [run for run in submitted if platform.state(run.id)[0] in ("pending", "starting", "running")]
        assert len(active) <= 2
        if active:
            platform.executor.end(active[0].id)
    assert [platform.state(run.id)[0] for run in submitted] == ["completed"] * 12
    assert all(platform.executor.count("start", run.id) == 1 for run in submitted)


def test_oldest_run_is_admitted_first(platform: Platform) -> None:
    submitted = [platform.submit(resources={"cpu": 6}) for _ in range(3)]
    platform.control().sync(set())
    assert [platform.state(run.id)[0] for run in submitted] == ["pending", "queued", "queued"]


def test_large_run_is_not_overtaken_forever(platform: Platform) -> None:
    running = platform.submit(resources={"cpu": 4})
    controller = platform.control()
    controller.sync(set())
    large, small = platform.submit(resources={"cpu": 8}), platform.submit(resources={"cpu": 1})
    controller.sync(set())
    assert platform.state(small.id)[0] == "pending"
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    controller.sync(set())
    late = platform.submit(OTHER, resources={"cpu": 1})
    controller.sync({late.id})
    assert platform.state(late.id) == ("queued", "WaitingForTurn")
    assert (platform.run(large.id).reserved_by, platform.run(late.id).reserved_by) == ("s1", None)
    for run in (running, small):
        platform.executor.end(run.id)
    controller.sync({running.id, small.id})
    assert (platform.state(large.id)[0], platform.run(large.id).reserved_by) == ("pending", None)


def test_a_waiting_gpu_run_does_not_delay_runs_that_need_no_gpu(platform: Platform) -> None:
    platform.submit(resources={"gpu": 2, "cpu": 1})
    controller = platform.control()
    controller.sync(set())
    waiting = platform.submit(resources={"gpu": 1, "cpu": 2})
    platform.world.clock.pass_by(seconds=2 * RESERVE_AFTER_SECONDS)
    controller.sync({waiting.id})
    cpu_runs = [platform.submit(resources={"cpu": 2}) for _ in range(3)]
    controller.sync({run.id for run in cpu_runs})
    # 8 cores: 1 is in use, and 2 are reserved.
    assert [platform.state(run.id) for run in cpu_runs[:2]] == [("pending", "Claimed")] * 2
    assert platform.state(cpu_runs[2].id) == ("queued", "WaitingForTurn")
    assert platform.run(waiting.id).message == "waiting for 1 GPU"


def test_a_reservation_survives_a_restart_and_ends_with_its_run(platform: Platform) -> None:
    platform.submit(resources={"cpu": 4})
    platform.control().sync(set())
    large = platform.submit(resources={"cpu": 8})
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    platform.control().sync(set())
    # Its priority puts this run first, but it must not take what is reserved.
    late = platform.submit(resources={"cpu": 1}, priority=5)
    controller = platform.control()
    controller.sync(set())
    assert platform.state(late.id) == ("queued", "WaitingForTurn")
    platform.stop(large.id)
    controller.sync({large.id})
    assert platform.state(late.id)[0] == "pending"


def test_a_run_has_a_reservation_on_one_machine_only(platform: Platform) -> None:
    one, two = platform.control("s1"), platform.control("s2", other := MemoryExecutor())
    running = [platform.submit(resources={"cpu": 4}) for _ in range(4)]
    one.sync(set())
    two.sync(set())
    assert len(other.list_runs()) == 2
    large = platform.submit(resources={"cpu": 8})
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    one.sync(set())
    two.sync(set())
    assert platform.run(large.id).reserved_by == "s1"
    # The second machine keeps no resources free for it.
    other.end(next(run.id for run in running if run.id in other.runs))
    late = platform.submit(resources={"cpu": 1})
    two.sync({late.id})
    assert platform.run(late.id).server_id == "s2"
    # The first server is gone, so the second machine reserves.
    platform.world.clock.pass_by(seconds=LEASE.total_seconds() + 1)
    two.sync(set())
    assert platform.run(large.id).reserved_by == "s2"


def test_a_short_run_may_use_what_is_reserved_until_it_is_needed(platform: Platform) -> None:
    running = platform.submit(resources={"cpu": 4}, deadline="61m")
    controller = platform.control()
    controller.sync(set())
    platform.executor.runs[running.id].observation = Observation(Phase.RUNNING, started_at=platform.world.clock.now)
    controller.sync({running.id})
    large = platform.submit(resources={"cpu": 8})
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    controller.sync(set())
    assert platform.run(large.id).reserved_by == "s1"
    short, long = (platform.submit(resources={"cpu": 1}, deadline=deadline) for deadline in ("55m", "56m"))
    endless = platform.submit(resources={"cpu": 1})
    controller.sync({short.id, long.id, endless.id})
    assert platform.state(short.id)[0] == "pending"
    assert platform.state(long.id) == platform.state(endless.id) == ("queued", "WaitingForTurn")


def test_projects_take_turns(platform: Platform) -> None:
    first = [platform.submit(HOME, resources={"cpu": 2}) for _ in range(6)]
    second = [platform.submit(OTHER, resources={"cpu": 2}) for _ in range(6)]
    platform.control().sync(set())
    started = [platform.state(run.id)[0] == "pending" for run in (*first, *second)]
    assert started == [True, True, *[False] * 4, True, True, *[False] * 4]


@pytest.mark.every_store
@pytest.mark.parametrize("weights", [{HOME: 2}, {OTHER: 0.5}, {HERE: 4, OTHER: 2}])
def test_a_project_with_twice_the_weight_gets_twice_as_much(platform: Platform, weights: dict[str, float]) -> None:
    for scope, weight in weights.items():
        platform.world.put_policy(scope, queue={"weight": weight})
    second = [platform.submit(OTHER, resources={"cpu": "1300m"}) for _ in range(6)]
    first = [platform.submit(HOME, resources={"cpu": "1300m"}) for _ in range(6)]
    controller = platform.control()
    controller.sync(set())
    started = [[platform.state(run.id)[0] for run in runs].count("pending") for runs in (first, second)]
    assert started == [4, 2]
    # Changed weights apply to the runs that start next.
    for scope in weights:
        platform.world.services.policies.delete(platform.world.root, scope)
    for run in (*first[:4], *second[:2]):
        platform.executor.end(run.id)
    controller.sync({run.id for run in (*first[:4], *second[:2])})
    started = [[platform.state(run.id)[0] for run in runs].count("pending") for runs in (first, second)]
    assert started == [2, 4]


def test_the_share_of_disk_counts(platform: Platform) -> None:
    platform.submit(HOME, resources={"disk": "60Gi"})
    controller = platform.control()
    controller.sync(set())
    home, other = platform.submit(HOME, resources={"cpu": 6}), platform.submit(OTHER, resources={"cpu": 6})
    controller.sync(set())
    assert [platform.state(run.id)[0] for run in (home, other)] == ["queued", "pending"]


def test_a_run_that_has_waited_a_day_goes_first(platform: Platform) -> None:
    running = platform.submit(OTHER, resources={"cpu": 8})
    controller = platform.control()
    controller.sync(set())
    platform.submit(OTHER, resources={"gpu": 2})
    controller.sync(set())
    old = platform.submit(OTHER, resources={"cpu": 8})
    platform.world.clock.pass_by(seconds=URGENT_SECONDS)
    # Its project holds all GPUs, and this project holds nothing.
    fresh = platform.submit(HOME, resources={"cpu": 8})
    platform.executor.end(running.id)
    controller.sync({running.id})
    assert [platform.state(run.id)[0] for run in (old, fresh)] == ["pending", "queued"]


def test_many_different_requests_of_one_project_hide_no_run(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MAX_GROUPS", 3)
    platform.submit(resources={"cpu": 4})
    controller = platform.control()
    controller.sync(set())
    for cpu in (5, 6, 7, 8):
        platform.submit(resources={"cpu": cpu})
    small, other = platform.submit(resources={"cpu": 1}), platform.submit(OTHER, resources={"cpu": 1})
    controller.sync(set())
    assert [platform.state(run.id)[0] for run in (small, other)] == ["pending", "pending"]


def test_one_pass_starts_all_runs_of_a_group_that_fit(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "BATCH", 2)
    submitted = [platform.submit(resources={"cpu": 1}) for _ in range(9)]
    platform.control().sync(set())
    assert [platform.state(run.id)[0] for run in submitted] == ["pending"] * 8 + ["queued"]


def test_wait_message_does_not_name_an_invisible_run(platform: Platform) -> None:
    platform.submit(HOME, resources={"cpu": 4})
    controller = platform.control()
    controller.sync(set())
    secret_function = {**PYTHON, "name": "acquisition-of-acme"}
    platform.submit(HOME, function=secret_function, resources={"cpu": 8})
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    controller.sync(set())
    other = platform.submit(OTHER, resources={"cpu": 1})
    controller.sync({other.id})
    assert platform.state(other.id) == ("queued", "WaitingForTurn")
    assert "acme" not in platform.run(other.id).message


def test_a_message_that_is_no_longer_true_is_replaced(platform: Platform) -> None:
    running = platform.submit(resources={"gpu": 2, "cpu": 4})
    controller = platform.control()
    controller.sync(set())
    waiting = platform.submit(resources={"gpu": 1, "cpu": 8})
    controller.sync({waiting.id})
    assert platform.run(waiting.id).message == "waiting for 1 GPU and 8 CPU cores"
    platform.executor.end(running.id)
    first = platform.submit(resources={"cpu": 1}, priority=1)
    platform.world.clock.pass_by(seconds=MESSAGE_INTERVAL.total_seconds())
    controller.sync({running.id, first.id})
    assert platform.run(waiting.id).message == "waiting for 8 CPU cores"


def test_run_that_can_never_fit_blocks_no_other_run(platform: Platform) -> None:
    run = platform.submit(resources={"cpu": 8})
    small_executor = MemoryExecutor(Node("box", make_amounts(cpu=4, pods=4)))  # a setting halved the machine
    after = platform.submit(resources={"cpu": 1})
    platform.world.clock.pass_by(seconds=RESERVE_AFTER_SECONDS)
    platform.control(executor=small_executor).sync(set())
    assert platform.state(run.id) == ("queued", "NeverFits")
    assert platform.state(after.id)[0] == "pending"


def test_runs_on_a_cluster_without_an_executor_do_not_block_others(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MAX_GROUPS", 3)
    for cpu in range(1, 5):
        platform.submit(FAR, resources={"cpu": cpu})
    run = platform.submit(HOME)
    platform.control().sync(set())
    assert platform.state(run.id)[0] == "pending"


# Dependencies of a run start


def test_run_starts_with_its_code_secrets_and_volumes(platform: Platform) -> None:
    services, root = platform.world.services, platform.world.root
    services.secrets.put(root, HOME, "TOKEN", "hunter2")
    services.secrets.put(root, HOME, "UNUSED", "other")
    services.stored_code.put(root, HOME, DIGEST, CODE)
    volume = services.volumes.create(root, HOME, SharedVolume(name="sets", size="1Gi"))
    platform.world.put_policy(HOME, switches={"existing_volumes": "allow"})
    run = platform.submit(function={**PYTHON, "code": DIGEST}, secrets=["TOKEN"], volumes=[SHARED])
    platform.control().sync(set())
    launch = platform.executor.runs[run.id].launch
    assert (launch.execution_id, launch.project, launch.code) == (run.id, "home", CODE)
    assert launch.secrets == {"TOKEN": "hunter2"}
    assert {name: volume_object.id for name, volume_object in launch.volumes.items()} == {"sets": volume.id}
    assert launch.name == launch.manifests[0]["metadata"]["name"]


def test_secret_is_read_at_the_start(platform: Platform) -> None:
    services, root = platform.world.services, platform.world.root
    services.secrets.put(root, HOME, "TOKEN", "old")
    run = platform.submit(secrets=["TOKEN"])
    services.secrets.put(Call(principal=root.principal, any_revision=True), HOME, "TOKEN", "new")
    platform.control().sync(set())
    assert platform.executor.runs[run.id].launch.secrets == {"TOKEN": "new"}


def test_secret_deleted_before_the_start_fails_the_run(platform: Platform) -> None:
    services, root = platform.world.services, platform.world.root
    services.secrets.put(root, HOME, "TOKEN", "x")
    run = platform.submit(secrets=["TOKEN"])
    with platform.world.store.changing("assets") as tx:
        tx.remove_all(SecretRecord)
    platform.control().sync(set())
    failed = platform.run(run.id)
    assert (failed.state, failed.reason, failed.active) == ("failed", "SecretMissing", False)
    assert "TOKEN" in failed.message
    assert failed.finished_at is not None
    assert platform.executor.count("start", run.id) == 0


def test_missing_code_fails_the_run(platform: Platform) -> None:
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    run = platform.submit(function={**PYTHON, "code": DIGEST})
    with platform.world.store.changing("assets") as tx:
        tx.remove_all(BlobRecord)
    platform.control().sync(set())
    assert platform.state(run.id) == ("failed", "CodeMissing")


def test_secret_that_cannot_be_decrypted_does_not_block_other_runs(platform: Platform) -> None:
    platform.world.services.secrets.put(platform.world.root, HOME, "TOKEN", "x")
    first, second = platform.submit(secrets=["TOKEN"]), platform.submit()
    controller = platform.control()
    controller.keyring = AesKeyring(parse_keys(OTHER_KEY))
    controller.sync(set())
    assert platform.state(second.id)[0] == "pending"
    assert platform.executor.list_runs() == [second.id]
    assert platform.state(first.id)[0] in ("pending", "failed")
    controller.keyring = platform.world.keyring  # the key is available again
    platform.world.clock.now += timedelta(minutes=1)
    controller.sync(set())
    if platform.run(first.id).active:
        assert platform.executor.count("start", first.id) == 1


def test_start_error_is_recorded(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    platform.executor.end(run.id, Phase.FAILED, reason="StartFailed", message="config map x does not exist")
    controller.sync({run.id})
    assert platform.state(run.id) == ("failed", "StartFailed")


def test_unreadable_plan_does_not_block_other_runs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    unreadable, good = platform.submit(), platform.submit()

    def read(run: RunRecord, plan_record: PlanRecord) -> Any:
        return 1 / 0 if run.id == unreadable.id else demand_of(run, plan_record)

    monkeypatch.setattr(admission, "demand_of", read)
    platform.control().sync(set())
    assert [platform.state(run.id)[0] for run in (unreadable, good)] == ["queued", "pending"]


@pytest.mark.every_store
def test_lost_database_during_admission_is_logged_once_and_retried(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, controller = [platform.submit() for _ in range(2)], platform.control()
    with platform.world.store.reading() as tx:
        transaction_type = type(tx)
    original_get = transaction_type.get

    def fail_for_plans(tx: Transaction, kind: type[Any], **key: Any) -> Any:
        if kind is PlanRecord:
            raise ConnectionError("lost")
        return original_get(tx, kind, **key)

    with monkeypatch.context() as patched, structlog.testing.capture_logs() as lines:
        patched.setattr(transaction_type, "get", fail_for_plans)
        controller.sync(set())
    assert [(line["event"], line["problem"]) for line in lines] == [("admission failed", "lost")]
    controller.sync(set())
    assert [platform.state(run.id)[0] for run in runs] == ["pending", "pending"]
