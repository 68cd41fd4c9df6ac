"""The queues of Kueue, as far as the cluster tells of them: what is in them, in which order, and who holds what."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.adapters.kubernetes.objects import MainObject, ObjectCondition, read_conditions, read_time
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.model.observations import JSON
from fairlead.model.quantities import Quantity
from fairlead.model.queues import QueuePosition, QueueWorkload, QuotaUsage

GROUP = "kueue.x-k8s.io"
ABSENT = "Kueue is not there"
RESERVED, ADMITTED, EVICTED, PREEMPTED, FINISHED, ACTIVE = (
    *("QuotaReserved", "Admitted", "Evicted", "Preempted", "Finished", "Active"),
)
TOLD = {RESERVED, ADMITTED, EVICTED, PREEMPTED, FINISHED, ACTIVE}
BACK_OF_THE_LINE = ("PodsReadyTimeout", "AdmissionCheck")  # evicted so, it waits as if it had come then
EARLIEST = datetime.min.replace(tzinfo=UTC)

ResourceFlavor = tuple[str, str]  # a resource, and a flavor of it


@dataclass(frozen=True, slots=True)
class Workload:
    """What Kueue knows of a Job: what it asks for, and what it holds."""

    uid: str
    version: int
    namespace: str
    name: str
    job: str  # the uid of its owner
    queue: str
    priority: int
    created_at: datetime
    active: bool
    conditions: Mapping[str, ObjectCondition]
    asks: Mapping[str, int]
    holds: Mapping[ResourceFlavor, int]
    pool: str  # that it holds something of
    checks: tuple[str, ...]  # that are still to be passed

    def is_true(self, name: str) -> bool:
        """Whether a condition is true of it."""
        return name in self.conditions and self.conditions[name].status == "True"

    @property
    def is_pending(self) -> bool:
        """Whether it waits for quota."""
        return self.active and not self.is_true(RESERVED) and not self.is_true(FINISHED)

    @property
    def is_holding(self) -> bool:
        """Whether it has quota."""
        return self.is_true(RESERVED) and not self.is_true(FINISHED)

    @property
    def sort_key(self) -> tuple[int, datetime, str]:
        """What puts it before others, as Kueue orders them: the smallest is the first."""
        evicted = self.conditions.get(EVICTED)
        late = evicted is not None and self.is_true(EVICTED) and evicted.reason in BACK_OF_THE_LINE
        since = evicted.since if late and evicted is not None else None
        return -self.priority, since or self.created_at, self.uid


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """A queue in a namespace."""

    uid: str
    version: int
    key: tuple[str, str]
    cluster_queue: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue: whose quota it is that queues of namespaces lead to."""

    uid: str
    version: int
    key: str
    cohort: str
    quotas: Mapping[ResourceFlavor, int]
    stopped: bool
    strict: bool
    trouble: str  # why it lets nothing go, though nobody has stopped it


class QueueState(NamedTuple):
    """A Job that Kueue holds, with what is known of its queue. None: it is not there, or was not seen yet."""

    workload: Workload | None
    local: LocalQueue | None
    pool: ClusterQueue | None
    seen: bool  # all queues have been seen
    absent: bool  # Kueue itself is not there


