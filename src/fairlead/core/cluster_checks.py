"""Checks that the cluster supports a request."""

import difflib
from collections.abc import Iterator, Sequence

from fairlead.model.plans import Source, Violation
from fairlead.model.resources import SIZED
from fairlead.resolution.drafts import Draft


def check_gpu_sharing(draft: Draft) -> Iterator[Violation]:
    """Requests for part of a GPU need a cluster with GPU sharing or MIG."""
    memory, limit, cluster = draft.gpu_memory, draft.gpu_memory_limit, draft.cluster
    others = [name for name in draft.snapshot.sharing_clusters if name != cluster.name]
    hint = f"use cluster {' or '.join(others)}" if others else "set the cluster's gpu_sharing to kai or hami"
    hint += ", or request a whole GPU"
    if memory is not None and cluster.gpu_sharing == "none":
        message = f"{memory} of a GPU requested; cluster {cluster.name} has only whole GPUs (gpu_sharing: none)"
        yield Violation("resources.gpu.memory", "gpu_sharing", message, hint)
    elif limit is not None and limit != memory and cluster.gpu_sharing == "hami":
        # The limit is rejected, not ignored: the program would fail as soon as it uses more than its request.
        message = (
            f"limit {limit} exceeds the request {memory}; "
            f"cluster {cluster.name} (hami) enforces the request as the limit"
        )
        yield Violation("resources.gpu.memory.limit", "gpu_sharing", message, f"set the limit to {memory}")
    if draft.mig is not None and not cluster.gpu_resource.startswith("nvidia.com/"):
        message = f"MIG profile {draft.mig} requested; cluster {cluster.name} has {cluster.gpu_resource}"
        yield Violation("resources.gpu.mig", "gpu_sharing", message, "request a whole GPU; MIG needs NVIDIA GPUs")


def check_storage_classes(draft: Draft) -> Iterator[Violation]:
    """A claim's storage class must be allowed in the cluster. A claim without one gets the cluster default."""
    allowed = draft.cluster.storage_classes
    for name, parts in draft.resolution.named("volumes").items():
        requested = parts.get("spec.storage_class")
        if allowed is not None and requested is not None and parts["volume_type"] in SIZED and requested not in allowed:
            path = f"volumes.{name}.spec.storage_class"
            setting = draft.resolution.setting("volumes", name, "spec.storage_class")
            yield _reject(draft, path, "storage_classes", requested, allowed, setting.source if setting else None)


def check_runtime_class(draft: Draft) -> Iterator[Violation]:
    """The runtime class must be allowed in the cluster."""
    allowed, setting = draft.cluster.runtime_classes, draft.resolution.setting("runtime_class")
    if allowed is not None and setting is not None and setting.value is not None and setting.value not in allowed:
        yield _reject(draft, "runtime_class", "runtime_classes", setting.value, allowed, setting.source)


def _reject(
    draft: Draft, path: str, rule: str, requested: str, allowed: Sequence[str], source: Source | None
) -> Violation:
    """The violation for a class that the cluster does not allow. It lists the allowed classes, most similar first."""
    noun = rule.removesuffix("es").replace("_", " ")
    known = sorted(allowed, key=lambda name: (-difflib.SequenceMatcher(None, name, requested).ratio(), name))
    message = f"{noun} {requested} requested; cluster {draft.cluster.name} allows {', '.join(known) or 'none'}"
    return Violation(path, rule, message, f"set it to {known[0]}" if known else "remove it", source)
