"""Runs in the queues of a real Kueue: waiting reasons with positions, preemption, eviction and outages."""

import uuid
from collections.abc import Iterator

import pytest

from tests.cluster import control_planes, kueues
from tests.cluster.clients import Client, Object, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.kueues import Kueue
from tests.cluster.platforms import CLUSTER, Platform, wait_for
from tests.cluster.teams import GPUS, Team, make_kubeconfig
from tests.processes.machines import Machine

LOW, HIGH = "low-of-kueue", "high-of-kueue"
FIRST = "position 1 in ClusterQueue"
ONE_START = {"create": 1, "patch": 1}  # created, then released


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A separate control plane, because Kueue manages all Jobs in a cluster."""
    with control_planes.running(audit=True) as plane:
        yield plane


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[Client]:
    """A client with cluster-admin permissions."""
    with control_plane.client() as admin:
        yield admin


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane) -> Iterator[FakeKubelet]:
    """A kubelet with a large node, so that runs wait only for queues."""
    with FakeKubelet(control_plane) as kubelet:
        kubelet.add_node("large", gpus=500)
        yield kubelet


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane, admin: Client) -> Iterator[Kueue]:
    """Kueue on the control plane, with two priority classes."""
    with kueues.running(control_plane, admin) as kueue:
        for name, value in {LOW: 10, HIGH: 1000}.items():
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            admin.create({**kind, "value": value})
        yield kueue


@pytest.fixture(scope="module")
def platform(
    shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client, kueue: Kueue
) -> Platform:
    """A server with only the permissions that `rbac` prints."""
    kubeconfig = make_kubeconfig(control_plane, admin, shared_machine.folder / "kueue.kubeconfig")
    return Platform(shared_machine, control_plane, admin, kubeconfig, queueing="kueue")


@pytest.fixture
def team(platform: Platform, kueue: Kueue) -> Iterator[Team]:
    """A project with a queue. Its runs are stopped after the test."""
    team = Team(platform, kueue).add_local_queue()
    yield team
    active = platform.api("GET", f"/runs?scope=project/{team.name}&active=true&limit=100")
    items = active["items"] if isinstance(active, dict) else active
    team.stop(*(run["id"] for run in items))


# Waiting for quota


def test_runs_over_the_quota_wait_with_a_reason(team: Team) -> None:
    first, second = team.submit(), team.submit()
    team.platform.until(first, "running")
    team.platform.until(second, "running")
    third = team.submit(name="third")
    message = f"waiting in queue default of ClusterQueue {team.pool}"
    status = wait_for(lambda: team.platform.get_run(third), lambda now: now["message"] == message)
    assert (status["state"], status["reason"]) == ("pending", "Queued")
    one, other = sorted(
        (team.job_name(first), team.job_name(second))
    )  # by name, because both have the same creation time
    lines = team.until_details(third, "Kueue reports: ")
    assert lines == [
        f"needs 4 GPUs; 8 of 8 in use in ClusterQueue {team.pool}",
        f"GPUs in use by run {one} (4) and run {other} (4)",
        f"position 1 in ClusterQueue {team.pool}",
        "Kueue reports: couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
        "flavor default, 4 more needed",
    ]
    printed = team.platform.terminal("runs", "why", third).out
    assert all(line in printed for line in lines), printed
    team.stop(first)
    team.platform.until(third, "running")
    assert team.history(third) == ["queued Queued", "pending Queued", "running Running"]
    assert team.count_writes() == {"create": 3, "patch": 3}


def test_runs_ahead_and_runs_using_the_quota_are_named_to_users_with_access(team: Team, kueue: Kueue) -> None:
    other = Team(team.platform, kueue, pool=team.pool).add_local_queue()
    holder = team.submit(8, "large")
    team.platform.until(holder, "running")
    # Different priorities, because the order within the same second is undefined.
    before = [team.submit(4, "before", priority_class=HIGH), other.submit(2, "between", priority_class=LOW)]
    for run in before:
        team.until_details(run, "Kueue reports: ")
    last = other.submit(8, "last")
    behind = f"behind run {team.job_name(before[0])} and run {other.job_name(before[1])}; workloads that fit"
    lines = other.until_details(last, behind, f"run {team.job_name(holder)} (8)")
    assert f"position 3 in ClusterQueue {team.pool}, {behind} may start earlier" in lines
    assert (other.why(last)["ahead"], other.why(last)["position"]) == (2, 3)
    vera = {"subject": "user:vera", "role": "viewer", "scope": f"project/{other.name}"}
    team.platform.api("POST", "/roles", vera)
    token = team.platform.api("POST", "/tokens", {"name": f"vera-{other.name}", "user": "vera"})["token"]
    with team.platform.server.client(token) as client:
        explanation = client.get(f"/runs/{last}/why").json()
    assert "GPUs in use by 1 other workload (8)" in explanation["details"]
    expected = f"behind run {other.job_name(before[1])} and 1 more"
    assert any(expected in line for line in explanation["details"]), explanation["details"]
    assert "large" not in str(explanation)
    assert team.namespace not in str(explanation)
    other.stop(last, before[1])


def test_waiting_run_with_higher_priority_starts_first(team: Team) -> None:
    holder = team.submit(8)
    team.platform.until(holder, "running")
    low = team.submit(8, "low", priority_class=LOW)
    team.until_details(low, FIRST)
    high = team.submit(8, "high", priority_class=HIGH)
    team.until_details(high, FIRST)
    team.until_details(low, f"position 2 in ClusterQueue {team.pool}, behind run {team.job_name(high)}")
    team.stop(holder)
    team.platform.until(high, "running")
    assert team.platform.get_run(low)["state"] == "pending"
    team.stop(high)
    team.platform.until(low, "running")


def test_run_larger_than_the_quota_gives_a_reason(team: Team, kueue: Kueue) -> None:
    run = team.submit(16)
    message = (
        f"needs 16 GPUs, but the quota of ClusterQueue {team.pool} is 8: it cannot start unless the quota is increased"
    )
    status = wait_for(lambda: team.platform.get_run(run), lambda now: message in now["message"])
    assert (status["state"], status["reason"]) == ("pending", "Queued")
    (workload,) = kueue.workloads(team.namespace)
    assert workload["status"]["conditions"][0]["status"] == "False"
    team.stop(run)


# Missing and stopped queues


def test_run_waits_for_a_missing_queue_and_names_it(platform: Platform, kueue: Kueue) -> None:
    team = Team(platform, kueue, pool=f"late-{uuid.uuid4().hex[:6]}")
    run = team.submit()
    missing = f"waiting for queue default: LocalQueue default does not exist in namespace {team.namespace}"
    wait_for(lambda: platform.get_run(run), lambda now: missing in now["message"])
    team.add_local_queue()
    no_cluster_queue = f"waiting in queue default: its ClusterQueue {team.pool} does not exist"
    wait_for(lambda: platform.get_run(run), lambda now: now["message"] == no_cluster_queue)
    kueue.add_cluster_queue(team.pool, GPUS)
    platform.until(run, "running")
    assert team.history(run) == ["queued Queued", "pending Queued", "running Running"]
    assert team.count_writes() == ONE_START
    team.stop(run)


def test_stopped_queue_starts_no_runs_until_it_is_resumed(team: Team, kueue: Kueue) -> None:
    first = team.submit()
    team.platform.until(first, "running")
    kueue.change_queue(team.pool, stopPolicy="Hold")
    second = team.submit()
    message = f"ClusterQueue {team.pool} is stopped; no runs start there until it is resumed"
    wait_for(lambda: team.platform.get_run(second), lambda now: message in now["message"])
    checks = team.platform.api("POST", f"/clusters/{CLUSTER}/check")
    queue_checks = [check for check in checks if check["name"] == "queueing" and team.pool in check["message"]]
    assert [(check["state"], check["message"]) for check in queue_checks] == [
        ("warning", f"ClusterQueue {team.pool} is stopped: runs there must wait")
    ]
    assert team.platform.get_run(first)["state"] == "running"
    kueue.change_queue(team.pool, stopPolicy="None")
    team.platform.until(second, "running")


# Preemption and eviction by Kueue


def test_evicted_run_waits_again_with_the_same_job(team: Team, kueue: Kueue) -> None:
    run = team.submit()
    team.platform.until(run, "running")
    job = team.platform.job_of(run)["metadata"]["uid"]
    kueue.change_queue(team.pool, stopPolicy="HoldAndDrain")
    status = team.platform.until(run, "Evicted")
    message = f"its queue was stopped; waiting in queue default: ClusterQueue {team.pool} is stopped"
    assert (status["state"], status["message"].startswith(message)) == ("pending", True)
    until(lambda: not team.platform.pods_of(run))
    kueue.change_queue(team.pool, stopPolicy="None")
    team.platform.until(run, "running")
    assert team.platform.job_of(run)["metadata"]["uid"] == job
    assert team.history(run)[:3] == ["queued Queued", "pending Queued", "running Running"]
    assert team.history(run)[-1] == "running Running"
    assert team.count_writes() == ONE_START


def test_preempted_run_waits_and_runs_again(platform: Platform, kueue: Kueue) -> None:
    team = Team(platform, kueue, preemption={"withinClusterQueue": "LowerPriority"}).add_local_queue()
    low = team.submit(8, "low", priority_class=LOW)
    platform.until(low, "running")
    high = team.submit(8, "high", priority_class=HIGH)
    status = platform.until(low, "Preempted")
    message = "preempted by a run with higher priority; waiting in queue default"
    assert (status["state"], status["message"].startswith(message)) == ("pending", True)
    platform.until(high, "running")
    team.until_details(low, f"GPUs in use by run {team.job_name(high)} (8)", FIRST)
    team.stop(high)
    platform.until(low, "running")
    assert "pending Preempted" in team.history(low)
    assert team.count_writes() == {"create": 2, "patch": 2}
    team.stop(low)


def test_removed_workload_is_recreated_and_the_run_continues(team: Team, kueue: Kueue) -> None:
    running = team.submit(8, "running")
    team.platform.until(running, "running")
    waiting = team.submit(8, "waiting")
    team.until_details(waiting, FIRST)
    before = {item["metadata"]["uid"] for item in kueue.workloads(team.namespace)}
    for item in kueue.workloads(team.namespace):
        team.platform.admin.delete(f"{kueues.PATH}/namespaces/{team.namespace}/workloads/{item['metadata']['name']}")
    until(lambda: len({item["metadata"]["uid"] for item in kueue.workloads(team.namespace)} - before) == 2)
    states = wait_for(
        lambda: sorted(team.platform.get_run(run)["state"] for run in (running, waiting)),
        lambda current: current == ["pending", "running"],
    )
    assert states == ["pending", "running"]
    assert team.count_writes() == {"create": 2, "patch": 2}


# Changes to waiting runs


def test_restarted_server_finds_waiting_runs(team: Team) -> None:
    holder = team.submit(8)
    team.platform.until(holder, "running")
    waiting = team.submit(8)
    team.until_details(waiting, FIRST)
    team.platform.restart()
    team.until_details(waiting, f"GPUs in use by run {team.job_name(holder)} (8)", FIRST)
    team.stop(holder)
    team.platform.until(waiting, "running")
    assert team.history(waiting) == ["queued Queued", "pending Queued", "running Running"]
    assert team.count_writes() == {"create": 2, "patch": 2}


def test_waiting_run_that_is_stopped_leaves_no_objects(team: Team, kueue: Kueue) -> None:
    holder = team.submit(8)
    team.platform.until(holder, "running")
    waiting = team.submit(8)
    team.until_details(waiting, FIRST)
    team.stop(waiting)
    assert len(until(lambda: _if_single(kueue.workloads(team.namespace)))) == 1
    team.stop(holder)
    until(lambda: not kueue.workloads(team.namespace))


def test_runs_wait_while_kueue_is_down_and_continue_afterwards(team: Team, kueue: Kueue) -> None:
    running, unwanted = team.submit(4), team.submit(8, "unwanted")
    team.platform.until(running, "running")
    team.until_details(unwanted, FIRST)
    kueue.stop()
    try:
        waiting = team.submit(4)
        team.platform.until(waiting, "pending")
        team.platform.api("POST", f"/runs/{unwanted}/stop")
        team.platform.until(unwanted, "Ending", "stopping")
        assert team.platform.get_run(running)["state"] == "running"
    finally:
        kueue.start()
    team.platform.until(waiting, "running")
    team.platform.until(unwanted, "stopped")
    assert team.count_writes() == {"create": 3, "patch": 3}


def test_missing_permission_to_read_queues_is_reported_and_runs_continue(
    platform: Platform, control_plane: ControlPlane, admin: Client, kueue: Kueue
) -> None:
    file = platform.machine.folder / "blind.kubeconfig"
    kubeconfig = make_kubeconfig(control_plane, admin, file, without=kueues.GROUP)
    details = {"namespace": f"{platform.name}-{{project}}", "queueing": "kueue"}
    platform.api("POST", "/clusters", {"name": "blind", **details})
    connected = platform.terminal("clusters", "connect", "blind", "--kubeconfig", str(kubeconfig), code=1)
    assert "missing: get workloads.kueue.x-k8s.io" in connected.out
    team = Team(platform, kueue, cluster="blind").add_local_queue()
    holder = team.submit(8)
    platform.until(holder, "running")
    waiting = team.submit(8)
    wait_for(lambda: platform.get_run(waiting), lambda now: now["message"] == "waiting in queue default of the cluster")
    (problem,) = team.until_details(waiting, "the queue cannot be read: ")
    assert "cannot list resource" in problem
    checks = {check["name"]: check for check in platform.api("POST", "/clusters/blind/check")}
    assert checks["permissions"]["state"] == "problem"
    assert "list workloads.kueue.x-k8s.io" in checks["permissions"]["message"]
    assert checks["queueing"]["state"] == "warning"
    team.stop(holder)
    platform.until(waiting, "running")
    team.stop(waiting)


def _if_single(items: list[Object]) -> list[Object] | None:
    return items if len(items) == 1 else None
