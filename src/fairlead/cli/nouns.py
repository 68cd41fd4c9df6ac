"""What most nouns of a server have in common: they are listed, shown, renamed and deleted in the same way."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from cyclopts import App, Parameter, validators

from fairlead.cli.printing import print_done
from fairlead.cli.tables import Columns, Item, print_table
from fairlead.errors import NotFound, Unreadable
from fairlead.files import yamls
from fairlead.model.parsing import nearest
from fairlead.sdk import api_client

LARGEST_PAGE = 500
STAMPS = ("id", "revision", "created_by", "created_at", "updated_by", "updated_at")  # shown after what it is

Json = Annotated[
    bool, Parameter(name="--json", negative=(), show_default=False, help="Print what the server answers, as JSON.")
]
Force = Annotated[bool, Parameter(negative=(), show_default=False, help="Also where files say what it is.")]
Project = Annotated[str, Parameter(env_var="FAIRLEAD_PROJECT", show_env_var=True, help="The project that it is in.")]


@dataclass(frozen=True)
class Asked:
    """What is asked of a list."""

    search: Annotated[str | None, Parameter(help="Part of what stands in the columns with text.")] = None
    sort: Annotated[str | None, Parameter(allow_leading_hyphen=True, help="A column; with - before it, downwards.")] = (
        None
    )
    filter: Annotated[
        Sequence[str],
        Parameter(
            negative=(), show_default=False, help="COLUMN=VALUE, such as 'mem_request=>=32Gi'; several hold together."
        ),
    ] = ()
    limit: Annotated[
        int | None, Parameter(validator=validators.Number(gte=1), help="How many at most. Left out, all.")
    ] = None

    @property
    def parameters(self) -> dict[str, list[str]]:
        """What is sent to the server."""
        limit = LARGEST_PAGE if self.limit is None else min(self.limit, LARGEST_PAGE)
        words = (("search", self.search), ("sort", self.sort), ("limit", str(limit)))
        said = {name: [value] for name, value in words if value is not None}
        for text in self.filter:
            column, equals, value = text.partition("=")
            if not column or not equals:
                raise Unreadable(f"{text!r} is no filter", "write a column and a value: --filter scope=platform")
            said.setdefault(column, []).append(value)
        return said


Asking = Annotated[Asked | None, Parameter(name="*")]


@dataclass(frozen=True)
class Noun:
    """A kind of thing that a server keeps. Its methods are the commands."""

    one: str
    path: str
    columns: Columns

    def ls(self, *, asked: Asking = None, as_json: Json = False) -> int:
        """List those that you see."""
        return print_list(self.path, self.columns, f"{self.one}s", asked, as_json)

    def show(self, name: str, /, *, as_json: Json = False) -> int:
        """Show all of one."""
        return print_item(connect().get(self.at(name)), as_json)

    def rename(self, old: str, new: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Give one another name; what names it follows."""
        answer = connect().patch(self.at(old), {"name": new}, **forced(force))
        return print_done(f"renamed {self.one} {old} to {new}", answer, as_json)

    def rm(self, name: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Delete one that nothing uses."""
        connect().delete(self.at(name), **forced(force))
        return print_done(f"deleted {self.one} {name}", None, as_json)

    def require(self, name: str) -> None:
        """Raise `NotFound` where there is none of this name, with the nearest that there is."""
        try:
            connect().get(self.at(name))
        except NotFound:
            known = [item["name"] for item in islice(connect().list(self.path), LARGEST_PAGE)]
            made = f"make it first: fairlead {self.one}s create {name}"
            raise NotFound(f"there is no {self.one} {name!r}", nearest(name, known, made)) from None

    def at(self, name: str, *further: str) -> str:
        """The path of one of them, or of something about it."""
        if name in ("", ".", ".."):  # these would be the path of something else
            raise NotFound(f"there is no {self.one} {name!r}")
        return "/".join((self.path, quote(name, safe="", errors="surrogateescape"), *further))


def gather(name: str, *commands: Callable[..., int]) -> App:
    """The commands of a noun."""
    app = App(name=name)
    for command in commands:
        app.command(command)
    return app


def connect() -> api_client.ApiClient:
    """The server that the commands talk to."""
    return api_client.find_api_client()


def forced(force: bool) -> dict[str, Any]:
    """The parameter that says that files are overruled. Where they are not it is left out: not every route knows it."""
    return {"force": "true"} if force else {}


def print_list(path: str, columns: Columns, many: str, asked: Asked | None, as_json: bool) -> int:
    """What a list of the server has, as a table or as JSON; and the exit code."""
    asked = asked or Asked()
    return print_items(islice(connect().list(path, **asked.parameters), asked.limit), columns, many, as_json)


def print_items(found: Iterable[Item], columns: Columns, many: str, as_json: bool) -> int:
    """Items as a table or as JSON, and the exit code. That there are none is no part of the output."""
    items = list(found)
    if as_json:
        print(json.dumps(items, indent=2))
    elif items:
        print_table(items, columns)
    else:
        print(f"no {many}", file=sys.stderr)
    return 0


def print_item(item: Item, as_json: bool) -> int:
    """One thing as YAML without what is not said, or as JSON; and the exit code."""
    ordered = sorted(item.items(), key=lambda field: field[0] in STAMPS)
    said = {name: value for name, value in ordered if value not in (None, "", [], {})}
    print(json.dumps(item, indent=2) if as_json else yamls.format_documents([said]).rstrip())
    return 0
