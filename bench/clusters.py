"""Compares runs on a real control plane with a bare client that creates the same objects on the same machine.

Nodes are only objects, so no time is spent on processes: the time from a submitted run to a released Job is measured.
Also measured: the number of API requests per run, from the audit log; the memory growth of the server; and, on a
separate cluster, the fit check compared with the scheduler's filters. The command
`python -m bench.clusters --help` lists the options.
"""

import argparse
import contextlib
import hashlib
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psutil

from bench.scheduling import measure_filters
from fairlead import source_code
from fairlead.adapters.kubernetes.clients import KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import RELEASED
from fairlead.adapters.kubernetes.starting import PLURALS
from fairlead.errors import FairleadError
from fairlead.manifests.kubernetes_rbac import render_access
from fairlead.model.names import run_name
from fairlead.model.project_objects import Connection
from fairlead.model.scopes import Cluster
from fairlead.source_code import ArchiveEntry
from tests.cluster import nodes
from tests.cluster.control_planes import ControlPlane, running
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform, wait_for
from tests.processes.machines import Launcher, Machine

CONNECTIONS = 8
ACCOUNT = "system:serviceaccount:fairlead-system:fairlead"
LARGE_CAPACITY = {"cpu": "100k", "memory": "100Ti", "ephemeral-storage": "100Ti", "pods": "100k"}
CODE = "def main():\n    return 1\n"


