"""The one language in which compute is asked for: by users, compute resources, templates and policy defaults."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import Field, field_serializer, field_validator, model_validator

from fairlead.model.names import (
    DnsSubdomain,
    LabelKey,
    LabelValue,
    ObjectName,
    VariableName,
)
from fairlead.model.numbers import Id
from fairlead.model.parsing import Mistake, Strict, several_wrong, show, wrong
from fairlead.model.placement import Affinity, Toleration
from fairlead.model.resources import Resources
from fairlead.model.volumes import Volume


class Requirements(Strict):
    """Every field is optional: what is not said is left to the other layers."""

    resources: Resources = Field(default_factory=Resources)
    node_selector: Mapping[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    volumes: Mapping[str, Volume] = Field(default_factory=dict)
    secrets: tuple[VariableName, ...] = ()
    envs: Mapping[VariableName, str] = Field(default_factory=dict)
    fs_group: Id | None = None
    run_as_user: Id | None = None
    run_as_group: Id | None = None
    runtime_class: DnsSubdomain | None = None
    priority_class: DnsSubdomain | None = None
    profile: ObjectName | None = None
    template: ObjectName | None = None

    @field_validator("resources", "node_selector", "tolerations", "volumes", "secrets", "envs", mode="before")
    @classmethod
    def _read_nothing(cls, data: Any) -> Any:
        return {} if data is None else data

    @field_validator("node_selector", mode="before")
    @classmethod
    def _read_selectors(cls, data: Any) -> Any:
        return _read_pairs(data, "key")

    @field_validator("envs", mode="before")
    @classmethod
    def _read_envs(cls, data: Any) -> Any:
        return _read_pairs(data, "name")

    @field_validator("volumes", mode="before")
    @classmethod
    def _read_volumes(cls, data: Any) -> Any:
        return _by_name(data)

    @field_validator("tolerations", "secrets", mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        if not isinstance(data, list | tuple) and data != {}:
            raise wrong("list", f"must be a list, found {show(data)}", "put it in [ ]")
        return tuple(data)

    @model_validator(mode="after")
    def _check_mounts(self) -> Self:
        mounted: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for name, volume in self.volumes.items():
            other = mounted.setdefault(volume.mount_path, name)
            if other != name:
                message = f"volumes {other} and {name} are both mounted at {volume.mount_path}"
                mistakes.append(
                    Mistake(f"volumes.{name}.mount_path", "mount_path", message, "mount one of them elsewhere")
                )
        if mistakes:
            raise several_wrong(mistakes)
        return self

    @field_serializer("node_selector")
    def _print_selectors(self, selectors: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in selectors.items()]

    @field_serializer("envs")
    def _print_envs(self, envs: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"name": name, "value": value} for name, value in envs.items()]

    @field_serializer("volumes")
    def _print_volumes(self, volumes: Mapping[str, Volume]) -> list[dict[str, Any]]:
        return [volume.model_dump(exclude_none=True, exclude_defaults=True) for volume in volumes.values()]

    @field_serializer("tolerations", "affinity")
    def _print_kubernetes(self, value: Any) -> Any:
        return [part.to_kubernetes() for part in value] if isinstance(value, tuple) else value and value.to_kubernetes()

    def to_data(self) -> dict[str, Any]:
        """As people write it, in the one spelling; what is not said is left out."""
        return self.model_dump(exclude_none=True, exclude_defaults=True)


def _read_pairs(data: Any, key: str) -> Any:
    """A list of {key: ..., value: ...} as a mapping; a mapping stays one."""
    if isinstance(data, Mapping):
        return data
    return _take_entries(data, f"{key} and value", lambda entry: _pair(entry, key))


def _by_name(data: Any) -> Any:
    """A list of {name: ..., ...} as a mapping by name; so is a mapping by name whose entries leave it out."""
    if isinstance(data, Mapping):
        return {
            name: {"name": name} | dict(entry) if isinstance(entry, Mapping) else entry for name, entry in data.items()
        }
    return _take_entries(data, "name", lambda entry: (entry.get("name"), entry, []))


def _pair(entry: Mapping[str, Any], key: str) -> tuple[Any, Any, list[str]]:
    return entry.get(key), entry.get("value"), [name for name in entry if name not in (key, "value")]


def _take_entries(data: Any, expected: str, read: Any) -> dict[str, Any]:
    if not isinstance(data, list | tuple):
        raise wrong("list", f"must be a list or a mapping, found {show(data)}", f"each entry has {expected}")
    taken: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for index, entry in enumerate(data):
        mistakes += [mistake.below(str(index)) for mistake in _take_entry(taken, entry, expected, read)]
    if mistakes:
        raise several_wrong(mistakes)
    return taken


def _take_entry(taken: dict[str, Any], entry: Any, expected: str, read: Any) -> Iterator[Mistake]:
    """Put one entry of a list among the taken ones, or say what is wrong with it."""
    if not isinstance(entry, Mapping):
        yield Mistake("", "mapping", f"must be a mapping with {expected}, found {show(entry)}", None)
        return
    name, value, unknown = read(entry)
    key = expected.split()[0]
    if not isinstance(name, str) or not name:
        yield Mistake(key, "required", f"must have a {key}, found {show(name)}", f"say {key}")
    elif name in taken:
        yield Mistake(key, "duplicate", f"{show(name)} is there twice", "keep one")
    elif unknown:
        yield Mistake(unknown[0], "unknown_field", f"unknown field {show(unknown[0])}", f"an entry has {expected}")
    elif value is None:
        yield Mistake("value", "required", f"{name} has no value", 'write value: "" for an empty one')
    else:
        taken[name] = value
