"""Manual deletion of active runs' objects, and namespaces without quota."""

import os
from pathlib import Path

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, Object, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.ledgers import AT_MOST_ONCE, SETTLE_SECONDS, Ledger
from tests.cluster.platforms import Platform, wait_for
from tests.cluster.test_random_faults import WITH_OBJECTS
from tests.cluster.test_reasons import temporary_node
from tests.processes.machines import Machine

ALL_GPUS = {"resources": {"gpu": 8}}
PLURALS = {"job": "apis/batch/v1/{}/jobs", "pod": "api/v1/{}/pods", "claim": "api/v1/{}/persistentvolumeclaims"}
# The outcomes after an object is deleted: for running runs, and for pending runs.
RUNNING = {"job": "failed Lost", "pod": "failed PodRemoved", "claim": "completed"}
WAITING = {"job": "completed", "pod": "failed PodRemoved", "claim": "stopped"}
# Not enough of each resource for all runs, so that each run waits for most of these limits.
SMALL_QUOTA = {"pods": "2", "count/jobs.batch": "6", "persistentvolumeclaims": "4", "secrets": "3"}


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that removes the objects of a run as soon as it has ended."""
    platform = Platform(shared_machine, control_plane, admin)
    platform.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    platform.restart()
    until(lambda: platform.api("GET", "/nodes"))
    platform.project.set_secret("TOKEN", "hunter2hunter2")
    return platform


@pytest.fixture(scope="module")
def ledger(platform: Platform, kubelet: FakeKubelet) -> Ledger:
    """The expected outcomes of the runs in these tests."""
    return Ledger(platform, kubelet)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FIFO that blocks a run until it is opened for writing."""
    gate = tmp_path_factory.mktemp("gates") / "gate"
    os.mkfifo(gate)
    return gate


@pytest.fixture(scope="module")
def moved(platform: Platform, kubelet: FakeKubelet, ledger: Ledger, gate: Path) -> Run:
    """A run whose node was removed. Kubernetes takes a minute to notice. Other tests run during that time."""
    with temporary_node(platform, kubelet, "removed") as selector:
        run = ledger.expect(platform.shell(f": < {gate}", **WITH_OBJECTS, **selector), "completed", pods=(2,))
        platform.until(run, "running")
    return run


def remove(platform: Platform, kind: str, run: Run) -> None:
    """Delete one of a run's objects as kubectl would."""
    path = f"/{PLURALS[kind]}"
    (item,) = platform.admin.items(path.replace("{}/", ""), labelSelector=f"fairlead.dev/run={run.id}")
    meta = item["metadata"]
    namespaced_path = path.format(f"namespaces/{meta['namespace']}")
    platform.admin.delete(f"{namespaced_path}/{meta['name']}", propagationPolicy="Background")


def test_manual_removal_of_objects_ends_runs_as_documented(
    moved: Run, platform: Platform, ledger: Ledger, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = ledger.expect(platform.run_simulated("sleep", **ALL_GPUS), "stopped")
    running = {kind: ledger.expect(platform.shell(f": < {gate}", **WITH_OBJECTS), RUNNING[kind]) for kind in RUNNING}
    for run in (holder, *running.values()):
        platform.until(run, "running")
    waiting = {
        kind: ledger.expect(
            platform.run_simulated("succeed", **ALL_GPUS, **WITH_OBJECTS), WAITING[kind], pods=AT_MOST_ONCE, jobs=jobs
        )
        for kind, jobs in {"job": (2,), "pod": (1,), "claim": (1,)}.items()
    }
    for run in waiting.values():
        platform.until(run, "Unschedulable")
    for kind in PLURALS:
        remove(platform, kind, running[kind])
        remove(platform, kind, waiting[kind])

    for kind in ("job", "pod"):
        platform.until(running[kind], "failed")
    assert platform.get_run(running["claim"])["state"] == "running"
    os.close(os.open(gate, os.O_WRONLY))
    platform.until(running["claim"], "completed")
    holder.stop()
    platform.until(waiting["job"], "completed")
    until(lambda: "persistentvolumeclaim" in platform.get_run(waiting["claim"])["message"])
    status = platform.get_run(waiting["claim"])
    assert (status["state"], status["reason"]) == ("pending", "Unschedulable")
    assert status["message"].endswith('-data" not found. not found'), status["message"]
    waiting["claim"].stop()


def test_run_waits_for_room_in_the_quota_of_its_namespace(platform: Platform, admin: Client, ledger: Ledger) -> None:
    platform.api("POST", "/projects", {"name": "narrow", "parent": "cluster/main"})
    platform.api("PUT", "/projects/narrow/secrets/TOKEN", {"value": "hunter2hunter2"})
    namespace = f"{platform.name}-narrow"
    labels = {"fairlead.dev/project": "narrow"}
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})
    meta = {"name": "few", "namespace": namespace}
    admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": SMALL_QUOTA}})
    quota_path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
    until(lambda: set(SMALL_QUOTA) <= set(admin.get(quota_path).get("status", {}).get("used", {})))
    function = {"name": "train", "kind": "container", "image": "example.test/succeed"}
    submitted = [
        platform.api("POST", "/projects/narrow/runs", {"function": function, **WITH_OBJECTS}) for _ in range(12)
    ]
    runs = [ledger.expect(Run(platform.project.api, data), "completed") for data in submitted]
    reasons = dict[str, set[str]]()

    def read_statuses() -> list[Object]:
        statuses = [platform.get_run(run) for run in runs]
        for run in statuses:
            reasons.setdefault(run["reason"], set()).add(run["message"])
        return statuses

    wait_for(read_statuses, lambda statuses: not any(run["active"] for run in statuses), SETTLE_SECONDS)
    messages = reasons["StartDelayed"] | reasons["FailedCreate"]
    assert all("exceeded quota: few, requested: " in message for message in messages)
    assert all(any(f"requested: {resource}=1, used: " in message for message in messages) for resource in SMALL_QUOTA)
    assert {run["state"] for run in read_statuses()} == {"completed"}


def test_run_on_a_removed_node_moves_to_another(
    platform: Platform, kubelet: FakeKubelet, ledger: Ledger, moved: Run, gate: Path
) -> None:
    assert platform.until(moved, "pending", seconds=120)["reason"] == "NodeLost"
    with temporary_node(platform, kubelet, "removed"):
        platform.until(moved, "running")
        os.close(os.open(gate, os.O_WRONLY))
        platform.until(moved, "completed")
    ledger.check()
