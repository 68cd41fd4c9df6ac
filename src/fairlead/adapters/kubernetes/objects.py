"""The fields of Kubernetes objects that the executor stores: only a few, because clusters may have many objects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fairlead.model.names import PREFIX, RUN_LABEL
from fairlead.model.nodes import Node, PodRequest, ScheduledPod
from fairlead.model.runs import JSON
from fairlead.scheduling import pod_requests, readers

PLATFORM_LABEL = f"{PREFIX}/platform"  # several platforms may share a cluster
RELEASED = f"{PREFIX}/released"  # annotation set once all objects of a run exist
QUEUE = f"{PREFIX}/queue"  # annotation with the queue, which becomes a label when the run is released
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
VOLUME_LABEL = f"{PREFIX}/volume"
PROJECT_LABEL = f"{PREFIX}/project"
PROJECT_ID_LABEL = f"{PREFIX}/project-id"  # unlike the name, it stays the same when the project is renamed
INDEX = "batch.kubernetes.io/job-completion-index"
# The conditions that are stored.
CONDITIONS = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "PodScheduled", "DisruptionTarget", "Ready"}
ENDED = ("Succeeded", "Failed")


class ObjectCondition(NamedTuple):
    """A condition in the status of an object."""

    status: str
    reason: str
    message: str
    since: datetime | None


class ContainerTermination(NamedTuple):
    """The terminated state of a container."""

    code: int
    reason: str
    message: str
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class MainObject:
    """The Job or Deployment of a run. `wanted`: its number of pods."""

    uid: str
    version: int  # resource version
    kind: str
    namespace: str
    name: str
    run_id: str
    project_id: str
    released: bool
    suspended: bool
    deleting: bool
    wanted: int
    conditions: Mapping[str, ObjectCondition]
    deadline: int | None = None  # seconds
    queue: str = ""  # name of the Kueue LocalQueue, if Kueue admits the Job
    port: int | None = None  # the port on which its pods listen


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A run's pod or any other pod. Other pods matter only because they use resources of their node."""

    uid: str
    version: int
    namespace: str
    name: str
    run_id: str
    project_id: str
    owner: str  # UID of its controller
    node: str  # empty until it is scheduled
    phase: str
    scheduled_pod: ScheduledPod
    deleting: bool = False
    index: int = 0  # in an Indexed Job; a replacement pod has the same index
    created_at: datetime | None = None
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, ObjectCondition] = field(default_factory=dict)
    waiting: tuple[str, str] = ("", "")  # reason and message of its container
    began: bool = False  # its container has started
    restarts: int = 0
    running_since: datetime | None = None
    ended: ContainerTermination | None = None  # its last exit, even if it is running again
    pod_request: PodRequest | None = None  # only while it is waiting for a node
    memory: str = ""  # memory limit

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.phase in ENDED

    @property
    def is_ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return not self.deleting and (ready := self.conditions.get("Ready")) is not None and ready.status == "True"


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node with its Ready condition."""

    uid: str
    version: int
    node: Node
    ready: bool
    ready_since: datetime | None


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """An event of type Warning about an object."""

    uid: str
    version: int
    about: str  # UID of the object
    about_name: str
    namespace: str
    reason: str
    message: str
    at: datetime | None


def read_main(platform: str, raw: JSON) -> MainObject | None:
    """Read a Job or Deployment, or return None if it does not belong to a run of this platform."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    run_id = _run_of(meta, platform)
    if not run_id:
        return None
    # List items have no `kind`. Jobs also have a selector.
    serves = "selector" in spec and "completions" not in spec
    return MainObject(
        **_identify(meta),
        kind="Deployment" if serves else "Job",
        run_id=run_id,
        project_id=_project_of(meta),
        released=meta.get("annotations", {}).get(RELEASED) == "true",
        suspended=bool(spec.get("suspend")),
        deleting="deletionTimestamp" in meta,
        wanted=spec.get("replicas", 1) if serves else spec.get("completions", 1),
        conditions=read_conditions(status),
        deadline=spec["template"]["spec"].get("activeDeadlineSeconds"),
        queue=meta["labels"].get(QUEUE_LABEL, ""),
        port=next((port["containerPort"] for port in spec["template"]["spec"]["containers"][0].get("ports", ())), None),
    )


