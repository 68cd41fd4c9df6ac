"""Descriptions of a run's position in its cluster queue: quota usage and the workloads ahead."""

from collections.abc import Callable, Iterator, Sequence

from fairlead.model.nodes import QueuePosition, QueueWorkload, QuotaUsage
from fairlead.scheduling.reasons import describe_amount, name_resource

MAX_NAMED = 5

IsVisible = Callable[[str], bool]  # whether the caller may see the runs of a project


def describe_queue_position(queue_position: QueuePosition, is_visible: IsVisible) -> Iterator[str]:
    """Sentences about a queue position, with the names of runs that the caller may see."""
    for resource, requested in queue_position.requests.items():
        quotas = [quota for quota in queue_position.quotas if quota.resource == resource]
        # Flavors are alternatives: a workload waits only if none of them has enough.
        if quotas and all(requested > quota.quota - quota.used for quota in quotas):
            yield _describe_quotas(queue_position, requested, quotas)
            if users := [workload for workload in queue_position.admitted if workload.usage.get(resource)]:
                yield f"{name_resource(resource, 0)} in use by {_describe_workloads(users, is_visible, resource)}"
    if queue_position.pending:
        yield _describe_position(queue_position, is_visible)
    if queue_position.message:
        yield f"Kueue reports: {queue_position.message}"
    if queue_position.unavailable:
        yield f"the queue cannot be read: {queue_position.unavailable}"


def _describe_quotas(queue_position: QueuePosition, requested: int, quotas: Sequence[QuotaUsage]) -> str:
    resource = quotas[0].resource
    needs = f"needs {describe_amount(resource, requested)} {name_resource(resource, requested)}"
    counts = [
        f"{describe_amount(resource, quota.used)} of {describe_amount(resource, quota.quota)}" for quota in quotas
    ]
    in_use = counts[0]
    if len(quotas) > 1:
        in_use = ", ".join(f"{count} (flavor {quota.flavor})" for count, quota in zip(counts, quotas, strict=True))
    cohort = f"; unused quota is shared with cohort {queue_position.cohort}" if queue_position.cohort else ""
    return f"{needs}; {in_use} in use in {queue_position.pool}{cohort}"


def _describe_position(queue_position: QueuePosition, is_visible: IsVisible) -> str:
    position = f"position {len(queue_position.ahead) + 1} in {queue_position.pool}"
    if not queue_position.ahead:
        return position
    # With BestEffortFIFO, Kueue skips workloads that do not fit.
    rule = "" if queue_position.strict else "; workloads that fit may start earlier"
    return f"{position}, behind {_describe_workloads(queue_position.ahead, is_visible)}{rule}"


def _describe_workloads(workloads: Sequence[QueueWorkload], is_visible: IsVisible, resource: str | None = None) -> str:
    """The names of visible workloads and the number of others, with their usage of a resource."""
    # The names of other runs could reveal what another team is working on, so those runs are only counted.
    visible = [workload for workload in workloads if workload.project_id and is_visible(workload.project_id)][
        :MAX_NAMED
    ]
    parts = [f"run {workload.name}{_describe_usage([workload], resource)}" for workload in visible]
    others = [workload for workload in workloads if workload not in visible]
    if others:
        noun = f"{len(others)} more" if visible else f"{len(others)} other workload{'s' * (len(others) > 1)}"
        parts.append(noun + _describe_usage(others, resource))
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _describe_usage(workloads: Sequence[QueueWorkload], resource: str | None) -> str:
    if resource is None:
        return ""
    return f" ({describe_amount(resource, sum(workload.usage.get(resource, 0) for workload in workloads))})"
