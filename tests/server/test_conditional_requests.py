"""Under which conditions something is done: revisions, and requests that are repeated."""

import re
from typing import Any

import pytest

from tests.server.samples import SCRIPT, address_of, body_of, fill
from tests.server.sites import Site, operations_of, problem_of

NAMED = {"name": "one", "description": "before"}


# Revisions


def test_etag_is_the_revision_and_unchanged_objects_are_not_sent_again(site: Site) -> None:
    site.make("/departments", {"name": "one"})
    tag = site.ask("GET", "/departments/one").headers["etag"]
    assert re.fullmatch(r'"1-[0-9a-f]{8}"', tag)
    for known in (tag, f"W/{tag}", f'"7", {tag}', f'{tag},"2"', "*"):
        again = site.ask("GET", "/departments/one", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b""), known
        assert again.headers["etag"] == tag
    for unknown in ('"1"', '"2"', '"11"', "1x", '"', ""):
        assert site.ask("GET", "/departments/one", headers={"If-None-Match": unknown}).status_code == 200
    changed = site.ask("PATCH", "/departments/one", {"name": "two"})
    assert changed.headers["etag"] == tag.replace("1-", "2-")
    fresh = site.ask("GET", "/departments/two", headers={"If-None-Match": tag})
    assert (fresh.status_code, fresh.json()["name"]) == (200, "two")


def test_object_that_changes_without_a_revision_is_always_sent(site: Site) -> None:
    site.make("/compute-resources", NAMED)
    tag = site.ask("GET", "/compute-resources/one").headers["etag"]
    site.make("/projects/default/runs", {"function": SCRIPT, "profile": "one"})
    again = site.ask("GET", "/compute-resources/one", headers={"If-None-Match": tag})
    assert (again.status_code, again.json()["workloads"]) == (200, 1)


def test_recreated_object_does_not_match_the_old_etag(site: Site) -> None:
    policy = "/policies/project/default"
    tag = site.ask("PUT", policy, {"quota": {"runs": 1}}).headers["etag"]
    site.ask("DELETE", policy)
    site.ask("PUT", policy, {"quota": {"runs": 2}})
    problem = problem_of(site.ask("PUT", policy, {"quota": {"runs": 3}}, headers={"If-Match": tag}), 412)
    assert problem["detail"] == "it was deleted and created again since you read it"
    assert site.get(policy)["content"] == {"quota": {"runs": 2}}


def test_change_with_an_outdated_revision_is_rejected(site: Site) -> None:
    site.make("/compute-resources", NAMED)
    assert site.ask("PATCH", "/compute-resources/one", {"description": "a"}, headers=at(1)).status_code == 200
    problem = problem_of(site.ask("PATCH", "/compute-resources/one", {"description": "b"}, headers=at(1)), 412)
    assert problem["code"] == "changed"
    assert problem["detail"] == "it is now at revision 2, but you read revision 1"
    assert site.get("/compute-resources/one")["description"] == "a"
    problem_of(site.ask("DELETE", "/compute-resources/one", headers=at(1)), 412)
    assert site.ask("DELETE", "/compute-resources/one", headers=at(2)).status_code == 204


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


def test_every_change_accepts_if_match(common_site: Site, things: dict[str, str]) -> None:
    for method, path, body in CHANGES:
        answer = common_site.ask(method, path.format(**things), body, headers=at(77))
        assert problem_of(answer, 412)["code"] == "changed", f"{method} {path}"


def test_replacement_requires_the_revision(site: Site) -> None:
    for path, body in (
        ("/policies/project/default", {"rules": {"resources.gpu": {"max": 2}}}),
        ("/settings", {"defaults": {"resources": {"cpu": "1"}}}),
    ):
        assert site.ask("PUT", path, body).status_code == 200
        problem = problem_of(site.ask("PUT", path, body), 428)
        assert problem["code"] == "revision_missing"
        assert "If-Match" in problem["hint"]
        problem_of(site.ask("PUT", path, body, headers=at(9)), 412)
        assert site.ask("PUT", path, body, headers=at(1)).status_code == 200
        assert site.ask("PUT", path, body, headers={"If-Match": "*"}).status_code == 200


