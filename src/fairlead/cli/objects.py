"""Commands that most kinds of objects share: ls, show, rename and rm."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from cyclopts import App, Parameter, validators

from fairlead.cli.output import Columns, Item, print_done, print_table
from fairlead.errors import NotFound, Unreadable
from fairlead.files import yamls
from fairlead.model.parsing import suggest_names
from fairlead.sdk import api_client

MAX_PAGE = 500  # the server's maximum, so that long lists need fewer requests
STAMPS = ("id", "revision", "created_by", "created_at", "updated_by", "updated_at")  # shown last

# negative=() prevents a --no-json option, and likewise for other flags.
Json = Annotated[
    bool, Parameter(name="--json", negative=(), show_default=False, help="Print the server's response as JSON.")
]
Force = Annotated[
    bool, Parameter(negative=(), show_default=False, help="Also change objects that are managed by files.")
]
Project = Annotated[str, Parameter(env_var="FAIRLEAD_PROJECT", show_env_var=True, help="The project.")]


@dataclass(frozen=True)
class ListOptions:
    """Options for lists."""

    search: Annotated[str | None, Parameter(help="Search in all text columns.")] = None
    sort: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="Sort by a column; prefix it with - for descending order."),
    ] = None
    filter: Annotated[
        Sequence[str],
        Parameter(
            negative=(), show_default=False, help="COLUMN=VALUE, such as 'mem_request=>=32Gi'. Repeat to combine."
        ),
    ] = ()
    limit: Annotated[int | None, Parameter(validator=validators.Number(gte=1), help="Maximum number of items.")] = None

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The query parameters."""
        limit = MAX_PAGE if self.limit is None else min(self.limit, MAX_PAGE)
        words = (("search", self.search), ("sort", self.sort), ("limit", str(limit)))
        # The values are lists, because a column can have several filters, for example a lower and an upper bound.
        parameters = {name: [value] for name, value in words if value is not None}
        for text in self.filter:
            # Split at the first `=`, because the value may begin with an operator, as in mem_request=>=32Gi.
            column, equals, value = text.partition("=")
            if not column or not equals:
                raise Unreadable(
                    f"invalid filter {text!r}", "use a column and a value, such as --filter scope=platform"
                )
            parameters.setdefault(column, []).append(value)
        return parameters


# "*" turns the dataclass fields into options of the command itself.
WithListOptions = Annotated[ListOptions | None, Parameter(name="*")]


# Commands are bound methods of one instance per kind, so that all nouns have the same commands and options.
@dataclass(frozen=True)
class ObjectCommands:
    """Commands for a kind of object."""

    one: str
    path: str
    columns: Columns

    def ls(self, *, list_options: WithListOptions = None, as_json: Json = False) -> int:
        """List objects."""
        return print_list(self.path, self.columns, f"{self.one}s", list_options, as_json)

    def show(self, name: str, /, *, as_json: Json = False) -> int:
        """Show an object."""
        return print_item(connect_to_server().get(self.at(name)), as_json)

    def rename(self, old: str, new: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Rename an object and update all references."""
        answer = connect_to_server().patch(self.at(old), {"name": new}, **forced(force))
        return print_done(f"renamed {self.one} {old} to {new}", answer, as_json)

    def rm(self, name: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Delete an object that is not in use."""
        connect_to_server().delete(self.at(name), **forced(force))
        return print_done(f"deleted {self.one} {name}", None, as_json)

    def require(self, name: str) -> None:
        """Raise `NotFound` with similar names if the object does not exist."""
        try:
            connect_to_server().get(self.at(name))
        except NotFound as error:
            if error.hint is not None:  # the server suggests names to callers who may not create the object
                raise
            # Names are loaded only after a failure, because listing them takes another request.
            known = [item["name"] for item in islice(connect_to_server().list(self.path), MAX_PAGE)]
            hint = f"create it: fairlead {self.one}s create {name}"
            raise NotFound(f"{self.one} {name!r} does not exist", suggest_names(name, known, hint)) from None

    def at(self, name: str, *further: str) -> str:
        """The URL path of an object or one of its subresources."""
        if name in ("", ".", ".."):  # would address a different resource
            raise NotFound(f"{self.one} {name!r} does not exist")
        # An argument that is not UTF-8 is sent as its original bytes, and the server reports that it does not exist.
        return "/".join((self.path, quote(name, safe="", errors="surrogateescape"), *further))


def gather(group: str, *commands: Callable[..., int], **named_commands: Callable[..., int]) -> App:
    """Build the command group for a kind of object. Unnamed commands are named after their functions."""
    app = App(name=group)
    for command in commands:
        app.command(command, help=_describe(command))
    for name, command in named_commands.items():
        app.command(command, name=name)
    return app


def _describe(command: Callable[..., int]) -> str | None:
    """The help of a shared command, with the kind of object in place of `object`. None: use the docstring."""
    shared_by = getattr(command, "__self__", None)
    if shared_by is None:
        return None
    line = (command.__doc__ or "").partition("\n")[0]
    return line.replace("an object", f"a {shared_by.one}").replace("object", shared_by.one)


def connect_to_server() -> api_client.ApiClient:
    """The API client for the configured server."""
    return api_client.find_api_client()


def forced(force: bool) -> dict[str, Any]:
    """The `force` query parameter, only if set: not all routes accept it."""
    return {"force": "true"} if force else {}


def print_list(path: str, columns: Columns, many: str, list_options: ListOptions | None, as_json: bool) -> int:
    """Print a list from the API as a table or as JSON. Return the exit code."""
    list_options = list_options or ListOptions()
    return print_items(
        islice(connect_to_server().list(path, **list_options.parameters), list_options.limit), columns, many, as_json
    )


def print_items(items: Iterable[Item], columns: Columns, many: str, as_json: bool) -> int:
    """Print items as a table or as JSON. Return the exit code. A note about an empty list goes to stderr."""
    rows = list(items)
    if as_json:
        print(json.dumps(rows, indent=2))
    elif rows:
        print_table(rows, columns)
    else:
        print(f"no {many}", file=sys.stderr)
    return 0


def print_item(item: Item, as_json: bool) -> int:
    """Print an object as YAML without empty fields, or as JSON. Return the exit code."""
    # The sort is stable, so it only moves the stamps to the end.
    ordered = sorted(item.items(), key=lambda field: field[0] in STAMPS)
    fields = {name: value for name, value in ordered if value not in (None, "", [], {})}
    print(json.dumps(item, indent=2) if as_json else yamls.format_documents([fields]).rstrip())
    return 0
