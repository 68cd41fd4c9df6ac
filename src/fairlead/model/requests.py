"""What a user submits: a function, an action, and requirements."""

import math
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from fairlead.model.names import Image, Name, VariableName
from fairlead.model.numbers import Seconds, parse_whole
from fairlead.model.oom_retries import OnOom, Retries, RetryReason
from fairlead.model.parsing import Flag, Mistake, Strict, collect, refuse, show, wrong
from fairlead.model.requirements import Requirements, parse_variable
from fairlead.model.schedules import Schedule

Action = Literal["job", "serve", "workspace"]
Kind = Literal["python", "container"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
WORKLOAD_TYPES: Mapping[str, str] = {"job": "training", "serve": "inference", "workspace": "workspace"}
MOST_REPLICAS = 10_000
HIGHEST_PRIORITY = 100
DEEPEST_INPUT = 50
LONGEST_TOKEN = 200
LONGEST_FILE_NAME = 255  # of most file systems
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$", re.ASCII)


def parse_words(value: Any) -> tuple[str, ...]:
    """A command line: a list of words, or one text that is split as a shell would."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            message = f"{show(value)}: {str(error).lower()}"
            raise wrong("command", message, "close the quotes, or write a list") from None
    if not isinstance(value, list | tuple):
        raise wrong("list", f"must be a list of words, found {show(value)}", "put it in [ ]")
    mistakes = [mistake for index, word in enumerate(value) for mistake in collect(str(index), _parse_word, word)]
    refuse(mistakes)
    return tuple(map(str, value))


def parse_source(value: Any) -> str:
    """A file or folder of code, as it lies in the archive that travels to the run."""
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 500:
        raise wrong("path", f"must be the name of a file or folder, found {show(value)}", "write one such as train.py")
    if value.startswith("/") or ".." in value.split("/"):
        message = f"must be a relative path without '..', found {show(value)}"
        raise wrong("path", message, "write one such as train.py or src")
    if any(len(part.encode()) > LONGEST_FILE_NAME for part in value.split("/")):
        message = f"has a name that is longer than {LONGEST_FILE_NAME} bytes: {show(value)}"
        raise wrong("path", message, "choose a shorter one")
    return posixpath.normpath(value)


def parse_priority(value: Any) -> int:
    """How far before others a run is: a whole number, which may be less than nothing."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,4}", value, re.ASCII):
        value = int(value)
    hint = f"write a whole number from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, more for what comes first"
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong("whole_number", f"must be a whole number, found {show(value)}", hint)
    if abs(value) > HIGHEST_PRIORITY:
        message = f"must be from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, found {show(value)}"
        raise wrong("range", message, hint)
    return value


