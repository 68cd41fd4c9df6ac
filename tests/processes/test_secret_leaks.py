"""Planted secrets do not appear in a server's responses, logs or stored data."""

import base64
import json
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import httpx2
import pytest
import sqlalchemy as sa

from tests.processes import providers
from tests.processes.execution import read_files
from tests.processes.machines import TIMEOUT, Machine, RunningServer, make_resource
from tests.processes.providers import Provider

DEBUG = {"FAIRLEAD_LOG_LEVEL": "debug"}
# A run that prints its environment.
RUN = {"function": {"name": "f", "command": ["sh", "-c", "env; env >&2"]}}
PARTS = ("", "/explain", "/request", "/manifests", "/why", "/events", "/usage", "/result", "/files")
LOGS = ("", "?format=raw", "?stream=stderr", "?follow=true")
SECRET = "projects/default/secrets"


class LeakDetector:
    """The planted secrets by name, and all responses except the few that may contain a secret."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}
        self.responses: dict[str, str] = {}
        self.statuses: set[int] = set()

    def plant(self, name: str) -> str:
        """Create a unique secret."""
        return self.add(name, f"Pl4nted-{secrets.token_hex(16)}")

    def add(self, name: str, text: str) -> str:
        """Add a secret that must not leak."""
        assert len(text) >= 20
        self.planted[name] = text
        return text

    def record(self, response: httpx2.Response) -> None:
        """Record a response."""
        response.read()
        self.statuses.add(response.status_code)
        request = response.request
        text = f"{response.headers}\n{response.text}"
        self.responses[f"{len(self.responses)}: {request.method} {request.url.path} -> {response.status_code}"] = text

    def discard_last(self) -> None:
        """Discard the last response, which may contain a secret."""
        self.responses.popitem()

    def find_planted(self, content: bytes) -> list[str]:
        """The names of the planted secrets found in some content, including in other encodings."""
        return [
            name for name, text in self.planted.items() if any(encoding in content for encoding in _encodings(text))
        ]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """An identity provider that signs tokens."""
    with providers.running() as provider:
        yield provider


@pytest.fixture(params=["sqlite", "postgresql"])
def own_database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options for a server with a database that this test may break."""
    return () if request.param == "sqlite" else ("--database", request.getfixturevalue("empty_postgresql_url"))


def test_secrets_are_not_in_responses_logs_files_or_database(
    own_database: tuple[str, ...], machine: Machine, provider: Provider
) -> None:
    detector = LeakDetector()
    _use_oidc_server(machine, own_database, provider, detector)
    _use_local_server(machine, own_database, detector)
    assert {200, 201, 204, 303, 400, 401, 403, 404, 409, 412, 415, 422, 428, 500} <= detector.statuses

    leaks = {source: detector.find_planted(text.encode()) for source, text in detector.responses.items()}
    assert {source: names for source, names in leaks.items() if names} == {}
    assert sum(file.stat().st_size for file in machine.folder.glob("*.err")) > 20_000
    for file in sorted(machine.folder.glob("*.err")):
        assert detector.find_planted(file.read_bytes()) == [], file
    for file in sorted(machine.folder.glob("*.out")):
        assert set(detector.find_planted(file.read_bytes())) <= {"sign-in code"}, file  # the link is printed
    stored = list(_read_stored(machine.folder / "data", own_database))
    assert sum(map(len, stored)) > 20_000
    assert [name for content in stored for name in detector.find_planted(content)] == []