class KueueQueues:
    """All of them, by watches that need not work: where something may not be seen, less is told."""

    def __init__(self, api: ApiClient, notify: Callable[[str], None], who: Callable[[str], MainObject | None]) -> None:
        self._notify, self._who = notify, who  # whoever has a Job of this uid is told, or named
        self._lock = threading.RLock()
        self._workloads: dict[str, Workload] = {}
        self._of_jobs: dict[str, Workload] = {}
        self._locals: dict[tuple[str, str], LocalQueue] = {}
        self._pools: dict[str, ClusterQueue] = {}
        watch: Any = partial(Reflector, api)
        self.reflectors: list[Reflector[Any]] = [
            watch(partial(find_path, api, "workloads"), read_workload, self.on_workload_change),
            watch(partial(find_path, api, "localqueues"), read_local_queue, partial(self._hear, self._locals)),
            watch(partial(find_path, api, "clusterqueues"), read_cluster_queue, partial(self._hear, self._pools)),
        ]
        for reflector in self.reflectors:
            reflector.on_list = self._notify_waiting  # what was told before all was seen was not all there is to tell

    def find(self, main: MainObject) -> QueueState:
        """What holds a Job, as far as it is known."""
        with self._lock:
            local = self._locals.get((main.namespace, main.queue))
            pool = None if local is None else self._pools.get(local.cluster_queue)
            workload = self._of_jobs.get(main.uid)
        seen = all(each.ready.is_set() for each in self.reflectors)
        return QueueState(workload, local, pool, seen, any(each.trouble == ABSENT for each in self.reflectors))

    def queue_position(self, main: MainObject) -> QueuePosition:
        """Where a Job stands in its queue at this moment, with who is before it and who holds the quota."""
        held = self.find(main)
        blind = next((each.trouble for each in self.reflectors if each.trouble), "")
        if held.local is None:
            return QueuePosition(unavailable=blind)
        named = f"ClusterQueue {held.local.cluster_queue}"
        if held.pool is None:
            return QueuePosition(named, unavailable=blind)
        own, holding = held.workload, self._holding(held.pool.key)
        waits = own is not None and own.is_pending
        ahead = [
            each for each in self._waiting(held.pool.key) if own is not None and waits and each.sort_key < own.sort_key
        ]
        reserved = None if own is None else own.conditions.get(RESERVED)
        return QueuePosition(
            named,
            held.pool.cohort,
            held.pool.strict,
            {} if own is None else own.asks,
            tuple(
                QuotaUsage(*kind, quota, sum(each.holds.get(kind, 0) for each in holding))
                for kind, quota in held.pool.quotas.items()
            ),
            tuple(map(self._name, ahead)),
            tuple(map(self._name, holding)),
            pending=waits,
            message=reserved.message if reserved is not None and reserved.status == "False" else "",
            unavailable=blind,
        )

    def on_workload_change(self, before: Workload | None, after: Workload | None) -> None:
        """A Workload is new, changed or gone."""
        known = after or before
        assert known is not None
        with self._lock:
            if after is not None:
                self._workloads[after.uid] = self._of_jobs[after.job] = after
            else:
                self._workloads.pop(known.uid, None)
                if self._of_jobs.get(known.job) is before:  # not one that was made anew since
                    del self._of_jobs[known.job]
        self._notify(known.job)

    def _hear(self, kept: dict[Any, Any], before: Any, after: Any) -> None:
        """A queue is new, changed or gone: whoever may wait in it is told."""
        known: Any = after or before
        with self._lock:
            if after is not None:
                kept[known.key] = after
            elif kept.get(known.key) is before:  # not one that was made anew since
                del kept[known.key]
        self._notify_waiting()

    def _notify_waiting(self) -> None:
        with self._lock:
            waiting = [each.job for each in self._workloads.values() if each.is_pending or not each.active]
        for job in waiting:
            self._notify(job)

    def _waiting(self, pool: str) -> list[Workload]:
        """Those that wait for the quota of a pool, through whichever queue, the first in line first."""
        with self._lock:
            leading = {key for key, local in self._locals.items() if local.cluster_queue == pool}
            found = [each for each in self._workloads.values() if (each.namespace, each.queue) in leading]
        return sorted((each for each in found if each.is_pending), key=lambda each: each.sort_key)

    def _holding(self, pool: str) -> list[Workload]:
        """Those that hold some of it, by name."""
        with self._lock:
            found = [each for each in self._workloads.values() if each.pool == pool and each.is_holding]
        return sorted(found, key=lambda each: (each.namespace, each.name))

    def _name(self, workload: Workload) -> QueueWorkload:
        main, holds = self._who(workload.job), dict[str, int]()
        for (resource, _), amount in workload.holds.items():
            holds[resource] = holds.get(resource, 0) + amount
        return QueueWorkload(usage=holds) if main is None else QueueWorkload(main.name, main.project, holds)


def find_path(api: ApiClient, plural: str) -> str:
    """Where the objects of a kind are, in the version that the cluster prefers. Raise `Refused` where Kueue is not."""
    try:
        group = api.get(f"/apis/{GROUP}")
    except ApiError as refused:
        raise ApiError(404, refused.reason, ABSENT) if refused.status == 404 else refused from refused
    return path_of(group["preferredVersion"]["groupVersion"], plural)


def read_workload(raw: JSON) -> Workload:
    """A Workload."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    admission = status.get("admission") or {}
    owners = [owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller")]
    holds: dict[ResourceFlavor, int] = {}
    for part in admission.get("podSetAssignments", ()):
        for resource, amount in part.get("resourceUsage", {}).items():
            kind = resource, part.get("flavors", {}).get(resource, "")
            holds[kind] = holds.get(kind, 0) + Quantity.parse(str(amount)).nanos
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
        conditions=read_conditions(status, TOLD),
        asks=_add_up(part.get("resources", {}) for part in status.get("resourceRequests", ())),
        holds=holds,
        pool=admission.get("clusterQueue", ""),
        checks=tuple(check["name"] for check in status.get("admissionChecks", ()) if check.get("state") != "Ready"),
    )


def read_local_queue(raw: JSON) -> LocalQueue:
    """A LocalQueue."""
    meta, spec = raw["metadata"], raw["spec"]
    key = meta["namespace"], meta["name"]
    return LocalQueue(meta["uid"], int(meta["resourceVersion"]), key, spec.get("clusterQueue", ""), _is_stopped(spec))


def read_cluster_queue(raw: JSON) -> ClusterQueue:
    """A ClusterQueue."""
    meta, spec = raw["metadata"], raw["spec"]
    active = read_conditions(raw.get("status", {}), TOLD).get(ACTIVE)
    flavors = [flavor for group in spec.get("resourceGroups", ()) for flavor in group["flavors"]]
    return ClusterQueue(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        key=meta["name"],
        cohort=spec.get("cohortName") or spec.get("cohort") or "",
        quotas={
            (quota["name"], flavor["name"]): Quantity.parse(str(quota["nominalQuota"])).nanos
            for flavor in flavors
            for quota in flavor["resources"]
        },
        stopped=_is_stopped(spec),
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        trouble="" if active is None or active.status == "True" else active.message,
    )


def _is_stopped(spec: JSON) -> bool:
    return str(spec.get("stopPolicy") or "None") != "None"


def _add_up(parts: Iterator[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + Quantity.parse(str(amount)).nanos
    return total
