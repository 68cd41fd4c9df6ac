"""The value of a secret that a run is given is found nowhere but where the run itself put it, whatever the run does."""

import base64
import contextlib
import json
import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fairlead.sdk.runs import Run
from tests.processes.execution import until, wait_for_all, wait_for_end, wait_for_output
from tests.security.neighbors import OURS, Neighbors, look_on, secret_volume
from tests.server.samples import address_of, body_of

PARTS = ("", "/explain", "/request", "/manifests", "/why", "/events", "/usage", "/result", "/files", "/code")
LOGS = ("", "?format=raw", "?stream=stdout", "?stream=stderr", "?follow=true", "?cursor=0&follow=true&stream=stderr")
NAME = "PLANTED"
# Ways in which a run may leak its secret. All must be masked.
ROLE_PERMISSIONS = {
    "prints it": "print(value)",
    "prints it to both streams at once": "print(value); print(value, file=sys.stderr)",
    "prints it within a word": "print('a' + value + 'b' + value * 3)",
    "prints it letter by letter": "[(sys.stdout.write(letter), sys.stdout.flush()) for letter in value]",
    "prints it in two halves with a pause": (
        "sys.stdout.write(value[:9]); sys.stdout.flush(); time.sleep(0.6); print(value[9:])"
    ),
    "prints its bytes cut within a character": (
        "cut = len(value.encode()) // 2; [os.write(1, part) for part in (value.encode()[:cut], value.encode()[cut:])]"
    ),
    "prints it from several processes": "[subprocess.run(['sh', '-c', 'printf %s \"$PLANTED\"']) for _ in range(3)]",
    "prints its environment": "print(os.environ); subprocess.run(['env'])",
    "prints the file": "print(open('/keys/PLANTED').read())",
    "as a warning": "import warnings; warnings.warn(value)",
    "logs it": "import logging; logging.error('with %s', value)",
    "raises it": "raise ValueError(f'cannot sign in with {value}')",
    "raises it from another": "int(value)",
    "raises an error that is called so": "raise type(value, (Exception,), {})('no')",
    "has it in its traceback": "exec(compile(f'1 / 0  # {value}', value, 'exec'))",
    "asserts it": "assert value == 'x', [value, {value: value}]",
    "exits with it": "sys.exit(f'bad token {value}')",
    "ends with it as its last line": "print(value, file=sys.stderr); os._exit(3)",
    "writes it as its error": (
        "open('/fairlead/error.json', 'w').write(json.dumps({'type': value, 'message': value, 'traceback': value}));"
        " os._exit(3)"
    ),
    "opens a file of that name": "open(value)",
    "looks for it in a mapping": "{}[value]",
    "prints it as JSON": "print(json.dumps({'token': value}))",
    "is killed after it": "print(value, flush=True); os.kill(os.getpid(), 9)",
}
PROGRAM = """
import json, os, subprocess, sys, time

def main(permission):
    value = os.environ["PLANTED"]
    exec(permission)
"""
# Owned by the run and not masked: return values and output files.
OWN = """
import os

def main():
    with open(os.environ["FAIRLEAD_OUTPUT"] + "/left", "w") as file:
        file.write(os.environ["PLANTED"])
    return os.environ["PLANTED"]
"""


@dataclass
class Planted:
    """A unique value, and all responses."""

    neighbors: Neighbors
    value: str
    responses: dict[str, bytes] = field(default_factory=dict)

    def listen(self, answer: httpx2.Response) -> None:
        """Remember an answer, with its headers."""
        response = f"{answer.status_code} {answer.headers}\n".encode() + answer.read()
        self.responses[f"{len(self.responses)}: {answer.request.method} {answer.request.url}"] = response

    def client(self) -> httpx2.Client:
        """A client of a project member that records responses."""
        client = self.neighbors.client(OURS)
        client.event_hooks = {"response": [self.listen]}
        return client

    def is_in(self, content: bytes) -> bool:
        """Whether the text contains the value, raw or JSON-encoded."""
        forms = (self.value.encode(), json.dumps(self.value)[1:-1].encode(), self.value.encode("unicode_escape"))
        return any(form in content for form in forms)


@pytest.fixture(scope="module")
def planted(neighbors: Neighbors) -> Planted:
    """A secret with quotes, a backslash and non-ASCII characters."""
    made = Planted(neighbors, f"Pl4nted\\\"'ü€-{secrets.token_urlsafe(24)}")
    neighbors.project(OURS).set_secret(NAME, made.value)
    return made


@pytest.fixture(scope="module")
def runs(planted: Planted) -> dict[str, Run]:
    """Execute all leaks while other clients watch."""
    options: Any = {"secrets": [NAME], "volumes": [secret_volume(NAME, "/keys")]}
    chunks = look_on(planted.neighbors)
    made = {
        permission: planted.neighbors.submit(OURS, PROGRAM, inputs={"permission": text}, **options)
        for permission, text in ROLE_PERMISSIONS.items()
    }
    wait_for_all([*made.values()], 240)
    until(lambda: b"".join(chunks).count(b'"active":false') >= len(made))
    planted.responses["events"] = b"".join(chunks)
    return made


