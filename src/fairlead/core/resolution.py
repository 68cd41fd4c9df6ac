"""Merging what the layers say: the strongest to mention a thing owns it whole, and the loser is remembered."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from fairlead.core import placement
from fairlead.model.plans import Setting, Source, SourcedValue
from fairlead.model.requirements import Requirements
from fairlead.model.resources import WHOLE_DEVICE, Amount, Gpu, Resources
from fairlead.model.volumes import NAMED_BY, Volume

AMOUNTS = ("cpu", "mem", "disk")
SCALARS = ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template")


class SettingGroup(NamedTuple):
    """What is owned as a whole: a resource with its request and limit, an env, a volume, a single field.

    Its values stand at `section.name` and, where it has parts, at `section.name.part`.
    """

    section: str
    name: str
    values: Mapping[str, Any]


def single(section: str, name: str, value: Any) -> SettingGroup:
    """A thing without parts."""
    return SettingGroup(section, name, {"": value})


@dataclass(frozen=True)
class LayerValues:
    """What one layer says."""

    source: Source
    groups: tuple[SettingGroup, ...]


NOTHING: Mapping[str, Any] = MappingProxyType({})

# By section, name and part.
Settings = dict[str, dict[str, dict[str, Setting]]]


@dataclass(frozen=True)
class Resolution:
    """The merged settings. Everything that is checked and rendered is read from here."""

    settings: Settings
    _named: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict, compare=False, repr=False)

    def setting(self, section: str, name: str = "", part: str = "") -> Setting | None:
        """A resolved value with its provenance."""
        return self.settings.get(section, NOTHING).get(name, NOTHING).get(part)

    def value(self, section: str, name: str = "", part: str = "") -> Any:
        """A resolved value, None where there is none."""
        # Not through setting(): a plan asks seventy times.
        setting = self.settings.get(section, NOTHING).get(name, NOTHING).get(part)
        return None if setting is None else setting.value

    def named(self, section: str) -> dict[str, dict[str, Any]]:
        """All things of a section by name, in order, with the parts that have a value."""
        if section not in self._named:
            self._named[section] = {
                name: {part: setting.value for part, setting in parts.items() if setting.value is not None}
                for name, parts in sorted(self.settings.get(section, {}).items())
            }
        return self._named[section]

    def values(self, section: str) -> dict[str, Any]:
        """The values of a section whose things have no parts, by name, in order."""
        return {name: parts[""] for name, parts in self.named(section).items()}

    @cached_property
    def flat(self) -> tuple[Setting, ...]:
        """Every setting, in the order of their paths."""
        every = [
            setting for groups in self.settings.values() for parts in groups.values() for setting in parts.values()
        ]
        return tuple(sorted(every, key=itemgetter(0)))


def resolve(layers: Iterable[LayerValues]) -> Settings:
    """Merge the layers, weakest first."""
    settings: Settings = {}
    for layer in layers:
        add(settings, layer)
    return settings


def add(settings: Settings, layer: LayerValues) -> None:
    """Merge one more layer, stronger than all before."""
    source = layer.source
    for group in layer.groups:
        section, name, values = group
        groups = settings.setdefault(section, {})
        old = groups.get(name)
        if old is None:
            path = path_of(section, name)
            groups[name] = {
                part: Setting(f"{path}.{part}" if part else path, value, source) for part, value in values.items()
            }
        elif section == "affinity":
            groups[name] = {"": _combine(old[""], group, source)}
        else:
            groups[name] = _take_over(old, group, source)


def state(source: Source, requirements: Requirements, *more: SettingGroup) -> LayerValues:
    """What a layer says, thing by thing."""
    return LayerValues(source, (*groups_of(requirements), *more))


def groups_of(asked: Requirements) -> Iterator[SettingGroup]:
    """Requirements, as the things that are owned whole."""
    yield from _things_of_resources(asked.resources)
    for key, value in asked.node_selector.items():
        yield single("node_selector", key, value)
    for toleration in asked.tolerations:
        yield single("tolerations", str(toleration), toleration.manifest)
    if asked.affinity is not None:
        for name, terms in placement.parts_of(asked.affinity):
            yield single("affinity", name, terms)
    for name, volume in asked.volumes.items():
        yield SettingGroup("volumes", name, _parts_of_volume(volume))
    for name in dict.fromkeys(asked.secrets):
        yield single("secrets", name, name)
    for name, text in asked.envs.items():
        yield single("envs", name, text)
    for name in SCALARS:
        if (value := getattr(asked, name)) is not None:
            yield single(name, "", value)


def path_of(section: str, name: str, part: str = "") -> str:
    """How a setting is called: `resources.mem.requests`, `envs.HF_HOME`, `fs_group`."""
    path = f"{section}.{name}" if name else section
    return f"{path}.{part}" if part else path


def _take_over(old: Mapping[str, Setting], group: SettingGroup, source: Source) -> dict[str, Setting]:
    """The thing as its new owner has it. What only the loser said stays visible, without a value."""
    taken = {
        part: Setting(path_of(group.section, group.name, part), value, source, _lost(old.get(part)))
        for part, value in group.values.items()
    }
    for part, loser in old.items():
        if part not in taken:
            taken[part] = Setting(loser.path, None, source, _lost(loser))
    return taken


def _lost(loser: Setting | None) -> tuple[SourcedValue, ...]:
    if loser is None:
        return ()
    return loser.overridden if loser.value is None else (SourcedValue(loser.value, loser.source), *loser.overridden)


def _combine(old: Setting, group: SettingGroup, source: Source) -> Setting:
    added = group.values[""]
    combined = (*(old.combined or (SourcedValue(old.value, old.source),)), SourcedValue(added, source))
    return old._replace(value=placement.combine(group.name, old.value, added), source=source, combined=combined)


def _things_of_resources(asked: Resources) -> Iterator[SettingGroup]:
    for name in AMOUNTS:
        amount: Amount | None = getattr(asked, name)
        if amount is not None and (amount.requests is not None or amount.limits is not None):
            yield SettingGroup("resources", name, {"requests": amount.requests, "limits": amount.limits})
    if asked.gpu is not None and asked.gpu.devices is not None:
        yield SettingGroup("resources", "gpu", _parts_of_gpu(asked.gpu))
    if asked.shm is not None:
        yield single("resources", "shm", asked.shm)
    for name, count in asked.extended.items():
        yield single("resources", f"extended.{name}", count)


def _parts_of_gpu(gpu: Gpu) -> dict[str, Any]:
    parts: dict[str, Any] = {"devices": gpu.devices, "type": gpu.type, "mig": gpu.mig}
    if gpu.devices and gpu.mig is None:
        parts["memory.request"] = WHOLE_DEVICE
    if gpu.memory is not None:
        parts["memory.request"] = gpu.memory.limit if gpu.memory.request is None else gpu.memory.request
        parts["memory.limit"] = gpu.memory.limit
    return {part: value for part, value in parts.items() if value is not None}


def _parts_of_volume(volume: Volume) -> dict[str, Any]:
    parts: dict[str, Any] = {"volume_type": volume.volume_type, "mount_path": volume.mount_path}
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
