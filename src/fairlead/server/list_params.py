"""Query parameters of lists: search, sorting, filters and pagination. Unknown parameters are rejected."""

from collections.abc import Callable, Iterator
from typing import Any

from fastapi import Request

from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS, MAX_PAGE_SIZE, parse_conditions, parse_sort
from fairlead.model.parsing import collect_mistakes, printable, short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.quantities import parse_integer
from fairlead.services.transactions.pages import ListQuery

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
