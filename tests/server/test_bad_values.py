"""Forged cursors, and values that the database cannot store: rejected, never 5xx."""

import base64
import json
from typing import Any

import pytest

from fairlead.model.records import ComputeResourceRecord
from tests.server.samples import CONTAINER
from tests.server.sites import Site, paths_of, problem_of


def cursor_of(*parts: Any) -> str:
    """A cursor for the compute resource list that the server did not create: sort column, value, ID."""
    parts = (f"{ComputeResourceRecord.__name__}:{parts[0]}", *parts[1:]) if parts else ()
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


CURSORS = (
    "x", "===", "%", "AAAA", cursor_of(), cursor_of("name"), cursor_of("name", "x"), cursor_of("name", 7, "x"),
    cursor_of("name", None, None), cursor_of("name", {"a": 1}, "x"), cursor_of("name", "x", "y", "z"),
    cursor_of("id", "x", "y"),
    cursor_of("name", "a\x00b", "x"), cursor_of("name", "a", "x\x00"), cursor_of("name", "\ud800", "x"),
    base64.urlsafe_b64encode(b"[" * 500).decode(), base64.urlsafe_b64encode(b"\xff\xfe").decode(),
)  # fmt: skip
CURSOR_VALUES = (
    ("revision", 10**30), ("revision", 2**63), ("revision", -(2**70)), ("revision", 1.5), ("revision", True),
    ("revision", "1"), ("mem_request", 2**65), ("workloads", 2**65),
    ("created_at", "2026-01-01"), ("created_at", "2026-01-01T00:00:00"), ("created_at", "9999-12-31T23:59:59-23:00"),
    ("created_at", 5), ("created_at", 10**20), ("archived", 1), ("archived", "x"),
    ("last_used_at", "0001-01-01T00:00:00+23:00"),
)  # fmt: skip


def test_forged_cursor_is_rejected(filled_site: Site) -> None:
    for cursor in CURSORS:
        response = filled_site.request("GET", f"/compute-resources?cursor={cursor}")
        assert paths_of(problem_of(response, 422)) == ["cursor"], cursor


@pytest.mark.every_store
def test_forged_value_in_a_cursor_does_no_harm(filled_site: Site) -> None:
    for column, value in CURSOR_VALUES:
        for direction in ("", "-"):
            sort = f"{direction}{column}"
            response = filled_site.request(
                "GET", f"/compute-resources?sort={sort}&cursor={cursor_of(sort, value, 'x')}"
            )
            assert response.status_code == 200 or paths_of(problem_of(response, 422)) == ["cursor"], f"{sort} {value}"


def test_cursor_of_another_list_is_rejected(filled_site: Site) -> None:
    for path in ("/clusters", "/tokens", "/scopes", "/functions"):
        cursor = filled_site.get(f"{path}?limit=1")["next_cursor"]
        assert cursor, f"{path} has only one page"
        response = filled_site.request("GET", f"/compute-resources?cursor={cursor}")
        assert paths_of(problem_of(response, 422)) == ["cursor"], path


# Values that only databases reject


UNSTORABLE_TEXTS = ("a\x00b", "\ud800", "\udc00x", "a\udfff")


@pytest.mark.every_store
def test_text_that_the_database_cannot_store_is_rejected(filled_site: Site) -> None:
    for text in UNSTORABLE_TEXTS:
        for method, path, body in requests_with(text):
            response = filled_site.request(method, path, body, headers={"If-Match": "*"})
            problem_of(response, 400, 401, 422)


def requests_with(text: str) -> list[tuple[str, str, Any]]:
    """Requests with the text in every free-text field."""
    return [
        ("POST", "/compute-resources", {"name": "n", "description": text}),
        ("POST", "/compute-resources", {"name": "n", "requirements": {"envs": {"A": text}}}),
        ("POST", "/compute-resources", {"name": text}),
        ("PATCH", "/compute-resources/alpha-resource", {"description": text}),
        ("PUT", "/projects/alpha/secrets/S", {"value": text}),
        ("POST", "/projects/alpha/volumes", {"name": "v", "size": "1Gi", "description": text}),
        ("POST", "/projects/alpha/runs", {"function": CONTAINER, "inputs": {"a": text}}),
        ("POST", "/projects/alpha/runs", {"function": CONTAINER, "inputs": {text: 1}}),
        ("POST", "/projects/alpha/runs", {"function": CONTAINER, "args": [text]}),
        ("POST", "/roles", {"subject": f"user:{text}", "role": "viewer"}),
        ("POST", "/tokens", {"name": text}),
        ("POST", "/tokens", {"name": "x", "user": text}),
        ("PUT", "/policies/project/alpha", {"rules": {"envs.A": {"options": [text]}}}),
        ("POST", "/apply", {"documents": [{"kind": "ComputeResource", "name": "n", "description": text}]}),
        ("POST", "/apply", {"documents": [{"kind": text, "name": text, text: text}]}),
        ("POST", "/sessions", {"token": text}),
    ]


@pytest.mark.every_store
def test_numbers_that_the_database_cannot_store_are_rejected(filled_site: Site) -> None:
    for number in (2**31, 2**63, 2**64, 10**30, -1, -(2**63)):
        for path in (
            f"/compute-resources/alpha-resource/diff?old={number}&new=1",
            f"/compute-resources/alpha-resource/diff?old=1&new={number}",
            f"/compute-resources?revision={number}",
            f"/compute-resources?workloads=%3E{number}",
            f"/compute-resources?mem_request={number}",
            f"/compute-resources?gpu_devices={number}",
        ):
            response = filled_site.request("GET", path)
            assert response.status_code == 200 or problem_of(response, 404, 422), path


@pytest.mark.every_store
def test_large_amounts_are_stored_and_found(filled_site: Site) -> None:
    for number, amount in enumerate(("9007199254740993", "8E", "7Ei", "9223372036854775807")):
        body = {"name": f"large{number}", "requirements": {"resources": {"mem": amount}}}
        assert filled_site.request("POST", "/compute-resources", body).status_code == 201, amount
    items = filled_site.get("/compute-resources?sort=mem_request&search=large&mem_request=%3E1Gi")["items"]
    assert [item["name"] for item in items] == ["large0", "large1", "large2", "large3"]