@pytest.mark.parametrize("permission", ROLE_PERMISSIONS)
def test_responses_about_a_run_do_not_contain_its_secret(
    planted: Planted, runs: dict[str, Run], permission: str
) -> None:
    run = runs[permission]
    with planted.client() as client:
        for part in (*PARTS, *(f"/logs{how}" for how in LOGS)):
            answer = client.get(f"/runs/{run.id}{part}")
            assert answer.status_code == 200, f"{part}: {answer.text}"
            assert not planted.is_in(answer.content), f"{part}: {answer.text}"
    shown = run.logs() + run.data["message"]
    assert "***" in shown, f"it was not used: {shown}"
    assert "Pl4nted" not in shown


def test_events_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    assert all(not run.data["active"] for run in runs.values())
    assert not planted.is_in(planted.responses["events"])


def test_results_and_files_are_not_masked(planted: Planted) -> None:
    """As the documentation says: in results and files nothing is replaced."""
    run = planted.neighbors.submit(OURS, OWN, secrets=[NAME])
    assert wait_for_end(run)["state"] == "completed", run.logs()
    assert (run.result, run.read("left").decode()) == (planted.value, planted.value)
    planted.neighbors.root.delete(f"/runs/{run.id}")


def test_lists_and_audit_log_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    neighbors = planted.neighbors
    things = neighbors.things | {"project": OURS, "secret": NAME, "run": runs["prints it"].id}
    things |= {"ended": runs["raises it"].id}
    with neighbors.platform.server.client() as client:
        client.event_hooks = {"response": [planted.listen]}
        for item in neighbors.operations:
            if item.method == "GET" and not item.path.endswith("/events"):
                client.get(address_of(item, things).removeprefix("/api/v1"))
                if item.is_list:
                    client.get(address_of(item, things).removeprefix("/api/v1"), params={"search": planted.value[:-1]})
        assert '"secret.create"' in client.get("/audit/export").text
    assert [where for where, response in planted.responses.items() if planted.is_in(response)] == []


def test_server_log_does_not_contain_values_from_requests(planted: Planted, runs: dict[str, Run]) -> None:
    """Sent in every field of every body, and in every address: a line of the log has neither."""
    neighbors = planted.neighbors
    with neighbors.client(OURS) as client:
        for item in neighbors.operations:
            body, path = body_of(item), address_of(item, neighbors.things).removeprefix("/api/v1")
            if item.method == "GET":
                client.request("HEAD", path, params={"search": planted.value})
            elif isinstance(body, dict):
                for spoiled in (plant(body, planted.value), {**body, planted.value: planted.value}, [planted.value]):
                    client.request(item.method, path, json=spoiled)
            client.request(item.method, path, headers={"Authorization": f"Bearer {base64_of(planted.value)}"})
    assert runs
    logged = neighbors.platform.server.process.output
    assert len(logged[1]) > 50_000
    assert not planted.is_in("".join(logged).encode())
    assert base64_of(planted.value) not in "".join(logged)


@pytest.mark.parametrize("by", [{NAME: "VALUE"}, [f"{NAME}=VALUE"], [{"name": NAME, "value": "VALUE"}], "VALUE"])
def test_value_in_place_of_a_secret_name_is_rejected_and_not_stored(planted: Planted, by: Any) -> None:
    request = json.loads(
        json.dumps({"function": "alpha-function", "secrets": by}).replace("VALUE", "Pl4nted-by-mistake")
    )
    with planted.neighbors.client(OURS) as client:
        for path in ("runs/preview", "runs"):
            assert client.post(f"/projects/{OURS}/{path}", json=request).status_code == 422
    assert [where for where, content in everything(planted.neighbors) if b"Pl4nted-by-mistake" in content] == []


def test_files_and_database_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    """Also while a run has it in its hands."""
    options: Any = {"secrets": [NAME], "volumes": [secret_volume(NAME, "/keys")]}
    going = planted.neighbors.submit(
        OURS, "import time\ndef main():\n    print('up', flush=True)\n    time.sleep(600)\n", **options
    )
    wait_for_output(going, "up")
    contents = list(everything(planted.neighbors))
    going.stop()
    wait_for_end(going)
    assert any(where.startswith("secrets.sealed") for where, _ in contents)
    assert any(run.id in where for where, _ in contents for run in runs.values())
    assert [where for where, content in contents if planted.is_in(content)] == []


def everything(neighbors: Neighbors) -> Iterator[tuple[str, bytes]]:
    """Every file of the server's folder, and every value of its database."""
    data = neighbors.platform.server.data
    for file in sorted(path for path in data.rglob("*") if path.is_file() and not path.is_symlink()):
        with contextlib.suppress(FileNotFoundError):  # a run may have just ended
            yield str(file), file.read_bytes()
    aside = Path(neighbors.platform.shared, "aside.db")
    with contextlib.closing(sqlite3.connect(data / "fairlead.db")) as source, sqlite3.connect(aside) as copy:
        source.backup(copy)
        tables = [name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            rows = copy.execute(f'SELECT * FROM "{table}"')
            columns = [description[0] for description in rows.description]
            for row in rows:
                for column, value in zip(columns, row, strict=True):
                    yield f"{table}.{column}", value if isinstance(value, bytes) else str(value).encode()
    copy.close()
    aside.unlink()


def plant(body: Any, value: str) -> Any:
    """A body in which every text is a value."""
    if isinstance(body, dict):
        return {key: plant(item, value) for key, item in body.items()}
    return [plant(item, value) for item in body] if isinstance(body, list) else value


def base64_of(text: str) -> str:
    """A text as a header can have it."""
    return base64.urlsafe_b64encode(text.encode()).decode()
