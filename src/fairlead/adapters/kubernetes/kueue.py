"""Kueue's queues, watched on the cluster: order, quotas and usage, and messages for Jobs that are not admitted yet."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import MainObject, ObjectCondition, read_conditions, read_time
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.model.nodes import QueuePosition, QueueWorkload, QuotaUsage
from fairlead.model.quantities import Quantity
from fairlead.model.runs import JSON
from fairlead.scheduling.reasons import describe_amount, name_resource

GROUP = "kueue.x-k8s.io"
NOT_INSTALLED = "Kueue is not installed"
RESERVED, ADMITTED, EVICTED, PREEMPTED, FINISHED, ACTIVE = (
    *("QuotaReserved", "Admitted", "Evicted", "Preempted", "Finished", "Active"),
)
CONDITIONS = {RESERVED, ADMITTED, EVICTED, PREEMPTED, FINISHED, ACTIVE}
REQUEUED_LAST = ("PodsReadyTimeout", "AdmissionCheck")  # after such an eviction, the time in the queue starts over
EARLIEST = datetime.min.replace(tzinfo=UTC)

ResourceFlavor = tuple[str, str]  # names of a resource and of one of its flavors

QUEUED = "Queued"
STOPPED = "no runs start there until it is resumed"
# The keys are Kueue's eviction reasons.
EVICTIONS = {
    "PodsReadyTimeout": "its pods were not ready in time",
    "AdmissionCheck": "an admission check of its queue rejected it",
    "ClusterQueueStopped": "its queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "its nodes failed",
}
PREEMPTIONS = {
    "InClusterQueue": "preempted by a run with higher priority",
    "InCohortReclamation": "preempted: another queue reclaimed its borrowed quota",
    "InCohortFairSharing": "preempted: another queue in the cohort was entitled to the quota",
    "InCohortReclaimWhileBorrowing": "preempted: another queue reclaimed its borrowed quota",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Kueue's Workload for a Job: its requests and its quota usage."""

    uid: str
    version: int
    namespace: str
    name: str
    job: str  # UID of its owner
    queue: str
    priority: int
    created_at: datetime
    active: bool
    conditions: Mapping[str, ObjectCondition]
    requests: Mapping[str, int]  # in nanos, like all amounts here
    usage: Mapping[ResourceFlavor, int]
    cluster_queue: str  # the queue whose quota it uses; empty before admission
    pending_checks: tuple[str, ...]  # admission checks, such as node provisioning

    def is_true(self, name: str) -> bool:
        """Whether a condition has the status True."""
        return name in self.conditions and self.conditions[name].status == "True"

    @property
    def is_pending(self) -> bool:
        """Whether it is waiting for quota."""
        return self.active and not self.is_true(RESERVED) and not self.is_true(FINISHED)

    @property
    def has_quota(self) -> bool:
        return self.is_true(RESERVED) and not self.is_true(FINISHED)

    @property
    def sort_key(self) -> tuple[int, datetime, str]:
        """Kueue's order within a queue, first to last."""
        evicted = self.conditions.get(EVICTED)
        requeued = evicted is not None and self.is_true(EVICTED) and evicted.reason in REQUEUED_LAST
        since = evicted.since if requeued and evicted is not None else None
        return -self.priority, since or self.created_at, self.uid


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A queue in a namespace, which uses the quota of a ClusterQueue."""

    uid: str
    version: int
    key: tuple[str, str]
    cluster_queue: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A queue of the cluster, with its quota."""

    uid: str
    version: int
    key: str
    cohort: str
    quotas: Mapping[ResourceFlavor, int]
    stopped: bool
    strict: bool  # StrictFIFO: no workload overtakes another
    inactive_message: str  # why it admits nothing although it is not stopped


class QueueState(NamedTuple):
    """A Job's Kueue workload and its queues. A field is None if the object does not exist or is not listed yet."""

    workload: Workload | None
    local_queue: LocalQueue | None
    cluster_queue: ClusterQueue | None
    synced: bool  # all queues have been listed
    not_installed: bool


