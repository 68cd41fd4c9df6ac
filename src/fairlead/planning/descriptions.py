"""Describes plans in sentences: what each pod gets, where it may run and what may stop it, on each cluster."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Any

from fairlead.model.plans import Layer, Plan, Sentence, Setting, Source
from fairlead.model.quantities import BINARY_SUFFIXES, MILLICORE, NANOS, GpuMemory, Percent, Quantity
from fairlead.model.resources import WHOLE_DEVICE
from fairlead.model.scopes import Cluster
from fairlead.resolution.layers import REQUIRED, REQUIRED_NODES
from fairlead.resolution.policy_merging import EffectiveRule
from fairlead.scheduling.reasons import format_list

EXTENDED = "resources.extended"

Parts = Mapping[str, Any]

GPU_PATH = "resources.gpu"
GPU_MEMORY_PATH = f"{GPU_PATH}.memory"
FRACTIONS: Mapping[int, str] = {25: "a quarter", 50: "half", 75: "three quarters"}

Memory = Percent | GpuMemory

MAX_TERMS = 3
AFFINITY_PHRASES: Mapping[tuple[str, bool], str] = {
    ("podAffinity", True): "Only near",
    ("podAffinity", False): "Preferably near",
    ("podAntiAffinity", True): "Never near",
    ("podAntiAffinity", False): "Preferably not near",
}
CLASSES: Mapping[str, str] = {
    "runtime_class": "Runtime class {} (must exist in the cluster).",
    "priority_class": "Priority class {} of the cluster, which determines scheduling order and preemption.",
}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Facts:
    """The facts about one plan. `cluster` is None if the run has no cluster yet."""

    settings: Mapping[str, Setting]
    cluster: Cluster | None
    own: Layer  # the layer of the described object; its values need no source
    rules: Mapping[str, EffectiveRule] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the run uses the local executor, without Kubernetes."""
        return self.cluster is not None and self.cluster.executor == "local"

    def value(self, path: str) -> Any:
        """The resolved value at a path, or None."""
        setting = self.settings.get(path)
        return None if setting is None else setting.value

    def section(self, section: str) -> dict[str, Setting]:
        """The settings in a section, keyed by the rest of the path, without enforced settings."""
        return {
            path.removeprefix(f"{section}."): setting
            for path, setting in self.settings.items()
            if path.startswith(f"{section}.") and is_set(setting)
        }

    def locked_by(self, *paths: str) -> Source | None:
        """The source of a rule that locks one of the paths, or None."""
        rules = (self.rules.get(path) for path in paths)
        return next((rule.locked for rule in rules if rule is not None and rule.locked is not None), None)


def is_set(setting: Setting | None) -> bool:
    """Whether a setting has a value that is not enforced by the platform."""
    return setting is not None and setting.value is not None and setting.source.layer is not Layer.ENFORCED


def describe_source(facts: Facts, path: str, setting: Setting | None) -> Iterator[Sentence]:
    """A note with the source of a value, unless the described object sets it."""
    # The request is only a placeholder for the description, and enforced settings apply to every run.
    if setting is None or setting.source.layer in (facts.own, Layer.USER, Layer.ENFORCED):
        return
    source = setting.source
    if source.layer is Layer.COMPUTE_RESOURCE:
        yield Sentence(path, "note", f"(set by {source})")
    elif source.layer is Layer.POLICY:
        yield Sentence(path, "note", f"({source} default)")
    else:
        yield Sentence(path, "note", f"({source})")


def describe_cpu(facts: Facts) -> Iterator[Sentence]:
    """CPU: a pod is throttled above its limit, but not killed."""
    path = "resources.cpu"
    reserved, limit = _amount(facts, "cpu")
    if f"{path}.requests" not in facts.settings:
        yield from describe_unset(facts, path, "CPU is", "no cores are reserved")
        return
    amount = f"{_cores(reserved)} reserved per pod" if reserved else "No cores reserved"
    if limit is None:
        yield Sentence(path, "gets", f"{amount}, more if free on its node (no limit).")
    elif limit == reserved:
        yield Sentence(path, "gets", f"Exactly {_cores(limit)} per pod.")
    else:
        yield Sentence(path, "gets", f"{amount}, up to {_number(limit)} if free on its node.")
    if reserved is None:
        # The kernel divides CPU time in proportion to requests, and a pod without a request gets the smallest share.
        yield Sentence(path, "note", "May get almost no CPU while other pods on its node need it.")
    elif limit is not None:
        yield Sentence(f"{path}.limits", "note", f"Throttled above {_cores(limit)}, not killed.")
    yield from _describe_sources(facts, "cpu")


