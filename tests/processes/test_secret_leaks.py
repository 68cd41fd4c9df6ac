"""Planted secrets are looked for in everything that a server says, logs and keeps."""

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
from tests.processes.machines import PATIENCE, Machine, Running, make_resource
from tests.processes.providers import Provider

DEBUG = {"FAIRLEAD_LOG_LEVEL": "debug"}
# A server that echoes its input.
RUN = {"function": {"name": "f", "command": ["sh", "-c", "env; env >&2"]}}
PARTS = ("", "/explain", "/request", "/manifests", "/why", "/events", "/usage", "/result", "/files")
LOGS = ("", "?format=raw", "?stream=stderr", "?follow=true")
SECRET = "projects/default/secrets"


class Ledger:
    """The planted secrets by name, and all responses except the few that may contain them."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}
        self.responses: dict[str, str] = {}
        self.statuses: set[int] = set()

    def plant(self, name: str) -> str:
        """A text that is nowhere else."""
        return self.note(name, f"Pl4nted-{secrets.token_hex(16)}")

    def note(self, name: str, text: str) -> str:
        """A text that must not be seen."""
        assert len(text) >= 20
        self.planted[name] = text
        return text

    def listen(self, answer: httpx2.Response) -> None:
        """Record a response, and check that it contains no planted secret."""
        answer.read()
        self.statuses.add(answer.status_code)
        request = answer.request
        response = f"{answer.headers}\n{answer.text}"
        self.responses[f"{len(self.responses)}: {request.method} {request.url.path} -> {answer.status_code}"] = response

    def forgive(self) -> None:
        """The last answer may say what it said."""
        self.responses.popitem()

    def find_planted(self, content: bytes) -> list[str]:
        """The planted texts in some bytes, also in other spellings."""
        return [name for name, text in self.planted.items() if any(form in content for form in _spellings(text))]


@pytest.fixture
def provider() -> Iterator[Provider]:
    """An identity provider that signs tokens."""
    with providers.running() as provider:
        yield provider


@pytest.fixture(params=["sqlite", "postgresql"])
def own_database(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The options of a server for a database that this test may break."""
    return () if request.param == "sqlite" else ("--database", request.getfixturevalue("empty_postgresql_url"))


def test_secrets_are_not_in_responses_logs_files_or_database(
    own_database: tuple[str, ...], machine: Machine, provider: Provider
) -> None:
    ledger = Ledger()
    _trust_a_provider(machine, own_database, provider, ledger)
    _trust_this_machine(machine, own_database, ledger)
    assert {200, 201, 204, 303, 400, 401, 403, 404, 409, 412, 415, 422, 428, 500} <= ledger.statuses

    leaks = {where: ledger.find_planted(text.encode()) for where, text in ledger.responses.items()}
    assert {where: names for where, names in leaks.items() if names} == {}
    assert sum(file.stat().st_size for file in machine.folder.glob("*.err")) > 20_000
    for file in sorted(machine.folder.glob("*.err")):
        assert ledger.find_planted(file.read_bytes()) == [], file
    for file in sorted(machine.folder.glob("*.out")):
        assert set(ledger.find_planted(file.read_bytes())) <= {"word"}, file  # the link is printed
    stored = list(_read_stored(machine.folder / "data", own_database))
    assert sum(map(len, stored)) > 20_000
    assert [name for content in stored for name in ledger.find_planted(content)] == []


def _trust_a_provider(machine: Machine, database: tuple[str, ...], provider: Provider, ledger: Ledger) -> None:
    """A server with a provider: its tokens, good and bad, and who signs in there."""
    provider.login_endpoints.secret = ledger.plant("secret of the client")
    server = machine.up(*database, variables=provider.sign_in | DEBUG)
    _sign_in(server, provider, ledger)
    good = ledger.note("token of the provider", provider.token(sub="ada", groups=["platform-admins"]))
    ledger.note("its signature", good.split(".")[2])
    ledger.note("its claims", good.split(".")[1])
    bad = ledger.note("expired token", provider.token(sub="ada", exp=1))
    strange = ledger.note("token of another user", provider.token(iss="https://login.example.org"))
    ledger.note("token of this machine", server.token)
    with server.client(good) as client:
        client.event_hooks = {"response": [ledger.listen]}
        assert client.get("/me").status_code == 200
        _exercise(client, ledger)
        client.post("/sessions", json={"token": good})
        for token in (bad, strange, good[:-5], good + "x", f"{good} {good}"):
            client.get("/me", headers={"Authorization": f"Bearer {token}"})
            client.post("/sessions", json={"token": token})
        client.get("/me", headers={"Authorization": f"Basic {good}"})
        client.get("/me", headers={"Authorization": good})
    _look_around(server, ledger)
    # As it is while the server runs: with what SQLite has not yet put into its place.
    for content in _read_stored(server.data, database):
        assert ledger.find_planted(content) == []
    server.stop(signal.SIGKILL)