class KueueQueues:
    """All Kueue queues on a cluster. If some of them cannot be watched, queue positions are less detailed."""

    def __init__(
        self, api: KubernetesClient, notify: Callable[[str], None], find_main: Callable[[str], MainObject | None]
    ) -> None:
        self._notify, self._find_main = notify, find_main  # both take a Job's UID
        self._lock = threading.RLock()
        self._workloads: dict[str, Workload] = {}
        self._by_job: dict[str, Workload] = {}
        self._local_queues: dict[tuple[str, str], LocalQueue] = {}
        self._cluster_queues: dict[str, ClusterQueue] = {}
        watch: Any = partial(Reflector, api)
        self.reflectors: list[Reflector[Any]] = [
            watch(partial(find_path, api, "workloads"), read_workload, self.on_workload_change),
            watch(
                partial(find_path, api, "localqueues"),
                read_local_queue,
                partial(self._on_queue_change, self._local_queues),
            ),
            watch(
                partial(find_path, api, "clusterqueues"),
                read_cluster_queue,
                partial(self._on_queue_change, self._cluster_queues),
            ),
        ]
        for reflector in self.reflectors:
            reflector.on_list = self._notify_waiting  # messages were incomplete before the first list

    def find(self, main: MainObject) -> QueueState:
        """The state of a Job in Kueue."""
        with self._lock:
            local_queue = self._local_queues.get((main.namespace, main.queue))
            cluster_queue = None if local_queue is None else self._cluster_queues.get(local_queue.cluster_queue)
            workload = self._by_job.get(main.uid)
        synced = all(reflector.ready.is_set() for reflector in self.reflectors)
        not_installed = any(reflector.error == NOT_INSTALLED for reflector in self.reflectors)
        return QueueState(workload, local_queue, cluster_queue, synced, not_installed)

    def queue_position(self, main: MainObject) -> QueuePosition:
        """The current queue position of a Job, with the workloads ahead of it and those that use the quota."""
        state = self.find(main)
        error = next((reflector.error for reflector in self.reflectors if reflector.error), "")
        if state.local_queue is None:
            return QueuePosition(unavailable=error)
        name = f"ClusterQueue {state.local_queue.cluster_queue}"
        if state.cluster_queue is None:
            return QueuePosition(name, unavailable=error)
        own, admitted = state.workload, self._list_admitted(state.cluster_queue.key)
        pending = own is not None and own.is_pending
        ahead = [
            each
            for each in self._list_pending(state.cluster_queue.key)
            if own is not None and pending and each.sort_key < own.sort_key
        ]
        reserved = None if own is None else own.conditions.get(RESERVED)
        return QueuePosition(
            name,
            state.cluster_queue.cohort,
            state.cluster_queue.strict,
            {} if own is None else own.requests,
            tuple(
                QuotaUsage(*flavor, quota, sum(each.usage.get(flavor, 0) for each in admitted))
                for flavor, quota in state.cluster_queue.quotas.items()
            ),
            tuple(map(self._describe, ahead)),
            tuple(map(self._describe, admitted)),
            pending=pending,
            message=reserved.message if reserved is not None and reserved.status == "False" else "",
            unavailable=error,
        )

    def on_workload_change(self, before: Workload | None, after: Workload | None) -> None:
        """Handle a new, changed or deleted Workload."""
        known = after or before
        assert known is not None
        with self._lock:
            if after is not None:
                self._workloads[after.uid] = self._by_job[after.job] = after
            else:
                self._workloads.pop(known.uid, None)
                if self._by_job.get(known.job) is before:  # it may have been created again
                    del self._by_job[known.job]
        self._notify(known.job)

    def _on_queue_change(self, by_key: dict[Any, Any], before: Any, after: Any) -> None:
        """Handle a new, changed or deleted queue, and notify the Jobs that may be waiting in it."""
        known: Any = after or before
        with self._lock:
            if after is not None:
                by_key[known.key] = after
            elif by_key.get(known.key) is before:  # it may have been created again
                del by_key[known.key]
        self._notify_waiting()

    def _notify_waiting(self) -> None:
        with self._lock:
            jobs = [each.job for each in self._workloads.values() if each.is_pending or not each.active]
        for job in jobs:
            self._notify(job)

    def _list_pending(self, cluster_queue: str) -> list[Workload]:
        """Workloads that are waiting for the quota of a ClusterQueue, in queue order."""
        with self._lock:
            keys = {key for key, local in self._local_queues.items() if local.cluster_queue == cluster_queue}
            workloads = [each for each in self._workloads.values() if (each.namespace, each.queue) in keys]
        return sorted((each for each in workloads if each.is_pending), key=lambda each: each.sort_key)

    def _list_admitted(self, cluster_queue: str) -> list[Workload]:
        """Workloads that use the quota of a ClusterQueue, by name."""
        with self._lock:
            workloads = [
                each for each in self._workloads.values() if each.cluster_queue == cluster_queue and each.has_quota
            ]
        return sorted(workloads, key=lambda each: (each.namespace, each.name))

    def _describe(self, workload: Workload) -> QueueWorkload:
        # A workload of another program or platform belongs to no run here. Its usage counts, but it is not named.
        main, usage = self._find_main(workload.job), dict[str, int]()
        for (resource, _), amount in workload.usage.items():
            usage[resource] = usage.get(resource, 0) + amount
        return QueueWorkload(usage=usage) if main is None else QueueWorkload(main.name, main.project_id, usage)


