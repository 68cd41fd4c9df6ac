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

SAFETY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


def test_every_response_has_a_request_id_and_security_headers(
    common_site: Site, operations: list[Operation], things: dict[str, str]
) -> None:
    paths = [("GET", address_of(item, things)) for item in operations if item.method == "GET"]
    refused = [("GET", "/nothing"), ("OPTIONS", "/me"), ("GET", "/me?a%00b"), ("GET", "/" + "x" * 20_000)]
    for method, path in [*paths, *refused, ("GET", "/api/v1/openapi.json"), ("GET", "/")]:
        answer = common_site.ask(method, path)
        for name, value in SAFETY.items():
            assert answer.headers.get(name) == value, f"{name} of {path[:100]}"
        assert "default-src 'none'" in answer.headers["content-security-policy"], path[:100]
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"]), path[:100]
        assert "server" not in answer.headers


def test_internal_error_is_a_problem_without_details(
    site: Site, monkeypatch: pytest.MonkeyPatch, log: list[MutableMapping[str, Any]]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr(type(site.services.scopes), "page", fail)
    answer = site.ask("GET", "/clusters", headers={"X-Request-ID": "mistake-1"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "mistake-1"
    assert "hunter2" not in answer.text
    for name, value in SAFETY.items():
        assert answer.headers.get(name) == value, name
    (failed,) = (line for line in log if line["log_level"] == "error")
    assert failed["request_id"] == "mistake-1"
    (answered,) = (line for line in log if line["event"] == "request")
    assert (answered["status"], answered["request_id"]) == (500, "mistake-1")


def test_request_id_of_the_client_is_in_responses_problems_log_and_audit(
    site: Site, log: list[MutableMapping[str, Any]]
) -> None:
    headers = {"X-Request-ID": "my-id.7_x"}
    assert site.ask("POST", "/departments", {"name": "d"}, headers=headers).headers["x-request-id"] == "my-id.7_x"
    problem = problem_of(site.ask("POST", "/departments", {"name": "d"}, headers=headers), 409)
    assert problem["request_id"] == "my-id.7_x"
    assert [line["status"] for line in log if line.get("request_id") == "my-id.7_x"] == [201, 409]
    (entry,) = site.get("/audit?request_id=my-id.7_x")["items"]
    assert (entry["action"], entry["name"], entry["user"]) == ("department.create", "d", "ann")


def test_log_line_has_request_and_outcome(site: Site, log: list[MutableMapping[str, Any]]) -> None:
    site.ask("GET", "/compute-resources/nothing?", headers={"X-Request-ID": "line"})
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
    """Plant values, use them in every way, right and wrong, ask for everything: they must be nowhere."""
    things = fill(site, "alpha")
    planted = {"secret": "PLANTED-s3cr3t-value", "wrong": "PLANTED-not-a-token", "key": "PLANTED-idempotency"}
    told: list[str] = []

    def look(answer: Response, *, shows: str = "") -> Response:
        text = f"{answer.headers}\n{answer.text}"
        told.append(text.replace(shows, "") if shows else text)
        return answer

    # Secrets, new, changed and refused.
    for path in (
        "/projects/alpha/secrets/PLANTED",
        "/projects/alpha/secrets/PLANTED",
        "/projects/alpha/secrets/1-wrong",
    ):
        look(site.ask("PUT", path, {"value": planted["secret"]}))
    look(site.ask("PUT", "/projects/none/secrets/X", {"value": planted["secret"]}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"], "color": planted["secret"]}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"valeu": planted["secret"]}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"value": [planted["secret"]]}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"value": {"a": planted["secret"]}}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"] + "\x00"}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", {"value": planted["secret"] + "\ud800"}))
    look(site.ask("PUT", "/projects/alpha/secrets/X", planted["secret"]))
    look(site.ask("PUT", "/projects/alpha/secrets/X", content=f'{{"value": "{planted["secret"]}'.encode()))
    look(site.ask("PUT", "/projects/alpha/secrets/X", content=f'{{"value": {planted["secret"]}}}'.encode()))
    # Kubeconfigs likewise.
    cluster = f"/clusters/{things['cluster']}/kubeconfig"
    for parts in ({"user": {"token": planted["secret"]}}, {"user": {"token": [planted["secret"]]}}) * 2:
        look(site.ask("PUT", cluster, {"kubeconfig": json.dumps(make_kubeconfig(**parts))}))
    for text in (f"token: [{planted['secret']}", f"token: *{planted['secret']}", f"- {planted['secret']}"):
        look(site.ask("PUT", cluster, {"kubeconfig": text}))
    look(site.ask("PUT", cluster, {"kubeconfig": planted["secret"], "color": "red"}))
    look(site.ask("PUT", "/clusters/none/kubeconfig", {"kubeconfig": planted["secret"]}))
    look(site.ask("POST", f"/clusters/{things['cluster']}/check"))
    asked = {"function": CONTAINER, "secrets": ["PLANTED"], "profile": "alpha-resource"}
    look(site.ask("POST", "/projects/alpha/runs/preview", asked))
    run = look(site.ask("POST", "/projects/alpha/runs", asked)).json()["id"]
    things["run"] = run

    # Tokens, sessions and words.
    made = site.ask("POST", "/tokens", {"name": "planted"}, headers={"Idempotency-Key": planted["key"]})
    planted["token"] = made.json()["token"]
    look(made, shows=planted["token"])
    look(site.ask("POST", "/tokens", {"name": "planted"}, headers={"Idempotency-Key": planted["key"]}))
    signed = site.ask("POST", "/sessions", {"token": planted["token"]}, token=None)
    planted["session"] = cookie_in(signed).value
    look(signed, shows=planted["session"])
    planted["link"] = site.invite()
    followed = site.ask("GET", f"/login?code={planted['link']}", token=None)
    planted["second session"] = cookie_in(followed).value
    look(followed, shows=planted["second session"])
    look(site.ask("GET", f"/login?code={planted['link']}", token=None))
    look(site.ask("GET", f"/login?wrod={planted['link']}", token=None))
    keyed = {"Idempotency-Key": planted["key"] + "-link"}
    linked = site.ask("POST", "/sessions/link", {"next": "/a"}, token=planted["token"], headers=keyed)
    planted["made link"] = linked.json()["url"].partition("code=")[2].partition("&")[0]
    look(linked, shows=planted["made link"])
    look(site.ask("POST", "/sessions/link", {"next": "/a"}, token=planted["token"], headers=keyed))
    look(site.ask("POST", "/sessions/link", {}, token=planted["made link"]))
    look(site.ask("POST", "/sessions/link", {}, token=planted["session"]))
    look(site.ask("POST", "/sessions", {"token": planted["wrong"]}, token=None))
    look(site.ask("POST", "/sessions", {"token": [planted["wrong"]]}, token=None))
    look(site.ask("POST", "/sessions", {"toke": planted["wrong"]}, token=None))
    look(site.ask("GET", "/me", token=planted["wrong"]))
    look(site.ask("GET", "/me", headers={"Authorization": planted["wrong"]}))
    look(site.ask("GET", "/me", headers={"Authorization": f"Basic {planted['wrong']}"}))
    look(site.ask("GET", "/me", token=None, headers={"Cookie": f"{COOKIE}={planted['wrong']}"}))
    for token in (planted["token"], planted["session"], site.token):
        look(site.ask("GET", "/me", token=token))

    # And everything there is, as the administrator.
    for item in operations_of(site.document):
        if item.method == "GET":
            look(site.ask("GET", address_of(item, things) + ("?limit=500" if item.is_list else "")))
            if item.is_list:
                look(site.ask("GET", f"{address_of(item, things)}?search={planted['secret'][:-1]}"))
    logged = "\n".join([*(json.dumps(line, default=repr) for line in log), caplog.text])
    kept = "\n".join(_dump(site))
    leaks = [
        f"the {what} is in {where}: {text[max(0, text.find(value) - 200) :][:300]}"
        for what, value in {**planted, "own token": site.token}.items()
        for where, texts in (("an answer", told), ("the log", [logged]), ("the database", [kept]))
        for text in texts
        if value in text
    ]
    assert leaks == []


def _dump(site: Site) -> Iterator[str]:
    """Everything that the database keeps, as text."""
    with site.store.engine.connect() as connection:  # type: ignore[attr-defined]  # a store on a database
        for table in metadata.sorted_tables:
            for row in connection.execute(sa.select(table)):
                yield " ".join(value.decode("latin-1") if isinstance(value, bytes) else str(value) for value in row)