def _use_oidc_server(machine: Machine, database: tuple[str, ...], provider: Provider, detector: LeakDetector) -> None:
    """Use a server with an identity provider: valid and invalid tokens, and browser sign-in."""
    provider.login_endpoints.secret = detector.plant("secret of the client")
    server = machine.up(*database, variables=provider.sign_in | DEBUG)
    _sign_in(server, provider, detector)
    valid = detector.add("token of the provider", provider.token(sub="ada", groups=["platform-admins"]))
    detector.add("its signature", valid.split(".")[2])
    detector.add("its claims", valid.split(".")[1])
    expired = detector.add("expired token", provider.token(sub="ada", exp=1))
    foreign = detector.add("token of another issuer", provider.token(iss="https://login.example.org"))
    detector.add("token of this machine", server.token)
    with server.client(valid) as client:
        client.event_hooks = {"response": [detector.record]}
        assert client.get("/me").status_code == 200
        _exercise(client, detector)
        client.post("/sessions", json={"token": valid})
        for token in (expired, foreign, valid[:-5], valid + "x", f"{valid} {valid}"):
            client.get("/me", headers={"Authorization": f"Bearer {token}"})
            client.post("/sessions", json={"token": token})
        client.get("/me", headers={"Authorization": f"Basic {valid}"})
        client.get("/me", headers={"Authorization": valid})
    _read_everything(server, detector)
    # Check while the server is running, so that SQLite's write-ahead log is included.
    for content in _read_stored(server.data, database):
        assert detector.find_planted(content) == []
    server.stop(signal.SIGKILL)


def _sign_in(server: RunningServer, provider: Provider, detector: LeakDetector) -> None:
    """Sign in with a browser twice, and try to use each authorization code again."""
    for number in range(2):
        with server.anonymous_client() as browser:
            browser.event_hooks = {"response": [detector.record]}
            address = browser.get("/login/oidc").headers["location"]
            detector.discard_last()  # the cookie, and the parameters sent to the provider
            cookie = browser.cookies["fairlead_login"]
            callback = provider.login_endpoints.authorize(address)
            assert browser.get(callback).headers["location"] == "/"
            detector.discard_last()  # the session
            detector.add(f"session of {number}", browser.cookies["fairlead_session"])
            for name, value in zip(("state", "nonce", "verifier"), cookie.split("."), strict=False):
                detector.add(f"{name} of {number}", value)
            detector.add(f"code of {number}", dict(parse_qsl(urlsplit(callback).query))["code"])
            assert "failed=" in browser.get(callback).headers["location"]
            browser.cookies.set("fairlead_login", cookie)
            assert browser.get(callback).headers["location"] == "/sign-in?failed=issuer"


def _use_local_server(machine: Machine, database: tuple[str, ...], detector: LeakDetector) -> None:
    """Use a server with local authentication: the sign-in link and sessions."""
    server = machine.up(*database, variables=DEBUG)
    code = detector.add("sign-in code", server.link.partition("code=")[2])
    with server.anonymous_client() as browser:
        browser.event_hooks = {"response": [detector.record]}
        assert browser.get(f"/login?code={code}").status_code == 303
        detector.discard_last()  # the cookie
        session = detector.add("session", browser.cookies["fairlead_session"])
        for path in (f"/login?code={code}", f"/login?code={code}&code={code}", f"/login?other={code}", "/login"):
            browser.get(path)
        browser.post("/api/v1/sessions", json={"token": code})
        for path in ("me", "tokens", "audit", "settings"):
            assert browser.get(f"/api/v1/{path}").status_code == 200
        foreign = {"Origin": "https://elsewhere.example.org"}
        assert browser.post("/api/v1/tokens", json={"name": "a"}, headers=foreign).status_code == 403
        assert browser.get("/api/v1/me", headers={"Authorization": f"Bearer {session}"}).status_code == 200
        browser.get("/api/v1/me", headers={"Authorization": f"Bearer {code}"})
    with server.client() as client:
        client.event_hooks = {"response": [detector.record]}
        _exercise(client, detector)
        _cause_server_error(server, database, client, detector)
    with server.anonymous_client() as browser:
        browser.cookies.set("fairlead_session", session)
        browser.event_hooks = {"response": [detector.record]}
        assert browser.delete("/api/v1/sessions", headers={"Origin": server.url}).status_code == 204
        assert browser.get("/api/v1/me").status_code == 401
    _read_everything(server, detector)
    ended = machine.app("rotate-keys", "--data", str(server.data), *database, variables=DEBUG)
    assert ended.code == 0, ended.err
    server.stop()
    for number, line in enumerate((server.data / "secret.key").read_text().splitlines()):
        detector.add(f"key {number}", line.partition(" ")[0])


