"""Conditional requests: revisions, ETags and idempotency keys."""

import re
from typing import Any

import pytest

from tests.server.samples import SCRIPT, address_of, body_of, fill
from tests.server.sites import Site, operations_of, problem_of

RESOURCE = {"name": "one", "description": "before"}


# Revisions


def test_etag_is_the_revision_and_unchanged_objects_are_not_sent_again(site: Site) -> None:
    site.post("/departments", {"name": "one"})
    tag = site.request("GET", "/departments/one").headers["etag"]
    assert re.fullmatch(r'"1-[0-9a-f]{8}"', tag)
    for matching in (tag, f"W/{tag}", f'"7", {tag}', f'{tag},"2"', "*"):
        response = site.request("GET", "/departments/one", headers={"If-None-Match": matching})
        assert (response.status_code, response.content) == (304, b""), matching
        assert response.headers["etag"] == tag
    for other in ('"1"', '"2"', '"11"', "1x", '"', ""):
        assert site.request("GET", "/departments/one", headers={"If-None-Match": other}).status_code == 200
    changed = site.request("PATCH", "/departments/one", {"name": "two"})
    assert changed.headers["etag"] == tag.replace("1-", "2-")
    changed_response = site.request("GET", "/departments/two", headers={"If-None-Match": tag})
    assert (changed_response.status_code, changed_response.json()["name"]) == (200, "two")


def test_object_that_changes_without_a_revision_is_always_sent(site: Site) -> None:
    site.post("/compute-resources", RESOURCE)
    tag = site.request("GET", "/compute-resources/one").headers["etag"]
    site.post("/projects/default/runs", {"function": SCRIPT, "profile": "one"})
    response = site.request("GET", "/compute-resources/one", headers={"If-None-Match": tag})
    assert (response.status_code, response.json()["workloads"]) == (200, 1)


def test_recreated_object_does_not_match_the_old_etag(site: Site) -> None:
    policy = "/policies/project/default"
    tag = site.request("PUT", policy, {"quota": {"runs": 1}}).headers["etag"]
    site.request("DELETE", policy)
    site.request("PUT", policy, {"quota": {"runs": 2}})
    problem = problem_of(site.request("PUT", policy, {"quota": {"runs": 3}}, headers={"If-Match": tag}), 412)
    assert problem["detail"] == "it has been deleted and recreated since you read it"
    assert site.get(policy)["content"] == {"quota": {"runs": 2}}


def test_change_with_an_outdated_revision_is_rejected(site: Site) -> None:
    site.post("/compute-resources", RESOURCE)
    assert site.request("PATCH", "/compute-resources/one", {"description": "a"}, headers=if_match(1)).status_code == 200
    problem = problem_of(
        site.request("PATCH", "/compute-resources/one", {"description": "b"}, headers=if_match(1)), 412
    )
    assert problem["code"] == "changed"
    assert problem["detail"] == "it is now at revision 2, but you read revision 1"
    assert site.get("/compute-resources/one")["description"] == "a"
    problem_of(site.request("DELETE", "/compute-resources/one", headers=if_match(1)), 412)
    assert site.request("DELETE", "/compute-resources/one", headers=if_match(2)).status_code == 204


CHANGES: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("PATCH", "/clusters/{cluster}", {"kai_queue": "q"}),
    ("PATCH", "/departments/{department}", {}),
    ("PATCH", "/projects/{project}", {}),
    ("PATCH", "/compute-resources/{compute_resource}", {"description": "x"}),
    ("POST", "/compute-resources/{compute_resource}/archive", {}),
    ("POST", "/compute-resources/{compute_resource}/restore", None),
    ("DELETE", "/compute-resources/{compute_resource}", None),
    ("PATCH", "/templates/{template}", {"description": "x"}),
    ("POST", "/templates/{template}/archive", {}),
    ("DELETE", "/templates/{template}", None),
    ("PUT", "/policies/project/{project}", {}),
    ("DELETE", "/policies/project/{project}", None),
    ("PUT", "/projects/{project}/secrets/{secret}", {"value": "x"}),
    ("DELETE", "/projects/{project}/secrets/{secret}", None),
    ("DELETE", "/projects/{project}/volumes/{volume}", None),
    ("POST", "/runs/{run}/stop", None),
    ("DELETE", "/runs/{run}", None),
    ("DELETE", "/roles/{role}", None),
    ("DELETE", "/tokens/{token}", None),
    ("DELETE", "/projects/{project}", None),
)


def test_every_change_accepts_if_match(common_site: Site, objects: dict[str, str]) -> None:
    for method, path, body in CHANGES:
        response = common_site.request(method, path.format(**objects), body, headers=if_match(77))
        assert problem_of(response, 412)["code"] == "changed", f"{method} {path}"


