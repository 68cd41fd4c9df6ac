"""Requests for runs: a function, an action, requirements, retries and a schedule."""

import math
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, field_validator, model_validator

from fairlead.model.names import Image, Name, VariableName
from fairlead.model.parsing import Flag, Mistake, StrictModel, collect_mistakes, field_error, raise_mistakes, short_repr
from fairlead.model.quantities import Seconds, Size, parse_factor, parse_integer
from fairlead.model.resources import Requirements, parse_variable

MAX_RETRIES = 20
MAX_GROWTH = 10

# The failures that can be retried: program failures, and loss of the node, pod or supervisor.
RetryReason = Literal["ExitCode", "OOMKilled", "Evicted", "NodeLost", "PodRemoved", "SupervisorLost"]

Retries = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, maximum=MAX_RETRIES)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 0, "maximum": MAX_RETRIES}),
]

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip"]
MAX_TEXT_LENGTH = 200

Action = Literal["job", "serve", "workspace"]
Kind = Literal["python", "container"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
WORKLOAD_TYPES: Mapping[str, str] = {"job": "training", "serve": "inference", "workspace": "workspace"}
MAX_REPLICAS = 10_000  # pod names have room for an index of up to 9999
MAX_PRIORITY = 100  # one point counts as an hour of waiting, so no run waits for one submitted over 200 hours later
MAX_INPUT_DEPTH = 50  # Python code can pass lists that contain themselves
MAX_TOKEN_LENGTH = 200
MAX_FILE_NAME_BYTES = 255  # the limit of most file systems
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$", re.ASCII)

Replicas = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, minimum=1, maximum=MAX_REPLICAS)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": MAX_REPLICAS}),
]
Port = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, minimum=1, maximum=65535)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": 65535}),
]


def parse_growth(value: Any) -> Fraction:
    """Parse the factor by which memory grows with each retry."""
    factor = value if isinstance(value, Fraction) else parse_factor(value)
    if not 1 < factor <= MAX_GROWTH:
        message = f"must be more than 1 and at most {MAX_GROWTH}, found {short_repr(value)}"
        raise field_error("range", message, "use a factor such as 1.5")
    return factor


Growth = Annotated[
    Fraction,
    PlainValidator(parse_growth),
    PlainSerializer(float),
    WithJsonSchema({"type": ["number", "string"], "examples": [1.5]}),
]


class OnOom(StrictModel):
    """Retry with more memory after an out-of-memory kill, up to `max`."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"grow": 1.5, "max": "64Gi"}

    grow: Growth = Fraction(3, 2)
    max: Size | None = None  # None: limited only by policies and quotas


class Schedule(StrictModel):
    """A schedule for a request. Its name defaults to the function name.

    `missed`: what to do about times that were missed because no server was running. `overlap`: whether to start a run
    before the previous one has ended.
    """

    SHORT_FORM: ClassVar[Any] = {"type": "string"}
    EXAMPLE: ClassVar[Any] = {"cron": "0 6 * * *", "timezone": "Europe/Rome"}

    cron: str = Field(max_length=MAX_TEXT_LENGTH)
    timezone: str = Field("UTC", max_length=MAX_TEXT_LENGTH)
    missed: Missed = "once"
    overlap: Overlap = "allow"
    name: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_line(cls, data: Any) -> Any:
        return {"cron": data} if isinstance(data, str) else data


def parse_command_line(value: Any) -> tuple[str, ...]:
    """Parse a command line: a list of arguments, or text that is split as in a shell."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            message = f"{short_repr(value)}: {str(error).lower()}"
            raise field_error("command", message, "close the quotes, or use a list") from None
    if not isinstance(value, list | tuple):
        raise field_error("list", f"must be a list of arguments, found {short_repr(value)}", "put it in [ ]")
    mistakes = [
        mistake for index, word in enumerate(value) for mistake in collect_mistakes(str(index), _parse_word, word)
    ]
    raise_mistakes(mistakes)
    # Numbers are converted to text, so that [--epochs, 3] needs no quotes.
    return tuple(map(str, value))


def parse_source(value: Any) -> str:
    """Parse the path of a code file or folder, relative to the root of the code archive."""
    if not isinstance(value, str) or not value.isprintable() or not 1 <= len(value) <= 500:
        message = f"must be the path of a file or folder, found {short_repr(value)}"
        raise field_error("path", message, "use a path such as train.py")
    # The path is relative to the folder with the unpacked archive, and must stay inside that folder.
    if value.startswith("/") or ".." in value.split("/"):
        message = f"must be a relative path without '..', found {short_repr(value)}"
        raise field_error("path", message, "use a path such as train.py or src")
    if any(len(part.encode()) > MAX_FILE_NAME_BYTES for part in value.split("/")):
        message = f"contains a name of more than {MAX_FILE_NAME_BYTES} bytes: {short_repr(value)}"
        raise field_error("path", message, "use a shorter name")
    return posixpath.normpath(value)


def parse_priority(value: Any) -> int:
    """Parse a run's priority, which may be negative."""
    # parse_integer is not used, because it does not accept negative numbers as text.
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,4}", value, re.ASCII):
        value = int(value)
    hint = f"use a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}; runs with higher values start first"
    if isinstance(value, bool) or not isinstance(value, int):
        raise field_error("whole_number", f"must be a whole number, found {short_repr(value)}", hint)
    if abs(value) > MAX_PRIORITY:
        message = f"must be from -{MAX_PRIORITY} to {MAX_PRIORITY}, found {short_repr(value)}"
        raise field_error("range", message, hint)
    return value


