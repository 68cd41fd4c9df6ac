"""Resolution: merge the layers of settings in order of precedence, and record which values were overridden."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from fairlead.core import placement
from fairlead.model.plans import Setting, Source, SourcedValue
from fairlead.model.resources import NAMED_BY, WHOLE_DEVICE, Amount, Gpu, Requirements, Resources, Volume

AMOUNTS = ("cpu", "mem", "disk")
SCALARS = ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template")


class SettingGroup(NamedTuple):
    """Settings that are overridden together: a resource with its request and limit, a variable, a volume or a field.

    Its values are at the path `section.name`, or at `section.name.part` if the group has parts.
    """

    section: str
    name: str
    values: Mapping[str, Any]


def single_setting(section: str, name: str, value: Any) -> SettingGroup:
    """A group with one setting and no parts."""
    return SettingGroup(section, name, {"": value})


@dataclass(frozen=True)
class LayerValues:
    """The groups of settings that one layer sets."""

    source: Source
    groups: tuple[SettingGroup, ...]


NOTHING: Mapping[str, Any] = MappingProxyType({})

# By section, name and part.
Settings = dict[str, dict[str, dict[str, Setting]]]


@dataclass(frozen=True)
class Resolution:
    """The merged settings. Checks and manifests read values only from here."""

    settings: Settings
    # A cache: checks and renderers read the same sections many times.
    _named: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict, compare=False, repr=False)

    def setting(self, section: str, name: str = "", part: str = "") -> Setting | None:
        """The setting at a path, or None."""
        return self.settings.get(section, NOTHING).get(name, NOTHING).get(part)

    def value(self, section: str, name: str = "", part: str = "") -> Any:
        """The resolved value at a path, or None."""
        # Does not call setting(): a plan reads about seventy values, and this is its hot path.
        setting = self.settings.get(section, NOTHING).get(name, NOTHING).get(part)
        return None if setting is None else setting.value

    def named(self, section: str) -> dict[str, dict[str, Any]]:
        """The groups in a section, sorted by name, each with the parts that have a value."""
        if section not in self._named:
            self._named[section] = {
                name: {part: setting.value for part, setting in parts.items() if setting.value is not None}
                for name, parts in sorted(self.settings.get(section, {}).items())
            }
        return self._named[section]

    def values(self, section: str) -> dict[str, Any]:
        """The values in a section whose groups have no parts, sorted by name."""
        return {name: parts[""] for name, parts in self.named(section).items()}

    @cached_property
    def flat(self) -> tuple[Setting, ...]:
        """All settings, sorted by path."""
        every = [
            setting for groups in self.settings.values() for parts in groups.values() for setting in parts.values()
        ]
        return tuple(sorted(every, key=itemgetter(0)))


def resolve(layers: Iterable[LayerValues]) -> Settings:
    """Merge layers that are sorted by ascending precedence."""
    settings: Settings = {}
    for layer in layers:
        add(settings, layer)
    return settings


def add(settings: Settings, layer: LayerValues) -> None:
    """Merge one more layer, which overrides all layers before it."""
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
            # Both are combined: a user who requires a zone must not remove an administrator's required affinity.
            groups[name] = {"": _combine(old[""], group, source)}
        else:
            groups[name] = _override(old, group, source)


def layer_values(source: Source, requirements: Requirements, *more: SettingGroup) -> LayerValues:
    """The values that requirements set, as a layer."""
    return LayerValues(source, (*groups_of(requirements), *more))


def groups_of(requirements: Requirements) -> Iterator[SettingGroup]:
    """Split requirements into the groups that are overridden together."""
    yield from _groups_of_resources(requirements.resources)
    for key, value in requirements.node_selector.items():
        yield single_setting("node_selector", key, value)
    for toleration in requirements.tolerations:
        yield single_setting("tolerations", str(toleration), toleration.manifest)
    if requirements.affinity is not None:
        for name, terms in placement.parts_of(requirements.affinity):
            yield single_setting("affinity", name, terms)
    for name, volume in requirements.volumes.items():
        yield SettingGroup("volumes", name, _parts_of_volume(volume))
    for name in dict.fromkeys(requirements.secrets):
        yield single_setting("secrets", name, name)
    for name, text in requirements.envs.items():
        yield single_setting("envs", name, text)
    for name in SCALARS:
        if (value := getattr(requirements, name)) is not None:
            yield single_setting(name, "", value)


def path_of(section: str, name: str, part: str = "") -> str:
    """The path of a setting, such as `resources.mem.requests`, `envs.HF_HOME` or `fs_group`."""
    path = f"{section}.{name}" if name else section
    return f"{path}.{part}" if part else path


def _override(old: Mapping[str, Setting], group: SettingGroup, source: Source) -> dict[str, Setting]:
    """The group with the values of the new layer. Parts that only the old layer set stay visible, without a value."""
    # The whole group is replaced. Otherwise a default limit of 2Gi would apply to a request of 8Gi.
    overriding = {
        part: Setting(path_of(group.section, group.name, part), value, source, _overridden_by(old.get(part)))
        for part, value in group.values.items()
    }
    for part, old_setting in old.items():
        if part not in overriding:
            overriding[part] = Setting(old_setting.path, None, source, _overridden_by(old_setting))
    return overriding


def _overridden_by(old: Setting | None) -> tuple[SourcedValue, ...]:
    if old is None:
        return ()
    # A part without a value was removed by a layer, so it is not a value that was overridden.
    return old.overridden if old.value is None else (SourcedValue(old.value, old.source), *old.overridden)


def _combine(old: Setting, group: SettingGroup, source: Source) -> Setting:
    added = group.values[""]
    combined = (*(old.combined or (SourcedValue(old.value, old.source),)), SourcedValue(added, source))
    return old._replace(value=placement.combine(group.name, old.value, added), source=source, combined=combined)


def _groups_of_resources(resources: Resources) -> Iterator[SettingGroup]:
    for name in AMOUNTS:
        amount: Amount | None = getattr(resources, name)
        if amount is not None and (amount.requests is not None or amount.limits is not None):
            # Both parts are always included, because planning computes the missing one.
            yield SettingGroup("resources", name, {"requests": amount.requests, "limits": amount.limits})
    if resources.gpu is not None and resources.gpu.devices is not None:
        yield SettingGroup("resources", "gpu", _parts_of_gpu(resources.gpu))
    if resources.shm is not None:
        yield single_setting("resources", "shm", resources.shm)
    for name, count in resources.extended.items():
        yield single_setting("resources", f"extended.{name}", count)


def _parts_of_gpu(gpu: Gpu) -> dict[str, Any]:
    parts: dict[str, Any] = {"devices": gpu.devices, "type": gpu.type, "mig": gpu.mig}
    if gpu.devices and gpu.mig is None:
        # Set explicitly, so that rules on GPU memory apply to whole devices, and overriding a share shows both values.
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
