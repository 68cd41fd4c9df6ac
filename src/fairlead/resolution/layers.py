"""Resolution: merge the layers of settings in order of precedence, combine affinities, and record overridden values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fairlead.model.placement import Affinity
from fairlead.model.plans import Setting, Source, SourcedValue
from fairlead.model.resources import NAMED_BY, WHOLE_DEVICE, Amount, Gpu, Requirements, Resources, Volume

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUIRED_NODES = f"nodeAffinity.{REQUIRED}"

MAX_TERMS = 256  # in all layers combined; two layers with 64 terms each would already produce 4,096

Term = Mapping[str, Any]

AMOUNTS = ("cpu", "mem", "disk")
SCALARS = ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template")

NOTHING: Mapping[str, Any] = MappingProxyType({})

# Settings that are overridden together: a resource with its request and limit, a variable, a volume or a field. The
# section and the name of the group, and its settings by part: their paths are `section.name`, or `section.name.part` if
# the group has parts. A plain tuple, because a plan creates about forty.
SettingGroup = tuple[str, str, Mapping[str, Setting]]

# By section, name and part.
Settings = dict[str, dict[str, Mapping[str, Setting]]]


def affinity_parts(affinity: Affinity) -> Iterator[tuple[str, list[Term]]]:
    """The lists of terms of an affinity, by path such as `podAffinity.requiredDuring...`."""
    for kind, group in affinity.manifest.items():
        for name, terms in group.items():
            term_list = terms["nodeSelectorTerms"] if f"{kind}.{name}" == REQUIRED_NODES else terms
            if term_list:
                yield f"{kind}.{name}", list(term_list)


def combine_terms(part: str, weaker: Sequence[Term], stronger: Sequence[Term]) -> list[Term]:
    """Merge the terms of two layers: required nodes must match both, other terms are added."""
    if part == REQUIRED_NODES:
        # A check rejects plans with too many terms, so the large product is never needed.
        return cross_terms(weaker, stronger) if len(weaker) * len(stronger) <= MAX_TERMS else list(weaker)
    return [*weaker, *(term for term in stronger if term not in weaker)]


def cross_terms(one: Sequence[Term], other: Sequence[Term]) -> list[Term]:
    """The conjunction of two node selectors: (a or b) and (c or d) is ac or ad or bc or bd."""
    # A term without conditions matches no node, and neither does its conjunction with another term.
    crossed = [_join_terms(left, right) for left in one if any(left.values()) for right in other if any(right.values())]
    # An empty term matches no node. The API server would reject an empty list.
    return _distinct(crossed) or [{}]


def is_impossible_placement(selector: Mapping[str, str], terms: Sequence[Term] | None) -> bool:
    """Whether no set of labels can match both the selector and one of the terms."""
    return terms is not None and all(_contradicts(selector, term) for term in terms)


def render_affinity(parts: Mapping[str, Sequence[Term]]) -> dict[str, Any]:
    """The affinity for a pod manifest, from lists of terms by path."""
    affinity: dict[str, Any] = {}
    for path, terms in sorted(parts.items()):
        kind, _, name = path.partition(".")
        value = {"nodeSelectorTerms": list(terms)} if path == REQUIRED_NODES else list(terms)
        affinity.setdefault(kind, {})[name] = value
    return affinity


def _join_terms(left: Term, right: Term) -> Term:
    joined = {name: list(conditions) for name, conditions in left.items() if conditions}
    for name, conditions in right.items():
        known = joined.get(name, [])
        if added := [condition for condition in conditions if condition not in known]:
            joined[name] = [*known, *added]
    return joined


def _distinct(items: Sequence[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def _contradicts(selector: Mapping[str, str], term: Term) -> bool:
    """Whether the conditions of a term contradict each other or the selector."""
    if not any(term.values()):
        return True
    allowed: dict[str, set[str]] = {key: {value} for key, value in selector.items()}
    present, absent = set(selector), set()
    conditions = term.get("matchExpressions", ())
    for condition in conditions:
        key, operator, values = condition["key"], condition["operator"], set(condition.get("values", ()))
        if operator == "In":
            allowed[key] = allowed.get(key, values) & values
        if operator in ("In", "Exists", "Gt", "Lt"):
            present.add(key)
        if operator == "DoesNotExist":
            absent.add(key)
    # The loop above has read all In conditions. NotIn also matches nodes without the label, so without an In condition
    # it never causes a contradiction.
    for condition in conditions:
        if condition["operator"] == "NotIn" and condition["key"] in allowed:
            allowed[condition["key"]] -= set(condition["values"])
    return bool(present & absent) or any(not values for values in allowed.values())


def single_setting(source: Source, section: str, name: str, value: Any) -> SettingGroup:
    """A group with one setting and no parts."""
    return section, name, {"": Setting(f"{section}.{name}" if name else section, value, source)}


def setting_group(source: Source, section: str, name: str, values: Mapping[str, Any]) -> SettingGroup:
    """A group with a setting for each part."""
    path = f"{section}.{name}."
    return section, name, {part: Setting(path + part, value, source) for part, value in values.items()}


@dataclass(frozen=True)
class LayerValues:
    """The groups of settings that one layer sets. Resolutions share them, so they must not be changed."""

    source: Source
    groups: tuple[SettingGroup, ...]


def value_of(settings: Settings, section: str, name: str = "", part: str = "") -> Any:
    """The value at a path, or None. A draft has the values by path."""
    setting = settings.get(section, NOTHING).get(name, NOTHING).get(part)
    return None if setting is None else setting.value


def resolve(layers: Iterable[LayerValues]) -> Settings:
    """Merge layers that are sorted by ascending precedence."""
    settings: Settings = {}
    for layer in layers:
        add_layer(settings, layer)
    return settings


def add_layer(settings: Settings, layer: LayerValues) -> None:
    """Merge one more layer, which overrides all layers before it."""
    for section, name, added in layer.groups:
        groups = settings.setdefault(section, {})
        old = groups.get(name)
        if old is None:
            groups[name] = added
        elif section == "affinity":
            # Both are combined: a user who requires a zone must not remove an administrator's required affinity.
            groups[name] = {"": _combine_setting(name, old[""], added[""])}
        else:
            groups[name] = _override(old, added, layer.source)


def layer_values(source: Source, requirements: Requirements, *more: SettingGroup) -> LayerValues:
    """The values that requirements set, as a layer."""
    return LayerValues(source, (*groups_of(source, requirements), *more))


def groups_of(source: Source, requirements: Requirements) -> Iterator[SettingGroup]:
    """Split requirements into the groups that are overridden together."""
    yield from _groups_of_resources(source, requirements.resources)
    for key, value in requirements.node_selector.items():
        yield single_setting(source, "node_selector", key, value)
    for toleration in requirements.tolerations:
        yield single_setting(source, "tolerations", str(toleration), toleration.manifest)
    if requirements.affinity is not None:
        for name, terms in affinity_parts(requirements.affinity):
            yield single_setting(source, "affinity", name, terms)
    for name, volume in requirements.volumes.items():
        yield setting_group(source, "volumes", name, _parts_of_volume(volume))
    for name in dict.fromkeys(requirements.secrets):
        yield single_setting(source, "secrets", name, name)
    for name, text in requirements.envs.items():
        yield single_setting(source, "envs", name, text)
    for name in SCALARS:
        if (value := getattr(requirements, name)) is not None:
            yield single_setting(source, name, "", value)


def _override(old: Mapping[str, Setting], added: Mapping[str, Setting], source: Source) -> dict[str, Setting]:
    """The group with the values of the new layer. Parts that only the old layer set stay visible, without a value."""
    # The whole group is replaced. Otherwise a default limit of 2Gi would apply to a request of 8Gi.
    overriding = {
        part: Setting(setting.path, setting.value, source, _overridden_by(old[part])) if part in old else setting
        for part, setting in added.items()
    }
    for part, old_setting in old.items():
        if part not in overriding:
            overriding[part] = Setting(old_setting.path, None, source, _overridden_by(old_setting))
    return overriding


def _overridden_by(old: Setting) -> tuple[SourcedValue, ...]:
    # A part without a value was removed by a layer, so it is not a value that was overridden.
    return old.overridden if old.value is None else (SourcedValue(old.value, old.source), *old.overridden)


def _combine_setting(name: str, old: Setting, added: Setting) -> Setting:
    combined = (*(old.combined or (SourcedValue(old.value, old.source),)), SourcedValue(added.value, added.source))
    return old._replace(value=combine_terms(name, old.value, added.value), source=added.source, combined=combined)


def _groups_of_resources(source: Source, resources: Resources) -> Iterator[SettingGroup]:
    for name in AMOUNTS:
        amount: Amount | None = getattr(resources, name)
        if amount is not None and (amount.requests is not None or amount.limits is not None):
            # Both parts are always included, because planning computes the missing one.
            yield setting_group(source, "resources", name, {"requests": amount.requests, "limits": amount.limits})
    if resources.gpu is not None and resources.gpu.devices is not None:
        yield setting_group(source, "resources", "gpu", _parts_of_gpu(resources.gpu))
    if resources.shm is not None:
        yield single_setting(source, "resources", "shm", resources.shm)
    for name, count in resources.extended.items():
        yield single_setting(source, "resources", f"extended.{name}", count)


def _parts_of_gpu(gpu: Gpu) -> dict[str, Any]:
    parts: dict[str, Any] = {"devices": gpu.devices, "type": gpu.type, "mig": gpu.mig}
    if gpu.devices and gpu.mig is None:
        # Set explicitly, so that rules on GPU memory also apply to whole devices, and the plan shows both values if a
        # whole device overrides a share.
        parts["memory.request"] = WHOLE_DEVICE
    if gpu.memory is not None:
        parts["memory.request"] = gpu.memory.limit if gpu.memory.request is None else gpu.memory.request
        parts["memory.limit"] = gpu.memory.limit
    return {part: value for part, value in parts.items() if value is not None}


def _parts_of_volume(volume: Volume) -> dict[str, Any]:
    parts: dict[str, Any] = {"volume_type": volume.volume_type, "mount_path": volume.mount_path}
    # A default of False would look like a value that the layer set.
    if "read_only" in volume.model_fields_set:
        parts["read_only"] = volume.read_only
    if volume.sub_path is not None:
        parts["sub_path"] = volume.sub_path
    for name in type(volume.spec).model_fields:
        if (value := getattr(volume.spec, name)) is not None:
            parts[f"spec.{name}"] = value
    if volume.volume_type in NAMED_BY:
        parts.setdefault(f"spec.{NAMED_BY[volume.volume_type]}", volume.name)
    return parts