def read_pod(platform: str, raw: JSON) -> ObservedPod | None:
    """Read a pod, with all fields if it belongs to a run of this platform."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    run_id = _run_of(meta, platform)
    base = {
        **_identify(meta),
        "run_id": run_id,
        "project_id": _project_of(meta) if run_id else "",
        "node": spec.get("nodeName", ""),
        "phase": status.get("phase", "Pending"),
        "scheduled_pod": readers.read_scheduled_pod(raw),
        "owner": next((owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller")), ""),
    }
    if not run_id:
        return ObservedPod(**base)
    container: JSON = next(iter(status.get("containerStatuses", ())), {})  # pods of runs have one container
    state = container.get("state", {})
    waiting = state.get("waiting", {})
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
    return ObservedPod(
        **base,
        deleting="deletionTimestamp" in meta,
        index=int(meta.get("annotations", {}).get(INDEX, 0)),
        created_at=read_time(meta.get("creationTimestamp")),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        conditions=read_conditions(status),
        waiting=(waiting.get("reason", ""), waiting.get("message", "")),
        began="running" in state or ended is not None,
        restarts=container.get("restartCount", 0),
        running_since=read_time(state.get("running", {}).get("startedAt")),
        ended=None if ended is None else _read_termination(ended),
        pod_request=None if base["node"] else pod_requests.read_pod(spec, meta),
        memory=spec["containers"][0].get("resources", {}).get("limits", {}).get("memory", ""),
    )


def read_node(raw: JSON) -> ObservedNode:
    """Read a node."""
    meta = raw["metadata"]
    ready = read_conditions(raw.get("status", {})).get("Ready")
    return ObservedNode(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        node=readers.read_node(raw),
        ready=ready is not None and ready.status == "True",
        ready_since=None if ready is None else ready.since,
    )


def read_warning(raw: JSON) -> WarningEvent:
    """Read an event."""
    meta, about = raw["metadata"], raw["involvedObject"]
    # Components that use the newer events.k8s.io API set only `eventTime` and, for repeated events, `series`.
    when = raw.get("series", {}).get("lastObservedTime") or raw.get("lastTimestamp") or raw.get("eventTime")
    return WarningEvent(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        about=about.get("uid", ""),
        about_name=about.get("name", ""),
        namespace=about.get("namespace", ""),
        reason=raw.get("reason", ""),
        message=raw.get("message", ""),
        at=read_time(when),
    )


def read_time(text: str | None) -> datetime | None:
    """Parse a Kubernetes timestamp."""
    return None if not text else datetime.fromisoformat(text)


def read_conditions(status: JSON, types: Collection[str] = CONDITIONS) -> dict[str, ObjectCondition]:
    """The conditions in a status that have one of the given types, by type."""
    return {
        raw["type"]: ObjectCondition(
            raw["status"], raw.get("reason", ""), raw.get("message", ""), read_time(raw.get("lastTransitionTime"))
        )
        for raw in status.get("conditions", ())
        if raw["type"] in types
    }


def _identify(meta: JSON) -> JSON:
    return {
        "uid": meta["uid"],
        "version": int(meta["resourceVersion"]),
        "namespace": meta["namespace"],
        "name": meta["name"],
    }


def _run_of(meta: JSON, platform: str) -> str:
    labels = meta.get("labels", {})
    return str(labels.get(RUN_LABEL, "")) if labels.get(PLATFORM_LABEL) == platform else ""


def _project_of(meta: JSON) -> str:
    return str(meta.get("labels", {}).get(PROJECT_ID_LABEL, ""))


def _read_termination(raw: JSON) -> ContainerTermination:
    return ContainerTermination(
        raw["exitCode"],
        raw.get("reason", ""),
        raw.get("message", "").replace("\0", "\N{SYMBOL FOR NULL}"),  # PostgreSQL cannot store NUL
        read_time(raw.get("startedAt")),
        read_time(raw.get("finishedAt")),
    )
