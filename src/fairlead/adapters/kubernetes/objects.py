"""What is kept of the objects of a cluster: little, for there may be very many."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fairlead.core.fitting import pod_requests, reading_nodes
from fairlead.core.fitting.pod_requests import PodRequest
from fairlead.core.manifests.names import PREFIX, RUN_LABEL
from fairlead.model.nodes import Node, ScheduledPod
from fairlead.model.observations import JSON

PLATFORM_LABEL = f"{PREFIX}/platform"  # whose it is: several platforms may share a cluster
RELEASED = f"{PREFIX}/released"
QUEUE = f"{PREFIX}/queue"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
VOLUME_LABEL = f"{PREFIX}/volume"
PROJECT_LABEL = f"{PREFIX}/project"
PROJECT_NAME = f"{PREFIX}/project-name"  # in full, where a label could not hold it
INDEX = "batch.kubernetes.io/job-completion-index"
# The conditions of interest.
TOLD = {"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", "PodScheduled", "DisruptionTarget", "Ready"}
ENDED = ("Succeeded", "Failed")


class ObjectCondition(NamedTuple):
    """What is said of an object, and since when."""

    status: str
    reason: str
    message: str
    since: datetime | None


class ContainerTermination(NamedTuple):
    """How a container ended."""

    code: int
    reason: str
    message: str
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class MainObject:
    """The Job or Deployment of a run."""

    uid: str
    version: int
    kind: str
    namespace: str
    name: str
    run_id: str
    project: str
    released: bool
    suspended: bool
    deleting: bool
    wanted: int
    conditions: Mapping[str, ObjectCondition]
    deadline: int | None = None
    queue: str = ""  # of Kueue, which then says when it goes on
    port: int | None = None  # where its pods listen


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod: of a run, or of something else that takes room on a node."""

    uid: str
    version: int
    namespace: str
    name: str
    run_id: str
    project: str
    owner: str
    node: str
    phase: str
    holding: ScheduledPod
    deleting: bool = False
    index: int = 0
    created_at: datetime | None = None
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, ObjectCondition] = field(default_factory=dict)
    waiting: tuple[str, str] = ("", "")
    began: bool = False  # its container has run, or runs
    restarts: int = 0
    running_since: datetime | None = None
    ended: ContainerTermination | None = None
    pod_request: PodRequest | None = None  # only while it waits for a node
    memory: str = ""  # the limit

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ENDED

    @property
    def is_ready(self) -> bool:
        """Whether it answers, as far as its node can tell."""
        return not self.deleting and (ready := self.conditions.get("Ready")) is not None and ready.status == "True"


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """A node as the cluster tells of it."""

    uid: str
    version: int
    node: Node
    ready: bool
    ready_since: datetime | None


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """A warning about an object."""

    uid: str
    version: int
    about: str  # the uid of the object
    about_name: str
    namespace: str
    reason: str
    message: str
    at: datetime | None


def read_main(platform: str, raw: JSON) -> MainObject | None:
    """A Job or a Deployment of a platform's run."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    run_id = _run_of(meta, platform)
    if not run_id:
        return None
    serves = "selector" in spec and "completions" not in spec
    return MainObject(
        **_identify(meta),
        kind="Deployment" if serves else "Job",
        run_id=run_id,
        project=_project_of(meta),
        released=meta.get("annotations", {}).get(RELEASED) == "true",
        suspended=bool(spec.get("suspend")),
        deleting="deletionTimestamp" in meta,
        wanted=spec.get("replicas", 1) if serves else spec.get("completions", 1),
        conditions=read_conditions(status),
        deadline=spec["template"]["spec"].get("activeDeadlineSeconds"),
        queue=meta["labels"].get(QUEUE_LABEL, ""),
        port=next((said["containerPort"] for said in spec["template"]["spec"]["containers"][0].get("ports", ())), None),
    )


def read_pod(platform: str, raw: JSON) -> ObservedPod | None:
    """A pod, with more about it where it is of a platform's run."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    run_id = _run_of(meta, platform)
    base = {
        **_identify(meta),
        "run_id": run_id,
        "project": _project_of(meta) if run_id else "",
        "node": spec.get("nodeName", ""),
        "phase": status.get("phase", "Pending"),
        "holding": reading_nodes.read_scheduled_pod(raw),
        "owner": next((owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller")), ""),
    }
    if not run_id:
        return ObservedPod(**base)
    container: JSON = next(iter(status.get("containerStatuses", ())), {})
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
        ended=None if ended is None else _read_ended(ended),
        pod_request=None if base["node"] else pod_requests.read_pod(spec, meta),
        memory=spec["containers"][0].get("resources", {}).get("limits", {}).get("memory", ""),
    )


def read_node(raw: JSON) -> ObservedNode:
    """A node."""
    meta = raw["metadata"]
    ready = read_conditions(raw.get("status", {})).get("Ready")
    return ObservedNode(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        node=reading_nodes.read_node(raw),
        ready=ready is not None and ready.status == "True",
        ready_since=None if ready is None else ready.since,
    )


def read_warning(raw: JSON) -> WarningEvent:
    """A warning."""
    meta, about = raw["metadata"], raw["involvedObject"]
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
    """A moment as Kubernetes writes it."""
    return None if not text else datetime.fromisoformat(text)


def read_conditions(status: JSON, told: Collection[str] = TOLD) -> dict[str, ObjectCondition]:
    """What is said of an object, of what is of interest."""
    return {
        said["type"]: ObjectCondition(
            said["status"], said.get("reason", ""), said.get("message", ""), read_time(said.get("lastTransitionTime"))
        )
        for said in status.get("conditions", ())
        if said["type"] in told
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
    in_full = meta.get("annotations", {}).get(PROJECT_NAME)
    return str(in_full or meta.get("labels", {}).get(PROJECT_LABEL, ""))


def _read_ended(said: JSON) -> ContainerTermination:
    return ContainerTermination(
        said["exitCode"],
        said.get("reason", ""),
        said.get("message", "").replace("\0", "\N{SYMBOL FOR NULL}"),
        read_time(said.get("startedAt")),
        read_time(said.get("finishedAt")),
    )