def describe_memory(facts: Facts) -> Iterator[Sentence]:
    """Memory: a pod is killed above its limit, and may be killed above its request."""
    path = "resources.mem"
    reserved, limit = _amount(facts, "mem")
    if f"{path}.requests" not in facts.settings:
        yield from describe_unset(facts, path, "Memory is", "no memory is reserved")
        return
    yield Sentence(path, "gets", _describe_bytes(reserved, limit, "memory"))
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"Killed above {format_size(limit)} (out of memory).")
    # If a node runs out of memory, pods that cannot exceed their requests are among the last to be killed.
    if limit is None or limit != reserved:
        yield Sentence(path, "risk", _describe_memory_pressure(reserved))
    yield from _describe_sources(facts, "mem")


def describe_disk(facts: Facts) -> Iterator[Sentence]:
    """The node's ephemeral disk, for files outside volumes."""
    path = "resources.disk"
    reserved, limit = _amount(facts, "disk")
    if f"{path}.requests" not in facts.settings:
        return
    yield Sentence(path, "gets", _describe_bytes(reserved, limit, "disk"))
    if limit is not None:
        yield Sentence(f"{path}.limits", "risk", f"Evicted above {format_size(limit)} of disk, which ends the run.")
    # The kubelet evicts pods when a node's disk fills up. The local executor only enforces limits.
    if (limit is None or limit != reserved) and not facts.is_local:
        grows = f"; the risk grows with usage above {format_size(reserved)}" if reserved else ""
        yield Sentence(path, "risk", f"May be evicted if its node's disk is nearly full{grows}.")
    yield from _describe_sources(facts, "disk")


def describe_shared_memory(facts: Facts) -> Iterator[Sentence]:
    """The size of /dev/shm, which counts as memory."""
    path = "resources.shm"
    shm, (_, limit) = facts.value(path), _amount(facts, "mem")
    if shm is None:
        return
    if shm is False:
        yield Sentence(path, "note", "/dev/shm has its default size.")
    else:
        maximum = format_size(shm) if isinstance(shm, Quantity) else "the memory of its node"
        if shm is True and limit is not None:
            maximum = f"the memory limit of {format_size(limit)}"
        yield Sentence(path, "gets", f"/dev/shm can use up to {maximum}; it counts toward the pod's memory.")
    yield from describe_source(facts, path, facts.settings.get(path))


def describe_extended(facts: Facts) -> Iterator[Sentence]:
    """Extended resources by name."""
    for name, setting in facts.section(EXTENDED).items():
        amount = f"{setting.value} {name} per pod" if setting.value.nanos else f"No {name}"
        yield Sentence(setting.path, "gets", f"{amount}.")
        yield from describe_source(facts, setting.path, setting)


def describe_unset(facts: Facts, path: str, subject: str, consequence: str) -> Iterator[Sentence]:
    """A resource without a value: users set it in their requests, unless a policy locks it."""
    locked = facts.locked_by("resources", path, f"{path}.requests", f"{path}.devices")
    if locked is None:
        yield Sentence(path, "note", f"{subject} set in the request.")
    else:
        yield Sentence(path, "note", f"{subject} locked by the {locked}: {consequence}.")


def format_size(amount: Quantity) -> str:
    """Format a number of bytes for a sentence, such as 3 GiB. Amounts without a suffix are rounded."""
    # A size with a suffix is exact, so it needs no rounding: 1500Mi is 1500 MiB.
    if match := re.fullmatch(r"([0-9]+)([A-Za-z]i?)B?", str(amount)):
        return f"{match[1]} {match[2]}B"
    units, suffix = amount.units, ""
    for name, power in BINARY_SUFFIXES.items():
        if amount.units >= 1024**power:
            units, suffix = amount.units * 10 // 1024**power, name
    if not suffix:
        return f"{units} byte{'' if units == 1 else 's'}"
    return f"about {units // 10}.{units % 10} {suffix}B"


def _amount(facts: Facts, name: str) -> tuple[Quantity | None, Quantity | None]:
    """The reserved amount and the limit of a resource, each None if there is none."""
    reserved, limit = facts.value(f"resources.{name}.requests"), facts.value(f"resources.{name}.limits")
    # `unlimited` and a missing limit mean the same for the pod. A request of 0 reserves nothing.
    finite = limit if isinstance(limit, Quantity) else None
    return (reserved if reserved is not None and reserved.nanos else None), finite