class Watcher:
    """Records when the Job of each run appeared and when it was released."""

    def __init__(self, api: KubernetesClient) -> None:
        self.api = api
        self.created: dict[str, float] = {}
        self.released: dict[str, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        path = path_of("batch/v1", "jobs")
        version = self.api.list(path)["metadata"]["resourceVersion"]
        while True:  # until this program ends
            with contextlib.suppress(FairleadError), self.api.watch(path, resourceVersion=version) as events:
                for event in events:
                    now, meta = time.perf_counter(), event["object"]["metadata"]
                    version, name = meta["resourceVersion"], meta.get("name", "")
                    if event["type"] != "BOOKMARK":
                        self.created.setdefault(name, now)
                        if meta.get("annotations", {}).get(RELEASED) == "true":
                            self.released.setdefault(name, now)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure runs on a real control plane.")
    parser.add_argument("--runs", type=int, default=300, help="runs per round of the comparison with a bare client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--live", type=int, default=1000, help="active runs for measuring the server's memory")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes for measuring fit checks")
    options = parser.parse_args()
    with running_platform() as (plane, platform, kubelet):
        api = KubernetesClient(Connection(plane.url, ca=plane.authority.read_text("utf-8"), token=plane.token))
        watcher, request = Watcher(api), _prepare(platform)
        measure_latency(platform, watcher, request)
        measure_rate(platform, watcher, api, request, options.runs, options.rounds)
        measure_memory(platform, watcher, request, options.live)
        measure_calls(plane, platform, kubelet)
    measure_filters(options.nodes)


@contextlib.contextmanager
def running_platform() -> Iterator[tuple[ControlPlane, Platform, FakeKubelet]]:
    """Run a control plane, a server with minimal permissions, and a kubelet without nodes."""
    cluster = Cluster(name="main")
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder, running(audit=True) as plane:
        launcher = Launcher(Path(folder))
        machine = Machine(Path(folder), launcher)
        with FakeKubelet(plane) as kubelet, plane.client() as admin, contextlib.closing(launcher):
            nodes.add_node(admin, nodes.make_node("race", labels={"bench": "race"}, taints=[]), LARGE_CAPACITY, 1)
            rules = [rule for rule in render_access(cluster, []) if rule["kind"] != "ServiceAccount"]
            namespace, *rules = sorted(rules, key=lambda rule: rule["kind"] != "Namespace")
            admin.create(namespace)
            token = plane.make_account("fairlead-system", "fairlead", rules)
            kubeconfig = plane.write_kubeconfig(Path(folder) / "kubeconfig", token)
            with contextlib.closing(machine):
                yield plane, Platform(machine, plane, admin, kubeconfig=kubeconfig, server_url=None), kubelet


def measure_latency(platform: Platform, watcher: Watcher, request: dict[str, Any], count: int = 60) -> None:
    """Measure the time from submitting a run to the creation of its Job, one run at a time."""
    durations = []
    with platform.server.client() as client:
        for _ in range(count):
            started = time.perf_counter()
            name = _submit(client, request)
            wait_for(partial(watcher.created.get, name), bool)
            durations.append(watcher.created[name] - started)
    p50, p95 = statistics.median(durations), statistics.quantiles(durations, n=20)[-1]
    print(f"submit to Job created     p50 {p50 * 1000:6.1f} ms   p95 {p95 * 1000:6.1f} ms   ({count} runs, one by one)")


def measure_rate(
    platform: Platform, watcher: Watcher, api: KubernetesClient, request: dict[str, Any], count: int, rounds: int
) -> None:
    """Compare runs per second with bare clients that create and release the same objects, in a loop and in parallel."""
    manifests = _manifests_of(platform, request)
    rates: dict[str, list[float]] = {
        "bare client, a loop": [],
        f"bare client, {CONNECTIONS} at once": [],
        "Fairlead": [],
    }
    loop, at_once, ours = rates.values()
    for number in range(rounds):
        loop.append(_time_all(count // 2, watcher, partial(_create, api, manifests, f"loop-{number}"), connections=1))
        at_once.append(_time_all(count, watcher, partial(_create, api, manifests, f"bare-{number}")))
        with platform.server.client() as client:
            ours.append(_time_all(count, watcher, lambda _: _submit(client, request)))
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        ratio = median["Fairlead"] / median[name]
        goal = (
            ""
            if name == "Fairlead"
            else f"   Fairlead x {ratio:.2f} (goal 0.70: {'met' if ratio >= 0.7 else 'MISSED'})"
        )
        print(f"{name:<25} {median[name]:6.1f} runs/s   ({' '.join(f'{rate:.0f}' for rate in values)}){goal}")


def measure_memory(platform: Platform, watcher: Watcher, request: dict[str, Any], count: int) -> None:
    """Measure the memory growth of the server per active run."""
    server = psutil.Process(platform.server.process.pid)
    before = server.memory_info().rss
    with platform.server.client() as client:
        _time_all(count, watcher, lambda _: _submit(client, request))
    time.sleep(10)
    growth = (server.memory_info().rss - before) / count * 1000 / 2**20
    print(f"memory per 1,000 active   {growth:6.1f} MiB   (RSS {before / 2**20:.0f} MiB before, {count} more)")


def measure_calls(plane: ControlPlane, platform: Platform, kubelet: FakeKubelet, count: int = 20) -> None:
    """Count the API requests per run over its lifetime, and while it is running."""
    kubelet.add_node("busy", capacity=LARGE_CAPACITY, labels={"bench": "calls"})
    request = {"function": {"name": "calls", "kind": "container", "image": "example.test/sleep"}}
    request |= {"node_selector": {"bench": "calls"}}
    before = len(plane.requests(ACCOUNT))
    with platform.server.client() as client:
        runs = [client.post("/projects/forest/runs", json=request).json()["id"] for _ in range(count)]
        for run_id in runs:
            platform.until(run_id, "running", seconds=120)
        idle_start = len(plane.requests(ACCOUNT))
        time.sleep(60)
        idle = plane.requests(ACCOUNT)[idle_start:]
        for run_id in runs:
            client.post(f"/runs/{run_id}/stop")
        for run_id in runs:
            platform.until(run_id, "stopped", seconds=120)
        time.sleep(5)
    calls = plane.requests(ACCOUNT)[before:]
    run_calls = [call for call in calls if call not in idle]
    verbs = Counter(f"{call['verb']} {call['objectRef']['resource']}" for call in run_calls)
    counts = ", ".join(f"{number / count:.2g} {verb}" for verb, number in verbs.most_common())
    per_run = len(run_calls) / count
    print(f"API calls of a run        {per_run:6.1f}   (goal 12: {'met' if per_run <= 12 else 'MISSED'}; {counts})")
    per_run_calls = [call for call in idle if call["verb"] not in ("list", "watch")]
    shared = f"{len(idle) - len(per_run_calls)} lists and watches of the whole cluster"
    print(f"API calls while it runs   {len(per_run_calls) / count:6.1f} a minute   ({shared})")


def _prepare(platform: Platform) -> dict[str, Any]:
    """Upload the code of a Python function and return a request that runs it."""
    archive = source_code.pack_entries([ArchiveEntry("train.py", CODE.encode())])
    digest = f"sha256:{hashlib.sha256(archive).hexdigest()}"
    with platform.server.client() as client:
        response = client.put(
            f"/projects/forest/code/{digest}", content=archive, headers={"Content-Type": "application/gzip"}
        )
    assert response.status_code < 300, response.text
    function = {"name": "train", "kind": "python", "source": "train.py", "handler": "main", "code": digest}
    return {"function": function, "resources": {"cpu": "10m"}, "node_selector": {"bench": "race"}}


def _submit(client: httpx2.Client, request: dict[str, Any]) -> str:
    """Submit a run and return the name of its Job."""
    response = client.post("/projects/forest/runs", json=request)
    assert response.status_code == 201, response.text
    return run_name("train", response.json()["id"])


def _manifests_of(platform: Platform, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Submit a run and return its manifests."""
    run_id = platform.api("POST", "/projects/forest/runs", request)["id"]
    manifests: list[dict[str, Any]] = platform.api("GET", f"/runs/{run_id}/manifests")
    return manifests


def _create(api: KubernetesClient, manifests: Sequence[dict[str, Any]], prefix: str, index: int) -> str:
    """Create a run's objects with a bare client: a suspended Job and its other objects. Then release the Job."""
    name = f"{prefix}-{index}"
    main, *others = manifests
    old_name = main["metadata"]["name"]
    namespace = main["metadata"]["namespace"]
    path = path_of("batch/v1", "jobs", namespace)
    created = api.create(path, {**main, "metadata": {**main["metadata"], "name": name}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": created["metadata"]["uid"]}
    for other in others:
        new_name = other["metadata"]["name"].replace(old_name, name)
        meta = {**other["metadata"], "name": new_name, "ownerReferences": [owner]}
        api.create(path_of("v1", PLURALS[other["kind"]], namespace), {**other, "metadata": meta})
    release = {"metadata": {"annotations": {RELEASED: "true"}}, "spec": {"suspend": False}}
    api.patch(f"{path}/{name}", release)
    return name


def _time_all(count: int, watcher: Watcher, make: Callable[[int], str], connections: int = CONNECTIONS) -> float:
    """Return the number of runs per second until the last Job is released."""
    started = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        names = list(pool.map(make, range(count)))
    wait_for(lambda: all(name in watcher.released for name in names), bool, seconds=300)
    return count / (max(watcher.released[name] for name in names) - started)


if __name__ == "__main__":
    main()
