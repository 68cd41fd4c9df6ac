"""Compute requirements, as set by users, compute resources, templates and policy defaults."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)

from fairlead.model.names import LABEL_KEY, LABEL_VALUE, VARIABLE, DnsSubdomain, ObjectName, VariableName
from fairlead.model.numbers import Id
from fairlead.model.parsing import (
    Mistake,
    StrictModel,
    collect_mistakes,
    field_error,
    mistakes_of_validation,
    parse_text,
    printable,
    raise_mistakes,
    short_repr,
)
from fairlead.model.placement import Affinity, Toleration
from fairlead.model.resources import Resources
from fairlead.model.volumes import Volume

MAX_VARIABLE_BYTES = 128 * 1024 - 1  # MAX_ARG_STRLEN on Linux, for one argument or variable


def parse_selector(data: Any) -> Mapping[str, str]:
    """Parse node labels from a mapping or a list of {key, value} entries."""
    return _read_pairs(data, "key", {"key": LABEL_KEY.parse, "value": LABEL_VALUE.parse})


def parse_envs(data: Any) -> Mapping[str, str]:
    """Parse environment variables from a mapping or a list of {name, value} entries."""
    return _read_pairs(data, "name", {"name": VARIABLE.parse, "value": parse_variable})


def parse_volumes(data: Any) -> Mapping[str, Volume]:
    """Parse volumes by name, from a list or from a mapping whose entries may omit the name."""
    volumes: dict[str, Volume] = {}
    mistakes: list[Mistake] = []
    for path, entry in _read_entries(data, "name", _join_name):
        try:
            volume = Volume.model_validate(entry)
        except ValidationError as error:
            mistakes += [mistake.under(path) for mistake in mistakes_of_validation(error, Volume)]
            continue
        if isinstance(data, Mapping) and volume.name != path:
            message = f"{volume.name} differs from the key {path}"
            mistakes.append(Mistake(f"{path}.name", "contradiction", message, "remove the name"))
        elif volume.name in volumes:
            mistakes.append(_duplicate(f"{path}.name", volume.name))
        volumes[volume.name] = volume
    raise_mistakes(mistakes)
    return volumes


def _pairs(key: str) -> WithJsonSchema:
    entry = {
        "type": "object",
        "required": [key, "value"],
        "properties": {key: {"type": "string"}, "value": {"type": "string"}},
    }
    by_name = {"type": "object", "additionalProperties": {"type": "string"}}
    return WithJsonSchema({"anyOf": [by_name, {"type": "array", "items": entry}]})


_VOLUMES = WithJsonSchema(
    {
        "description": "volumes in a list, or by name",
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/components/schemas/Volume"}},  # the API schema defines it
            {"type": "object", "additionalProperties": {"type": "object"}},
        ],
    }
)


class Requirements(StrictModel):
    """A run's requirements. Every field is optional, because other layers may set missing fields."""

    resources: Resources = Field(default_factory=Resources)
    node_selector: Annotated[Mapping[str, str], PlainValidator(parse_selector), _pairs("key")] = Field(
        default_factory=dict
    )
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    volumes: Annotated[Mapping[str, Volume], PlainValidator(parse_volumes), _VOLUMES] = Field(default_factory=dict)
    secrets: tuple[VariableName, ...] = ()
    envs: Annotated[Mapping[str, str], PlainValidator(parse_envs), _pairs("name")] = Field(default_factory=dict)
    fs_group: Id | None = None
    run_as_user: Id | None = None
    run_as_group: Id | None = None
    runtime_class: DnsSubdomain | None = None
    priority_class: DnsSubdomain | None = None
    profile: ObjectName | None = None
    template: ObjectName | None = None

    @field_validator("tolerations", "secrets", mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        if not isinstance(data, list | tuple):
            raise field_error("list", f"must be a list, found {short_repr(data)}", "put it in [ ]")
        return tuple(data)

    @model_validator(mode="after")
    def _check_mounts(self) -> Self:
        # This checks only these requirements. `core.request_checks` compares the volumes of all layers.
        mounted: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for name, volume in self.volumes.items():
            other = mounted.setdefault(volume.mount_path, name)
            if other != name:
                path = f"volumes.{name}.mount_path"
                message = f"volumes {other} and {name} are both mounted at {volume.mount_path}"
                mistakes.append(Mistake(path, "mount_path", message, "mount one of them at another path"))
        raise_mistakes(mistakes)
        return self

    @field_serializer("node_selector")
    def _print_selectors(self, selectors: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in selectors.items()]

    @field_serializer("envs")
    def _print_envs(self, envs: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"name": name, "value": value} for name, value in envs.items()]

    @field_serializer("volumes")
    def _print_volumes(self, volumes: Mapping[str, Volume]) -> list[dict[str, Any]]:
        return [volume.to_data() for volume in volumes.values()]

    @field_serializer("tolerations", "affinity")
    def _print_kubernetes(self, value: Any) -> Any:
        return [part.manifest for part in value] if isinstance(value, tuple) else value and value.manifest

    def to_data(self) -> dict[str, Any]:
        """The requirements as users write them, in canonical spelling and without unset fields."""
        data = self.model_dump(exclude_none=True)
        # exclude_none leaves {} for a resource that has neither a request nor a limit.
        data["resources"] = {name: value for name, value in data["resources"].items() if value != {}}
        return {name: value for name, value in data.items() if value not in ({}, [], ())}


