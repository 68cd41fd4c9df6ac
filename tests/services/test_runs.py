"""Runs: previews, idempotent submission, stopping and deleting."""

from typing import Any

import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.records import AuditRecord, IdempotencyRecord, PlanRecord, RunRecord
from tests.services.worlds import (
    FOREST,
    LAKE,
    World,
    call_as,
    finding_rules,
    listing,
    rejection_rules,
    setting,
)

Request = dict[str, Any]
REQUEST: Request = {"profile": "big", "secrets": ["TOKEN"], "resources": {"disk": "1Gi"}}


@pytest.fixture
def ready(world: World) -> World:
    """A platform with a compute resource and a secret."""
    world.add_compute_resource("big", resources={"cpu": 4, "mem": "8Gi"})
    world.services.secrets.put(world.root, FOREST, "TOKEN", "x")
    return world


def stored_records(world: World) -> list[Any]:
    """All stored runs, plans, responses and audit entries, and the generation of the store."""
    with world.store.reading() as tx:
        return [tx.find(kind) for kind in (RunRecord, PlanRecord, IdempotencyRecord, AuditRecord)] + [tx.generation]


def test_preview_stores_nothing(ready: World) -> None:
    before = stored_records(ready)
    plan = ready.preview(**REQUEST)
    assert plan["violations"] == []
    assert plan["manifests"][0]["kind"] == "Job"
    assert plan["token"]
    assert stored_records(ready) == before


def test_preview_with_violations_has_no_token_and_no_manifests(ready: World) -> None:
    plan = ready.preview(profile="bog", secrets=["TOKNE"], resources={"gpu": {"memory": "50%"}}, run_as_user=0)
    assert (plan["token"], plan["manifests"]) == (None, [])
    assert finding_rules(plan["violations"]) == [
        ("profile", "unknown_profile"),
        ("run_as_user", "allow_root"),
        ("secrets.TOKNE", "unknown_secret"),
    ]
    assert [item["hint"] for item in plan["violations"]][::2] == ["did you mean big?", "did you mean TOKEN?"]


def test_rejected_run_reports_all_violations_and_stores_nothing(ready: World) -> None:
    before = stored_records(ready)
    with pytest.raises(RequestRejected) as caught:
        ready.submit(profile="bog", secrets=["TOKNE"], run_as_user=0)
    assert len(rejection_rules(caught)) == 3
    assert stored_records(ready) == before


def test_submitted_run_is_queued_with_the_objects_it_uses(ready: World) -> None:
    run = ready.submit(**REQUEST)
    assert (run.state, run.active, run.scope, run.function, run.action) == ("queued", True, FOREST, "train", "job")
    assert (run.compute_resource, run.compute_resource_revision, run.created_by) == ("big", 1, "root")
    assert run.message
    assert ready.services.runs.get(ready.root, run.id) == run
    stored = ready.services.runs.plan(ready.root, run.id)
    assert stored.request["profile"] == "big"
    assert setting(stored.plan, "resources.cpu.requests") == "4"


@pytest.mark.every_store
def test_repeated_request_with_the_same_idempotency_key_gets_the_same_response(ready: World) -> None:
    call = call_as(key="k1", fingerprint="a")
    first = ready.submit(call=call)
    assert ready.submit(call=call) == first
    assert len(ready.services.runs.page(ready.root, listing()).items) == 1
    assert len(ready.audit(action="run.create")) == 1
    with pytest.raises(Conflict, match="used for another request"):
        ready.submit(call=call_as(key="k1", fingerprint="b"))
    mia = ready.grant("mia", "member", FOREST)
    other = ready.submit(call=call_as(mia.principal.user if mia.principal else "", key="k1", fingerprint="a"))
    assert other.id != first.id
    ready.clock.pass_by(days=3)
    ready.submit(call=call_as(key="k2", fingerprint="a"))
    assert ready.submit(call=call).id != first.id  # a key is remembered for two days


def test_rejected_request_does_not_use_its_idempotency_key(ready: World) -> None:
    call = call_as(key="k1", fingerprint="a")
    with pytest.raises(RequestRejected):
        ready.submit(call=call, secrets=["NOPE"])
    ready.services.secrets.put(ready.root, FOREST, "NOPE", "x")
    assert ready.submit(call=call, secrets=["NOPE"]).state == "queued"


def test_run_is_stopped_once_and_can_be_deleted_after_it_ended(ready: World) -> None:
    run = ready.submit()
    with pytest.raises(Conflict, match="is queued"):
        ready.services.runs.delete(ready.root, run.id)
    with pytest.raises(Changed):
        ready.services.runs.stop(call_as(revision=9), run.id)
    stopped = ready.services.runs.stop(ready.root, run.id)
    assert (stopped.state, stopped.active, stopped.reason, stopped.message) == (
        "stopped",
        False,
        "Stopped",
        "stopped by root before it started",
    )
    assert stopped.finished_at is not None
    assert ready.services.runs.stop(ready.root, run.id) == stopped
    ready.services.runs.delete(ready.root, run.id)
    for use_case in (ready.services.runs.get, ready.services.runs.plan, ready.services.runs.stop):
        with pytest.raises(NotFound, match=r"run .* does not exist"):
            use_case(ready.root, run.id)
    assert [entry.action for entry in ready.audit(object_id=run.id)] == ["run.create", "run.stop", "run.delete"]


@pytest.mark.every_store
def test_runs_are_listed_newest_first_and_filtered_by_column(ready: World) -> None:
    runs, root = ready.services.runs, ready.root
    first, second = ready.submit(profile="big"), ready.submit(LAKE)
    runs.stop(root, first.id)
    assert [run.id for run in runs.page(root, listing()).items] == [second.id, first.id]
    assert [run.id for run in runs.page(root, listing(), FOREST).items] == [first.id]
    for request, expected in (
        ({"state": "stopped"}, first),
        ({"active": "true"}, second),
        ({"compute_resource": "big"}, first),
        ({"scope": LAKE}, second),
        ({"finished_at": "none"}, second),
        ({"id": second.id}, second),
        ({"search": first.id[-8:]}, first),
        ({"action": "job", "template": "none", "state": "queued"}, second),
    ):
        assert [run.id for run in runs.page(root, listing(**request)).items] == [expected.id], request


def test_viewers_can_preview_and_members_can_submit(ready: World) -> None:
    vic, mia = ready.grant("vic", "viewer", FOREST), ready.grant("mia", "member", FOREST)
    assert ready.preview(call=vic, **REQUEST)["violations"] == []
    with pytest.raises(Forbidden):
        ready.submit(call=vic, **REQUEST)
    run = ready.submit(call=mia, **REQUEST)
    for use_case in (ready.services.runs.stop, ready.services.runs.delete):
        with pytest.raises(Forbidden):
            use_case(vic, run.id)
    assert ready.services.runs.stop(mia, run.id).message == "stopped by mia before it started"
    with pytest.raises(NotFound):
        ready.preview(LAKE, call=mia)