def _sign_in(server: Running, provider: Provider, ledger: Ledger) -> None:
    """A browser goes to the provider and comes back, twice, and then with an answer that was used up."""
    for turn in range(2):
        with server.anybody() as browser:
            browser.event_hooks = {"response": [ledger.listen]}
            address = browser.get("/login/oidc").headers["location"]
            ledger.forgive()  # the cookie, and the parameters sent to the provider
            cookie = browser.cookies["fairlead_login"]
            back = provider.login_endpoints.authorize(address)
            assert browser.get(back).headers["location"] == "/"
            ledger.forgive()  # the session
            ledger.note(f"session of {turn}", browser.cookies["fairlead_session"])
            for name, word in zip(("state", "nonce", "verifier"), cookie.split("."), strict=False):
                ledger.note(f"{name} of {turn}", word)
            ledger.note(f"code of {turn}", dict(parse_qsl(urlsplit(back).query))["code"])
            assert "failed=" in browser.get(back).headers["location"]
            browser.cookies.set("fairlead_login", cookie)
            assert "invalid_grant" in browser.get(back).headers["location"]


def _trust_this_machine(machine: Machine, database: tuple[str, ...], ledger: Ledger) -> None:
    """A server of this machine alone: the sign-in link and sessions."""
    server = machine.up(*database, variables=DEBUG)
    word = ledger.note("word", server.link.partition("code=")[2])
    with server.anybody() as browser:
        browser.event_hooks = {"response": [ledger.listen]}
        assert browser.get(f"/login?code={word}").status_code == 303
        ledger.forgive()  # the cookie
        session = ledger.note("session", browser.cookies["fairlead_session"])
        for path in (f"/login?code={word}", f"/login?code={word}&code={word}", f"/login?other={word}", "/login"):
            browser.get(path)
        browser.post("/api/v1/sessions", json={"token": word})
        for path in ("me", "tokens", "audit", "settings"):
            assert browser.get(f"/api/v1/{path}").status_code == 200
        foreign = {"Origin": "https://elsewhere.example.org"}
        assert browser.post("/api/v1/tokens", json={"name": "a"}, headers=foreign).status_code == 403
        assert browser.get("/api/v1/me", headers={"Authorization": f"Bearer {session}"}).status_code == 200
        browser.get("/api/v1/me", headers={"Authorization": f"Bearer {word}"})
    with server.client() as client:
        client.event_hooks = {"response": [ledger.listen]}
        _exercise(client, ledger)
        _break(server, database, client, ledger)
    with server.anybody() as browser:
        browser.cookies.set("fairlead_session", session)
        browser.event_hooks = {"response": [ledger.listen]}
        assert browser.delete("/api/v1/sessions", headers={"Origin": server.url}).status_code == 204
        assert browser.get("/api/v1/me").status_code == 401
    _look_around(server, ledger)
    ended = machine.app("rotate-keys", "--data", str(server.data), *database, variables=DEBUG)
    assert ended.code == 0, ended.err
    server.stop()
    for number, line in enumerate((server.data / "secret.key").read_text().splitlines()):
        ledger.note(f"key {number}", line.partition(" ")[0])


