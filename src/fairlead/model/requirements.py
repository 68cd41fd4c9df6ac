"""The one language in which compute is asked for: by users, compute resources, templates and policy defaults."""

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
from fairlead.model.parsing import Mistake, Strict, collect, mistakes_in, parse_text, printable, refuse, show, wrong
from fairlead.model.placement import Affinity, Toleration
from fairlead.model.resources import Resources
from fairlead.model.volumes import Volume

LONGEST_VARIABLE = 128 * 1024 - 1  # what Linux takes as one argument or variable


def parse_selector(data: Any) -> Mapping[str, str]:
    """Node labels, as a mapping or as a list of {key, value}."""
    return _read_pairs(data, "key", {"key": LABEL_KEY.check, "value": LABEL_VALUE.check})


def parse_envs(data: Any) -> Mapping[str, str]:
    """Variables, as a mapping or as a list of {name, value}."""
    return _read_pairs(data, "name", {"name": VARIABLE.check, "value": parse_variable})


def parse_volumes(data: Any) -> Mapping[str, Volume]:
    """Volumes by name, from a list or from a mapping whose entries may leave the name out."""
    volumes: dict[str, Volume] = {}
    mistakes: list[Mistake] = []
    for at, entry in _read_entries(data, "name", _join_name):
        try:
            volume = Volume.model_validate(entry)
        except ValidationError as error:
            mistakes += [mistake.below(at) for mistake in mistakes_in(error, Volume)]
            continue
        if isinstance(data, Mapping) and volume.name != at:
            message = f"is {volume.name}, and stands under the name {at}"
            mistakes.append(Mistake(f"{at}.name", "contradiction", message, "leave it out"))
        elif volume.name in volumes:
            mistakes.append(_twice(f"{at}.name", volume.name))
        volumes[volume.name] = volume
    refuse(mistakes)
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
            {"type": "array", "items": {"$ref": "#/components/schemas/Volume"}},  # where the API describes it
            {"type": "object", "additionalProperties": {"type": "object"}},
        ],
    }
)


class Requirements(Strict):
    """Every field is optional: what is not said is left to the other layers."""

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
            raise wrong("list", f"must be a list, found {show(data)}", "put it in [ ]")
        return tuple(data)

    @model_validator(mode="after")
    def _check_mounts(self) -> Self:
        mounted: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for name, volume in self.volumes.items():
            other = mounted.setdefault(volume.mount_path, name)
            if other != name:
                at = f"volumes.{name}.mount_path"
                message = f"volumes {other} and {name} are both mounted at {volume.mount_path}"
                mistakes.append(Mistake(at, "mount_path", message, "mount one of them elsewhere"))
        refuse(mistakes)
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
        """As people write it, in the one spelling; what is not said is left out."""
        data = self.model_dump(exclude_none=True)
        data["resources"] = {name: value for name, value in data["resources"].items() if value != {}}
        return {name: value for name, value in data.items() if value not in ({}, [], ())}


def parse_variable(value: Any) -> str:
    """Text that a process can be given."""
    text = parse_text(value)
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_VARIABLE:
        message = f"has {len(text)} characters; a process is given at most {LONGEST_VARIABLE} bytes at once"
        raise wrong("too_long", message, "use a volume or a file of the function's code")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise wrong("text", f"is no Unicode text: {show(text)}", "take the lone surrogates out")
    if "\0" in text:
        raise wrong("text", f"must not contain the character NUL, found {show(text)}", "take it out")
    return text


def _read_pairs(data: Any, key: str, checks: Mapping[str, Callable[[Any], Any]]) -> Mapping[str, str]:
    """Pairs of a key and a value, from a mapping or from a list that names both; every mistake at once."""
    pairs: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for at, entry in _read_entries(data, key, lambda name, value: {key: name, "value": value}):
        found = list(_check_pair(entry, checks))
        if not found and entry[key] in pairs:
            found = [_twice(key, entry[key])]
        if not found:
            pairs[entry[key]] = entry["value"]
        # In a mapping the key itself is the place of both.
        places = [mistake._replace(at="") if isinstance(data, Mapping) else mistake for mistake in found]
        mistakes += [mistake.below(at) for mistake in places]
    refuse(mistakes)
    return pairs


def _check_pair(entry: Any, checks: Mapping[str, Callable[[Any], Any]]) -> Iterator[Mistake]:
    expected = " and ".join(checks)
    if not isinstance(entry, Mapping):
        hint = f"write {{{', '.join(f'{name}: ...' for name in checks)}}}"
        yield Mistake("", "mapping", f"must be a mapping with {expected}, found {show(entry)}", hint)
        return
    for name, check in checks.items():
        if entry.get(name) is None:
            hint = 'write "" for an empty value' if name == "value" else f"say its {name}"
            yield Mistake(name, "required", f"must have a {name}, found none", hint)
        else:
            yield from collect(name, check, entry[name])
    for name in entry:
        if name not in checks:
            yield Mistake(str(name), "unknown_field", f"unknown field {show(name)}", f"an entry has {expected}")


def _read_entries(data: Any, key: str, join: Callable[[Any, Any], Any]) -> Iterator[tuple[str, Any]]:
    """The entries of a list by index, or those of a mapping by key, joined with it as if they stood in a list."""
    if isinstance(data, Mapping):
        yield from ((printable(name), join(name, entry)) for name, entry in data.items())
    elif isinstance(data, list | tuple):
        for index, entry in enumerate(data):
            name = entry.get(key) if isinstance(entry, Mapping) else None
            yield printable(name) if isinstance(name, str) and name else str(index), entry
    else:
        raise wrong("list", f"must be a list or a mapping, found {show(data)}", f"each entry has a {key}")


def _join_name(name: Any, entry: Any) -> Any:
    return {"name": name, **entry} if isinstance(entry, Mapping) else entry


def _twice(at: str, name: str) -> Mistake:
    return Mistake(at, "duplicate", f"{show(name)} is there twice", "keep one")


Variable = Annotated[str, PlainValidator(parse_variable), WithJsonSchema({"type": "string"})]