def _describe_bytes(reserved: Quantity | None, limit: Quantity | None, noun: str) -> str:
    if limit is not None and limit == reserved:
        return f"Exactly {format_size(limit)} of {noun} per pod."
    amount = f"{_capitalize(format_size(reserved))} of {noun} reserved per pod" if reserved else f"No {noun} reserved"
    if limit is None:
        return f"{amount}, more if free on its node (no limit)."
    return f"{amount}, up to {format_size(limit)} if free on its node."


def _describe_memory_pressure(reserved: Quantity | None) -> str:
    if reserved is None:
        # The kubelet derives oom_score_adj from the share of the node's memory that a pod requests. Without a request,
        # it is close to the maximum of 1000.
        return "Among the first to be killed if its node runs out of memory."
    grows = f"the risk grows with usage above {format_size(reserved)}"
    return f"May be killed if its node runs out of memory; {grows}."


def _describe_sources(facts: Facts, name: str) -> Iterator[Sentence]:
    """Notes on where the request and the limit come from, and how a default was computed."""
    path = f"resources.{name}"
    requests, limits = facts.settings[f"{path}.requests"], facts.settings[f"{path}.limits"]
    yield from describe_source(facts, path, requests)
    for setting in (requests, limits):
        if setting.reason is not None:
            source = f" ({setting.source})" if _is_computed_by_policy(setting, requests) else ""
            yield Sentence(setting.path, "note", f"{_capitalize(setting.reason)}{source}.")


def _is_computed_by_policy(setting: Setting, requests: Setting) -> bool:
    return setting.source.layer is Layer.POLICY and setting is not requests and is_set(setting)


