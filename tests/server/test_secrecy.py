"""Headers of all responses, and secrets that no response may contain."""

import json
import re
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from fairlead.adapters.database.tables import metadata
from tests.kubeconfigs import make_kubeconfig
from tests.server.samples import CONTAINER, address_of, fill
from tests.server.sites import API, COOKIE, Operation, Site, cookie_in, operations_of, problem_of

SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


def test_every_response_has_a_request_id_and_security_headers(
    common_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    paths = [("GET", address_of(item, objects)) for item in operations if item.method == "GET"]
    rejected = [("GET", "/nothing"), ("OPTIONS", "/me"), ("GET", "/me?a%00b"), ("GET", "/" + "x" * 20_000)]
    for method, path in [*paths, *rejected, ("GET", "/api/v1/openapi.json"), ("GET", "/")]:
        response = common_site.request(method, path)
        for name, value in SECURITY_HEADERS.items():
            assert response.headers.get(name) == value, f"{name} of {path[:100]}"
        assert "default-src 'none'" in response.headers["content-security-policy"], path[:100]
        assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"]), path[:100]
        assert "server" not in response.headers


def test_internal_error_is_a_problem_without_details(
    site: Site, monkeypatch: pytest.MonkeyPatch, log: list[MutableMapping[str, Any]]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(type(site.services.scopes), "page", fail)
    response = site.request("GET", "/clusters", headers={"X-Request-ID": "mistake-1"})
    assert (response.status_code, response.headers["content-type"]) == (500, "application/problem+json")
    assert response.json()["request_id"] == response.headers["x-request-id"] == "mistake-1"
    assert "hunter2" not in response.text
    for name, value in SECURITY_HEADERS.items():
        assert response.headers.get(name) == value, name
    (error_line,) = (line for line in log if line["log_level"] == "error")
    assert error_line["request_id"] == "mistake-1"
    (request_line,) = (line for line in log if line["event"] == "request")
    assert (request_line["status"], request_line["request_id"]) == (500, "mistake-1")


def test_request_id_of_the_client_is_in_responses_problems_log_and_audit(
    site: Site, log: list[MutableMapping[str, Any]]
) -> None:
    headers = {"X-Request-ID": "my-id.7_x"}
    assert site.request("POST", "/departments", {"name": "d"}, headers=headers).headers["x-request-id"] == "my-id.7_x"
    problem = problem_of(site.request("POST", "/departments", {"name": "d"}, headers=headers), 409)
    assert problem["request_id"] == "my-id.7_x"
    assert [line["status"] for line in log if line.get("request_id") == "my-id.7_x"] == [201, 409]
    (entry,) = site.get("/audit?request_id=my-id.7_x")["items"]
    assert (entry["action"], entry["name"], entry["user"]) == ("department.create", "d", "ann")


def test_log_line_has_request_and_outcome(site: Site, log: list[MutableMapping[str, Any]]) -> None:
    site.request("GET", "/compute-resources/nothing?", headers={"X-Request-ID": "line"})
    (line,) = (line for line in log if line.get("request_id") == "line")
    expected = {"method": "GET", "path": f"{API}/compute-resources/nothing", "status": 404, "event": "request"}
    assert {name: line[name] for name in expected} == expected
    assert line["milliseconds"] > 0
    assert line["address"]


# Secrets


@pytest.mark.every_store
def test_secrets_appear_in_no_response_log_or_database(
    site: Site, log: list[MutableMapping[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Plant values, use them in valid and invalid requests, and read everything: they must appear nowhere."""
    objects = fill(site, "alpha")
    planted = {"secret": "PLANTED-s3cr3t-value", "wrong": "PLANTED-not-a-token", "key": "PLANTED-idempotency"}
    outputs: list[str] = []

    def record(response: Response, *, allowed: str = "") -> Response:
        text = f"{response.headers}\n{response.text}"
        outputs.append(text.replace(allowed, "") if allowed else text)
        return response

    # Secrets: created, changed and rejected.
    for path in (
        "/projects/alpha/secrets/PLANTED",
        "/projects/alpha/secrets/PLANTED",
        "/projects/alpha/secrets/1-wrong",
    ):
        record(site.request("PUT", path, {"value": planted["secret"]}))
    record(site.request("PUT", "/projects/none/secrets/X", {"value": planted["secret"]}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"], "color": planted["secret"]}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"valeu": planted["secret"]}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"value": [planted["secret"]]}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"value": {"a": planted["secret"]}}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"] + "\x00"}))
    record(site.request("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"] + "\ud800"}))
    record(site.request("PUT", "/projects/alpha/secrets/X", planted["secret"]))
    record(site.request("PUT", "/projects/alpha/secrets/X", content=f'{{"value": "{planted["secret"]}'.encode()))
    record(site.request("PUT", "/projects/alpha/secrets/X", content=f'{{"value": {planted["secret"]}}}'.encode()))
    # Kubeconfigs: created, changed and rejected.
    cluster = f"/clusters/{objects['cluster']}/kubeconfig"
    for parts in ({"user": {"token": planted["secret"]}}, {"user": {"token": [planted["secret"]]}}) * 2:
        record(site.request("PUT", cluster, {"kubeconfig": json.dumps(make_kubeconfig(**parts))}))
    for text in (f"token: [{planted['secret']}", f"token: *{planted['secret']}", f"- {planted['secret']}"):
        record(site.request("PUT", cluster, {"kubeconfig": text}))
    record(site.request("PUT", cluster, {"kubeconfig": planted["secret"], "color": "red"}))
    record(site.request("PUT", "/clusters/none/kubeconfig", {"kubeconfig": planted["secret"]}))
    record(site.request("POST", f"/clusters/{objects['cluster']}/check"))
    request = {"function": CONTAINER, "secrets": ["PLANTED"], "profile": "alpha-resource"}
    record(site.request("POST", "/projects/alpha/runs/preview", request))
    run = record(site.request("POST", "/projects/alpha/runs", request)).json()["id"]
    objects["run"] = run

    # Tokens, sessions and one-time codes.
    created = site.request("POST", "/tokens", {"name": "planted"}, headers={"Idempotency-Key": planted["key"]})
    planted["token"] = created.json()["token"]
    record(created, allowed=planted["token"])
    record(site.request("POST", "/tokens", {"name": "planted"}, headers={"Idempotency-Key": planted["key"]}))
    signed_in = site.request("POST", "/sessions", {"token": planted["token"]}, token=None)
    planted["session"] = cookie_in(signed_in).value
    record(signed_in, allowed=planted["session"])
    planted["link"] = site.create_login_code()
    followed = site.request("GET", f"/login?code={planted['link']}", token=None)
    planted["second session"] = cookie_in(followed).value
    record(followed, allowed=planted["second session"])
    record(site.request("GET", f"/login?code={planted['link']}", token=None))
    record(site.request("GET", f"/login?wrod={planted['link']}", token=None))
    headers = {"Idempotency-Key": planted["key"] + "-link"}
    linked = site.request("POST", "/sessions/link", {"next": "/a"}, token=planted["token"], headers=headers)
    planted["made link"] = linked.json()["url"].partition("code=")[2].partition("&")[0]
    record(linked, allowed=planted["made link"])
    record(site.request("POST", "/sessions/link", {"next": "/a"}, token=planted["token"], headers=headers))
    record(site.request("POST", "/sessions/link", {}, token=planted["made link"]))
    record(site.request("POST", "/sessions/link", {}, token=planted["session"]))
    record(site.request("POST", "/sessions", {"token": planted["wrong"]}, token=None))
    record(site.request("POST", "/sessions", {"token": [planted["wrong"]]}, token=None))
    record(site.request("POST", "/sessions", {"toke": planted["wrong"]}, token=None))
    record(site.request("GET", "/me", token=planted["wrong"]))
    record(site.request("GET", "/me", headers={"Authorization": planted["wrong"]}))
    record(site.request("GET", "/me", headers={"Authorization": f"Basic {planted['wrong']}"}))
    record(site.request("GET", "/me", token=None, headers={"Cookie": f"{COOKIE}={planted['wrong']}"}))
    for token in (planted["token"], planted["session"], site.token):
        record(site.request("GET", "/me", token=token))

    # Everything that the administrator can read.
    for item in operations_of(site.document):
        if item.method == "GET":
            record(site.request("GET", address_of(item, objects) + ("?limit=500" if item.is_list else "")))
            if item.is_list:
                record(site.request("GET", f"{address_of(item, objects)}?search={planted['secret'][:-1]}"))
    logged = "\n".join([*(json.dumps(line, default=repr) for line in log), caplog.text])
    stored = "\n".join(_dump(site))
    leaks = [
        f"the {name} is in {place}: {text[max(0, text.find(value) - 200) :][:300]}"
        for name, value in {**planted, "own token": site.token}.items()
        for place, texts in (("a response", outputs), ("the log", [logged]), ("the database", [stored]))
        for text in texts
        if value in text
    ]
    assert leaks == []


def _dump(site: Site) -> Iterator[str]:
    """All rows of the database, as text."""
    with site.store.engine.connect() as connection:  # type: ignore[attr-defined]  # a store on a database
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)):
                yield " ".join(value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row)
