"""docs/reference/routes.md lists every route, with the role that it requires."""

import itertools
import re
from collections.abc import Iterator

import pytest

from fairlead.model.scopes import Role
from tests.contracts.memory import MemoryStore
from tests.docs.pages import ROOT
from tests.server.samples import address_of, body_of, fill
from tests.server.sites import Operation, Site, open_site, operations_of

ROW = re.compile(r"^\| `(?P<route>[A-Z]+ /[^`]*)` \| (?P<description>[^|]+) \| (?P<role>[^|]+) \|$", re.MULTILINE)
DOCUMENTED = {
    match["route"]: match["role"]
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
WITHOUT_ROLE = {"the run itself", "the role that each document requires"}
REJECTED = (403, 404)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server for the tests in this module."""
    with open_site(MemoryStore()) as opened:
        yield opened


def test_the_page_lists_exactly_the_routes(site: Site) -> None:
    assert sorted(DOCUMENTED) == sorted(operation.key for operation in operations_of(site.document))


def test_routes_require_the_roles_on_the_page(site: Site) -> None:
    names = fill(site, "alpha")
    tokens = {role: site.token_of(role, **{role: "platform"}) for role in Role}
    unknown = [route.key for route in operations_of(site.document) if _role_of(route) not in {*ALLOWED, *WITHOUT_ROLE}]
    assert not unknown, "\n".join(unknown)
    requests = list(itertools.product(_with_role(site), Role))
    # Rejected requests come first: a 404 must not come from an object that an allowed request deleted.
    rejected = [(route, role) for route, role in requests if role not in _allowed(route)]
    accepted = [
        f"{route.key} as {role}"
        for route, role in rejected
        if _status_of(site, route, names, tokens[role]) not in REJECTED
    ]
    assert not accepted, "\n".join(accepted)
    allowed = [(route, role) for route, role in requests if role in _allowed(route)]
    forbidden = [
        f"{route.key} as {role}" for route, role in allowed if _status_of(site, route, names, tokens[role]) == 403
    ]
    assert not forbidden, "\n".join(forbidden)


def test_only_public_routes_need_no_token(site: Site) -> None:
    names = fill(site, "beta")
    failures = []
    for route in operations_of(site.document):
        status = site.request(route.method, address_of(route, names), body_of(route), token=None).status_code
        # Sign-in is public, and responds with 401 because the link does not exist.
        if (status == 401) != (DOCUMENTED[route.key] != "`anyone`" or route.key == "POST /sessions"):
            failures.append(f"{route.key}: {status}")
    assert not failures, "\n".join(failures)


def _with_role(site: Site) -> list[Operation]:
    """The routes that the page lists with a role."""
    return [route for route in operations_of(site.document) if _role_of(route) in ALLOWED]


def _allowed(route: Operation) -> set[Role]:
    return ALLOWED[_role_of(route)]


def _role_of(route: Operation) -> str:
    return re.split(r"[,;]| of | at ", DOCUMENTED.get(route.key, ""))[0]


def _status_of(site: Site, route: Operation, names: dict[str, str], token: str) -> int:
    return site.request(route.method, address_of(route, names), body_of(route), token=token).status_code