def test_replacement_requires_the_revision(site: Site) -> None:
    for path, body in (
        ("/policies/project/default", {"rules": {"resources.gpu": {"max": 2}}}),
        ("/settings", {"defaults": {"resources": {"cpu": "1"}}}),
    ):
        assert site.request("PUT", path, body).status_code == 200
        problem = problem_of(site.request("PUT", path, body), 428)
        assert problem["code"] == "revision_missing"
        assert "If-Match" in problem["hint"]
        problem_of(site.request("PUT", path, body, headers=if_match(9)), 412)
        assert site.request("PUT", path, body, headers=if_match(1)).status_code == 200
        assert site.request("PUT", path, body, headers={"If-Match": "*"}).status_code == 200


def test_missing_object_cannot_be_replaced_with_if_match(site: Site) -> None:
    for path, body in (
        ("/policies/project/default", {}),
        ("/settings", {"defaults": {}}),
        ("/projects/default/secrets/NEW", {"value": "x"}),
    ):
        problem_of(site.request("PUT", path, body, headers=if_match(1)), 404, 412)


# Repeated requests


@pytest.mark.every_store
def test_request_with_an_idempotency_key_is_executed_once(site: Site) -> None:
    key = {"Idempotency-Key": "b5e1"}
    first = site.request("POST", "/compute-resources", RESOURCE, headers=key)
    second = site.request("POST", "/compute-resources", RESOURCE, headers=key)
    assert (first.status_code, first.json()) == (second.status_code, second.json())
    assert first.headers["etag"] == second.headers["etag"]
    assert site.get("/compute-resources?total=true")["total"] == 1
    problem = problem_of(site.request("POST", "/compute-resources", {"name": "two"}, headers=key), 409)
    assert "Idempotency-Key" in problem["detail"]
    problem_of(site.request("POST", "/templates", RESOURCE, headers=key), 409)


def test_failed_request_can_be_repeated_with_its_idempotency_key(site: Site) -> None:
    key = {"Idempotency-Key": "again"}
    problem_of(site.request("POST", "/departments", {"name": "-"}, headers=key), 422)
    assert site.request("POST", "/departments", {"name": "good"}, headers=key).status_code == 201


def test_idempotency_keys_are_separate_per_user(site: Site) -> None:
    token = site.token_of("bob", admin="platform")
    key = {"Idempotency-Key": "mine"}
    assert site.request("POST", "/departments", {"name": "a"}, headers=key).status_code == 201
    assert site.request("POST", "/departments", {"name": "b"}, headers=key, token=token).status_code == 201


def test_repeated_token_request_does_not_show_the_token_again(site: Site) -> None:
    key = {"Idempotency-Key": "token"}
    text = site.post("/tokens", {"name": "laptop"}, headers=key)["token"]
    response = site.request("POST", "/tokens", {"name": "laptop"}, headers=key)
    problem_of(response, 409)
    assert text not in response.text


def test_every_operation_with_an_idempotency_key_is_executed_once(site: Site) -> None:
    """A repeated request changes nothing, and gets the first request's response."""
    objects = fill(site, "alpha")
    for number, item in enumerate(operations_of(site.document)):
        has_key = any(parameter["name"] == "Idempotency-Key" for parameter in item.parameters("header"))
        assert item.method == "POST" or not has_key
        if not has_key or item.path.endswith("/sessions"):
            continue
        body = {**(body_of(item) or {}), "dry_run": False} if item.path.endswith("/apply") else body_of(item)
        headers = {"Idempotency-Key": f"key-{number}"}
        first = site.request("POST", address_of(item, objects), body, headers=headers)
        before = site.get("/audit?total=true&limit=1")["total"]
        second = site.request("POST", address_of(item, objects), body, headers=headers)
        assert first.status_code < 300, f"{item.key}: {first.text}"
        assert site.get("/audit?total=true&limit=1")["total"] == before, f"{item.key} was executed twice"
        if not item.path.endswith(("/tokens", "/sessions/link", "/preview")):
            assert (second.status_code, second.text) == (first.status_code, first.text), item.key


def test_only_post_accepts_an_idempotency_key(common_site: Site, objects: dict[str, str]) -> None:
    for method, path in (("GET", "/me"), ("DELETE", "/tokens/x"), ("PATCH", "/clusters/local")):
        response = common_site.request(
            method, path, {} if method == "PATCH" else None, headers={"Idempotency-Key": "x"}
        )
        assert problem_of(response, 400)["code"] == "idempotency_key"


def if_match(revision: int) -> dict[str, str]:
    """The header for a change to the given revision."""
    return {"If-Match": f'"{revision}"'}
