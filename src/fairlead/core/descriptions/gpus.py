"""Descriptions of GPUs: whole devices, part of a device, or none."""

from collections.abc import Iterator, Mapping

from fairlead.core.descriptions.amounts import describe_unset, format_size
from fairlead.core.descriptions.facts import Facts, describe_source, format_list
from fairlead.model.plans import Sentence
from fairlead.model.quantities import GpuMemory, Percent
from fairlead.model.resources import WHOLE_DEVICE
from fairlead.model.scopes import Cluster

PATH = "resources.gpu"
MEMORY = f"{PATH}.memory"
FRACTIONS: Mapping[int, str] = {25: "a quarter", 50: "half", 75: "three quarters"}

Memory = Percent | GpuMemory


def describe_gpus(facts: Facts) -> Iterator[Sentence]:
    """The GPUs of each pod."""
    devices = facts.value(f"{PATH}.devices")
    if devices is None:
        yield from describe_unset(facts, PATH, "GPUs are", "pods get none")
        return
    memory, kind = facts.value(f"{MEMORY}.request"), facts.value(f"{PATH}.type")
    of_type = f" of type {kind}" if kind is not None else ""
    if devices == 0:
        yield Sentence(PATH, "gets", "No GPU.")
    elif facts.value(f"{PATH}.mig") is not None:
        yield from _describe_mig(facts, of_type)
    elif memory is None or memory == WHOLE_DEVICE:
        yield Sentence(PATH, "gets", f"{devices} whole GPU{'s' if devices > 1 else ''}{of_type} per pod.")
    else:
        yield from _describe_share(facts, memory, of_type)
    if kind is not None and facts.cluster is not None:
        yield Sentence(f"{PATH}.type", "note", _describe_type(kind, facts.cluster))
    yield from describe_source(facts, PATH, facts.settings[f"{PATH}.devices"])


def _describe_type(kind: str, cluster: Cluster) -> str:
    products = cluster.gpu_types.get(kind)
    if products is None:
        return f"Only on nodes with label {cluster.gpu_product_label}={kind}."
    return f"Only on nodes with {format_list(products, 'or')} (GPU type {kind})."


def _describe_mig(facts: Facts, of_type: str) -> Iterator[Sentence]:
    path, cluster = f"{PATH}.mig", facts.cluster
    if cluster is not None and (facts.is_local or not cluster.gpu_resource.startswith("nvidia.com/")):
        yield Sentence(path, "note", "The cluster does not support MIG and rejects the run.")
        return
    yield Sentence(path, "gets", f"One dedicated {facts.value(path)} MIG slice of a GPU{of_type} per pod.")


def _describe_share(facts: Facts, memory: Memory, of_type: str) -> Iterator[Sentence]:
    limit = facts.value(f"{MEMORY}.limit")
    limit = None if limit == memory else limit  # an equal limit adds nothing to the request
    sharing = None if facts.cluster is None else facts.cluster.gpu_sharing
    fraction = f"{_describe_fraction(memory)} of the memory of one GPU{of_type} per pod"
    if sharing == "none":
        yield Sentence(MEMORY, "note", "The cluster has only whole GPUs and rejects requests for part of one.")
    elif sharing == "hami" and limit is not None:
        text = f"The cluster enforces the request as the limit and rejects the limit of {_format_memory(limit)}."
        yield Sentence(f"{MEMORY}.limit", "note", text)
    elif sharing == "hami":
        # HAMi intercepts GPU memory allocations, so a program cannot use more than its share.
        yield Sentence(MEMORY, "gets", f"Exactly {fraction}.")
        yield Sentence(MEMORY, "risk", f"Above {_format_memory(memory)} the program runs out of GPU memory.")
    else:
        up_to = "" if limit is None else f", up to {_format_memory(limit)} if free"
        yield Sentence(MEMORY, "gets", f"{fraction[:1].upper()}{fraction[1:]}{up_to}.")
        # KAI uses GPU memory only for scheduling. Programs on the same GPU are not isolated from each other.
        yield from _describe_risk(memory, limit, enforced=sharing != "kai")


def _describe_risk(memory: Memory, limit: Memory | None, *, enforced: bool) -> Iterator[Sentence]:
    grows = f"the risk grows with usage above {_format_memory(memory)}"
    if not enforced:
        bounds = "share" if limit is None else "request and limit"
        text = f"The cluster does not enforce the {bounds}: pods on the same GPU may run out of GPU memory; {grows}."
        yield Sentence(MEMORY, "risk", text)
    elif limit is not None:
        yield Sentence(MEMORY, "risk", f"May be killed if another pod needs the GPU memory; {grows}.")


def _describe_fraction(memory: Memory) -> str:
    fraction = FRACTIONS.get(memory.value) if isinstance(memory, Percent) else None
    return _format_memory(memory) if fraction is None else f"{fraction} ({memory})"


def _format_memory(memory: Memory) -> str:
    return str(memory) if isinstance(memory, Percent) else format_size(memory)