def _capitalize(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _number(cores: Quantity) -> str:
    return f"{Decimal(cores.nanos // MILLICORE) / 1000:f}"


def _cores(amount: Quantity) -> str:
    return f"{_number(amount)} {'core' if amount.nanos == NANOS else 'cores'}"


def describe_volumes(facts: Facts) -> Iterator[Sentence]:
    """Each volume with its mount path and lifetime."""
    volumes: dict[str, dict[str, Setting]] = {}
    for rest, setting in facts.section("volumes").items():
        name, _, part = rest.partition(".")
        volumes.setdefault(name, {})[part] = setting
    for name, settings in volumes.items():
        path, parts = f"volumes.{name}", {part: setting.value for part, setting in settings.items()}
        yield Sentence(path, "gets", _describe_volume(name, parts, local=facts.is_local))
        yield from _describe_consequence(path, parts, facts)
        yield from describe_source(facts, path, settings["volume_type"])


def describe_variables(facts: Facts) -> Iterator[Sentence]:
    """Environment variables and secrets, grouped by source."""
    for section, text in (
        ("envs", "Sets variable{s} {names}."),
        ("secrets", "Sets variable{s} {names} from the project's secrets (must exist)."),
    ):
        # groupby only joins adjacent entries, so entries with the same source must be next to each other.
        settings = sorted(facts.section(section).items(), key=lambda item: (str(item[1].source), item[0]))
        for _, group in groupby(settings, key=lambda item: item[1].source):
            by_name = dict(group)
            plural = "s" if len(by_name) > 1 else ""
            yield Sentence(section, "gets", text.format(names=format_list(list(by_name)), s=plural))
            yield from describe_source(facts, section, next(iter(by_name.values())))


def describe_ids(facts: Facts) -> Iterator[Sentence]:
    """User and group IDs, if they are set."""
    for name, text in (
        ("run_as_user", "Runs as user {}{}."),
        ("run_as_group", "Runs as group {}{}."),
        ("fs_group", "Volumes belong to group {}{}."),
    ):
        setting = facts.settings.get(name)
        if setting is not None and is_set(setting):
            root = " (root)" if setting.value == 0 else ""
            yield Sentence(name, "note", text.format(setting.value, root))
            yield from describe_source(facts, name, setting)


def describe_profile(facts: Facts) -> Iterator[Sentence]:
    """The compute resource of a template."""
    setting = facts.settings.get("profile")
    # For a compute resource, this would be the described object itself.
    if facts.own is Layer.TEMPLATE and setting is not None and setting.value is not None:
        yield Sentence("profile", "gets", f"Uses compute resource {setting.value} by default.")
        yield from describe_source(facts, "profile", setting)


def _describe_volume(name: str, parts: Parts, *, local: bool) -> str:
    kind, amount = parts["volume_type"], parts.get("spec.size")
    storage_class = (
        f" (storage class {parts['spec.storage_class']})" if "spec.storage_class" in parts and not local else ""
    )
    size = "" if amount is None else format_size(amount)
    mount = _describe_mount(parts)
    match kind:
        case "persistent_volume_claim" | "ephemeral" if local:
            return f"New folder on the machine{mount}, deleted with the run."
        case "persistent_volume_claim":
            return f"New volume of {size}{storage_class}{mount}, deleted with the run."
        case "ephemeral":
            return f"New volume of {size}{storage_class} per pod{mount}, deleted with the pod."
        case "empty_dir":
            memory = " in memory" if parts.get("spec.medium") else ""
            # The local executor limits only folders in memory (tmpfs).
            limit = f" of up to {size}" if size and (memory or not local) else ""
            return f"Empty folder{memory}{limit}{mount}, deleted with the pod."
        case "secret":
            return f"Project secret {parts['spec.name']}{mount} (must exist)."
        case "shared_volume":
            return f"Shared project volume {parts['spec.claim_name']}{mount}."
        case _:
            return f"ConfigMap {parts.get('spec.name', name)}{mount} (must exist)."


def _describe_mount(parts: Parts) -> str:
    folder = f" (folder {parts['sub_path']})" if "sub_path" in parts else ""
    # A mounted secret is a file in the mount path, named after the secret.
    name = parts["spec.name"] if parts["volume_type"] == "secret" and not folder else ""
    path = "/".join(filter(None, (parts["mount_path"], name)))
    return f" at {path}{folder}{', read-only' if parts.get('read_only') else ''}"


def _describe_consequence(path: str, parts: Parts, facts: Facts) -> Iterator[Sentence]:
    """Consequences of using a volume: eviction, memory usage, or rejected runs."""
    kind, memory, amount = parts["volume_type"], parts.get("spec.medium"), parts.get("spec.size")
    if kind == "empty_dir" and memory:
        yield Sentence(path, "note", "Its content counts toward the pod's memory.")
    elif kind == "empty_dir" and amount is not None and not facts.is_local:
        yield Sentence(path, "risk", f"Evicted above {format_size(amount)} in this folder, which ends the run.")
    elif kind == "config_map" and facts.is_local:
        yield Sentence(path, "risk", "The local cluster has no ConfigMaps, so runs are rejected.")
    elif kind in ("persistent_volume_claim", "ephemeral") and facts.is_local and amount is not None:
        yield Sentence(path, "note", f"The cluster does not enforce the size of {format_size(amount)}.")


def describe_gpus(facts: Facts) -> Iterator[Sentence]:
    """The GPUs of each pod."""
    devices = facts.value(f"{GPU_PATH}.devices")
    if devices is None:
        yield from describe_unset(facts, GPU_PATH, "GPUs are", "pods get none")
        return
    memory, kind = facts.value(f"{GPU_MEMORY_PATH}.request"), facts.value(f"{GPU_PATH}.type")
    of_type = f" of type {kind}" if kind is not None else ""
    if devices == 0:
        yield Sentence(GPU_PATH, "gets", "No GPU.")
    elif facts.value(f"{GPU_PATH}.mig") is not None:
        yield from _describe_mig(facts, of_type)
    elif memory is None or memory == WHOLE_DEVICE:
        yield Sentence(GPU_PATH, "gets", f"{devices} whole GPU{'s' if devices > 1 else ''}{of_type} per pod.")
    else:
        yield from _describe_share(facts, memory, of_type)
    if kind is not None and facts.cluster is not None:
        yield Sentence(f"{GPU_PATH}.type", "note", _describe_type(kind, facts.cluster))
    yield from describe_source(facts, GPU_PATH, facts.settings[f"{GPU_PATH}.devices"])


def _describe_type(kind: str, cluster: Cluster) -> str:
    products = cluster.gpu_types.get(kind)
    if products is None:
        return f"Only on nodes with label {cluster.gpu_product_label}={kind}."
    return f"Only on nodes with {format_list(products, 'or')} (GPU type {kind})."


def _describe_mig(facts: Facts, of_type: str) -> Iterator[Sentence]:
    path, cluster = f"{GPU_PATH}.mig", facts.cluster
    if cluster is not None and (facts.is_local or not cluster.gpu_resource.startswith("nvidia.com/")):
        yield Sentence(path, "note", "The cluster does not support MIG and rejects the run.")
        return
    yield Sentence(path, "gets", f"One dedicated {facts.value(path)} MIG slice of a GPU{of_type} per pod.")


def _describe_share(facts: Facts, memory: Memory, of_type: str) -> Iterator[Sentence]:
    limit = facts.value(f"{GPU_MEMORY_PATH}.limit")
    limit = None if limit == memory else limit  # an equal limit adds nothing to the request
    sharing = None if facts.cluster is None else facts.cluster.gpu_sharing
    fraction = f"{_describe_fraction(memory)} of the memory of one GPU{of_type} per pod"
    if sharing == "none":
        yield Sentence(GPU_MEMORY_PATH, "note", "The cluster has only whole GPUs and rejects requests for part of one.")
    elif sharing == "hami" and limit is not None:
        text = f"The cluster enforces the request as the limit and rejects the limit of {_format_memory(limit)}."
        yield Sentence(f"{GPU_MEMORY_PATH}.limit", "note", text)
    elif sharing == "hami":
        # HAMi intercepts GPU memory allocations, so a program cannot use more than its share.
        yield Sentence(GPU_MEMORY_PATH, "gets", f"Exactly {fraction}.")
        yield Sentence(GPU_MEMORY_PATH, "risk", f"Above {_format_memory(memory)} the program runs out of GPU memory.")
    else:
        up_to = "" if limit is None else f", up to {_format_memory(limit)} if free"
        yield Sentence(GPU_MEMORY_PATH, "gets", f"{fraction[:1].upper()}{fraction[1:]}{up_to}.")
        # KAI uses GPU memory only for scheduling. Programs on the same GPU are not isolated from each other.
        yield from _describe_risk(memory, limit, enforced=sharing != "kai")


def _describe_risk(memory: Memory, limit: Memory | None, *, enforced: bool) -> Iterator[Sentence]:
    grows = f"the risk grows with usage above {_format_memory(memory)}"
    if not enforced:
        bounds = "share" if limit is None else "request and limit"
        text = f"The cluster does not enforce the {bounds}: pods on the same GPU may run out of GPU memory; {grows}."
        yield Sentence(GPU_MEMORY_PATH, "risk", text)
    elif limit is not None:
        yield Sentence(GPU_MEMORY_PATH, "risk", f"May be killed if another pod needs the GPU memory; {grows}.")


def _describe_fraction(memory: Memory) -> str:
    fraction = FRACTIONS.get(memory.value) if isinstance(memory, Percent) else None
    return _format_memory(memory) if fraction is None else f"{fraction} ({memory})"


def _format_memory(memory: Memory) -> str:
    return str(memory) if isinstance(memory, Percent) else format_size(memory)


def describe_nodes(facts: Facts) -> Iterator[Sentence]:
    """Node selectors and tolerations."""
    for key, setting in facts.section("node_selector").items():
        yield Sentence(setting.path, "note", f"Only on nodes with {key}={_quote(setting.value)}.")
        yield from describe_source(facts, setting.path, setting)
    for setting in facts.section("tolerations").values():
        yield _describe_toleration(setting.path, setting.value)
        yield from describe_source(facts, setting.path, setting)


def describe_affinity(facts: Facts) -> Iterator[Sentence]:
    """Node affinity and inter-pod affinity."""
    for name, setting in facts.section("affinity").items():
        kind, _, strength = name.partition(".")
        if kind == "nodeAffinity":
            yield Sentence(setting.path, "note", _describe_node_terms(setting.value, required=name == REQUIRED_NODES))
        elif not facts.is_local:  # has no effect on a single machine
            required = strength == REQUIRED
            pods = [term if required else term["podAffinityTerm"] for term in setting.value]
            text = f"{AFFINITY_PHRASES[kind, required]} {format_list(list(map(_describe_pods, pods)), most=MAX_TERMS)}."
            yield Sentence(setting.path, "note", text)
        # Terms combined from several layers have no single source.
        if not setting.combined:
            yield from describe_source(facts, setting.path, setting)


def describe_classes(facts: Facts) -> Iterator[Sentence]:
    """Runtime class and priority class, which have no effect on a local cluster."""
    for name, text in CLASSES.items():
        setting = facts.settings.get(name)
        if setting is not None and is_set(setting) and not facts.is_local:
            yield Sentence(name, "note", text.format(setting.value))
            yield from describe_source(facts, name, setting)


def _describe_toleration(path: str, taint: Json) -> Sentence:
    description = f"taint {taint['key']}" if taint.get("key") else "any taint"
    if taint.get("operator", "Equal") == "Equal":
        description += f"={_quote(taint.get('value') or '')}"
    effect = f" ({taint['effect']})" if taint.get("effect") else ""
    seconds = taint.get("tolerationSeconds")
    # With tolerationSeconds, the pod is evicted that long after the taint was added.
    if seconds is None:
        return Sentence(path, "note", f"Tolerates {description}{effect}.")
    return Sentence(path, "risk", f"Evicted after {max(seconds, 0)} seconds from nodes with {description}{effect}.")


def _describe_node_terms(terms: Sequence[Json], *, required: bool) -> str:
    descriptions = [_describe_conditions(term if required else term["preference"]) for term in terms]
    # Without conditions, a required term matches no node and a preferred term has no effect.
    descriptions = [text for text in descriptions if text]
    if not descriptions:
        return "Matches no node: the node affinity has no conditions." if required else "No node preference."
    start = "Only on nodes" if required else "Preferably on nodes"
    if len(descriptions) > MAX_TERMS:
        return f"{start} that match one of {len(descriptions)} sets of conditions."
    return f"{start} with {', or with '.join(descriptions)}."


def _describe_conditions(term: Json) -> str:
    conditions = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return format_list([_describe_condition(condition) for condition in conditions]) if conditions else ""


def _describe_condition(condition: Json) -> str:
    key, values = condition["key"], [_quote(value) for value in condition.get("values") or ()]
    match condition["operator"]:
        case "In":
            return f"{key} = {format_list(values, 'or')}"
        case "NotIn":
            return f"{key} other than {format_list(values, 'or')}"
        case "Exists":
            return f"label {key}"
        case "DoesNotExist":
            return f"no label {key}"
        case operator:
            return f"{key} {'above' if operator == 'Gt' else 'below'} {format_list(values)}"


def _describe_pods(term: Json) -> str:
    selector = term.get("labelSelector")
    labels = [f"{key}={_quote(value)}" for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    labels += [_describe_condition(condition) for condition in (selector or {}).get("matchExpressions") or ()]
    # In Kubernetes, a missing selector matches no pods, and an empty selector matches every pod.
    pods = "no pod" if selector is None else f"pods with {format_list(labels)}" if labels else "any pod"
    if term.get("namespaces"):
        pods += f" in {format_list(list(term['namespaces']))}"
    elif term.get("namespaceSelector") is not None:
        pods += " in selected namespaces"
    return f"{pods} (same {term['topologyKey']})"


def _quote(text: str) -> str:
    return text or '""'


Describer = Callable[[Facts], Iterator[Sentence]]


def describe_plans(
    plans: Sequence[tuple[Cluster | None, Plan]], own: Layer, rules: Mapping[str, EffectiveRule]
) -> tuple[Sentence, ...]:
    """Describe the plans of one object on several clusters. Sentences that differ start with the cluster names.

    `own` is the layer of the described object. Values from that layer need no source.
    """
    facts_of_clusters = [
        Facts({setting.path: setting for setting in plan.settings}, cluster, own, rules) for cluster, plan in plans
    ]
    return tuple(sentence for describe in DESCRIBERS for sentence in _merge(facts_of_clusters, describe))


def _merge(facts_of_clusters: Sequence[Facts], describe: Describer) -> Iterator[Sentence]:
    clusters_of: dict[Sentence, list[str]] = {}
    for facts in facts_of_clusters:
        # A sentence that occurs twice on a cluster must be counted only once.
        for sentence in dict.fromkeys(describe(facts)):
            clusters_of.setdefault(sentence, []).append("" if facts.cluster is None else facts.cluster.name)
    for sentence, clusters in clusters_of.items():
        if len(clusters) == len(facts_of_clusters):
            yield sentence
        else:
            names = f"cluster{'s' if len(clusters) > 1 else ''} {format_list(clusters)}"
            yield replace(sentence, text=f"On {names}: {_uncapitalize(sentence.text)}")


def _uncapitalize(text: str) -> str:
    """The sentence with a lowercase first letter, unless the first word is an acronym."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


DESCRIBERS: tuple[Describer, ...] = (
    describe_profile,
    describe_gpus,
    describe_cpu,
    describe_memory,
    describe_disk,
    describe_shared_memory,
    describe_extended,
    describe_nodes,
    describe_affinity,
    describe_volumes,
    describe_variables,
    describe_ids,
    describe_classes,
)
