"""A member sends values that attack the database: wildcards, SQL, invalid text, extreme numbers and forged cursors."""

import base64
import json
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.model.project_objects import MAX_NAME_LENGTH
from tests.server.samples import address_of, fill
from tests.server.sites import Operation, Site, open_site, operations_of

pytestmark = [pytest.mark.every_store, pytest.mark.slow]

TEXTS = ("%", "'", "a\0b", "';SELECT pg_sleep(9)--", "NaN", "1e400", "9223372036854775808", "infinity")
# Percent-encoded, because some are not valid UTF-8.
VALUES = (*map(quote, (*TEXTS, "0001-01-01T00:00:00+14:00", "9" * 190)), "%ED%A0%80", "%FF")
POSITIONS: tuple[Any, ...] = (None, 2**63, 1.5, "x", "a\0b", "\ud800", "0001-01-01T00:00:00+14:00", [])
REJECTED = (400, 403, 422)


@pytest.fixture
def site(database_store: DatabaseStore) -> Iterator[Site]:
    """A server with objects of every kind in the project alpha."""
    with open_site(database_store) as opened:
        yield opened


def add_member(site: Site) -> str:
    """Create a member of the project alpha, and return their token."""
    site.post("/roles", {"subject": "user:mallory", "role": "member", "scope": "project/alpha"})
    token: str = site.post("/tokens", {"name": "mallory", "user": "mallory"})["token"]
    return token


def lists_of(site: Site, objects: dict[str, str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """The path of every list, with its query parameters and sort orders."""
    for item in operations_of(site.document):
        parameters = {part["name"]: part["schema"] for part in _query_of(item)}
        if item.method == "GET" and "sort" in parameters:
            yield address_of(item, objects), list(parameters), parameters["sort"]["enum"]


def _query_of(item: Operation) -> list[dict[str, Any]]:
    return [part for part in item.spec.get("parameters", ()) if part["in"] == "query"]


def test_filters_and_searches_never_fail_in_the_database(site: Site) -> None:
    objects = fill(site, "alpha")
    token = add_member(site)
    for path, parameters, _ in lists_of(site, objects):
        for name in parameters:
            for value in VALUES:
                response = site.request("GET", f"{path}?{name}={value}", token=token)
                assert response.status_code in (200, *REJECTED), (path, name, value, response.text)


def test_forged_cursors_never_fail_in_the_database(site: Site) -> None:
    objects = fill(site, "alpha")
    for path, _, sorts in lists_of(site, objects):
        for sort in (name for name in sorts if not name.startswith("-")):
            cursor = site.get(f"{path}?limit=1&sort={sort}").get("next_cursor")
            parts = [] if cursor is None else json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            for index, value in ((index, value) for index in range(len(parts)) for value in POSITIONS):
                forged = json.dumps([*parts[:index], value, *parts[index + 1 :]]).encode()
                text = base64.urlsafe_b64encode(forged).decode().rstrip("=")
                response = site.request("GET", f"{path}?limit=1&sort={sort}&cursor={text}")
                assert response.status_code in (200, *REJECTED), (path, sort, forged, response.text)


@pytest.mark.parametrize("wildcard", ["%", "_", "\\", "/", "*", "?", "["])
def test_search_has_no_wildcards(site: Site, wildcard: str) -> None:
    for name in ("plain", f"a{wildcard}b", "axb"):
        site.post("/tokens", {"name": name})
    for query in (f"search={quote(wildcard, safe='')}", f"name={quote(f'a{wildcard}b', safe='')}"):
        assert [item["name"] for item in site.get(f"/tokens?{query}")["items"]] == [f"a{wildcard}b"]


def test_texts_of_the_maximum_length_fit_into_indexes(site: Site) -> None:
    """PostgreSQL stores at most 2,704 bytes per index entry, and compresses only texts that repeat."""
    random = secrets.SystemRandom()
    long = "".join(chr(random.randrange(0x20000, 0x2A6DF)) for _ in range(MAX_NAME_LENGTH))  # four bytes each
    created = site.post("/tokens", {"name": long, "user": long})
    for kind in ("user", "group"):
        site.post("/roles", {"subject": f"{kind}:{long}", "role": "admin", "scope": "platform"})
    resource = {"kind": "ComputeResource", "name": "long", "scope": "platform", "requirements": {}}
    headers = {"Idempotency-Key": "k" * 200}
    body = {"documents": [resource], "manager": long}
    response = site.request("POST", "/apply", body, token=created["token"], headers=headers)
    assert response.status_code in (200, 422), response.text
    for name in ("a" * 500, long * 10):
        for path in ("/tokens", "/compute-resources", "/projects", "/departments"):
            response = site.request("POST", path, {"name": name})
            assert response.status_code in REJECTED, response.text
