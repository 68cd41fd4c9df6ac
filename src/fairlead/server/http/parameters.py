"""FastAPI dependencies for request bodies (strict JSON, raw bytes, spooled files) and for query parameters of lists."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from fastapi import Request
from pydantic import BaseModel, ValidationError

from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MAX_PAGE_SIZE
from fairlead.model.parsing import collect_mistakes, printable, short_repr, suggest_names, violations_of
from fairlead.model.plans import Violation
from fairlead.model.project_objects import SensitiveModel
from fairlead.model.quantities import parse_integer
from fairlead.server.http.problem_details import Problem
from fairlead.services.transactions.pages import ListQuery, parse_conditions, parse_sort

# Keeps code that walks a body recursively far below Python's recursion limit.
MAX_DEPTH = 100
MAX_ENTRIES = 10_000
MAX_DIGITS = 1000  # int() takes quadratic time, and rejects more than 4300 digits with an unclear message
SPOOL_BYTES = 1024 * 1024  # larger bodies are written to disk
# UTF-8 cannot encode surrogates, so they occur only as escapes. Bodies without such escapes skip the string check.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

MAX_VALUE_LENGTH = 1000
# Each filter becomes a condition in an SQL statement, and databases limit how many conditions a statement may have.
MAX_PARAMETERS = 50
RESERVED = ("search", "sort", "cursor", "limit", "total")
HELP = {
    "text": "Part of the text; `=text` for an exact match, `!text` to exclude it",
    "keyword": "The value, or several separated by commas; `!value` to exclude it, `none` for items without a value",
    "number": "The value, optionally preceded by `>`, `>=`, `<`, `<=` or `!`; `none` for items without a value",
    "time": "A time, optionally preceded by `>`, `>=`, `<` or `<=`",
    "boolean": "`true`, `false` or `any`",
}


class JsonBody:
    """Dependency that parses a JSON body into a model, or into a dictionary of some of its fields if `partial`."""

    def __init__(self, model: type[BaseModel], *, partial: bool = False, required: bool = True) -> None:
        self.model, self.partial, self.required = model, partial, required

    async def __call__(self, request: Request) -> Any:
        text = await request.body()
        data = parse_json(text, request.headers.get("content-type")) if text or self.required else {}
        if self.partial:
            if not isinstance(data, dict):
                raise Problem(
                    400,
                    "json",
                    f"the body must be a JSON object, found {short_repr(data)}",
                    "send the fields to change",
                )
            return data  # validated after it is merged into the stored object
        try:
            return self.model.model_validate(data)
        except ValidationError as error:
            if issubclass(self.model, SensitiveModel):
                hint = f"send {json.dumps(self.model.EXAMPLE)}"
                violation = Violation("", "body", "invalid body; it may contain a secret, so it is not shown", hint)
                # The cause contains values from the body, so it is dropped.
                raise RequestRejected([violation]) from None
            raise RequestRejected(violations_of(error, self.model)) from error


class BytesBody:
    """Base class of dependencies for binary bodies, with the media types that they accept."""

    def __init__(self, *media_types: str) -> None:
        self.media_types = media_types

    def check_media_type(self, request: Request) -> None:
        """Raise 415 if the Content-Type is not accepted. It may be missing."""
        media_type = request.headers.get("content-type", self.media_types[0]).partition(";")[0].strip().lower()
        if media_type not in self.media_types:
            message = f"unsupported Content-Type {media_type[:80]!r}, expected {' or '.join(self.media_types)}"
            raise Problem(415, "media_type", message, f"send Content-Type: {self.media_types[0]}")


class RawBody(BytesBody):
    """Dependency that reads a body into memory."""

    async def __call__(self, request: Request) -> bytes:
        self.check_media_type(request)
        return await request.body()


class SpooledBody(BytesBody):
    """Dependency that reads a body into a temporary file, on disk if it is large, to save memory."""

    async def __call__(self, request: Request) -> AsyncIterator[IO[bytes]]:
        """Yield the file. It is deleted after the request."""
        self.check_media_type(request)
        with SpooledTemporaryFile(SPOOL_BYTES) as file:
            async for chunk in request.stream():
                file.write(chunk)
            yield file


def parse_json(text: bytes, content_type: str | None) -> Any:
    """Parse a JSON body strictly: duplicate keys, NaN, deep nesting and invalid characters are rejected."""
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        message = f"unsupported Content-Type {content_type[:80]!r}, expected application/json"
        raise Problem(415, "media_type", message, "send Content-Type: application/json")
    if not text:
        raise Problem(400, "json", "the body is empty", "send a JSON object")
    try:
        data = json.loads(
            text.decode("utf-8"), object_pairs_hook=_read_object, parse_constant=_reject_constant, parse_int=_parse_int
        )
    except RecursionError:
        raise Problem(400, "json", f"the body is nested more than {MAX_DEPTH} levels deep", "flatten it") from None
    except UnicodeDecodeError as error:
        raise Problem(400, "json", f"the body is not valid UTF-8: {error.reason}", "send UTF-8") from None
    except ValueError as error:
        raise Problem(400, "json", f"the body is not valid JSON: {error}", "send a JSON object") from None
    # A shorter text cannot be too deep or too wide.
    if len(text) > MAX_DEPTH:
        _check_shape(data)
    if b"\\u0000" in text or _SURROGATE.search(text):
        _check_text(data)
    return data


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Parsers disagree about which of two values for the same key applies, so duplicates are rejected.
    result = dict(pairs)
    if len(result) != len(pairs):
        names: set[str] = set()
        duplicate = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {short_repr(duplicate)}")
    return result


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a valid number")


def _parse_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _check_shape(data: Any) -> None:
    level, depth = [data], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise Problem(400, "json", f"the body is nested more than {MAX_DEPTH} levels deep", "flatten it")
        children = [_children(part) for part in level]
        if max(map(len, children)) > MAX_ENTRIES:
            message = f"the body has an array or object with more than {MAX_ENTRIES:,} entries"
            raise Problem(400, "json", message, "split it into several requests")
        level = [child for inner in children for child in inner]


def _children(part: Any) -> Sequence[Any]:
    if isinstance(part, dict):
        return list(part.values())
    return part if isinstance(part, list) else ()


def _check_text(data: Any) -> None:
    """Reject strings that databases cannot store. The message does not repeat them: they may be secrets."""
    for text in _strings(data):
        if "\0" in text:
            raise Problem(400, "json", "the body contains a string with a NUL character", "remove it")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise Problem(400, "json", "the body contains a string with an unpaired surrogate", "send valid Unicode")


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        for value in data.values():
            yield from _strings(value)
    elif isinstance(data, list):
        for item in data:
            yield from _strings(item)


class ListParams:
    """Dependency that reads a list request's query parameters."""

    def __init__(self, kind: type, *, hidden: tuple[str, ...] = (), names: tuple[str, ...] = RESERVED) -> None:
        self.columns = {name: column for name, column in COLUMNS[kind].items() if name not in hidden}
        self.names = {*names, *self.columns}

    async def __call__(self, request: Request) -> ListQuery:
        """Parse the parameters. Raises `RequestRejected` with all violations."""
        parameters = request.query_params.multi_items()
        options = {name: value for name, value in parameters if name in RESERVED}
        filters = tuple((name, value) for name, value in parameters if name in self.columns)
        # Parsed only to report all violations together. The service parses the filters again.
        violations = [*_check(parameters, options), *_find_violations(parse_conditions, self.columns, filters)]
        if "sort" in options:
            violations += _find_violations(parse_sort, self.columns, options["sort"])
        if violations:
            raise RequestRejected(violations)
        return ListQuery(
            filters=filters,
            search=options.get("search", ""),
            sort=options.get("sort"),
            cursor=options.get("cursor"),
            limit=int(options.get("limit", 50)),
            total=options.get("total") == "true",
        )

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """The parameters for the OpenAPI document."""
        sorts = sorted(self.columns)
        text = {"type": "string", "maxLength": MAX_VALUE_LENGTH}
        described: list[tuple[str, str, dict[str, Any]]] = [
            ("search", "Text to search for in all text columns", text),
            (
                "sort",
                "Column to sort by; prefix it with `-` for descending order",
                {"enum": [*sorts, *(f"-{n}" for n in sorts)]},
            ),
            ("cursor", "`next_cursor` from the previous page", text),
            (
                "limit",
                "Maximum number of items",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": 50},
            ),
            ("total", "Count all matching items", {"type": "boolean", "default": False}),
            *((name, HELP[column.kind], text) for name, column in self.columns.items()),
        ]
        return [
            {"name": name, "in": "query", "required": False, "description": description, "schema": schema}
            for name, description, schema in described
            if name in self.names
        ]


