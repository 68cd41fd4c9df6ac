"""A fake kubelet that executes pods as real processes of this machine, for nodes that are only objects.

    with running() as plane, FakeKubelet(plane) as kubelet:
        kubelet.add_node("box", gpus=2)

Images whose name begins with example.test/ only pretend (kubelet/outcomes.py). Everything else executes its command,
where every path that is mounted is replaced by a folder of this machine; a container has its paths in no other way.
As a program: starts a control plane with two nodes, says how to use it, and waits.
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

from fairlead.core.manifests.names import RUN_LABEL
from tests.cluster import nodes
from tests.cluster.clients import Object, Refused, until
from tests.cluster.control_planes import KUBELET, ControlPlane, running, take_ports
from tests.cluster.kubelet import measuring, provisioning
from tests.cluster.kubelet.api import Api, pod_path
from tests.cluster.kubelet.containers import Process
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelet.pods import Host, Pod
from tests.cluster.kubelet.serving import make_server

BEGUN = ("Running", "Succeeded", "Failed")
ENDED = ("Succeeded", "Failed")
SECONDS_BETWEEN_MEASURES = 1.0
CLOSING_SECONDS = 0.1  # encrypted connections say goodbye to each other


class FakeKubelet:
    """The kubelet of all nodes that were added to it. It runs in a thread of its own."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._admin = plane, plane.client()
        self._names: set[str] = set()
        self._silent: set[str] = set()
        self._pods: dict[str, Pod] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-kubelet", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._measuring: asyncio.Task[None] | None = None
        (self.port,) = take_ports(1)
        self.folder = Path(tempfile.mkdtemp(prefix="kubelet-", dir=plane.folder))
        self.outcomes: dict[str, Outcome] = {}  # by image: for tests to add to
        self.executed: dict[str, set[str]] = defaultdict(set)  # by run: the pods that were ever begun
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
        """Begin to look after pods, and provide storage classes."""
        for body in provisioning.make_classes():
            with contextlib.suppress(Refused):  # they are there from another kubelet
                self._admin.create(body)
        self._thread.start()
        self._do(self._begin())

    def stop(self) -> None:
        """Kill all processes and delete all files, without reporting anything."""
        self._do(self._finish())
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
        room: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Object] = (),
    ) -> None:
        """Add a ready node, by default with large capacity."""
        capacity = nodes.ROOM | dict(room or {}) | ({nodes.GPU: str(gpus)} if gpus else {})
        self._names.add(name)
        nodes.add_node(self._admin, nodes.make_node(name, labels=labels or {}, taints=taints), capacity, self.port)

    def lose_node(self, name: str, ready: str = "Unknown") -> None:
        """Simulate a power failure: processes end, and pods are no longer reported."""
        self._silent.add(name)
        self._do(self._forget(name))
        nodes.set_ready(self._admin, name, ready)

    def restore_node(self, name: str) -> None:
        """The machine is switched on again: what was running is found ended."""
        nodes.set_ready(self._admin, name, "True")
        self._silent.discard(name)
        for pod in self._admin.items("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
            self._do(self._see(pod))

    def delete_node(self, name: str) -> None:
        """The machine is taken away, with its processes."""
        self._names.discard(name)
        self._silent.discard(name)
        self._do(self._forget(name))
        self._admin.delete(f"/api/v1/nodes/{name}")

    # For tests

    def start_measuring(self, seconds: float = SECONDS_BETWEEN_MEASURES) -> None:
        """Let metrics.k8s.io say what pods use."""
        with contextlib.suppress(Refused):  # it is there already
            self._admin.create(measuring.make_definition())
        self._do(self._measure(seconds))

    def stop_measuring(self) -> None:
        """Let metrics.k8s.io be unknown to the server."""
        self._do(self._measure(None))
        definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pods.{measuring.GROUP}"
        self._admin.delete(definition)
        until(lambda: self._admin.find(definition) is None)  # it goes slowly, and takes a new one of its name along

    def pids(self, namespace: str, name: str) -> list[int]:
        """The processes of a pod's containers."""
        pod = self._find(namespace, name)
        contents = [slot.content for slot in pod.slots.values()] if pod else []
        return [content.pid for content in contents if isinstance(content, Process)]

    # In the thread

    async def _begin(self) -> None:
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

    async def _finish(self) -> None:
        await self._measure(None)
        self._server.should_exit = True
        serving, *others = self._tasks
        for task in others:
            task.cancel()
        await asyncio.gather(serving, *others, return_exceptions=True)
        await asyncio.gather(*(pod.vanish() for pod in self._pods.values()))
        await self._loop.shutdown_asyncgens()  # what was watched
        await self._host.api.close()
        await asyncio.sleep(CLOSING_SECONDS)

    async def _watch(self) -> None:
        async for kind, seen in self._host.api.watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
            if kind == "LISTED":
                there = {pod["metadata"]["uid"] for pod in seen}
                for uid in self._pods.keys() - there:
                    await self._pods.pop(uid).vanish()
            elif kind == "DELETED":
                gone = self._pods.pop(seen["metadata"]["uid"], None)
                if gone is not None:
                    await gone.vanish()
            for pod in seen if kind == "LISTED" else [seen] if kind != "DELETED" else ():
                await self._see(pod)

    async def _see(self, pod: Object) -> None:
        """Look after a pod that is new, and let one go that is being deleted."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if node not in self._names or node in self._silent:
            return
        phase = pod.get("status", {}).get("phase")
        leaves = "deletionTimestamp" in pod["metadata"]
        if uid in self._pods:
            if leaves:
                self._pods[uid].leave(pod)
        elif leaves:
            if phase not in ENDED:  # only then the Job makes another one
                await self._host.api.report(pod, lost_status(pod))
            with contextlib.suppress(Refused):
                await self._host.api.ask("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})
        elif phase not in BEGUN:
            self._pods[uid] = Pod(self._host, pod)
            self.executed[pod["metadata"].get("labels", {}).get(RUN_LABEL, "")].add(uid)
        elif phase not in ENDED:
            await self._host.api.report(pod, lost_status(pod))

    async def _forget(self, node: str) -> None:
        """End what runs on a node without a word."""
        for uid, pod in list(self._pods.items()):
            if pod.pod["spec"]["nodeName"] == node:
                await self._pods.pop(uid).vanish()

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

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def lost_status(pod: Object) -> Object:
    """The status of a pod after a restart of its machine."""
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "The container could not be located"}
    said = [
        {**status, "ready": False, "started": False, "state": {"terminated": ended}}
        for status in pod["status"].get("containerStatuses", ())
    ]
    return {"phase": "Failed", "containerStatuses": said}


def own_address() -> str:
    """An address of this machine that is not loopback, because Kubernetes rejects loopback for pods."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return "10.88.0.1"


def main() -> None:
    """A control plane with two nodes, until it is interrupted."""
    with running(audit=True) as plane, FakeKubelet(plane) as kubelet:
        kubelet.add_node("plain")
        kubelet.add_node("gpus", gpus=8, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
        kubelet.start_measuring()
        print(f"export KUBECONFIG={plane.kubeconfig}\nlogs: {plane.folder}\nCtrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
