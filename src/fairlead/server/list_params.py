"""What an address may ask of a list, and of any other route: known names alone."""

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import Request

from fairlead.core.listing import parse_conditions, parse_sort
from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MOST_LISTED
from fairlead.model.numbers import parse_whole
from fairlead.model.parsing import collect, nearest, printable, show
from fairlead.model.plans import Violation
from fairlead.services.pages import Listing

LONGEST_VALUE = 1000
MOST_ASKED = 50
WORDS = ("search", "sort", "cursor", "limit", "total")
HELP = {
    "text": "part of the text; `=text` for all of it, `!text` for anything else",
    "word": "the value, or several with commas; `!value` for any other, `none` for nothing",
    "number": "the value, also with `>`, `>=`, `<`, `<=` or `!` before it; `none` for nothing",
    "moment": "a time, also with `>`, `>=`, `<` or `<=` before it",
    "flag": "true, false or any",
}


class ListParams:
    """A dependency that reads what an address asks of a list of a kind of record."""

    def __init__(self, kind: type, *, hidden: tuple[str, ...] = (), words: tuple[str, ...] = WORDS) -> None:
        self.columns = {name: column for name, column in COLUMNS[kind].items() if name not in hidden}
        self.names = {*words, *self.columns}

    async def __call__(self, request: Request) -> Listing:
        """What is asked. Raises with everything that is wrong."""
        asked = request.query_params.multi_items()
        said = {name: value for name, value in asked if name in WORDS}
        filters = tuple((name, value) for name, value in asked if name in self.columns)
        violations = [*_check(asked, said), *_found(parse_conditions, self.columns, filters)]
        if "sort" in said:
            violations += _found(parse_sort, self.columns, said["sort"])
        if violations:
            raise RequestRejected(violations)
        return Listing(
            filters=filters,
            search=said.get("search", ""),
            sort=said.get("sort"),
            cursor=said.get("cursor"),
            limit=int(said.get("limit", 50)),
            total=said.get("total") == "true",
        )

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """How the parameters are described to programs."""
        sorts = sorted(self.columns)
        text = {"type": "string", "maxLength": LONGEST_VALUE}
        known: list[tuple[str, str, dict[str, Any]]] = [
            ("search", "part of what stands in the columns with text", text),
            (
                "sort",
                "the column to sort by, with `-` before it downwards",
                {"enum": [*sorts, *(f"-{n}" for n in sorts)]},
            ),
            ("cursor", "`next_cursor` of the page before", text),
            ("limit", "how many at most", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED, "default": 50}),
            ("total", "whether to count all that match", {"type": "boolean", "default": False}),
            *((name, HELP[column.kind], text) for name, column in self.columns.items()),
        ]
        return [
            {"name": name, "in": "query", "required": False, "description": about, "schema": schema}
            for name, about, schema in known
            if name in self.names
        ]


def refuse_unknown(request: Request, known: set[str]) -> None:
    """A parameter that means nothing here is a mistake, not something to ignore."""
    unknown = dict.fromkeys(name for name in request.query_params if name not in known)
    if unknown:
        raise RequestRejected(
            Violation(printable(name), "unknown_parameter", f"unknown parameter {show(name)}", nearest(name, known))
            for name in list(unknown)[:MOST_ASKED]
        )


def _found(parse: Callable[..., Any], *given: Any) -> tuple[Violation, ...]:
    """What a reader finds wrong."""
    try:
        parse(*given)
    except RequestRejected as error:
        return error.violations
    return ()


def _check(asked: list[tuple[str, str]], said: dict[str, str]) -> Iterator[Violation]:
    for name, value in asked:
        if len(value) > LONGEST_VALUE:
            message = f"has {len(value)} characters, at most {LONGEST_VALUE} are allowed"
            yield Violation(name, "too_long", message, "shorten it")
    if len(asked) > MOST_ASKED:
        message = f"has {len(asked)} parameters, at most {MOST_ASKED} are allowed"
        yield Violation("", "too_long", message, "ask for less at once")
        return
    names = [name for name, _ in asked if name in WORDS]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Violation(name, "duplicate", "is there twice", "keep one")
    if "limit" in said:
        found = collect("limit", lambda value: parse_whole(value, least=1, most=MOST_LISTED), said["limit"])
        yield from (Violation(*mistake) for mistake in found)
    if said.get("total") not in (None, "true", "false"):
        message = f"must be true or false, found {show(said['total'])}"
        yield Violation("total", "type", message, "write true or false")