def reject_unknown(request: Request, known: set[str]) -> None:
    """Raise `RequestRejected` if the query has parameters that the route does not define."""
    unknown = dict.fromkeys(name for name in request.query_params if name not in known)
    if unknown:
        raise RequestRejected(
            Violation(
                printable(name),
                "unknown_parameter",
                f"unknown parameter {short_repr(name)}",
                suggest_names(name, known),
            )
            for name in list(unknown)[:MAX_PARAMETERS]
        )


def _find_violations(parse: Callable[..., Any], *args: Any) -> tuple[Violation, ...]:
    try:
        parse(*args)
    except RequestRejected as error:
        return error.violations
    return ()


def _check(parameters: list[tuple[str, str]], options: dict[str, str]) -> Iterator[Violation]:
    for name, value in parameters:
        if len(value) > MAX_VALUE_LENGTH:
            message = f"has {len(value)} characters; at most {MAX_VALUE_LENGTH} are allowed"
            yield Violation(name, "too_long", message, "shorten it")
    if len(parameters) > MAX_PARAMETERS:
        message = f"has {len(parameters)} parameters; at most {MAX_PARAMETERS} are allowed"
        yield Violation("", "too_long", message, "use fewer parameters")
        return
    # This takes quadratic time, so the number of parameters must be limited.
    names = [name for name, _ in parameters if name in RESERVED]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Violation(name, "duplicate", "is given twice", "remove one of them")
    if "limit" in options:
        violations = collect_mistakes(
            "limit", lambda value: parse_integer(value, minimum=1, maximum=MAX_PAGE_SIZE), options["limit"]
        )
        yield from (Violation(*violation) for violation in violations)
    if options.get("total") not in (None, "true", "false"):
        message = f"must be true or false, found {short_repr(options['total'])}"
        yield Violation("total", "type", message, "write true or false")
