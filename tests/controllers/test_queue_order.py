"""Quotas delay runs in queue order: on this machine, on clusters, and with several servers."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.controllers import admission, run_state, runs
from fairlead.model.records import RunRecord
from tests.contracts.executors import MemoryExecutor
from tests.contracts.memory import MemoryStore
from tests.controllers.servers import Servers
from tests.services.executing import FAR, HERE, HOME, OTHER, Platform, initialize_platform

SECONDS = 20  # a timeout: a deadlock fails the test instead of hanging it


def states(platform: Platform, *submitted: RunRecord) -> list[str]:
    """The states of runs."""
    return [platform.state(run.id)[0] for run in submitted]


def advance(platform: Platform) -> None:
    """Advance the clock so that the next pass is a full one."""
    platform.world.clock.pass_by(seconds=runs.RESYNC_SECONDS + 1)


# On this machine


def test_quota_holds_a_run_with_the_reason_until_another_run_ends(platform: Platform) -> None:
    platform.world.put_policy(HERE, quota={"runs": 2})
    _, second, third = submitted = [platform.submit(scope) for scope in (HOME, OTHER, HOME)]
    controller = platform.control()
    controller.sync(set())
    assert states(platform, *submitted) == ["pending", "pending", "queued"]
    waiting = platform.run(third.id)
    assert (waiting.reason, waiting.active, waiting.server_id) == ("QuotaExceeded", True, None)
    assert waiting.message == "waiting for a free slot: the cluster/here quota is 2 runs at once"
    platform.executor.end(second.id)
    controller.sync({second.id})
    assert states(platform, *submitted) == ["pending", "completed", "pending"]
    assert platform.events(third.id)[1:3] == [("queued", "QuotaExceeded"), ("pending", "Claimed")]


def test_quotas_of_all_ancestor_scopes_apply(platform: Platform) -> None:
    platform.world.put_policy(quota={"gpu": 2})
    platform.world.put_policy(HOME, quota={"mem": "10Gi"})
    one = platform.submit(HOME, resources={"mem": "6Gi", "gpu": 1})
    two = platform.submit(HOME, resources={"mem": "6Gi"})
    three = platform.submit(OTHER, resources={"mem": "6Gi", "gpu": 1})
    four = platform.submit(OTHER, resources={"gpu": 1})
    platform.control().sync(set())
    assert states(platform, one, two, three, four) == ["pending", "queued", "pending", "queued"]
    assert platform.run(two.id).message.endswith("waiting for 6 GiB of 10 GiB memory in the project/home quota")
    assert platform.run(four.id).message.endswith("waiting for 1 of 2 GPUs in the platform quota")


def test_later_run_does_not_overtake_an_older_run_that_waits_for_the_same_quota(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"cpu": 4})
    running = platform.submit(resources={"cpu": 3})
    large, small, other = (
        platform.submit(resources={"cpu": 4}),
        platform.submit(resources={"cpu": 1}),
        platform.submit(OTHER, resources={"cpu": 1}),
    )
    controller = platform.control()
    controller.sync(set())
    assert states(platform, running, large, small, other) == ["pending", "queued", "queued", "pending"]
    late = platform.submit(resources={"cpu": 1})
    controller.sync({late.id})
    assert platform.state(late.id) == ("queued", "QuotaExceeded")
    platform.executor.end(running.id)
    controller.sync({running.id})
    assert states(platform, large, small, late) == ["pending", "queued", "queued"]


def test_runs_behind_a_stopped_run_are_admitted(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"cpu": 4})
    platform.submit(resources={"cpu": 3})
    large, small = platform.submit(resources={"cpu": 4}), platform.submit(resources={"cpu": 1})
    controller = platform.control()
    controller.sync(set())
    platform.stop(large.id)
    controller.sync({large.id})
    assert states(platform, large, small) == ["stopped", "pending"]


def test_run_larger_than_its_quota_is_reported_and_holds_back_no_other_run(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"cpu": 2})
    large, small = platform.submit(resources={"cpu": 3}), platform.submit(resources={"cpu": 2})
    platform.control().sync(set())
    assert states(platform, large, small) == ["queued", "pending"]
    assert platform.run(large.id).message == "needs 3 CPU cores; the project/home quota is 2"


def test_run_that_fits_no_machine_reserves_no_quota(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"cpu": 9})
    running, large, small = (platform.submit(resources={"cpu": cpu}) for cpu in (2, 8, 1))
    controller = platform.control()
    platform.executor.node = MemoryExecutor().node
    platform.executor.node.capacity["cpu"] //= 2  # type: ignore[index]  # a setting halved the machine
    controller.sync(set())
    assert states(platform, running, large, small) == ["pending", "queued", "pending"]
    assert platform.run(large.id).reason == "NeverFits"


def test_quota_wait_reason_is_recorded_once_and_names_no_run(platform: Platform) -> None:
    platform.world.put_policy(quota={"cpu": 4, "runs": 1})
    first = platform.submit(HOME, resources={"cpu": 4})
    second, controller = platform.submit(OTHER, resources={"cpu": 2}), platform.control()
    for _ in range(5):
        controller.sync(set())
        advance(platform)
    waiting = platform.run(second.id)
    assert platform.events(second.id) == [("queued", "Queued"), ("queued", "QuotaExceeded")]
    assert (waiting.revision, first.id in waiting.message) == (2, False)
    platform.control("s2", MemoryExecutor()).sync(set())  # another server writes nothing new
    assert platform.run(second.id).revision == 2


def test_raised_or_removed_quota_admits_runs(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"runs": 1})
    platform.world.put_policy(OTHER, quota={"runs": 0})
    submitted = [platform.submit(scope) for scope in (HOME, HOME, HOME, OTHER)]
    controller = platform.control()
    controller.sync(set())
    assert states(platform, *submitted) == ["pending", "queued", "queued", "queued"]
    platform.world.put_policy(HOME, quota={"runs": 2})
    advance(platform)
    controller.sync(set())
    assert states(platform, *submitted) == ["starting", "pending", "queued", "queued"]
    assert "is 2 runs at once" in platform.run(submitted[2].id).message
    platform.world.put_policy(OTHER, rules={"resources.cpu": {"max": 8}})  # the quota was removed
    advance(platform)
    controller.sync(set())
    assert states(platform, *submitted[2:]) == ["queued", "pending"]
    platform.world.services.policies.delete(platform.world.root, HOME)
    advance(platform)
    controller.sync(set())
    assert states(platform, submitted[2]) == ["pending"]


def test_lowered_quota_stops_no_run(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"runs": 3})
    submitted, controller = [platform.submit() for _ in range(3)], platform.control()
    controller.sync(set())
    platform.world.put_policy(HOME, quota={"runs": 1})
    late = platform.submit()
    for ended in submitted[:2]:
        advance(platform)
        controller.sync(set())
        assert platform.state(late.id) == ("queued", "QuotaExceeded")
        platform.executor.end(ended.id)
    advance(platform)
    controller.sync(set())
    assert states(platform, *submitted, late) == ["completed", "completed", "starting", "queued"]
    platform.executor.end(submitted[2].id)
    controller.sync({submitted[2].id})
    assert platform.state(late.id)[0] == "pending"


def test_run_within_its_quota_that_does_not_fit_reports_the_missing_capacity(platform: Platform) -> None:
    platform.world.put_policy(HOME, quota={"runs": 2})
    running = [platform.submit(OTHER, resources={"cpu": 4}), platform.submit(HOME, resources={"cpu": 4})]
    large = [platform.submit(HOME, resources={"cpu": 8}) for _ in range(3)]
    controller = platform.control()
    controller.sync(set())
    assert {platform.run(run.id).reason for run in large} == {"Unschedulable"}
    small = platform.submit(HOME)  # it overtakes the large runs, and uses up the rest of the quota
    controller.sync({small.id})
    advance(platform)
    controller.sync(set())
    assert {platform.run(run.id).reason for run in large} == {"QuotaExceeded"}
    platform.executor.end(small.id)
    controller.sync({small.id})
    # Only the first one is examined at once. The others get their new reason in the next resync.
    assert [platform.run(run.id).reason for run in large] == ["Unschedulable", "QuotaExceeded", "QuotaExceeded"]
    advance(platform)
    controller.sync(set())
    assert {platform.run(run.id).reason for run in large} == {"Unschedulable"}
    for run in running:
        platform.executor.end(run.id)
    controller.sync({run.id for run in running})
    assert states(platform, *large) == ["pending", "queued", "queued"]


def test_runs_held_by_a_quota_do_not_hide_other_runs(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_GROUPS", 2)
    monkeypatch.setattr(admission, "BATCH", 2)
    platform.world.put_policy(HOME, quota={"runs": 1})
    held, controller = [platform.submit(HOME) for _ in range(9)], platform.control()
    for _ in range(4):
        controller.sync(set())
        advance(platform)
    assert [platform.run(run.id).reason for run in held[1:3]] == ["QuotaExceeded"] * 2
    other = platform.submit(OTHER)
    controller.sync(set())
    assert platform.state(other.id)[0] == "pending"
    platform.world.put_policy(HOME, quota={"runs": 6})
    advance(platform)
    controller.sync(set())
    assert states(platform, *held) == ["starting", *["pending"] * 5, *["queued"] * 3]


@pytest.mark.every_store
def test_new_quota_is_counted_from_the_next_pass(platform: Platform) -> None:
    controller = platform.control()
    controller.sync(set())
    platform.world.put_policy(HOME, quota={"runs": 1})
    first, second = (platform.submit() for _ in range(2))
    # The quota is not loaded yet, so another server may be claiming at the same time.
    assert controller.state_writer.claim(platform.run(first.id)) is None
    controller.sync({first.id, second.id})
    assert [platform.state(run.id) for run in (first, second)] == [("pending", "Claimed"), ("queued", "QuotaExceeded")]


def test_without_quotas_claims_need_no_exclusive_transaction(
    memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = initialize_platform(memory_store, monkeypatch)
    platform.world.put_policy(HOME, rules={"resources.gpu": {"max": 8}})
    submitted, controller = [platform.submit() for _ in range(3)], platform.control()
    controller.sync(set())
    recording = memory_store.recording

    def record(*, exclusive: bool = False) -> object:
        assert not exclusive
        return recording()

    late = platform.submit()
    monkeypatch.setattr(memory_store, "recording", record)
    platform.executor.end(submitted[0].id)
    controller.sync({submitted[0].id, late.id})
    advance(platform)
    controller.sync(set())
    assert states(platform, *submitted, late) == ["completed", "starting", "starting", "starting"]


# On clusters


def test_run_is_started_on_its_cluster_in_queue_order(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy("cluster/far", quota={"runs": 2})
    submitted = [platform.submit(FAR) for _ in range(4)]
    servers.advance_and_sync("one", "two")
    assert states(platform, *submitted) == ["pending", "pending", "queued", "queued"]
    assert [platform.run(run.id).reason for run in submitted[2:]] == ["QuotaExceeded", "QuotaExceeded"]
    assert [servers.count_starts(run) for run in submitted] == [1, 1, 0, 0]
    late = platform.submit(FAR)
    servers.controllers["one"].sync({late.id})
    assert platform.state(late.id) == ("queued", "QuotaExceeded")
    servers.end(submitted[1])
    servers.controllers["one"].sync({submitted[1].id})
    servers.controllers["one"].sync(set())  # triggered by the ended run: no time has passed
    assert states(platform, *submitted, late) == ["pending", "completed", "pending", "queued", "queued"]


def test_new_run_starts_on_its_cluster_immediately_if_the_quota_allows_it(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy("cluster/far", quota={"runs": 1})
    servers.advance_and_sync("one")
    first, second = platform.submit(FAR), platform.submit(FAR)
    servers.controllers["one"].sync({first.id, second.id})
    assert (states(platform, first, second), servers.count_starts(first)) == (["pending", "queued"], 1)
    platform.stop(second.id)
    assert platform.state(second.id)[0] == "stopped"


@pytest.mark.every_store
def test_new_run_does_not_overtake_an_older_run_that_waits_for_the_same_quota(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy("cluster/far", quota={"cpu": 4})
    running, large = (platform.submit(FAR, resources={"cpu": cpu}) for cpu in (3, 4))
    servers.advance_and_sync("one")
    small = platform.submit(FAR, resources={"cpu": 1})
    servers.controllers["one"].sync({small.id})
    assert states(platform, running, large, small) == ["pending", "queued", "queued"]


@pytest.mark.every_store
def test_platform_quota_covers_machines_and_clusters(servers: Servers) -> None:
    platform = servers.platform
    platform.world.put_policy(quota={"cpu": 4})
    submitted = [platform.submit(scope, resources={"cpu": 2}) for scope in (HOME, FAR, HOME, FAR)]
    servers.advance_and_sync("one", "two")
    assert [state != "queued" for state in states(platform, *submitted)] == [True, True, False, False]
    small = [platform.submit(scope, resources={"cpu": 1}) for scope in (FAR, HOME)]
    servers.end(submitted[1])
    for name in ("two", "one"):
        servers.controllers[name].sync({submitted[1].id})
        servers.advance_and_sync(name)
    # Its other run has ended, so this project uses nothing of the quota.
    assert [state != "queued" for state in states(platform, *submitted[2:], *small)] == [False, True, False, False]


# Concurrent servers


@pytest.mark.every_store
@pytest.mark.parametrize("scope", [HERE, "platform"])
def test_concurrent_claims_never_exceed_a_quota(
    database_store: DatabaseStore, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    platform = initialize_platform(database_store, monkeypatch)
    platform.world.put_policy(scope, quota={"cpu": 7})
    submitted = [platform.submit(resources={"cpu": 2}) for _ in range(6)]
    controllers = [platform.control(f"s{number}", MemoryExecutor()) for number in range(2)]
    barrier = threading.Barrier(len(controllers))
    count_usage = run_state.fits_quotas

    def fits_quotas(*args: Any) -> bool:
        """Count the usage, and let the other server also count it before either claims a run."""
        fits = count_usage(*args)
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait(0.1)
        return fits

    def claim(number: int) -> None:
        for run in submitted[number::2]:
            controllers[number].state_writer.claim(platform.run(run.id))

    monkeypatch.setattr(run_state, "fits_quotas", fits_quotas)
    with database_store.reading() as tx:
        for controller in controllers:
            controller.state_writer.load_organization(tx)
    with ThreadPoolExecutor(len(controllers)) as pool:
        for future in [pool.submit(claim, number) for number in range(len(controllers))]:
            future.result(SECONDS)
    assert sum(platform.run(run.id).server_id is not None for run in submitted) == 3


@pytest.mark.every_store
def test_concurrent_passes_use_the_full_quota_and_no_more(
    database_store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = initialize_platform(database_store, monkeypatch)
    platform.world.put_policy(HERE, quota={"runs": 3})
    submitted = [platform.submit() for _ in range(8)]
    executors = [MemoryExecutor() for _ in range(3)]
    controllers = [platform.control(f"s{number}", executor) for number, executor in enumerate(executors)]
    barrier = threading.Barrier(len(controllers))

    def sync(number: int) -> None:
        barrier.wait(SECONDS)
        controllers[number].sync(set())

    for _ in range(10):
        with ThreadPoolExecutor(len(controllers)) as pool:
            for future in [pool.submit(sync, number) for number in range(len(controllers))]:
                future.result(SECONDS)
        running = [run.id for run in submitted if platform.run(run.id).server_id and platform.run(run.id).active]
        assert len(running) == min(3, sum(platform.run(run.id).active for run in submitted))
        advance(platform)
        for executor in executors:
            for run_id in running[:1]:
                if run_id in executor.runs:
                    executor.end(run_id)
        for controller in controllers:
            controller.sync(set(running[:1]))
    assert all(sum(executor.count("start", run.id) for executor in executors) <= 1 for run in submitted)
    assert states(platform, *submitted).count("completed") == 8
