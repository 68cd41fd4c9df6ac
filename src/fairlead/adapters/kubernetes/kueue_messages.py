"""Reasons and messages for Jobs that Kueue has not admitted yet.

A message changes only when its cause does. Details that change with every Job are in `KueueQueues.queue_position`.
"""

from collections.abc import Iterator

from fairlead.adapters.kubernetes.kueue import (
    ADMITTED,
    EVICTED,
    PREEMPTED,
    RESERVED,
    ClusterQueue,
    QueueState,
    Workload,
)
from fairlead.adapters.kubernetes.objects import MainObject
from fairlead.scheduling.reasons import describe_amount, name_resource

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
