"""The life of one pod on a fake node: from its volumes to the last word about its containers."""

import asyncio
import contextlib
import shutil
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.clients import Object, Refused
from tests.cluster.kubelet import mounts, statuses
from tests.cluster.kubelet.api import Api, pod_path
from tests.cluster.kubelet.containers import Content, Ended, Pretence, Process, StartError
from tests.cluster.kubelet.logfiles import Log
from tests.cluster.kubelet.outcomes import SUCCEED, Outcome, outcome_of
from tests.cluster.quantities import parse_quantity

RETRY_SECONDS = 0.5
GRACE_SECONDS = 30
HOME_VOLUME = "fairlead-home"
LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. "


@dataclass
class Host:
    """State that all pods of a kubelet share."""

    api: Api
    folder: Path
    address: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    first_backoff_seconds: float = 1.0


@dataclass
class Slot:
    """A container of a pod: what it is, and how it is now."""

    spec: Object
    state: Object
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    content: Content | None = None
    log: Log | None = None
    previous: Log | None = None


class Pod:
    """A pod that is bound to one of the kubelet's nodes. It is there until it vanishes."""

    def __init__(self, host: Host, pod: Object) -> None:
        self.host, self.pod = host, pod
        self.folder = host.folder / pod["metadata"]["uid"]
        self.slots = {
            spec["name"]: Slot(spec, statuses.waiting("ContainerCreating")) for spec in pod["spec"]["containers"]
        }
        self._leaving = asyncio.Event()
        self._grace = GRACE_SECONDS
        self._verdict: Object = {}  # phase, reason and message of a pod that the kubelet itself ended
        self._started = statuses.now()
        self._one = asyncio.Lock()
        self._said: dict[str, Object] = {}  # the last reported conditions
        self._told: set[str] = set()  # the events
        self.done = False
        self.task = asyncio.create_task(self._live())

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and the name."""
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    def leave(self, pod: Object) -> None:
        """The pod is being deleted: end it gracefully."""
        self._grace = pod["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS)
        self._leaving.set()

    async def vanish(self) -> None:
        """End everything of the pod at once, and leave nothing."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        for slot in self.slots.values():
            if slot.content is not None:
                await slot.content.see_off()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _live(self) -> None:
        self.folder.mkdir(parents=True)
        await self._report()
        with contextlib.suppress(_Left):
            volumes = await self._persist(self._make_volumes)
            with contextlib.ExitStack() as stack:
                stack.callback(asyncio.create_task(self._watch_deadline()).cancel)
                await asyncio.gather(*(self._keep(slot, volumes) for slot in self.slots.values()))
        self.done = True
        await self._report()
        await self._leaving.wait()
        await self._delete()

    # Containers

    async def _keep(self, slot: Slot, volumes: dict[str, Path]) -> None:
        """Run a container, and run it again as the pod's policy says."""
        backoff = self.host.first_backoff_seconds
        while True:
            await self._run(slot, volumes)
            failed = slot.state["terminated"]["exitCode"] != 0
            policy = self.pod["spec"]["restartPolicy"]
            if self._leaving.is_set() or self._verdict or policy == "Never" or (policy == "OnFailure" and not failed):
                return
            slot.last, slot.restarts, slot.previous = slot.state, slot.restarts + 1, slot.log
            told = f"back-off {backoff:g}s restarting failed container={slot.spec['name']} pod={self.key[1]}"
            slot.state = statuses.waiting("CrashLoopBackOff", told)
            await self._report()
            try:
                await self._pause(backoff)
            except _Left:
                slot.state, slot.last = slot.last, {}
                return
            backoff = min(2 * backoff, 300)

    async def _run(self, slot: Slot, volumes: dict[str, Path]) -> None:
        """Run a container once."""
        name, outcome = slot.spec["name"], outcome_of(self.pod, slot.spec["image"], self.host.outcomes)
        if outcome is not None and outcome.kind in ("no-such-image", "config-error"):
            await self._wait_in_vain(slot, outcome)
        identity = f"containerd://{uuid.uuid4().hex * 2}"
        termination = self.folder / f"{name}-{slot.restarts}.termination"
        termination.touch()
        slot.log, started = Log(self.folder / f"{name}-{slot.restarts}.log"), statuses.now()
        try:
            slot.content = await self._start(slot, outcome, volumes, termination)
        except StartError as error:
            ended = Ended(128, "StartError", f"failed to create containerd task: {error}")
        else:
            slot.state = {"running": {"startedAt": started, "containerID": identity}}
            slot.ready = "readinessProbe" not in slot.spec
            await self._report()
            beside = [asyncio.create_task(task) for task in (self._probe(slot), self._watch_leaving(slot.content))]
            try:
                ended = await slot.content.wait()
            finally:
                for task in beside:
                    task.cancel()
        if outcome is not None and outcome.kind == "evicted" and not self._leaving.is_set():
            self._end_as("Evicted", LOW)
        message = ended.message or termination.read_text("utf-8", "replace")
        if not message and ended.code and slot.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = slot.log.tail()
        slot.state, slot.ready = statuses.terminated(ended, identity, started, message), False

    async def _start(self, slot: Slot, outcome: Outcome | None, volumes: dict[str, Path], termination: Path) -> Content:
        spec = slot.spec
        values = await self._persist(lambda: self._make_environment(slot))
        assert slot.log is not None
        words = [*spec.get("command", ()), *spec.get("args", ())]
        if outcome is not None or not spec.get("command"):
            return Pretence(outcome or SUCCEED, slot.log)  # what an image does by itself is not known here
        places = mounts.place_mounts(spec, volumes, termination)
        home = {mount["name"]: mount["mountPath"] for mount in spec.get("volumeMounts", ())}.get(HOME_VOLUME)
        own = {"HOSTNAME": self.key[1], "FAIRLEAD_TERMINATION": str(termination)}
        own |= {"FAIRLEAD_HOME": places.place(home)} if home else {}
        variables = own | {name: places.place(value) for name, value in values.items()}
        words = [places.place(mounts.expand(word, values)) for word in words]
        folder = Path(places.place(spec.get("workingDir", "")) or self.folder)
        folder = folder if folder.is_dir() else self.folder
        limit = spec.get("resources", {}).get("limits", {}).get("memory")
        return await Process.start(words, variables, folder, slot.log, limit and int(parse_quantity(limit)))

    async def _wait_in_vain(self, slot: Slot, outcome: Outcome) -> None:
        """Say why a container cannot start, until the pod is deleted."""
        image, reason = slot.spec["image"], "CreateContainerConfigError"
        if outcome.kind == "config-error":
            slot.state = statuses.waiting(reason, "container has runAsNonRoot and image will run as root")
            await self._tell("Failed", "Error: container has runAsNonRoot and image will run as root")
        else:
            wrong = f'failed to pull and unpack image "{image}": not found'
            slot.state = statuses.waiting("ErrImagePull", wrong)
            await self._tell("Failed", f'Failed to pull image "{image}": {wrong}')
            await self._report()
            await self._pause(RETRY_SECONDS)
            slot.state = statuses.waiting(
                "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {wrong}'
            )
            await self._tell("BackOff", f'Back-off pulling image "{image}"')
        await self._report()
        await self._leaving.wait()
        raise _Left

    # Dependencies of a pod

    async def _make_volumes(self) -> dict[str, Path]:
        try:
            return await mounts.make_volumes(self.host.api, self.pod, self.folder / "volumes")
        except mounts.NotYet as missing:
            await self._tell("FailedMount", str(missing))
            raise

    async def _make_environment(self, slot: Slot) -> dict[str, str]:
        try:
            return await mounts.make_environment(self.host.api, self.pod, slot.spec)
        except mounts.NotYet as missing:
            if slot.state != (state := statuses.waiting("CreateContainerConfigError", str(missing))):
                slot.state = state
                await self._tell("Failed", f"Error: {missing}")
                await self._report()
            raise

    async def _persist(self, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Retry a function until all objects that it needs exist."""
        while True:
            try:
                return await make()
            except mounts.NotYet:
                await self._pause(RETRY_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Sleep. Raises _Left if the pod is deleted meanwhile."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._leaving.wait(), seconds)
            raise _Left

    async def _probe(self, slot: Slot) -> None:
        """Report a container as ready when its probe can connect."""
        probe = slot.spec.get("readinessProbe")
        if probe is None:
            return
        asked = probe.get("tcpSocket") or probe.get("httpGet") or {}
        named = {port.get("name"): port["containerPort"] for port in slot.spec.get("ports", ())}
        port = named.get(asked.get("port"), asked.get("port"))
        while port is not None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.host.address, port, family=socket.AF_INET)
                writer.close()
                break
            await asyncio.sleep(RETRY_SECONDS)
        slot.ready = True
        await self._report()

    # How a pod is ended from outside

    async def _watch_leaving(self, content: Content) -> None:
        await self._leaving.wait()
        await content.stop(self._grace)

    async def _watch_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            await asyncio.sleep(seconds)
            self._end_as("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            grace = self.pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
            running = [slot.content for slot in self.slots.values() if slot.content is not None]
            await asyncio.gather(*(content.stop(grace) for content in running))

    def _end_as(self, reason: str, message: str) -> None:
        self._verdict = {"phase": "Failed", "reason": reason, "message": message}

    async def _delete(self) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
        with contextlib.suppress(Refused):  # it is gone, or another one has its name
            await self.host.api.ask("DELETE", pod_path(self.pod), body)

    # Status

    @property
    def phase(self) -> str:
        """Where the pod stands as a whole."""
        states = [slot.state for slot in self.slots.values()]
        if self.done and self._verdict:
            return "Failed"
        if self.done:
            codes = [state["terminated"]["exitCode"] if "terminated" in state else 1 for state in states]
            return "Failed" if any(codes) else "Succeeded"
        begun = any("running" in state or "terminated" in state for state in states)
        return "Running" if begun or any(slot.restarts for slot in self.slots.values()) else "Pending"

    async def _report(self) -> None:
        async with self._one:
            ready = all(slot.ready for slot in self.slots.values())
            said = [
                statuses.container_status(slot.spec, slot.state, slot.last, slot.restarts, slot.ready)
                for slot in self.slots.values()
            ]
            address = {"podIP": self.host.address, "podIPs": [{"ip": self.host.address}]}
            status: Object = {
                "phase": self.phase,
                "conditions": self._conditions(ready),
                "hostIP": self.host.address,
                "startTime": self._started,
                "containerStatuses": said,
                **(self._verdict if self.done else {}),
                **({} if self.phase == "Pending" else address),
            }
            await self.host.api.report(self.pod, status)

    def _conditions(self, ready: bool) -> list[Object]:
        """Report the status of the pod. The time of a condition is the time of its last change."""
        conditions = statuses.conditions(
            self.phase, ready, evicted=self.done and self._verdict.get("reason") == "Evicted"
        )
        for condition in conditions:
            before = self._said.get(condition["type"])
            if before is not None and before["status"] == condition["status"]:
                condition["lastTransitionTime"] = before["lastTransitionTime"]
        self._said = {condition["type"]: condition for condition in conditions}
        return conditions

    async def _tell(self, reason: str, message: str) -> None:
        """Write a warning event about the pod, once."""
        if message in self._told:
            return
        self._told.add(message)
        namespace, name = self.key
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:200]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {
                **{key: self.pod["metadata"][key] for key in ("namespace", "name", "uid")},
                "apiVersion": "v1",
                "kind": "Pod",
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self.pod["spec"]["nodeName"]},
            "firstTimestamp": statuses.now(),
            "lastTimestamp": statuses.now(),
            "count": 1,
        }
        with contextlib.suppress(Refused):  # the namespace is going
            await self.host.api.ask("POST", f"/api/v1/namespaces/{namespace}/events", body)


class _Left(Exception):
    """The pod is being deleted."""