def parse_digest(value: Any) -> str:
    """Parse the digest of stored code."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise field_error("digest", f"invalid digest {short_repr(value)}", "use sha256: followed by 64 hex digits")
    return value


def _parse_word(value: Any) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else parse_variable(value)


_COMMAND_LINE = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "number"]}}]}
CommandLine = Annotated[tuple[str, ...], PlainValidator(parse_command_line), WithJsonSchema(_COMMAND_LINE)]
Priority = Annotated[
    int,
    PlainValidator(parse_priority),
    WithJsonSchema({"type": ["integer", "string"], "minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY}),
]
SourcePath = Annotated[
    str, PlainValidator(parse_source), WithJsonSchema({"type": "string", "maxLength": 500, "examples": ["train.py"]})
]


Digest = Annotated[
    str,
    PlainValidator(parse_digest),
    WithJsonSchema({"type": "string", "pattern": DIGEST.pattern, "examples": ["sha256:" + 64 * "0"]}),
]


class FunctionContent(StrictModel):
    """A function without its name: code, a command, or a container image."""

    kind: Kind = "python"
    image: Image | None = None
    pull_policy: PullPolicy | None = None
    pull_secrets: tuple[VariableName, ...] = ()
    source: SourcePath | None = None
    code: Digest | None = None  # the digest of an archive on the server
    handler: str | None = None  # a function in the source file, or module:function; None: a script
    command: CommandLine = ()
    args: CommandLine = ()
    port: Port | None = None
    retry_on: tuple[RetryReason, ...] | None = None  # None: after every failure that can be retried

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.kind == "container":
            raise_mistakes(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        if self.image is None:
            yield Mistake("image", "required", "is missing: a container function needs an image", "set image")
        for name in ("source", "code", "handler"):
            if (value := getattr(self, name)) is not None:
                message = f"must not be set for a container function, found {short_repr(value)}"
                yield Mistake(name, "contradiction", message, "set kind to python")


class Function(FunctionContent):
    """A function with its name. A plain string is the name of a stored function."""

    SHORT_FORM: ClassVar[Any] = {"type": "string"}

    name: Name

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data


class RunRequest(Requirements):
    """A request for a run. Its requirements are top-level fields."""

    EXAMPLE: ClassVar[Any] = {
        "function": {"name": "train", "kind": "container", "image": "registry.example/lab/train:1"},
        "profile": "1xa100",
        "resources": {"mem": "6Gi"},
    }

    action: Action = "job"
    function: Function
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    args: CommandLine | None = None  # None: the function's arguments
    replicas: Replicas = 1
    deadline: Seconds | None = None
    idle_timeout: Seconds | None = None
    retries: Retries | None = None
    on_oom: OnOom | None = None
    priority: Priority | None = None
    schedule: Schedule | None = None
    strict: Flag = False
    plan_token: Annotated[str, Field(max_length=MAX_TOKEN_LENGTH)] | None = None

    @field_validator("inputs", mode="before")
    @classmethod
    def _check_inputs(cls, inputs: Any) -> Any:
        if not isinstance(inputs, Mapping):
            raise field_error(
                "mapping",
                f"must be a mapping, found {short_repr(inputs)}",
                "use names and values, for example {epochs: 3}",
            )
        raise_mistakes(_find_not_json(inputs))
        return inputs

    def to_data(self) -> dict[str, Any]:
        """The fields that were set, in canonical spelling, without the plan token. Parsing them gives the same plan."""
        # Unset fields are left out, so that a stored request shows only what its author wrote.
        data = {name: value for name, value in super().to_data().items() if name in self.model_fields_set}
        # A token can be used only once, but a stored request can be submitted again.
        data.pop("plan_token", None)
        # Pydantic would warn that tuples are not the declared type.
        function = self.function.model_dump(mode="json", exclude_unset=True, exclude_none=True, warnings=False)
        data["function"] = {"name": self.function.name, **function}
        if self.args is not None:
            data["args"] = list(self.args)
        return data


def merge_patch(data: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7386): null removes a field."""
    merged = dict(data)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            before = merged.get(name)
            merged[name] = merge_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def _find_not_json(value: Any, depth: int = 0) -> Iterator[Mistake]:
    """Find values that cannot be passed to a function as JSON."""
    hint = "use text, numbers, true, false, null, lists and mappings with text keys"
    match value:
        case _ if depth > MAX_INPUT_DEPTH:
            yield Mistake("", "json", f"is nested more than {MAX_INPUT_DEPTH} levels deep", "flatten it")
        case str() | bool() | int() | None:
            pass
        case float():
            # json.dumps would write NaN and Infinity, which are not JSON.
            if not math.isfinite(value):
                yield Mistake("", "json", f"invalid number {short_repr(value)}", hint)
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    yield Mistake(str(key), "json", f"keys must be text, found {short_repr(key)}", hint)
                yield from (mistake.under(str(key)) for mistake in _find_not_json(item, depth + 1))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from (mistake.under(str(index)) for mistake in _find_not_json(item, depth + 1))
        case _:
            yield Mistake("", "json", f"must be a JSON value, found {short_repr(value)}", hint)
