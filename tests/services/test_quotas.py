"""Quota usage of active runs per scope."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from fairlead.model.records import RunRecord
from tests.services.worlds import FOREST, LAKE, MEADOW, SPEECH, VISION, World


def used(world: World, scope: str) -> dict[str, Any]:
    """The usage of a scope and everything in it."""
    return asdict(world.services.policies.effective(world.root, scope).used)


def submit_assigned(world: World, scope: str = FOREST, **request: Any) -> RunRecord:
    """Submit a run, and assign it to a server."""
    run = world.submit(scope, **request)
    with world.store.recording() as tx:
        tx.save(replace(run, server_id="s1", revision=2))
    return run


def test_run_records_the_amounts_of_all_its_pods(world: World) -> None:
    run = world.submit(replicas=3, resources={"gpu": 2, "cpu": "500m", "mem": "4Gi"})
    assert (run.gpus, run.cpu_millicores, run.mem_bytes) == (6, 1500, 12 * 2**30)
    empty = world.submit()
    assert (empty.gpus, empty.cpu_millicores, empty.mem_bytes) == (0, 0, 0)


def test_gpu_share_counts_as_one_gpu_and_a_limit_without_a_request_as_the_request(world: World) -> None:
    run = world.submit(resources={"gpu": {"memory": "50%"}, "mem": {"limits": "2Gi"}})
    assert (run.gpus, run.mem_bytes) == (1, 2 * 2**30)


def test_amounts_of_compute_resources_and_defaults_count(world: World) -> None:
    world.add_compute_resource("big", resources={"gpu": 4})
    world.put_policy(VISION, defaults={"resources": {"cpu": 2}})
    run = world.submit(profile="big", resources={"gpu": 1})
    assert (run.gpus, run.cpu_millicores) == (4, 2000)


@pytest.mark.every_store
def test_usage_is_summed_from_projects_to_the_platform(world: World) -> None:
    submit_assigned(world, FOREST, resources={"gpu": 1, "cpu": 1, "mem": "1Gi"})
    submit_assigned(world, FOREST, resources={"gpu": 1, "cpu": "250m", "mem": "1Gi"})
    submit_assigned(world, MEADOW, replicas=2, resources={"mem": "1Gi"})
    submit_assigned(world, LAKE, resources={"gpu": 3})
    assert used(world, FOREST) == {"gpu": 2, "cpu": "1250m", "mem": "2Gi", "runs": 2}
    assert used(world, VISION) == {"gpu": 2, "cpu": "1250m", "mem": "4Gi", "runs": 3}
    assert used(world, SPEECH) == {"gpu": 3, "cpu": "0", "mem": "0", "runs": 1}
    assert used(world, "platform") == {"gpu": 5, "cpu": "1250m", "mem": "4Gi", "runs": 4}


def test_each_quota_shows_the_usage_at_its_own_scope(world: World) -> None:
    world.put_policy(quota={"gpu": 100})
    world.put_policy(VISION, rules={"resources.gpu": {"max": 8}})
    world.put_policy(FOREST, quota={"gpu": 8, "runs": 5})
    submit_assigned(world, FOREST, resources={"gpu": 1})
    submit_assigned(world, LAKE, resources={"gpu": 3})
    effective = world.services.policies.effective(world.root, FOREST)
    assert [(quota["scope"], quota["gpu"], quota["used"].gpu) for quota in effective.quotas] == [
        ("platform", 100, 4),
        (FOREST, 8, 1),
    ]
    assert effective.quotas[1]["used"] == effective.used


def test_waiting_and_finished_runs_use_no_quota(world: World) -> None:
    world.submit(resources={"gpu": 2})
    run = submit_assigned(world, resources={"gpu": 2})
    assert used(world, FOREST)["gpu"] == 2
    with world.store.recording() as tx:
        tx.save(replace(run, server_id="s1", active=False, state="completed", revision=3))
    assert used(world, FOREST) == {"gpu": 0, "cpu": "0", "mem": "0", "runs": 0}


def test_usage_of_a_visible_scope_includes_all_runs(world: World) -> None:
    world.put_policy(VISION, quota={"gpu": 8})
    submit_assigned(world, MEADOW, resources={"gpu": 3})
    vic = world.grant("vic", "viewer", FOREST)
    effective = world.services.policies.effective(vic, FOREST)
    assert (effective.used.gpu, effective.quotas[0]["used"].gpu) == (0, 3)


@pytest.mark.every_store
def test_maximum_amounts_can_be_summed(world: World) -> None:
    for _ in range(3):
        submit_assigned(world, replicas=10_000, resources={"mem": "7Ei", "cpu": "7E"})
    assert used(world, FOREST)["runs"] == 3
    assert len(used(world, FOREST)["mem"]) > 10
    with world.store.reading() as tx:
        assert {run.mem_bytes for run in tx.find(RunRecord)} == {2**63 - 1}
