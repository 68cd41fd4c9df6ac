"""Bodies: strict JSON into model objects, or bytes. What is wrong with one is told all at once, in our words."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from fastapi import Request
from pydantic import BaseModel, ValidationError

from fairlead.errors import RequestRejected
from fairlead.model.parsing import show, violations_of
from fairlead.model.plans import Violation
from fairlead.model.project_objects import Hidden
from fairlead.server.problem_details import Problem

DEEPEST = 100
MOST_ENTRIES = 10_000
LONGEST_NUMBER = 1000
IN_MEMORY = 1024 * 1024
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonBody:
    """A dependency that reads a body as a model, or as a mapping of some of its fields."""

    def __init__(self, model: type[BaseModel], *, partial: bool = False, required: bool = True) -> None:
        self.model, self.partial, self.required = model, partial, required

    async def __call__(self, request: Request) -> Any:
        """What the body says."""
        text = await request.body()
        data = parse_json(text, request.headers.get("content-type")) if text or self.required else {}
        if self.partial:
            if not isinstance(data, dict):
                raise Problem(
                    400, "json", f"the body must be a mapping, found {show(data)}", "send the fields to change"
                )
            return data
        try:
            return self.model.model_validate(data)
        except ValidationError as error:
            if issubclass(self.model, Hidden):
                hint = f"send {json.dumps(self.model.EXAMPLE)}"
                violation = Violation("", "body", "is not what it should be, and is not repeated here", hint)
                raise RequestRejected([violation]) from None
            raise RequestRejected(violations_of(error, self.model)) from error


class BytesBody:
    """What reads a body that is bytes, and called what it should be, or nothing at all."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def check(self, request: Request) -> None:
        """Raise where the body is called something else."""
        kind = request.headers.get("content-type", self.kinds[0]).partition(";")[0].strip().lower()
        if kind not in self.kinds:
            message = f"the body is {kind[:80]!r}, not {' or '.join(self.kinds)}"
            raise Problem(415, "media_type", message, f"send Content-Type: {self.kinds[0]}")


class RawBody(BytesBody):
    """A dependency that reads a body as the bytes that it is."""

    async def __call__(self, request: Request) -> bytes:
        """The body."""
        self.check(request)
        return await request.body()


class SpooledBody(BytesBody):
    """A dependency that reads a body as a file. A large one lies on the disk: many at once must not fill the memory."""

    async def __call__(self, request: Request) -> AsyncIterator[IO[bytes]]:
        """The body, which is gone with the request."""
        self.check(request)
        with SpooledTemporaryFile(IN_MEMORY) as file:
            async for chunk in request.stream():
                file.write(chunk)
            yield file


def parse_json(text: bytes, content_type: str | None) -> Any:
    """A JSON text. Nothing in it is lost: a key that is there twice is refused, not dropped."""
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        message = f"the body is {content_type[:80]!r}, not JSON"
        raise Problem(415, "media_type", message, "send Content-Type: application/json")
    if not text:
        raise Problem(400, "json", "the body is empty", "send a JSON mapping")
    try:
        data = json.loads(
            text.decode("utf-8"), object_pairs_hook=_read_pairs, parse_constant=_refuse_number, parse_int=_read_whole
        )
    except RecursionError:
        raise Problem(400, "json", f"the body is nested more than {DEEPEST} deep", "flatten it") from None
    except UnicodeDecodeError as error:
        raise Problem(400, "json", f"the body is no UTF-8 text: {error.reason}", "send UTF-8") from None
    except ValueError as error:
        raise Problem(400, "json", f"the body is not JSON: {error}", "send a JSON mapping") from None
    if len(text) > DEEPEST:
        _check_shape(data)
    if b"\\u0000" in text or _SURROGATE.search(text):
        _check_text(data)
    return data


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{show(twice)} is there twice in one mapping")
    return read


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _read_whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _check_shape(data: Any) -> None:
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise Problem(400, "json", f"the body is nested more than {DEEPEST} deep", "flatten it")
        children = [_children(part) for part in level]
        if max(map(len, children)) > MOST_ENTRIES:
            message = f"the body has a list or mapping with more than {MOST_ENTRIES:,} entries"
            raise Problem(400, "json", message, "send less at once")
        level = [child for inner in children for child in inner]


def _children(part: Any) -> Sequence[Any]:
    if isinstance(part, dict):
        return list(part.values())
    return part if isinstance(part, list) else ()


def _check_text(data: Any) -> None:
    """Refuse what no database keeps as text. It is not repeated: it may be a secret."""
    for text in _texts(data):
        if "\0" in text:
            raise Problem(400, "json", "the body has a text with the character NUL", "take it out")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Problem(400, "json", "the body has a text with half a character", "send whole characters")


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        for value in data.values():
            yield from _texts(value)
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)
