"""How each kind of cluster is asked for GPUs: whole devices, MIG slices, and shares of memory; and by whom it is."""

from dataclasses import dataclass, field

from fairlead.core.drafts import Draft
from fairlead.core.manifests.names import PREFIX
from fairlead.model.quantities import GpuMemory, Percent

MEBIBYTE = 2**20
SCHEDULERS = {"kai": "kai-scheduler", "hami": "hami-scheduler"}


@dataclass(frozen=True)
class GpuParts:
    """What a pod says to get its GPUs."""

    resources: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str | None = None


def render_gpus(draft: Draft) -> GpuParts:
    """The parts of a pod that concern GPUs, and its scheduler, which they choose where the queue does not."""
    cluster, sharing = draft.cluster, draft.cluster.gpu_sharing if draft.devices else "none"
    # One scheduler decides about the GPUs of a cluster, whole ones included, or two would give the same one away.
    chosen = "kai" if cluster.queueing == "kai" else sharing
    return GpuParts(
        resources=_render_resources(draft) if draft.devices else {},
        annotations=_render_kai(draft) if sharing == "kai" else {},
        labels={"kai.scheduler/queue": cluster.kai_queue} if chosen == "kai" else {},
        scheduler=SCHEDULERS.get(chosen),
    )


def _render_resources(draft: Draft) -> dict[str, str]:
    cluster, memory = draft.cluster, draft.gpu_memory
    if draft.mig is not None:
        return {f"nvidia.com/mig-{draft.mig.replace('+', '.')}": "1"}
    if memory is None:
        return {cluster.gpu_resource: str(draft.devices)}
    if cluster.gpu_sharing == "kai":
        return {}  # KAI refuses a share beside a device
    if isinstance(memory, Percent):
        return {cluster.gpu_resource: "1", f"{cluster.gpu_resource}mem-percentage": str(memory.value)}
    return {cluster.gpu_resource: "1", f"{cluster.gpu_resource}mem": _mebibytes(memory)}


def _render_kai(draft: Draft) -> dict[str, str]:
    memory, limit = draft.gpu_memory, draft.gpu_memory_limit
    if memory is None:
        return {}
    if isinstance(memory, Percent):
        share = {"gpu-fraction": f"{memory.value / 100:g}"}
    else:
        share = {"gpu-memory": _mebibytes(memory)}
    return share | ({f"{PREFIX}/gpu-memory-limit": str(limit)} if limit is not None else {})


def _mebibytes(memory: GpuMemory) -> str:
    return str(-(-memory.whole // MEBIBYTE))
