"""GPUs of a pod, and what becomes of one that uses more of them than it was promised: clusters differ."""

from collections.abc import Iterator, Mapping

from fairlead.core.descriptions.amounts import describe_open
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
    """Whole devices, a part of one, or none."""
    devices = facts.value(f"{PATH}.devices")
    if devices is None:
        yield from describe_open(facts, PATH, "GPUs are", "a pod gets none")
        return
    memory, kind = facts.value(f"{MEMORY}.request"), facts.value(f"{PATH}.type")
    of_type = f" of type {kind}" if kind is not None else ""
    if devices == 0:
        yield Sentence(PATH, "gets", "No GPU: the pod asks for none and is given none.")
    elif facts.value(f"{PATH}.mig") is not None:
        yield from _describe_mig(facts, of_type)
    elif memory is None or memory == WHOLE_DEVICE:
        yield Sentence(PATH, "gets", f"Each pod gets {devices} whole GPU{'s' if devices > 1 else ''}{of_type}.")
    else:
        yield from _describe_share(facts, memory, of_type)
    if kind is not None and facts.cluster is not None:
        yield Sentence(f"{PATH}.type", "note", _describe_type(kind, facts.cluster))
    yield from describe_source(facts, PATH, facts.settings[f"{PATH}.devices"])


def _describe_type(kind: str, cluster: Cluster) -> str:
    products = cluster.gpu_types.get(kind)
    if products is None:
        return f"Only on nodes labeled {cluster.gpu_product_label}={kind}."
    return f"GPUs of type {kind} are {format_list(products, 'or')}: only on nodes that have one of these."


def _describe_mig(facts: Facts, of_type: str) -> Iterator[Sentence]:
    path, cluster = f"{PATH}.mig", facts.cluster
    if cluster is not None and (facts.is_local or not cluster.gpu_resource.startswith("nvidia.com/")):
        yield Sentence(path, "note", "The cluster has no MIG slices, and refuses such a run.")
        return
    yield Sentence(path, "gets", f"Each pod gets one {facts.value(path)} slice (MIG) of a GPU{of_type}, for itself.")


def _describe_share(facts: Facts, memory: Memory, of_type: str) -> Iterator[Sentence]:
    limit = facts.value(f"{MEMORY}.limit")
    limit = None if limit == memory else limit
    sharing = None if facts.cluster is None else facts.cluster.gpu_sharing
    part = f"{_say(memory)} of the memory of one GPU{of_type}"
    if sharing == "none":
        yield Sentence(MEMORY, "note", "The cluster has only whole GPUs, and refuses a run that asks for a part.")
    elif sharing == "hami" and limit is not None:
        text = f"The cluster gives exactly the request, and refuses a run with the limit {limit}."
        yield Sentence(f"{MEMORY}.limit", "note", text)
    elif sharing == "hami":
        yield Sentence(MEMORY, "gets", f"Each pod gets exactly {part}.")
        yield Sentence(MEMORY, "risk", f"Over {memory} the program fails: it finds no more GPU memory.")
    else:
        more = "" if limit is None else f", and may use up to {limit} while the rest is free"
        yield Sentence(MEMORY, "gets", f"Each pod gets {part}{more}.")
        yield from _describe_risk(memory, limit, enforced=sharing != "kai")


def _describe_risk(memory: Memory, limit: Memory | None, *, enforced: bool) -> Iterator[Sentence]:
    if not enforced:
        bounds = "share" if limit is None else "request or limit"
        text = (
            f"The cluster holds no pod to its {bounds}: over {memory}, this pod or another on the same GPU may fail "
            "for lack of GPU memory; the further over, the likelier."
        )
        yield Sentence(MEMORY, "risk", text)
    elif limit is not None:
        text = f"Over {memory} the pod may be killed when another needs that memory; the further over, the likelier."
        yield Sentence(MEMORY, "risk", text)


def _say(memory: Memory) -> str:
    fraction = FRACTIONS.get(memory.value) if isinstance(memory, Percent) else None
    return str(memory) if fraction is None else f"{fraction} ({memory})"