def _exercise(client: httpx2.Client, ledger: Ledger) -> None:
    """Send secrets and tokens in every way that is right, and in many that are not."""
    number = len(ledger.planted)
    value, other = ledger.plant(f"secret {number}"), ledger.plant(f"replaced secret {number}")
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
    _look_at_a_run(client, f"/runs/{run.json()['id']}")

    key = {"Idempotency-Key": f"token-{number}"}
    made = client.post("/tokens", json={"name": f"planted {number}"}, headers=key)
    ledger.forgive()  # the one answer that shows it
    token = ledger.note(f"token {number}", made.json()["token"])
    assert client.post("/tokens", json={"name": f"planted {number}"}, headers=key).status_code == 409
    ours = {"Authorization": f"Bearer {token}"}
    assert client.get("/me", headers=ours).status_code == 200
    assert client.put(f"/{SECRET}/PLANTED_{number}", json={"value": value}, headers=ours).status_code == 200
    linked = client.post("/sessions/link", json={}, headers=ours)
    ledger.forgive()  # the one answer that shows it
    word = ledger.note(f"word {number}", linked.json()["url"].partition("code=")[2])
    assert client.post("/sessions/link", json={}, headers={"Authorization": f"Bearer {word}"}).status_code == 401
    assert client.get("/me", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
    assert client.get("/me", headers={"Authorization": f"Basic {token}"}).status_code == 401
    for body in ({"token": [token]}, {"token": token, "more": 1}, {"tokens": token}, {"token": token + "\0"}, token):
        assert client.post("/sessions", json=body).status_code in (400, 401, 422), body
    assert client.delete(f"/tokens/{made.json()['id']}").status_code == 204
    assert client.get("/me", headers=ours).status_code == 401
    assert client.delete(path).status_code == 204


def _look_at_a_run(client: httpx2.Client, path: str) -> None:
    """All that can be read of a run that wrote its secrets to its log."""
    until = time.monotonic() + PATIENCE
    while (run := client.get(path).json())["active"]:
        assert time.monotonic() < until, run
        time.sleep(0.05)
    assert run["state"] == "completed", run
    for part in PARTS:
        assert client.get(f"{path}{part}").status_code == 200, part
    for how in LOGS:
        log = client.get(f"{path}/logs{how}").text
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
        answer = client.put(path, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 413, 422), (answer.status_code, text[:100])
    for text in (f'{{"value": "{value}', f'{{"value": "{value}", "value": "{value}"}}', f'{{"value": {value}}}'):
        assert client.put(path, content=text, headers={"Content-Type": "application/json"}).status_code == 400
    assert client.put(path, content=value, headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.put(path, json={"value": value}, headers={"If-Match": "x"}).status_code == 400
    assert client.put("/projects/nowhere/secrets/A", json={"value": value}).status_code == 404
    assert client.put(f"/{SECRET}/not%20a%20name", json={"value": value}).status_code == 422
    assert client.post(path, json={"value": value}).status_code == 405
    assert client.put(f"{path}?more=1", json={"value": value}).status_code == 422


def _break(server: Running, database: tuple[str, ...], client: httpx2.Client, ledger: Ledger) -> None:
    """A mistake of the server while it has a secret in its hands."""
    value = ledger.plant("secret of a failing request")
    assert client.put(f"/{SECRET}/BROKEN", json={"value": value}).status_code == 201
    assert client.put("/policies/project/default", json={"rules": {}}).status_code == 200
    assert client.put("/policies/project/default", json={"rules": {}}).status_code == 428
    engine = sa.create_engine(_address(server.data, database), poolclass=sa.NullPool)

    def change(statement: str) -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(statement)

    if database:
        change("ALTER TABLE secrets RENAME COLUMN key_id TO key_name")
    else:
        change("UPDATE secrets SET created_at = 'no moment' WHERE name = 'BROKEN'")
    failed = client.put(f"/{SECRET}/BROKEN", json={"value": value})
    assert failed.status_code == 500, failed.text
    assert failed.headers["content-type"] == "application/problem+json"
    assert set(failed.json()) == {"type", "title", "status", "code", "detail", "request_id"}
    assert failed.json()["request_id"] in server.process.output[1]
    if database:
        change("ALTER TABLE secrets RENAME COLUMN key_name TO key_id")
    else:
        change("UPDATE secrets SET created_at = updated_at WHERE name = 'BROKEN'")
    assert client.put(f"/{SECRET}/BROKEN", json={"value": value}).status_code == 200


def _look_around(server: Running, ledger: Ledger) -> None:
    """Everything that can be read."""
    with server.client() as client:
        client.event_hooks = {"response": [ledger.listen]}
        described = client.get("/openapi.json").json()
        plain = [path for path, methods in described["paths"].items() if "get" in methods and "{" not in path]
        assert len(plain) > 15
        for path in plain:
            method = "HEAD" if path.endswith("/events") else "GET"  # which tells of runs as others do, without end
            assert client.request(method, path.removeprefix("/api/v1")).status_code == 200, path
        lines = client.get("/audit/export").text.splitlines()
        assert {"secret.create", "secret.edit", "token.create"} <= {json.loads(line)["action"] for line in lines}
        for name in ("default", "nowhere"):
            client.get(f"/projects/{name}/secrets")
        client.get("/compute-resources/nothing")
    with server.anybody() as nobody:
        nobody.event_hooks = {"response": [ledger.listen]}
        for path in ("/", "/metrics", "/healthz", "/readyz", "/nowhere", "/api/v1/tokens"):
            nobody.get(path)


def _read_stored(data: Path, database: tuple[str, ...]) -> Iterator[bytes]:
    """The contents of the database and of the run folders."""
    for file, content in read_files(data / "runs"):
        if not file.is_symlink():
            yield content
    if not database:
        for file in sorted(data.glob("fairlead.db*")):
            yield file.read_bytes()
        return
    engine = sa.create_engine(_address(data, database), poolclass=sa.NullPool)
    with engine.connect() as connection:
        for table in sa.inspect(connection).get_table_names():
            for row in connection.exec_driver_sql(f'SELECT t::text FROM "{table}" t'):
                yield str(row[0]).encode()


def _address(data: Path, database: tuple[str, ...]) -> str:
    return database[1] if database else f"sqlite:///{data / 'fairlead.db'}"


def _spellings(text: str) -> list[bytes]:
    plain = text.encode()
    return [plain, plain.hex().encode(), base64.b64encode(plain).rstrip(b"=")[:-1], quote(text).encode()]
