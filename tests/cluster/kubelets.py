"""A fake kubelet that executes pods as real processes on this machine, for nodes without machines.

    with running() as plane, FakeKubelet(plane) as kubelet:
        kubelet.add_node("box", gpus=2)

Images whose name begins with example.test/ are simulated (kubelet/outcomes.py). Other containers execute their command,
in which every mount path is replaced with a folder on this machine, because there is no mount namespace.
As a program: starts a control plane with two nodes, prints how to use it, and waits.
"""

import asyncio
import contextlib
import shutil
import signal
import socket
import tempfile
import threading
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn

from fairlead.model.names import RUN_LABEL
from tests.cluster import nodes
from tests.cluster.clients import ApiError, Object, until
from tests.cluster.control_planes import KUBELET, ControlPlane, running, take_ports
from tests.cluster.kubelet import measuring, provisioning
from tests.cluster.kubelet.api import Api, pod_path
from tests.cluster.kubelet.containers import Process
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelet.pods import Host, Pod
from tests.cluster.kubelet.serving import make_server

STARTED = ("Running", "Succeeded", "Failed")
ENDED = ("Succeeded", "Failed")
MEASURE_SECONDS = 1.0
CLOSING_SECONDS = 0.1  # for shutting down TLS connections


class FakeKubelet:
    """The kubelet for all added nodes. It runs in a separate thread."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._admin = plane, plane.client()
        self._names: set[str] = set()
        self._lost: set[str] = set()
        self._pods: dict[str, Pod] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-kubelet", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._measuring: asyncio.Task[None] | None = None
        (self.port,) = take_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kubelet-", dir=plane.folder))
        self.outcomes: dict[str, Outcome] = {}  # by image; tests can add outcomes
        self.executed: dict[str, set[str]] = defaultdict(set)  # by run: the UIDs of all pods ever started
        self._host: Host
        self._server: uvicorn.Server

    def __enter__(self) -> "FakeKubelet":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start executing pods, and create the storage classes."""
        for body in provisioning.make_classes():
            with contextlib.suppress(ApiError):  # another kubelet has created them
                self._admin.create(body)
        self._thread.start()
        self._call(self._start_tasks())

    def stop(self) -> None:
        """Kill all processes and delete all files, without reporting anything."""
        self._call(self._stop_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._admin.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # Nodes

    def add_node(
        self,
        name: str,
        *,
        gpus: int = 0,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
    ) -> None:
        """Add a ready node, with a large capacity by default."""
        total = nodes.CAPACITY | dict(capacity or {}) | ({nodes.GPU: str(gpus)} if gpus else {})
        self._names.add(name)
        nodes.add_node(self._admin, nodes.make_node(name, labels=labels or {}, taints=taints), total, self.port)

    def lose_node(self, name: str, ready: str = "Unknown") -> None:
        """Simulate a power failure: processes end, and pods are no longer reported."""
        self._lost.add(name)
        self._call(self._kill_pods(name))
        nodes.set_ready(self._admin, name, ready)

    def restore_node(self, name: str) -> None:
        """Simulate a reboot after a power failure: pods that were running are reported as failed."""
        nodes.set_ready(self._admin, name, "True")
        self._lost.discard(name)
        for pod in self._admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
            self._call(self._handle_pod(pod))

    def delete_node(self, name: str) -> None:
        """Remove a node and kill its processes."""
        self._names.discard(name)
        self._lost.discard(name)
        self._call(self._kill_pods(name))
        self._admin.delete(f"/api/v1/nodes/{name}")

    # For tests

    def start_measuring(self, seconds: float = MEASURE_SECONDS) -> None:
        """Provide metrics.k8s.io with the usage of pods."""
        with contextlib.suppress(ApiError):  # it already exists
            self._admin.create(measuring.make_definition())
        self._call(self._measure(seconds))

    def stop_measuring(self) -> None:
        """Remove metrics.k8s.io from the server."""
        self._call(self._measure(None))
        definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pods.{measuring.GROUP}"
        self._admin.delete(definition)
        until(lambda: self._admin.find(definition) is None)  # deletion is slow, and would also delete a new definition

    def pids(self, namespace: str, name: str) -> list[int]:
        """The PIDs of a pod's containers."""
        pod = self._find(namespace, name)
        processes = [slot.process for slot in pod.slots.values()] if pod else []
        return [process.pid for process in processes if isinstance(process, Process)]

    # In the event loop's thread

    async def _start_tasks(self) -> None:
        plane = self._plane
        api = Api(plane.url, plane.authority, plane.token_of(KUBELET))
        self._host = Host(api, self.folder / "pods", own_address(), self.outcomes)
        self._server = make_server(self._find, self.port, plane.folder / "pki")
        self._tasks = [
            asyncio.create_task(self._server.serve()),
            asyncio.create_task(self._watch()),
            asyncio.create_task(provisioning.provide_volumes(api, self.folder / "volumes")),
            asyncio.create_task(provisioning.remove_volumes(api)),
        ]
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def _stop_tasks(self) -> None:
        await self._measure(None)
        self._server.should_exit = True
        server_task, *others = self._tasks
        for task in others:
            task.cancel()
        await asyncio.gather(server_task, *others, return_exceptions=True)
        await asyncio.gather(*(pod.remove() for pod in self._pods.values()))
        await self._loop.shutdown_asyncgens()  # closes the watches
        await self._host.api.close()
        await asyncio.sleep(CLOSING_SECONDS)

    async def _watch(self) -> None:
        async for kind, changed in self._host.api.watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
            if kind == "LISTED":
                existing = {pod["metadata"]["uid"] for pod in changed}
                for uid in self._pods.keys() - existing:
                    await self._pods.pop(uid).remove()
            elif kind == "DELETED":
                deleted = self._pods.pop(changed["metadata"]["uid"], None)
                if deleted is not None:
                    await deleted.remove()
            for pod in changed if kind == "LISTED" else [changed] if kind != "DELETED" else ():
                await self._handle_pod(pod)

    async def _handle_pod(self, pod: Object) -> None:
        """Execute a new pod, or terminate a pod that is being deleted."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if node not in self._names or node in self._lost:
            return
        phase = pod.get("status", {}).get("phase")
        is_deleted = "deletionTimestamp" in pod["metadata"]
        if uid in self._pods:
            if is_deleted:
                self._pods[uid].terminate(pod)
        elif is_deleted:
            if phase not in ENDED:  # otherwise the Job would not create another pod
                await self._host.api.report(pod, lost_status(pod))
            with contextlib.suppress(ApiError):
                await self._host.api.request("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})
        elif phase not in STARTED:
            self._pods[uid] = Pod(self._host, pod)
            self.executed[pod["metadata"].get("labels", {}).get(RUN_LABEL, "")].add(uid)
        elif phase not in ENDED:
            await self._host.api.report(pod, lost_status(pod))

    async def _kill_pods(self, node: str) -> None:
        """Kill all pods of a node without reporting anything."""
        for uid, pod in list(self._pods.items()):
            if pod.pod["spec"]["nodeName"] == node:
                await self._pods.pop(uid).remove()

    async def _measure(self, seconds: float | None) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.gather(self._measuring, return_exceptions=True)
            self._measuring = None
        if seconds is not None:
            self._measuring = asyncio.create_task(measuring.measure(self._host.api, self._list, seconds))

    def _list(self) -> list[Pod]:
        return list(self._pods.values())

    def _find(self, namespace: str, name: str) -> Pod | None:
        return next((pod for pod in self._list() if pod.key == (namespace, name)), None)

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)


def lost_status(pod: Object) -> Object:
    """A pod's status after its machine has restarted."""
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    statuses = [
        {**status, "ready": False, "started": False, "state": {"terminated": terminated}}
        for status in pod["status"].get("containerStatuses", ())
    ]
    return {"phase": "Failed", "containerStatuses": statuses}


def own_address() -> str:
    """An address of this machine that is not loopback, because Kubernetes rejects loopback addresses for pods."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return "10.88.0.1"


def main() -> None:
    """Run a control plane with two nodes until it is interrupted."""
    with running(audit=True) as plane, FakeKubelet(plane) as kubelet:
        kubelet.add_node("plain")
        kubelet.add_node("gpus", gpus=8, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
        kubelet.start_measuring()
        print(f"export KUBECONFIG={plane.kubeconfig}\nlogs: {plane.folder}\nCtrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
