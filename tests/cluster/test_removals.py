"""Manual deletion of objects of active runs, and namespaces without quota."""

import os
from pathlib import Path

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, Object, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.ledgers import AT_MOST_ONCE, SETTLE_SECONDS, Ledger
from tests.cluster.platforms import Platform, wait_for
from tests.cluster.test_random_faults import WHOLE
from tests.cluster.test_reasons import adding
from tests.processes.machines import Machine

ALL_GPUS = {"resources": {"gpu": 8}}
PLURALS = {"job": "apis/batch/v1/{}/jobs", "pod": "api/v1/{}/pods", "claim": "api/v1/{}/persistentvolumeclaims"}
# The outcome after an object is deleted: of running runs, and of pending runs.
RUNNING = {"job": "failed Lost", "pod": "failed PodRemoved", "claim": "completed"}
WAITING = {"job": "completed", "pod": "failed PodRemoved", "claim": "stopped"}
# Of each too little for all, and of some less than of others: each run meets most of these limits on its way.
FEW = {"pods": "2", "count/jobs.batch": "6", "persistentvolumeclaims": "4", "secrets": "3"}


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that removes the objects of a run as soon as it has ended."""
    made = Platform(shared_machine, control_plane, admin)
    made.variables = {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
    made.restart()
    until(lambda: made.api("GET", "/nodes"))
    made.project.set_secret("TOKEN", "hunter2hunter2")
    return made


@pytest.fixture(scope="module")
def ledger(platform: Platform, kubelet: FakeKubelet) -> Ledger:
    """The expected outcomes of the runs of these tests."""
    return Ledger(platform, kubelet)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FIFO that blocks a run until it is opened for writing."""
    made = tmp_path_factory.mktemp("gates") / "gate"
    os.mkfifo(made)
    return made


@pytest.fixture(scope="module")
def moved(platform: Platform, kubelet: FakeKubelet, ledger: Ledger, gate: Path) -> Run:
    """A run whose node is taken away. It takes Kubernetes a minute to notice: the others do not wait for that."""
    with adding(platform, kubelet, "doomed") as selector:
        run = ledger.note(platform.shell(f": < {gate}", **WHOLE, **selector), "completed", pods=(2,))
        platform.until(run, "running")
    return run


def remove(platform: Platform, kind: str, run: Run) -> None:
    """Delete an object of a run as with kubectl."""
    path = f"/{PLURALS[kind]}"
    (item,) = platform.admin.items(path.replace("{}/", ""), labelSelector=f"fairlead.dev/run={run.id}")
    meta = item["metadata"]
    where = path.format(f"namespaces/{meta['namespace']}")
    platform.admin.delete(f"{where}/{meta['name']}", propagationPolicy="Background")


def test_manual_removal_of_objects_ends_runs_as_documented(
    moved: Run, platform: Platform, ledger: Ledger, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    holder = ledger.note(platform.pretend("sleep", **ALL_GPUS), "stopped")
    running = {kind: ledger.note(platform.shell(f": < {gate}", **WHOLE), RUNNING[kind]) for kind in RUNNING}
    for run in (holder, *running.values()):
        platform.until(run, "running")
    waiting = {
        kind: ledger.note(platform.pretend("succeed", **ALL_GPUS, **WHOLE), WAITING[kind], pods=AT_MOST_ONCE, jobs=jobs)
        for kind, jobs in {"job": (2,), "pod": (1,), "claim": (1,)}.items()
    }
    for run in waiting.values():
        platform.until(run, "Unschedulable")
    for kind in PLURALS:
        remove(platform, kind, running[kind])
        remove(platform, kind, waiting[kind])

    for kind in ("job", "pod"):
        platform.until(running[kind], "failed")
    assert platform.show(running["claim"])["state"] == "running"
    os.close(os.open(gate, os.O_WRONLY))
    platform.until(running["claim"], "completed")
    holder.stop()
    platform.until(waiting["job"], "completed")
    until(lambda: "persistentvolumeclaim" in platform.show(waiting["claim"])["message"])
    status = platform.show(waiting["claim"])
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
    admin.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": FEW}})
    where = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
    until(lambda: set(FEW) <= set(admin.get(where).get("status", {}).get("used", {})))
    function = {"name": "train", "kind": "container", "image": "example.test/succeed"}
    submitted = [platform.api("POST", "/projects/narrow/runs", {"function": function, **WHOLE}) for _ in range(12)]
    runs = [ledger.note(Run(platform.project.api, each), "completed") for each in submitted]
    reasons = dict[str, set[str]]()

    def look() -> list[Object]:
        statuses = [platform.show(run) for run in runs]
        for run in statuses:
            reasons.setdefault(run["reason"], set()).add(run["message"])
        return statuses

    wait_for(look, lambda statuses: not any(run["active"] for run in statuses), SETTLE_SECONDS)
    words = reasons["StartDelayed"] | reasons["FailedCreate"]
    assert all("exceeded quota: few, requested: " in each for each in words)
    assert all(any(f"requested: {resource}=1, used: " in each for each in words) for resource in FEW)
    assert {run["state"] for run in look()} == {"completed"}


def test_run_on_a_removed_node_moves_to_another(
    platform: Platform, kubelet: FakeKubelet, ledger: Ledger, moved: Run, gate: Path
) -> None:
    assert platform.until(moved, "pending", seconds=120)["reason"] == "NodeLost"
    with adding(platform, kubelet, "doomed"):
        platform.until(moved, "running")
        os.close(os.open(gate, os.O_WRONLY))
        platform.until(moved, "completed")
    ledger.check()
