"""Merging what the layers say: the strongest to mention a thing owns it whole, and the loser is remembered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.core import placement
from fairlead.model.plans import Said, Setting, Source
from fairlead.model.requirements import Requirements
from fairlead.model.resources import Amount, Gpu, Resources
from fairlead.model.volumes import Volume

AMOUNTS = ("cpu", "mem", "disk")
SCALARS = ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template")


@dataclass(frozen=True)
class Thing:
    """What is owned as a whole: a resource with its request and limit, an env, a volume, a single field.

    Its values stand at `section.name` and, where it has parts, at `section.name.part`.
    """

    section: str
    name: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Statement:
    """What one layer says."""

    source: Source
    things: tuple[Thing, ...]


Settings = dict[tuple[str, str], dict[str, Setting]]


@dataclass(frozen=True)
class Resolution:
    """The merged settings, by thing and part. Everything that is checked and rendered is read from here."""

    things: Settings

    def value(self, section: str, name: str = "", part: str = "") -> Any:
        """A resolved value, None where there is none."""
        setting = self.things.get((section, name), {}).get(part)
        return None if setting is None else setting.value

    def setting(self, section: str, name: str = "", part: str = "") -> Setting | None:
        """A resolved value with its provenance."""
        return self.things.get((section, name), {}).get(part)

    def named(self, section: str) -> dict[str, dict[str, Any]]:
        """All things of a section by name, with the parts that have a value."""
        return {
            name: {part: setting.value for part, setting in parts.items() if setting.value is not None}
            for (owner, name), parts in self.things.items()
            if owner == section
        }

    def flat(self) -> Iterator[Setting]:
        """Every setting, in no particular order."""
        for parts in self.things.values():
            yield from parts.values()

    def extended(self, statement: Statement) -> "Resolution":
        """This resolution with one more, stronger layer."""
        return Resolution(_add(dict(self.things), statement))


def resolve(statements: Sequence[Statement]) -> Resolution:
    """Merge the layers, weakest first."""
    settings: Settings = {}
    for statement in statements:
        _add(settings, statement)
    return Resolution(settings)


def state(source: Source, requirements: Requirements, *more: Thing) -> Statement:
    """What a layer says, thing by thing."""
    return Statement(source, (*things_of(requirements), *more))


def things_of(asked: Requirements) -> Iterator[Thing]:
    """Requirements, as the things that are owned whole."""
    yield from _things_of_resources(asked.resources)
    for key, value in asked.node_selector.items():
        yield Thing("node_selector", key, {"": value})
    for toleration in asked.tolerations:
        yield Thing("tolerations", str(toleration), {"": toleration.to_kubernetes()})
    if asked.affinity is not None:
        for name, terms in placement.parts_of(asked.affinity):
            yield Thing("affinity", name, {"": terms})
    for name, volume in asked.volumes.items():
        yield Thing("volumes", name, _parts_of_volume(volume))
    for name in asked.secrets:
        yield Thing("secrets", name, {"": name})
    for name, text in asked.envs.items():
        yield Thing("envs", name, {"": text})
    for field in SCALARS:
        if (value := getattr(asked, field)) is not None:
            yield Thing(field, "", {"": value})


def path_of(section: str, name: str, part: str = "") -> str:
    """How a setting is called: `resources.mem.requests`, `envs.HF_HOME`, `fs_group`."""
    return ".".join(filter(None, (section, name, part)))


def _add(settings: Settings, statement: Statement) -> Settings:
    for thing in statement.things:
        key = (thing.section, thing.name)
        if thing.section == "affinity" and key in settings:
            settings[key] = {"": _combine(settings[key][""], thing, statement.source)}
        else:
            settings[key] = _take_over(settings.get(key, {}), thing, statement.source)
    return settings


def _take_over(old: Mapping[str, Setting], thing: Thing, source: Source) -> dict[str, Setting]:
    """The thing as its new owner has it. What only the loser said stays visible, without a value."""
    taken = {}
    for part in old.keys() | thing.values.keys():
        loser = old.get(part)
        overrode: tuple[Said, ...] = ()
        if loser is not None:
            overrode = loser.overrode if loser.value is None else (Said(loser.value, loser.source), *loser.overrode)
        path = path_of(thing.section, thing.name, part)
        taken[part] = Setting(path, thing.values.get(part), source, overrode)
    return taken


def _combine(old: Setting, thing: Thing, source: Source) -> Setting:
    added = thing.values[""]
    combined = (*(old.combined or (Said(old.value, old.source),)), Said(added, source))
    return replace(old, value=placement.combine(thing.name, old.value, added), source=source, combined=combined)


def _things_of_resources(asked: Resources) -> Iterator[Thing]:
    for name in AMOUNTS:
        amount: Amount | None = getattr(asked, name)
        if amount is not None and (amount.requests is not None or amount.limits is not None):
            yield Thing("resources", name, {"requests": amount.requests, "limits": amount.limits})
    if asked.gpu is not None:
        yield Thing("resources", "gpu", _parts_of_gpu(asked.gpu))
    if asked.shm is not None:
        yield Thing("resources", "shm", {"": asked.shm})
    for name, count in asked.extended.items():
        yield Thing("resources", f"extended.{name}", {"": count})


def _parts_of_gpu(gpu: Gpu) -> dict[str, Any]:
    parts: dict[str, Any] = {"devices": gpu.devices, "type": gpu.type, "mig": gpu.mig}
    if gpu.memory is not None:
        parts["memory.request"] = gpu.memory.limit if gpu.memory.request is None else gpu.memory.request
        parts["memory.limit"] = gpu.memory.limit
    return {part: value for part, value in parts.items() if value is not None}


def _parts_of_volume(volume: Volume) -> dict[str, Any]:
    parts: dict[str, Any] = {"volume_type": volume.volume_type, "mount_path": volume.mount_path}
    if volume.read_only:
        parts["read_only"] = True
    if volume.sub_path is not None:
        parts["sub_path"] = volume.sub_path
    for name in volume.spec.model_fields_set:
        if (value := getattr(volume.spec, name)) is not None:
            parts[f"spec.{name}"] = value
    return parts
