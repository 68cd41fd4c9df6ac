"""What a user submits: a function, an action, and requirements."""

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, field_validator, model_validator

from fairlead.model.names import Name
from fairlead.model.numbers import Seconds, parse_whole
from fairlead.model.parsing import Strict, show, wrong
from fairlead.model.requirements import Requirements

Action = Literal["job", "serve", "workspace"]
WORKLOAD_TYPES: Mapping[str, str] = {"job": "training", "serve": "inference", "workspace": "workspace"}
MOST_REPLICAS = 10_000


def parse_words(value: Any) -> tuple[str, ...]:
    """A command line: a list of words, or one text that is split as a shell would."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise wrong(
                "command", f"{show(value)}: {str(error).lower()}", "close the quotes, or write a list"
            ) from None
    if not isinstance(value, list | tuple):
        raise wrong("list", f"must be a list of words, found {show(value)}", "put it in [ ]")
    for index, word in enumerate(value):
        if isinstance(word, bool) or not isinstance(word, str | int | float):
            raise wrong("text", f"must be text, found {show(word)}", "write it in quotes", at=str(index))
    return tuple(map(str, value))


def parse_image(value: Any) -> str:
    """A reference to a container image."""
    if not isinstance(value, str) or not value or len(value) > 500 or any(not "!" <= letter <= "~" for letter in value):
        raise wrong("image", f"is no image: {show(value)}", "write one such as python:3.12-slim or registry/name:tag")
    return value


Words = Annotated[tuple[str, ...], PlainValidator(parse_words)]
Image = Annotated[str, PlainValidator(parse_image)]
Replicas = Annotated[int, PlainValidator(lambda value: parse_whole(value, least=1, most=MOST_REPLICAS))]
Port = Annotated[int, PlainValidator(lambda value: parse_whole(value, least=1, most=65535))]


class Function(Strict):
    """Named code, or a container image."""

    name: Name
    kind: Literal["python", "container"] = "python"
    image: Image | None = None
    source: str | None = None
    handler: str | None = None
    command: Words = ()
    args: Words = ()
    port: Port | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.kind == "container":
            if self.image is None:
                raise wrong("required", "is missing: a container function is an image", "say image", at="image")
            for name in ("source", "handler"):
                if getattr(self, name) is not None:
                    message = f"a container function has no {name}, found {show(getattr(self, name))}"
                    raise wrong("contradiction", message, f"leave {name} out, or use kind: python", at=name)
        return self


class RunRequest(Requirements):
    """One run as a user asks for it: the fields of the requirements stand at the top level."""

    NOT_BUILT: ClassVar[Mapping[str, str]] = {
        "retries": "retrying",
        "on_oom": "growing after running out of memory",
        "schedule": "running on a schedule",
        "priority": "a queue with priorities",
        "plan_token": "submitting a previewed plan",
    }

    action: Action = "job"
    function: Function
    inputs: Mapping[str, Any] = Field(default_factory=dict)
    args: Words | None = None
    replicas: Replicas = 1
    deadline: Seconds | None = None
    strict: Annotated[bool, Field(strict=True)] = False

    @field_validator("inputs")
    @classmethod
    def _check_json(cls, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return inputs
