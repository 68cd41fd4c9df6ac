"""The lifecycle of one pod on a fake node: volumes, containers and status."""

import asyncio
import contextlib
import shutil
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.clients import ApiError, Object
from tests.cluster.kubelet import mounts, statuses
from tests.cluster.kubelet.api import Api, pod_path
from tests.cluster.kubelet.containers import ContainerProcess, ExitStatus, Process, SimulatedProcess, StartError
from tests.cluster.kubelet.logfiles import Log
from tests.cluster.kubelet.outcomes import SUCCEED, Outcome, outcome_of
from tests.cluster.quantities import parse_quantity

RETRY_SECONDS = 0.5
GRACE_SECONDS = 30
HOME_VOLUME = "fairlead-home"
LOW_STORAGE = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. "


@dataclass
class Host:
    """State shared by all pods of a kubelet."""

    api: Api
    folder: Path
    address: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    first_backoff_seconds: float = 1.0


@dataclass
class Slot:
    """A container in a pod: its spec and current state."""

    spec: Object
    state: Object
    last: Object = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    process: ContainerProcess | None = None
    log: Log | None = None
    previous: Log | None = None


class Pod:
    """A pod that is bound to one of the kubelet's nodes. It exists until `remove` is called."""

    def __init__(self, host: Host, pod: Object) -> None:
        self.host, self.pod = host, pod
        self.folder = host.folder / pod["metadata"]["uid"]
        self.slots = {
            spec["name"]: Slot(spec, statuses.waiting("ContainerCreating")) for spec in pod["spec"]["containers"]
        }
        self._deleted = asyncio.Event()
        self._grace = GRACE_SECONDS
        self._verdict: Object = {}  # phase, reason and message if the kubelet ended the pod
        self._started = statuses.now()
        self._report_lock = asyncio.Lock()
        self._last_conditions: dict[str, Object] = {}  # the last reported conditions
        self._event_messages: set[str] = set()  # messages of the events created so far
        self.done = False
        self.task = asyncio.create_task(self._run_pod())

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and name."""
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    def terminate(self, pod: Object) -> None:
        """Stop the pod gracefully, because it is being deleted."""
        self._grace = pod["metadata"].get("deletionGracePeriodSeconds", GRACE_SECONDS)
        self._deleted.set()

    async def remove(self) -> None:
        """Kill all processes of the pod, and delete its files."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        for slot in self.slots.values():
            if slot.process is not None:
                await slot.process.kill_and_wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _run_pod(self) -> None:
        self.folder.mkdir(parents=True)
        await self._report()
        with contextlib.suppress(_PodDeleted):
            volumes = await self._retry(self._make_volumes)
            with contextlib.ExitStack() as stack:
                stack.callback(asyncio.create_task(self._watch_deadline()).cancel)
                await asyncio.gather(*(self._run_container(slot, volumes) for slot in self.slots.values()))
        self.done = True
        await self._report()
        await self._deleted.wait()
        await self._delete()

    # Containers

    async def _run_container(self, slot: Slot, volumes: dict[str, Path]) -> None:
        """Run a container, and restart it according to the pod's restart policy."""
        backoff = self.host.first_backoff_seconds
        while True:
            await self._run_once(slot, volumes)
            failed = slot.state["terminated"]["exitCode"] != 0
            policy = self.pod["spec"]["restartPolicy"]
            if self._deleted.is_set() or self._verdict or policy == "Never" or (policy == "OnFailure" and not failed):
                return
            slot.last, slot.restarts, slot.previous = slot.state, slot.restarts + 1, slot.log
            message = f"back-off {backoff:g}s restarting failed container={slot.spec['name']} pod={self.key[1]}"
            slot.state = statuses.waiting("CrashLoopBackOff", message)
            await self._report()
            try:
                await self._sleep(backoff)
            except _PodDeleted:
                slot.state, slot.last = slot.last, {}
                return
            backoff = min(2 * backoff, 300)

    async def _run_once(self, slot: Slot, volumes: dict[str, Path]) -> None:
        """Run a container once."""
        name, outcome = slot.spec["name"], outcome_of(self.pod, slot.spec["image"], self.host.outcomes)
        if outcome is not None and outcome.kind in ("no-such-image", "config-error"):
            await self._report_start_failure(slot, outcome)
        identity = f"containerd://{uuid.uuid4().hex * 2}"
        termination = self.folder / f"{name}-{slot.restarts}.termination"
        termination.touch()
        slot.log, started = Log(self.folder / f"{name}-{slot.restarts}.log"), statuses.now()
        try:
            slot.process = await self._start(slot, outcome, volumes, termination)
        except StartError as error:
            exit_status = ExitStatus(128, "StartError", f"failed to create containerd task: {error}")
        else:
            slot.state = {"running": {"startedAt": started, "containerID": identity}}
            slot.ready = "readinessProbe" not in slot.spec
            await self._report()
            background_tasks = [
                asyncio.create_task(task) for task in (self._probe(slot), self._watch_deletion(slot.process))
            ]
            try:
                exit_status = await slot.process.wait()
            finally:
                for task in background_tasks:
                    task.cancel()
        if outcome is not None and outcome.kind == "evicted" and not self._deleted.is_set():
            self._set_failed("Evicted", LOW_STORAGE)
        message = exit_status.message or termination.read_text("utf-8", "replace")
        if not message and exit_status.code and slot.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = slot.log.tail()
        slot.state, slot.ready = statuses.terminated(exit_status, identity, started, message), False

    async def _start(
        self, slot: Slot, outcome: Outcome | None, volumes: dict[str, Path], termination: Path
    ) -> ContainerProcess:
        spec = slot.spec
        values = await self._retry(lambda: self._make_environment(slot))
        assert slot.log is not None
        command = [*spec.get("command", ()), *spec.get("args", ())]
        if outcome is not None or not spec.get("command"):
            return SimulatedProcess(outcome or SUCCEED, slot.log)  # the entrypoint of an image is unknown
        mapping = mounts.map_mounts(spec, volumes, termination)
        home = {mount["name"]: mount["mountPath"] for mount in spec.get("volumeMounts", ())}.get(HOME_VOLUME)
        base_variables = {"HOSTNAME": self.key[1], "FAIRLEAD_TERMINATION": str(termination)}
        base_variables |= {"FAIRLEAD_HOME": mapping.translate(home)} if home else {}
        variables = base_variables | {name: mapping.translate(value) for name, value in values.items()}
        command = [mapping.translate(mounts.expand(argument, values)) for argument in command]
        folder = Path(mapping.translate(spec.get("workingDir", "")) or self.folder)
        folder = folder if folder.is_dir() else self.folder
        limit = spec.get("resources", {}).get("limits", {}).get("memory")
        return await Process.start(command, variables, folder, slot.log, limit and int(parse_quantity(limit)))

    async def _report_start_failure(self, slot: Slot, outcome: Outcome) -> None:
        """Report why a container cannot start until the pod is deleted."""
        image, reason = slot.spec["image"], "CreateContainerConfigError"
        if outcome.kind == "config-error":
            slot.state = statuses.waiting(reason, "container has runAsNonRoot and image will run as root")
            await self._create_event("Failed", "Error: container has runAsNonRoot and image will run as root")
        else:
            problem = f'failed to pull and unpack image "{image}": not found'
            slot.state = statuses.waiting("ErrImagePull", problem)
            await self._create_event("Failed", f'Failed to pull image "{image}": {problem}')
            await self._report()
            await self._sleep(RETRY_SECONDS)
            slot.state = statuses.waiting(
                "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {problem}'
            )
            await self._create_event("BackOff", f'Back-off pulling image "{image}"')
        await self._report()
        await self._deleted.wait()
        raise _PodDeleted

    # A pod's dependencies

    async def _make_volumes(self) -> dict[str, Path]:
        try:
            return await mounts.make_volumes(self.host.api, self.pod, self.folder / "volumes")
        except mounts.MissingObject as error:
            await self._create_event("FailedMount", str(error))
            raise

    async def _make_environment(self, slot: Slot) -> dict[str, str]:
        try:
            return await mounts.make_environment(self.host.api, self.pod, slot.spec)
        except mounts.MissingObject as error:
            if slot.state != (state := statuses.waiting("CreateContainerConfigError", str(error))):
                slot.state = state
                await self._create_event("Failed", f"Error: {error}")
                await self._report()
            raise

    async def _retry(self, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Retry a function until all objects that it needs exist."""
        while True:
            try:
                return await make()
            except mounts.MissingObject:
                await self._sleep(RETRY_SECONDS)

    async def _sleep(self, seconds: float) -> None:
        """Sleep. Raises _PodDeleted if the pod is deleted in the meantime."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._deleted.wait(), seconds)
            raise _PodDeleted

    async def _probe(self, slot: Slot) -> None:
        """Report a container as ready when its probe can connect."""
        probe = slot.spec.get("readinessProbe")
        if probe is None:
            return
        endpoint = probe.get("tcpSocket") or probe.get("httpGet") or {}
        ports_by_name = {port.get("name"): port["containerPort"] for port in slot.spec.get("ports", ())}
        port = ports_by_name.get(endpoint.get("port"), endpoint.get("port"))
        while port is not None:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.host.address, port, family=socket.AF_INET)
                writer.close()
                break
            await asyncio.sleep(RETRY_SECONDS)
        slot.ready = True
        await self._report()

    # Termination

    async def _watch_deletion(self, process: ContainerProcess) -> None:
        await self._deleted.wait()
        await process.stop(self._grace)

    async def _watch_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            await asyncio.sleep(seconds)
            self._set_failed("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            grace = self.pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
            processes = [slot.process for slot in self.slots.values() if slot.process is not None]
            await asyncio.gather(*(process.stop(grace) for process in processes))

    def _set_failed(self, reason: str, message: str) -> None:
        self._verdict = {"phase": "Failed", "reason": reason, "message": message}

    async def _delete(self) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
        with contextlib.suppress(ApiError):  # it is already deleted, or another pod has its name
            await self.host.api.request("DELETE", pod_path(self.pod), body)

    # Status

    @property
    def phase(self) -> str:
        """The phase of the pod."""
        states = [slot.state for slot in self.slots.values()]
        if self.done and self._verdict:
            return "Failed"
        if self.done:
            codes = [state["terminated"]["exitCode"] if "terminated" in state else 1 for state in states]
            return "Failed" if any(codes) else "Succeeded"
        has_started = any("running" in state or "terminated" in state for state in states)
        return "Running" if has_started or any(slot.restarts for slot in self.slots.values()) else "Pending"

    async def _report(self) -> None:
        async with self._report_lock:
            ready = all(slot.ready for slot in self.slots.values())
            container_statuses = [
                statuses.container_status(slot.spec, slot.state, slot.last, slot.restarts, slot.ready)
                for slot in self.slots.values()
            ]
            address = {"podIP": self.host.address, "podIPs": [{"ip": self.host.address}]}
            status: Object = {
                "phase": self.phase,
                "conditions": self._conditions(ready),
                "hostIP": self.host.address,
                "startTime": self._started,
                "containerStatuses": container_statuses,
                **(self._verdict if self.done else {}),
                **({} if self.phase == "Pending" else address),
            }
            await self.host.api.report(self.pod, status)

    def _conditions(self, ready: bool) -> list[Object]:
        """The pod's conditions. Each has the time of its last change."""
        conditions = statuses.conditions(
            self.phase, ready, evicted=self.done and self._verdict.get("reason") == "Evicted"
        )
        for condition in conditions:
            before = self._last_conditions.get(condition["type"])
            if before is not None and before["status"] == condition["status"]:
                condition["lastTransitionTime"] = before["lastTransitionTime"]
        self._last_conditions = {condition["type"]: condition for condition in conditions}
        return conditions

    async def _create_event(self, reason: str, message: str) -> None:
        """Create a warning event about the pod, once per message."""
        if message in self._event_messages:
            return
        self._event_messages.add(message)
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
        with contextlib.suppress(ApiError):  # the namespace is being deleted
            await self.host.api.request("POST", f"/api/v1/namespaces/{namespace}/events", body)


class _PodDeleted(Exception):
    """The pod is being deleted."""
