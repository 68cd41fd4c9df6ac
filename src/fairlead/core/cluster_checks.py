"""What a cluster can do and allows: what it does not is told before a run is kept."""

import difflib
from collections.abc import Iterator, Sequence

from fairlead.core.drafts import Draft
from fairlead.model.plans import Source, Violation
from fairlead.model.volumes import SIZED


def check_gpu_sharing(draft: Draft) -> Iterator[Violation]:
    """A cluster can only deal out the parts of GPUs that it knows how to schedule."""
    memory, limit, cluster = draft.gpu_memory, draft.gpu_memory_limit, draft.cluster
    elsewhere = [name for name in draft.snapshot.sharing_clusters if name != cluster.name]
    other = f"run it on cluster {' or '.join(elsewhere)}" if elsewhere else "say the cluster's gpu_sharing: kai or hami"
    other += ", or ask for a whole device: gpu: 1"
    if memory is not None and cluster.gpu_sharing == "none":
        message = f"asks for {memory} of a GPU's memory; cluster {cluster.name} has only whole GPUs (gpu_sharing: none)"
        yield Violation("resources.gpu.memory", "gpu_sharing", message, other)
    elif limit is not None and limit != memory and cluster.gpu_sharing == "hami":
        message = f"limit {limit} is over the request {memory}; cluster {cluster.name} (hami) gives exactly the request"
        yield Violation("resources.gpu.memory.limit", "gpu_sharing", message, f"set it to {memory}")
    if draft.mig is not None and not cluster.gpu_resource.startswith("nvidia.com/"):
        message = f"asks for MIG slice {draft.mig}; cluster {cluster.name} has {cluster.gpu_resource}"
        yield Violation("resources.gpu.mig", "gpu_sharing", message, "MIG is for NVIDIA GPUs: ask for a whole device")


def check_storage_classes(draft: Draft) -> Iterator[Violation]:
    """Claims name the storage classes that the cluster allows; who names none gets its usual one."""
    allowed = draft.cluster.storage_classes
    for name, parts in draft.resolution.named("volumes").items():
        found = parts.get("spec.storage_class")
        if allowed is not None and found is not None and parts["volume_type"] in SIZED and found not in allowed:
            path = f"volumes.{name}.spec.storage_class"
            setting = draft.resolution.setting("volumes", name, "spec.storage_class")
            yield _refuse(draft, path, "storage_classes", found, allowed, setting.source if setting else None)


def check_runtime_class(draft: Draft) -> Iterator[Violation]:
    """A runtime class is one that the cluster allows."""
    allowed, setting = draft.cluster.runtime_classes, draft.resolution.setting("runtime_class")
    if allowed is not None and setting is not None and setting.value is not None and setting.value not in allowed:
        yield _refuse(draft, "runtime_class", "runtime_classes", setting.value, allowed, setting.source)


def _refuse(draft: Draft, path: str, rule: str, found: str, allowed: Sequence[str], source: Source | None) -> Violation:
    """That a class is not among those of the cluster, which are told, the most similar first."""
    noun = rule.removesuffix("es").replace("_", " ")
    known = sorted(allowed, key=lambda name: (-difflib.SequenceMatcher(None, name, found).ratio(), name))
    message = f"asks for {noun} {found}; cluster {draft.cluster.name} allows {', '.join(known) or 'none'}"
    return Violation(path, rule, message, f"set it to {known[0]}" if known else "leave it out", source)