def parse_variable(value: Any) -> str:
    """Parse text that can be passed to a process as an argument or variable."""
    text = parse_text(value)
    # JSON may contain lone surrogates, which need `surrogatepass` to be encoded. The next check rejects them.
    if len(text.encode("utf-8", "surrogatepass")) > MAX_VARIABLE_BYTES:
        message = f"has {len(text)} characters; at most {MAX_VARIABLE_BYTES} bytes can be passed to a process"
        raise field_error("too_long", message, "use a volume, or a file in the function's code")
    # isascii() is much faster than the loop and is true for nearly all values.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise field_error("text", f"invalid Unicode text {short_repr(text)}", "remove the lone surrogates")
    # The kernel cuts off arguments and variables at the first NUL.
    if "\0" in text:
        raise field_error("text", f"must not contain a NUL character, found {short_repr(text)}", "remove it")
    return text


def _read_pairs(data: Any, key: str, checks: Mapping[str, Callable[[Any], Any]]) -> Mapping[str, str]:
    """Read key-value pairs from a mapping or a list of entries. Collects all mistakes."""
    pairs: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for path, entry in _read_entries(data, key, lambda name, value: {key: name, "value": value}):
        entry_mistakes = list(_check_pair(entry, checks))
        if not entry_mistakes and entry[key] in pairs:
            entry_mistakes = [_duplicate(key, entry[key])]
        if not entry_mistakes:
            pairs[entry[key]] = entry["value"]
        if isinstance(data, Mapping):  # the path of both key and value is the key
            entry_mistakes = [mistake._replace(path="") for mistake in entry_mistakes]
        mistakes += [mistake.under(path) for mistake in entry_mistakes]
    raise_mistakes(mistakes)
    return pairs


def _check_pair(entry: Any, checks: Mapping[str, Callable[[Any], Any]]) -> Iterator[Mistake]:
    expected = " and ".join(checks)
    if not isinstance(entry, Mapping):
        hint = f"use {{{', '.join(f'{name}: ...' for name in checks)}}}"
        yield Mistake("", "mapping", f"must be a mapping with {expected}, found {short_repr(entry)}", hint)
        return
    for name, check in checks.items():
        if entry.get(name) is None:
            hint = 'use "" for an empty value' if name == "value" else f"set {name}"
            yield Mistake(name, "required", "is missing", hint)
        else:
            yield from collect_mistakes(name, check, entry[name])
    for name in entry:
        if name not in checks:
            hint = f"known fields: {', '.join(checks)}"
            yield Mistake(str(name), "unknown_field", f"unknown field {short_repr(name)}", hint)


def _read_entries(data: Any, key: str, join: Callable[[Any, Any], Any]) -> Iterator[tuple[str, Any]]:
    """The entries of a list or mapping, each with its path. `join` adds a mapping key to its entry."""
    if isinstance(data, Mapping):
        yield from ((printable(name), join(name, entry)) for name, entry in data.items())
    elif isinstance(data, list | tuple):
        for index, entry in enumerate(data):
            name = entry.get(key) if isinstance(entry, Mapping) else None
            # A name identifies an entry better than its position, which changes when entries are added.
            yield printable(name) if isinstance(name, str) and name else str(index), entry
    else:
        hint = f"use a list of entries with a {key}"
        raise field_error("list", f"must be a list or a mapping, found {short_repr(data)}", hint)


def _join_name(name: Any, entry: Any) -> Any:
    return {"name": name, **entry} if isinstance(entry, Mapping) else entry


def _duplicate(path: str, name: str) -> Mistake:
    return Mistake(path, "duplicate", f"{short_repr(name)} is set twice", "remove one of them")


Variable = Annotated[str, PlainValidator(parse_variable), WithJsonSchema({"type": "string"})]