def parse_digest(value: Any) -> str:
    """The digest under which code is kept."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise wrong("digest", f"must be the digest of code, found {show(value)}", "write sha256: and 64 hex digits")
    return value


def _parse_word(value: Any) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else parse_variable(value)


_LINE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "number"]}}]}
Words = Annotated[tuple[str, ...], PlainValidator(parse_words), WithJsonSchema(_LINE)]
Replicas = Annotated[
    int,
    PlainValidator(lambda value: parse_whole(value, least=1, most=MOST_REPLICAS)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": MOST_REPLICAS}),
]
Port = Annotated[
    int,
    PlainValidator(lambda value: parse_whole(value, least=1, most=65535)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": 65535}),
]
Priority = Annotated[
    int,
    PlainValidator(parse_priority),
    WithJsonSchema({"type": ["integer", "string"], "minimum": -HIGHEST_PRIORITY, "maximum": HIGHEST_PRIORITY}),
]
SourcePath = Annotated[
    str, PlainValidator(parse_source), WithJsonSchema({"type": "string", "maxLength": 500, "examples": ["train.py"]})
]


Digest = Annotated[
    str,
    PlainValidator(parse_digest),
    WithJsonSchema({"type": "string", "pattern": DIGEST.pattern, "examples": ["sha256:" + 64 * "0"]}),
]


class FunctionContent(Strict):
    """What a function is, whatever it is called: code, a command, or a container image."""

    kind: Kind = "python"
    image: Image | None = None
    pull_policy: PullPolicy | None = None
    pull_secrets: tuple[VariableName, ...] = ()
    source: SourcePath | None = None
    code: Digest | None = None
    handler: str | None = None
    command: Words = ()
    args: Words = ()
    port: Port | None = None
    retry_on: tuple[RetryReason, ...] | None = None  # None: after every failure after which a run can be tried again

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.kind == "container":
            refuse(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        if self.image is None:
            yield Mistake("image", "required", "is missing: a container function is an image", "say image")
        for name in ("source", "code", "handler"):
            if (value := getattr(self, name)) is not None:
                message = f"a container function has no {name}, found {show(value)}"
                yield Mistake(name, "contradiction", message, "use kind: python")


class Function(FunctionContent):
    """Named code, or a container image."""

    SHORT_FORM: ClassVar[Any] = {"type": "string"}

    name: Name

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data


class RunRequest(Requirements):
    """One run as a user asks for it: the fields of the requirements stand at the top level."""

    EXAMPLE: ClassVar[Any] = {
        "function": {"name": "train", "kind": "container", "image": "registry.example/lab/train:1"},
        "profile": "1xa100",
        "resources": {"mem": "6Gi"},
    }

    action: Action = "job"
    function: Function
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    args: Words | None = None
    replicas: Replicas = 1
    deadline: Seconds | None = None
    idle_timeout: Seconds | None = None
    retries: Retries | None = None
    on_oom: OnOom | None = None
    priority: Priority | None = None
    schedule: Schedule | None = None
    strict: Flag = False
    plan_token: Annotated[str, Field(max_length=LONGEST_TOKEN)] | None = None

    @field_validator("inputs", mode="before")
    @classmethod
    def _check_inputs(cls, inputs: Any) -> Any:
        if not isinstance(inputs, Mapping):
            raise wrong("mapping", f"must be a mapping, found {show(inputs)}", "write inputs by name: {epochs: 3}")
        refuse(_find_not_json(inputs))
        return inputs

    def to_data(self) -> dict[str, Any]:
        """As it was asked, in the one spelling: what reads it back plans the same. The token is not part of it."""
        data = {name: value for name, value in super().to_data().items() if name in self.model_fields_set}
        data.pop("plan_token", None)
        # Lists are lists only after it is dumped, of which pydantic would warn.
        function = self.function.model_dump(mode="json", exclude_unset=True, exclude_none=True, warnings=False)
        data["function"] = {"name": self.function.name, **function}
        if self.args is not None:
            data["args"] = list(self.args)
        return data


def merge(data: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Data with a change in it: what is null there is left out here (RFC 7386)."""
    merged = dict(data)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            before = merged.get(name)
            merged[name] = merge(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def _find_not_json(value: Any, depth: int = 0) -> Iterator[Mistake]:
    """What a function could not be given as it was written."""
    hint = "use text, numbers, true, false, null, lists and mappings with text as keys"
    match value:
        case _ if depth > DEEPEST_INPUT:
            yield Mistake("", "json", f"is nested more than {DEEPEST_INPUT} deep", "flatten it")
        case str() | bool() | int() | None:
            pass
        case float():
            if not math.isfinite(value):
                yield Mistake("", "json", f"is no number: {show(value)}", hint)
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield Mistake(str(key), "json", f"has a key that is not text: {show(key)}", hint)
                yield from (mistake.below(str(key)) for mistake in _find_not_json(item, depth + 1))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from (mistake.below(str(index)) for mistake in _find_not_json(item, depth + 1))
        case _:
            yield Mistake("", "json", f"is not JSON: {show(value)}", hint)
