"""Idempotency keys: a repeated request is executed once and gets the same response."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairlead.errors import Conflict, FairleadError
from fairlead.model.project_objects import SharedVolume
from fairlead.model.scopes import Cluster, Grant, Project
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import FOREST, VISION, World, call_as

GRANT = Grant.model_validate({"subject": "user:new", "role": "viewer", "scope": FOREST})
CREATIONS: Mapping[str, Callable[[World, Call], Any]] = {
    "a project": lambda w, c: w.services.scopes.create(c, Project(name="new", parent=VISION)),
    "a cluster": lambda w, c: w.services.scopes.create(c, Cluster(name="new", gpu_types={"A100": ("a", "b")})),
    "a compute resource": lambda w, c: w.add_compute_resource(
        "new", call=c, workload_types=["training"], resources={"gpu": 1}
    ),
    "a copy": lambda w, c: w.services.compute_resources.copy(c, "base", {"name": "new"}),
    "a template": lambda w, c: w.add_template("new", call=c, profile="base"),
    "a volume": lambda w, c: w.services.volumes.create(c, FOREST, SharedVolume(name="new", size="1Gi")),
    "a run": lambda w, c: w.submit(call=c, profile="base"),
    "a role": lambda w, c: w.services.grants.create(c, GRANT),
}


@pytest.mark.parametrize("case", CREATIONS)
def test_repeated_request_gets_the_same_response_and_is_executed_once(world: World, case: str) -> None:
    world.add_compute_resource("base")
    create, call = CREATIONS[case], call_as(key="k", fingerprint="f")
    first = create(world, call)
    actions = world.audit_actions()
    world.clock.pass_by(hours=47)
    assert create(world, call) == first
    assert world.audit_actions() == actions
    with pytest.raises(Conflict, match="used for another request"):
        create(world, call_as(key="k", fingerprint="other"))
    if case not in ("a run",):  # a run has no unique name
        with pytest.raises(FairleadError):
            create(world, call_as(key="another", fingerprint="f"))


@pytest.mark.every_store
def test_stored_response_is_returned_unchanged_from_every_store(world: World) -> None:
    world.add_compute_resource("base")
    for number, create in enumerate(CREATIONS.values()):
        call = call_as(key=str(number), fingerprint="f")
        try:
            first = create(world, call)
        except Conflict:
            continue  # an earlier case has used the name
        assert create(world, call) == first
