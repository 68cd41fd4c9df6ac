"""Why Kueue holds a Job: a reason, and a sentence that stays the same for as long as the cause does.

What changes with each Job that comes or goes is told when somebody asks: `Queues.stand`.
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
from fairlead.core.fitting.formatting import describe_amount, name_resource

QUEUED = "Queued"
HELD = "nothing goes on there until that is taken back"
# Why it had to let go of its quota, as Kueue calls it.
EVICTIONS = {
    "PodsReadyTimeout": "its pods were not ready in time",
    "AdmissionCheck": "a check of its queue no longer lets it go on",
    "ClusterQueueStopped": "its queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "its nodes have failed",
}
PREEMPTIONS = {
    "InClusterQueue": "it made room for one with a higher priority",
    "InCohortReclamation": "another queue took back the quota that it had lent",
    "InCohortFairSharing": "another queue of its cohort was due more",
    "InCohortReclaimWhileBorrowing": "another queue took back the quota that it had lent",
}


def describe_queued(main: MainObject, held: QueueState) -> tuple[str, str]:
    """Why a Job is held. What it had to leave is told first, then what it waits for."""
    evicted, why = _describe_evicted(held.workload)
    return evicted or QUEUED, "; ".join([*why, next(_describe_wait(main, held))])


def _describe_evicted(workload: Workload | None) -> tuple[str, list[str]]:
    if workload is None or not workload.active or not workload.is_true(EVICTED):
        return "", []
    reason, message = workload.conditions[EVICTED].reason, workload.conditions[EVICTED].message
    if reason == PREEMPTED:
        preempted = workload.conditions.get(PREEMPTED)
        return PREEMPTED, [PREEMPTIONS.get("" if preempted is None else preempted.reason, "it made room for another")]
    return EVICTED, [EVICTIONS.get(reason, f"Kueue has ended it ({message})")]


def _describe_wait(main: MainObject, held: QueueState) -> Iterator[str]:
    """What it waits for: the first of these is nearest to its suggestion."""
    queue, workload, local, pool = f"queue {main.queue}", held.workload, held.local, held.pool
    if held.absent:
        yield f"waits in {queue} of Kueue, which is not on the cluster: somebody has to install it"
    if not held.seen:
        yield f"waits in {queue} of the cluster"
    if local is None:
        mend = f"it goes on once an administrator makes LocalQueue {main.queue} there"
        yield f"waits for {queue}, which is not in namespace {main.namespace}: {mend}"
        return
    named = f"ClusterQueue {local.cluster_queue}"
    if pool is None:
        yield f"waits in {queue}, which leads to {named}, and that is not there"
        return
    if workload is not None and not workload.active:
        yield f"waits in {queue}: Workload {workload.name} was deactivated, and goes on once it is active again"
    if local.stopped:
        yield f"waits in {queue}, which is stopped: {HELD}"
    if pool.stopped:
        yield f"waits in {queue}: {named} is stopped, and {HELD}"
    if pool.trouble:
        yield f"waits in {queue}: {named} lets nothing go: {pool.trouble}"
    if workload is not None and workload.is_true(RESERVED) and not workload.is_true(EVICTED):
        checks = f", and waits for {', '.join(workload.checks)}" if workload.checks else ", and is about to start"
        yield f"has what it asks for in {named}{'' if workload.is_true(ADMITTED) else checks}"
    if workload is not None:
        yield from _describe_too_large(workload, pool)
    yield f"waits in {queue}, which leads to {named}"


def _describe_too_large(workload: Workload, pool: ClusterQueue) -> Iterator[str]:
    """Whether it asks for more than there ever is. What others of a cohort could lend is not known here."""
    for resource, asked in workload.asks.items():
        quotas = [quota for (kind, _), quota in pool.quotas.items() if kind == resource]
        if asked and not quotas:
            mend = "it never goes on unless that is given one"
            yield f"asks for {name_resource(resource, 0)}, of which ClusterQueue {pool.key} has no quota: {mend}"
        elif asked > max(quotas, default=asked) and not pool.cohort:
            asks = f"asks for {describe_amount(resource, asked)} {name_resource(resource, asked)}"
            most = f"ClusterQueue {pool.key} has a quota of {describe_amount(resource, max(quotas))}"
            yield f"{asks}, and {most}: it never goes on unless that grows, or it asks for less"
