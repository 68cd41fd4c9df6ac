"""The page of the API names every route, and says truly who may use it."""

import itertools
import re
from collections.abc import Iterator

import pytest

from fairlead.model.roles import Role
from tests.contracts.memory import MemoryStore
from tests.docs.pages import ROOT
from tests.server.samples import address_of, body_of, fill
from tests.server.sites import Operation, Site, open_site, operations_of

ROW = re.compile(r"^\| `(?P<route>[A-Z]+ /[^`]*)` \| (?P<does>[^|]+) \| (?P<who>[^|]+) \|$", re.MULTILINE)
SAID = {match["route"]: match["who"] for match in ROW.finditer((ROOT / "docs" / "api.md").read_text("utf-8"))}
ALLOWED = {
    "`anyone`": set(Role),
    "`signed in`": set(Role),
    "`viewer`": set(Role),
    "`member`": {Role.MEMBER, Role.ADMIN},
    "`editor`": {Role.EDITOR, Role.ADMIN},
    "`admin`": {Role.ADMIN},
    "its user": {Role.ADMIN},
}
REFUSED = (403, 404)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server of this module alone."""
    with open_site(MemoryStore()) as opened:
        yield opened


def test_every_route_is_on_the_page_and_nothing_else(site: Site) -> None:
    assert sorted(SAID) == sorted(operation.key for operation in operations_of(site.document))


def test_a_route_is_refused_to_all_but_those_whom_the_page_names(site: Site) -> None:
    things = fill(site, "alpha")
    tokens = {role: site.token_of(role, **{role: "platform"}) for role in Role}
    asked = list(itertools.product(_named(site), Role))
    # First what is refused: it must not be because somebody deleted the thing before.
    refused = [(route, role) for route, role in asked if role not in _allowed(route)]
    found = [(route.key, role) for route, role in refused if _ask(site, route, things, tokens[role]) not in REFUSED]
    assert found == []
    for route, role in asked:
        if role in _allowed(route):
            assert _ask(site, route, things, tokens[role]) != 403, f"{route.key} as {role}"


def test_only_some_routes_are_for_anyone(site: Site) -> None:
    things = fill(site, "beta")
    for route in operations_of(site.document):
        status = site.ask(route.method, address_of(route, things), body_of(route), token=None).status_code
        assert (status == 401) == (SAID[route.key] != "`anyone`" or route.key == "POST /sessions"), route.key


def _named(site: Site) -> list[Operation]:
    """Those routes of which the page says a role."""
    return [route for route in operations_of(site.document) if _who(route) in ALLOWED]


def _allowed(route: Operation) -> set[Role]:
    return ALLOWED[_who(route)]


def _who(route: Operation) -> str:
    return re.split(r"[,;]| of | at ", SAID.get(route.key, ""))[0]


def _ask(site: Site, route: Operation, things: dict[str, str], token: str) -> int:
    return site.ask(route.method, address_of(route, things), body_of(route), token=token).status_code