def test_missing_object_cannot_be_replaced_with_if_match(site: Site) -> None:
    for path, body in (
        ("/policies/project/default", {}),
        ("/settings", {"defaults": {}}),
        ("/projects/default/secrets/NEW", {"value": "x"}),
    ):
        problem_of(site.ask("PUT", path, body, headers=at(1)), 404, 412)


# Repeated requests


@pytest.mark.every_store
def test_request_with_an_idempotency_key_is_executed_once(site: Site) -> None:
    key = {"Idempotency-Key": "b5e1"}
    first = site.ask("POST", "/compute-resources", NAMED, headers=key)
    again = site.ask("POST", "/compute-resources", NAMED, headers=key)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.headers["etag"] == again.headers["etag"]
    assert site.get("/compute-resources?total=true")["total"] == 1
    problem = problem_of(site.ask("POST", "/compute-resources", {"name": "two"}, headers=key), 409)
    assert "Idempotency-Key" in problem["detail"]
    problem_of(site.ask("POST", "/templates", NAMED, headers=key), 409)


def test_failed_request_can_be_repeated_with_its_idempotency_key(site: Site) -> None:
    key = {"Idempotency-Key": "again"}
    problem_of(site.ask("POST", "/departments", {"name": "-"}, headers=key), 422)
    assert site.ask("POST", "/departments", {"name": "good"}, headers=key).status_code == 201


def test_idempotency_keys_are_separate_per_user(site: Site) -> None:
    token = site.token_of("bob", admin="platform")
    key = {"Idempotency-Key": "mine"}
    assert site.ask("POST", "/departments", {"name": "a"}, headers=key).status_code == 201
    assert site.ask("POST", "/departments", {"name": "b"}, headers=key, token=token).status_code == 201


def test_repeated_token_request_does_not_show_the_token_again(site: Site) -> None:
    key = {"Idempotency-Key": "token"}
    text = site.make("/tokens", {"name": "laptop"}, headers=key)["token"]
    answer = site.ask("POST", "/tokens", {"name": "laptop"}, headers=key)
    problem_of(answer, 409)
    assert text not in answer.text


def test_every_operation_with_an_idempotency_key_is_executed_once(site: Site) -> None:
    """Created, copied, archived, submitted: the second time nothing is done, and the answer is the first."""
    things = fill(site, "alpha")
    for number, item in enumerate(operations_of(site.document)):
        keyed = any(parameter["name"] == "Idempotency-Key" for parameter in item.parameters("header"))
        assert item.method == "POST" or not keyed
        if not keyed or item.path.endswith("/sessions"):
            continue
        body = {**(body_of(item) or {}), "dry_run": False} if item.path.endswith("/apply") else body_of(item)
        headers = {"Idempotency-Key": f"key-{number}"}
        first = site.ask("POST", address_of(item, things), body, headers=headers)
        before = site.get("/audit?total=true&limit=1")["total"]
        again = site.ask("POST", address_of(item, things), body, headers=headers)
        assert first.status_code < 300, f"{item.key}: {first.text}"
        assert site.get("/audit?total=true&limit=1")["total"] == before, f"{item.key} was done twice"
        if not item.path.endswith(("/tokens", "/sessions/link", "/preview")):
            assert (again.status_code, again.text) == (first.status_code, first.text), item.key


def test_only_post_accepts_an_idempotency_key(common_site: Site, things: dict[str, str]) -> None:
    for method, path in (("GET", "/me"), ("DELETE", "/tokens/x"), ("PATCH", "/clusters/local")):
        answer = common_site.ask(method, path, {} if method == "PATCH" else None, headers={"Idempotency-Key": "x"})
        assert problem_of(answer, 400)["code"] == "idempotency_key"


def at(revision: int) -> dict[str, str]:
    """On the condition that a revision is the kept one."""
    return {"If-Match": f'"{revision}"'}