def find_path(api: KubernetesClient, plural: str) -> str:
    """The path of a Kueue resource in the preferred API version. Raises `ApiError` if Kueue is not installed."""
    try:
        group = api.get(f"/apis/{GROUP}")
    except ApiError as error:
        raise ApiError(404, error.reason, NOT_INSTALLED) if error.status == 404 else error from error
    return path_of(group["preferredVersion"]["groupVersion"], plural)


def read_workload(raw: JSON) -> Workload:
    """Read a Workload."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    admission = status.get("admission") or {}
    owners = [owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller")]
    usage: dict[ResourceFlavor, int] = {}
    for part in admission.get("podSetAssignments", ()):
        for resource, amount in part.get("resourceUsage", {}).items():
            flavor = resource, part.get("flavors", {}).get(resource, "")
            usage[flavor] = usage.get(flavor, 0) + Quantity.parse(str(amount)).nanos
    return Workload(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        namespace=meta["namespace"],
        name=meta["name"],
        job=next(iter(owners), ""),
        queue=spec.get("queueName", ""),
        priority=spec.get("priority") or 0,
        created_at=read_time(meta.get("creationTimestamp")) or EARLIEST,
        active=spec.get("active", True),
        conditions=read_conditions(status, CONDITIONS),
        requests=_add_up(part.get("resources", {}) for part in status.get("resourceRequests", ())),
        usage=usage,
        cluster_queue=admission.get("clusterQueue", ""),
        pending_checks=tuple(
            check["name"] for check in status.get("admissionChecks", ()) if check.get("state") != "Ready"
        ),
    )


def read_local_queue(raw: JSON) -> LocalQueue:
    """Read a LocalQueue."""
    meta, spec = raw["metadata"], raw["spec"]
    key = meta["namespace"], meta["name"]
    return LocalQueue(meta["uid"], int(meta["resourceVersion"]), key, spec.get("clusterQueue", ""), _is_stopped(spec))


def read_cluster_queue(raw: JSON) -> ClusterQueue:
    """Read a ClusterQueue."""
    meta, spec = raw["metadata"], raw["spec"]
    active = read_conditions(raw.get("status", {}), CONDITIONS).get(ACTIVE)
    flavors = [flavor for group in spec.get("resourceGroups", ()) for flavor in group["flavors"]]
    return ClusterQueue(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        key=meta["name"],
        cohort=spec.get("cohortName") or spec.get("cohort") or "",  # `cohort` in v1beta1
        quotas={
            (quota["name"], flavor["name"]): Quantity.parse(str(quota["nominalQuota"])).nanos
            for flavor in flavors
            for quota in flavor["resources"]
        },
        stopped=_is_stopped(spec),
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        inactive_message="" if active is None or active.status == "True" else active.message,
    )


def _is_stopped(spec: JSON) -> bool:
    # Both Hold and HoldAndDrain stop the admission of workloads.
    return str(spec.get("stopPolicy") or "None") != "None"


def _add_up(parts: Iterator[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + Quantity.parse(str(amount)).nanos
    return total


def describe_queued(main: MainObject, state: QueueState) -> tuple[str, str]:
    """The reason and message of a queued Job: why it was evicted, if it was, and what it is waiting for."""
    reason, eviction = _describe_eviction(state.workload)
    return reason or QUEUED, "; ".join([*eviction, next(_describe_wait(main, state))])


def _describe_eviction(workload: Workload | None) -> tuple[str, list[str]]:
    if workload is None or not workload.active or not workload.is_true(EVICTED):
        return "", []
    reason, message = workload.conditions[EVICTED].reason, workload.conditions[EVICTED].message
    if reason == PREEMPTED:
        preempted = workload.conditions.get(PREEMPTED)
        return PREEMPTED, [PREEMPTIONS.get("" if preempted is None else preempted.reason, "preempted by another run")]
    return EVICTED, [EVICTIONS.get(reason, f"evicted by Kueue ({message})")]


def _describe_wait(main: MainObject, state: QueueState) -> Iterator[str]:
    """Messages about why a Job is waiting. Only the first one is shown: it is the cause to resolve first."""
    queue, workload, local_queue, cluster_queue = main.queue, state.workload, state.local_queue, state.cluster_queue
    if state.not_installed:
        yield f"waiting in queue {queue}, but Kueue is not installed on the cluster"
    if not state.synced:
        yield f"waiting in queue {queue} of the cluster"
    if local_queue is None:
        missing = f"LocalQueue {queue} does not exist in namespace {main.namespace}"
        yield f"waiting for queue {queue}: {missing}; an administrator must create it"
        return
    name = f"ClusterQueue {local_queue.cluster_queue}"
    if cluster_queue is None:
        yield f"waiting in queue {queue}: its {name} does not exist"
        return
    if workload is not None and not workload.active:
        yield f"waiting in queue {queue}: Workload {workload.name} was deactivated; it will continue when reactivated"
    if local_queue.stopped:
        yield f"waiting in queue {queue}, which is stopped: {STOPPED}"
    if cluster_queue.stopped:
        yield f"waiting in queue {queue}: {name} is stopped; {STOPPED}"
    if cluster_queue.inactive_message:
        yield f"waiting in queue {queue}: {name} is inactive: {cluster_queue.inactive_message}"
    # An evicted Workload keeps its reservation until its pods have ended.
    if workload is not None and workload.is_true(RESERVED) and not workload.is_true(EVICTED):
        checks = ", ".join(workload.pending_checks)
        progress = f", waiting for {checks}" if checks else ", about to start"
        yield f"quota reserved in {name}{'' if workload.is_true(ADMITTED) else progress}"
    if workload is not None:
        yield from _describe_too_large(workload, cluster_queue)
    yield f"waiting in queue {queue} of {name}"


def _describe_too_large(workload: Workload, cluster_queue: ClusterQueue) -> Iterator[str]:
    """Requests that exceed the quota. In a cohort, large requests are not reported: other queues may lend quota."""
    for resource, requested in workload.requests.items():
        quotas = [quota for (name, _), quota in cluster_queue.quotas.items() if name == resource]
        if requested and not quotas:
            name = name_resource(resource, 0)
            yield f"needs {name}, but ClusterQueue {cluster_queue.key} has no quota for {name}: it cannot start"
        # Flavors are alternatives, so the largest quota counts, not the sum.
        elif requested > max(quotas, default=requested) and not cluster_queue.cohort:
            needs = f"needs {describe_amount(resource, requested)} {name_resource(resource, requested)}"
            quota = f"the quota of ClusterQueue {cluster_queue.key} is {describe_amount(resource, max(quotas))}"
            yield f"{needs}, but {quota}: it cannot start unless the quota is increased or it requests less"
