"""GPU requests in pods: whole devices, MIG slices and memory shares, and the scheduler for them."""

from dataclasses import dataclass, field

from fairlead.model.names import PREFIX
from fairlead.model.quantities import GpuMemory, Percent
from fairlead.resolution.drafts import Draft

MEBIBYTE = 2**20
SCHEDULERS = {"kai": "kai-scheduler", "hami": "hami-scheduler"}


@dataclass(frozen=True)
class GpuParts:
    """The parts of a pod manifest that request GPUs."""

    resources: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str | None = None


def render_gpus(draft: Draft) -> GpuParts:
    """The GPU parts of a pod. GPU sharing also selects the scheduler, unless queueing does."""
    cluster, sharing = draft.cluster, draft.cluster.gpu_sharing if draft.devices else "none"
    # A single scheduler must assign all GPUs of a cluster, or two schedulers could assign the same GPU.
    chosen = "kai" if cluster.queueing == "kai" else sharing
    return GpuParts(
        resources=_render_resources(draft) if draft.devices else {},
        annotations=_render_kai(draft) if sharing == "kai" else {},
        # KAI schedules a pod only if it names a queue, even if it uses no GPUs.
        labels={"kai.scheduler/queue": cluster.kai_queue} if chosen == "kai" else {},
        scheduler=SCHEDULERS.get(chosen),
    )


def _render_resources(draft: Draft) -> dict[str, str]:
    cluster, memory = draft.cluster, draft.gpu_memory
    if draft.mig is not None:
        # Resource names cannot contain a plus sign. NVIDIA's device plugin replaces it in the same way.
        return {f"nvidia.com/mig-{draft.mig.replace('+', '.')}": "1"}
    if memory is None:
        return {cluster.gpu_resource: str(draft.devices)}
    if cluster.gpu_sharing == "kai":
        return {}  # KAI rejects pods that request both a device and a share
    if isinstance(memory, Percent):
        return {cluster.gpu_resource: "1", f"{cluster.gpu_resource}mem-percentage": str(memory.value)}
    return {cluster.gpu_resource: "1", f"{cluster.gpu_resource}mem": _mebibytes(memory)}


def _render_kai(draft: Draft) -> dict[str, str]:
    memory, limit = draft.gpu_memory, draft.gpu_memory_limit
    if memory is None:
        return {}
    if isinstance(memory, Percent):
        # KAI schedules by these annotations. The limit is only informational: KAI does not enforce it.
        share = {"gpu-fraction": f"{memory.value / 100:g}"}
    else:
        share = {"gpu-memory": _mebibytes(memory)}
    return share | ({f"{PREFIX}/gpu-memory-limit": str(limit)} if limit is not None else {})


def _mebibytes(memory: GpuMemory) -> str:
    # HAMi and KAI count in MiB. The amount is rounded up, so that the pod gets at least what it requested.
    return str(-(-memory.units // MEBIBYTE))