def _exercise(client: httpx2.Client, detector: LeakDetector) -> None:
    """Send secrets and tokens in valid and invalid requests."""
    number = len(detector.planted)
    value, other = detector.plant(f"secret {number}"), detector.plant(f"replaced secret {number}")
    path = f"/{SECRET}/PLANTED_{number}"
    assert client.put(path, json={"value": other}).status_code == 201
    assert client.put(path, json={"value": value}).status_code == 200
    assert client.put(path, json={"value": other}, headers={"If-Match": '"1"'}).status_code == 412
    _send_badly(client, path, value)
    client.post(
        "/compute-resources", json=make_resource(f"planted-{number}"), headers={"Idempotency-Key": f"k{number}"}
    )
    request = {**RUN, "secrets": [f"PLANTED_{number}"]}
    previewed = client.post("/projects/default/runs/preview", json=request)
    assert previewed.status_code == 200, previewed.text
    assert f"PLANTED_{number}" in previewed.text
    run = client.post("/projects/default/runs", json=request)
    assert run.status_code == 201, run.text
    _read_run(client, f"/runs/{run.json()['id']}")

    key = {"Idempotency-Key": f"token-{number}"}
    created = client.post("/tokens", json={"name": f"planted {number}"}, headers=key)
    detector.discard_last()  # the only response that contains it
    token = detector.add(f"token {number}", created.json()["token"])
    assert client.post("/tokens", json={"name": f"planted {number}"}, headers=key).status_code == 409
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/me", headers=headers).status_code == 200
    assert client.put(f"/{SECRET}/PLANTED_{number}", json={"value": value}, headers=headers).status_code == 200
    linked = client.post("/sessions/link", json={}, headers=headers)
    detector.discard_last()  # the only response that contains it
    code = detector.add(f"sign-in code {number}", linked.json()["url"].partition("code=")[2])
    assert client.post("/sessions/link", json={}, headers={"Authorization": f"Bearer {code}"}).status_code == 401
    assert client.get("/me", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
    assert client.get("/me", headers={"Authorization": f"Basic {token}"}).status_code == 401
    for body in ({"token": [token]}, {"token": token, "more": 1}, {"tokens": token}, {"token": token + "\0"}, token):
        assert client.post("/sessions", json=body).status_code in (400, 401, 422), body
    assert client.delete(f"/tokens/{created.json()['id']}").status_code == 204
    assert client.get("/me", headers=headers).status_code == 401
    assert client.delete(path).status_code == 204


def _read_run(client: httpx2.Client, path: str) -> None:
    """Read everything about a run that printed its secrets."""
    deadline = time.monotonic() + TIMEOUT
    while (run := client.get(path).json())["active"]:
        assert time.monotonic() < deadline, run
        time.sleep(0.05)
    assert run["state"] == "completed", run
    for part in PARTS:
        assert client.get(f"{path}{part}").status_code == 200, part
    for query in LOGS:
        log = client.get(f"{path}/logs{query}").text
        assert "PLANTED_" in log
        assert "***" in log


def _send_badly(client: httpx2.Client, path: str, value: str) -> None:
    """Secrets in invalid bodies: the errors must not contain them."""
    for body in (
        {"value": [value]},
        {"value": {value: value}},
        {"value": value, "note": 1},
        {"value": value, "values": value},
        {"values": value},
        {"value": f"{value}\0"},
        {"value": f"{value}\ud800"},
        {"value": value * 40_000},
        [value],
        value,
        {},
    ):
        text = json.dumps(body)
        response = client.put(path, content=text, headers={"Content-Type": "application/json"})
        assert response.status_code in (400, 413, 422), (response.status_code, text[:100])
    for text in (f'{{"value": "{value}', f'{{"value": "{value}", "value": "{value}"}}', f'{{"value": {value}}}'):
        assert client.put(path, content=text, headers={"Content-Type": "application/json"}).status_code == 400
    assert client.put(path, content=value, headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.put(path, json={"value": value}, headers={"If-Match": "x"}).status_code == 400
    assert client.put("/projects/nowhere/secrets/A", json={"value": value}).status_code == 404
    assert client.put(f"/{SECRET}/not%20a%20name", json={"value": value}).status_code == 422
    assert client.post(path, json={"value": value}).status_code == 405
    assert client.put(f"{path}?more=1", json={"value": value}).status_code == 422


def _cause_server_error(
    server: RunningServer, database: tuple[str, ...], client: httpx2.Client, detector: LeakDetector
) -> None:
    """Cause an internal server error while the server handles a secret."""
    value = detector.plant("secret of a failing request")
    assert client.put(f"/{SECRET}/BROKEN", json={"value": value}).status_code == 201
    assert client.put("/policies/project/default", json={"rules": {}}).status_code == 200
    assert client.put("/policies/project/default", json={"rules": {}}).status_code == 428
    engine = sa.create_engine(_database_url(server.data, database), poolclass=sa.NullPool)

    def execute(statement: str) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)

    if database:
        execute("ALTER TABLE secrets RENAME COLUMN key_id TO key_name")
    else:
        execute("UPDATE secrets SET created_at = 'invalid' WHERE name = 'BROKEN'")
    failed = client.put(f"/{SECRET}/BROKEN", json={"value": value})
    assert failed.status_code == 500, failed.text
    assert failed.headers["content-type"] == "application/problem+json"
    assert set(failed.json()) == {"type", "title", "status", "code", "detail", "request_id"}
    assert failed.json()["request_id"] in server.process.output[1]
    if database:
        execute("ALTER TABLE secrets RENAME COLUMN key_name TO key_id")
    else:
        execute("UPDATE secrets SET created_at = updated_at WHERE name = 'BROKEN'")
    assert client.put(f"/{SECRET}/BROKEN", json={"value": value}).status_code == 200


def _read_everything(server: RunningServer, detector: LeakDetector) -> None:
    """Read every resource, with a token and anonymously."""
    with server.client() as client:
        client.event_hooks = {"response": [detector.record]}
        document = client.get("/openapi.json").json()
        paths = [path for path, methods in document["paths"].items() if "get" in methods and "{" not in path]
        assert len(paths) > 15
        for path in paths:
            method = "HEAD" if path.endswith("/events") else "GET"  # the event stream does not end
            assert client.request(method, path.removeprefix("/api/v1")).status_code == 200, path
        lines = client.get("/audit/export").text.splitlines()
        assert {"secret.create", "secret.edit", "token.create"} <= {json.loads(line)["action"] for line in lines}
        for name in ("default", "nowhere"):
            client.get(f"/projects/{name}/secrets")
        client.get("/compute-resources/nothing")
    with server.anonymous_client() as anonymous:
        anonymous.event_hooks = {"response": [detector.record]}
        for path in ("/", "/metrics", "/healthz", "/readyz", "/nowhere", "/api/v1/tokens"):
            anonymous.get(path)


def _read_stored(data: Path, database: tuple[str, ...]) -> Iterator[bytes]:
    """The contents of the database and the run folders."""
    for file, content in read_files(data / "runs"):
        if not file.is_symlink():
            yield content
    if not database:
        for file in sorted(data.glob("fairlead.db*")):
            yield file.read_bytes()
        return
    engine = sa.create_engine(_database_url(data, database), poolclass=sa.NullPool)
    with engine.connect() as connection:
        for table in sa.inspect(connection).get_table_names():
            for row in connection.exec_driver_sql(f'SELECT t::text FROM "{table}" t'):
                yield str(row[0]).encode()


def _database_url(data: Path, database: tuple[str, ...]) -> str:
    return database[1] if database else f"sqlite:///{data / 'fairlead.db'}"


def _encodings(text: str) -> list[bytes]:
    plain = text.encode()
    return [plain, plain.hex().encode(), base64.b64encode(plain).rstrip(b"=")[:-1], quote(text).encode()]
