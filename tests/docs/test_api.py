"""docs/reference/routes.md has every route, with the role that it really needs."""

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
SAID = {
    match["route"]: match["who"]
    for match in ROW.finditer((ROOT / "docs" / "reference" / "routes.md").read_text("utf-8"))
}
ALLOWED = {
    "`anyone`": set(Role),
    "`signed in`": set(Role),
    "`viewer`": set(Role),
    "`member`": {Role.MEMBER, Role.ADMIN},
    "`editor`": {Role.EDITOR, Role.ADMIN},
    "`admin`": {Role.ADMIN},
    "its user": {Role.ADMIN},
}
# Routes without role checks, which have their own tests.
WITHOUT_ROLE = {"the run itself", "what each document needs"}
REFUSED = (403, 404)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server of this module alone."""
    with open_site(MemoryStore()) as opened:
        yield opened


def test_every_route_is_on_the_page_and_nothing_else(site: Site) -> None:
    assert sorted(SAID) == sorted(operation.key for operation in operations_of(site.document))


def test_every_route_is_refused_to_all_roles_but_those_on_the_page(site: Site) -> None:
    things = fill(site, "alpha")
    tokens = {role: site.token_of(role, **{role: "platform"}) for role in Role}
    unknown = [route.key for route in operations_of(site.document) if _who(route) not in {*ALLOWED, *WITHOUT_ROLE}]
    assert not unknown, "\n".join(unknown)
    requests = list(itertools.product(_named(site), Role))
    # First those that are refused: a 404 must not come from an object that an allowed request deleted before.
    refused = [(route, role) for route, role in requests if role not in _allowed(route)]
    answered = [
        f"{route.key} as {role}" for route, role in refused if _ask(site, route, things, tokens[role]) not in REFUSED
    ]
    assert not answered, "\n".join(answered)
    allowed = [(route, role) for route, role in requests if role in _allowed(route)]
    forbidden = [f"{route.key} as {role}" for route, role in allowed if _ask(site, route, things, tokens[role]) == 403]
    assert not forbidden, "\n".join(forbidden)


def test_only_the_routes_for_anyone_need_no_token(site: Site) -> None:
    things = fill(site, "beta")
    wrong = []
    for route in operations_of(site.document):
        status = site.ask(route.method, address_of(route, things), body_of(route), token=None).status_code
        # Sign-in is public, and responds with 401 because the link does not exist.
        if (status == 401) != (SAID[route.key] != "`anyone`" or route.key == "POST /sessions"):
            wrong.append(f"{route.key}: {status}")
    assert not wrong, "\n".join(wrong)


def _named(site: Site) -> list[Operation]:
    """The routes for which the page names a role."""
    return [route for route in operations_of(site.document) if _who(route) in ALLOWED]


def _allowed(route: Operation) -> set[Role]:
    return ALLOWED[_who(route)]


def _who(route: Operation) -> str:
    return re.split(r"[,;]| of | at ", SAID.get(route.key, ""))[0]


def _ask(site: Site, route: Operation, things: dict[str, str], token: str) -> int:
    return site.ask(route.method, address_of(route, things), body_of(route), token=token).status_code
