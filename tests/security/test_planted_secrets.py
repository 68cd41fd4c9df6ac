"""Run secrets do not leak, whatever the runs do. Only results and output files may contain them."""

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
from tests.security.neighbors import OURS, Neighbors, record_events, secret_volume
from tests.server.samples import address_of, body_of

PARTS = ("", "/explain", "/request", "/manifests", "/why", "/events", "/usage", "/result", "/files", "/code")
LOGS = ("", "?format=raw", "?stream=stdout", "?stream=stderr", "?follow=true", "?cursor=0&follow=true&stream=stderr")
NAME = "PLANTED"
# Ways in which a run may leak its secret. All must be masked.
LEAKS = {
    "prints it": "print(value)",
    "prints it to both streams at once": "print(value); print(value, file=sys.stderr)",
    "prints it inside other text": "print('a' + value + 'b' + value * 3)",
    "prints it character by character": "[(sys.stdout.write(letter), sys.stdout.flush()) for letter in value]",
    "prints it in two halves with a pause": (
        "sys.stdout.write(value[:9]); sys.stdout.flush(); time.sleep(0.6); print(value[9:])"
    ),
    "prints its bytes split inside a character": (
        "cut = len(value.encode()) // 2; [os.write(1, part) for part in (value.encode()[:cut], value.encode()[cut:])]"
    ),
    "prints it from several processes": "[subprocess.run(['sh', '-c', 'printf %s \"$PLANTED\"']) for _ in range(3)]",
    "prints its environment": "print(os.environ); subprocess.run(['env'])",
    "prints the file": "print(open('/keys/PLANTED').read())",
    "as a warning": "import warnings; warnings.warn(value)",
    "logs it": "import logging; logging.error('with %s', value)",
    "raises it": "raise ValueError(f'cannot sign in with {value}')",
    "raises an error of int() with it": "int(value)",
    "raises an error class of that name": "raise type(value, (Exception,), {})('no')",
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
    "prints it and is killed": "print(value, flush=True); os.kill(os.getpid(), 9)",
}
PROGRAM = """
import json, os, subprocess, sys, time

def main(leak):
    value = os.environ["PLANTED"]
    exec(leak)
"""
# Return values and output files belong to the run and are not masked.
RETURN_SECRET = """
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

    def record(self, response: httpx2.Response) -> None:
        """Record a response with its headers."""
        content = f"{response.status_code} {response.headers}\n".encode() + response.read()
        self.responses[f"{len(self.responses)}: {response.request.method} {response.request.url}"] = content

    def client(self) -> httpx2.Client:
        """A project member's client that records responses."""
        client = self.neighbors.client(OURS)
        client.event_hooks = {"response": [self.record]}
        return client

    def is_in(self, content: bytes) -> bool:
        """Whether the text contains the value, raw or JSON-encoded."""
        forms = (self.value.encode(), json.dumps(self.value)[1:-1].encode(), self.value.encode("unicode_escape"))
        return any(form in content for form in forms)


@pytest.fixture(scope="module")
def planted(neighbors: Neighbors) -> Planted:
    """A secret with quotes, a backslash and non-ASCII characters."""
    planted = Planted(neighbors, f"Pl4nted\\\"'ü€-{secrets.token_urlsafe(24)}")
    neighbors.project(OURS).set_secret(NAME, planted.value)
    return planted


@pytest.fixture(scope="module")
def runs(planted: Planted) -> dict[str, Run]:
    """Execute all leaks while other clients watch."""
    options: Any = {"secrets": [NAME], "volumes": [secret_volume(NAME, "/keys")]}
    chunks = record_events(planted.neighbors)
    submitted = {
        leak: planted.neighbors.submit(OURS, PROGRAM, inputs={"leak": text}, **options) for leak, text in LEAKS.items()
    }
    wait_for_all([*submitted.values()], 240)
    until(lambda: b"".join(chunks).count(b'"active":false') >= len(submitted))
    planted.responses["events"] = b"".join(chunks)
    return submitted


@pytest.mark.parametrize("leak", LEAKS)
def test_responses_about_a_run_do_not_contain_its_secret(planted: Planted, runs: dict[str, Run], leak: str) -> None:
    run = runs[leak]
    with planted.client() as client:
        for part in (*PARTS, *(f"/logs{query}" for query in LOGS)):
            response = client.get(f"/runs/{run.id}{part}")
            assert response.status_code == 200, f"{part}: {response.text}"
            assert not planted.is_in(response.content), f"{part}: {response.text}"
    text = run.logs() + run.data["message"]
    assert "***" in text, f"the secret was not used: {text}"
    assert "Pl4nted" not in text


def test_events_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    assert all(not run.data["active"] for run in runs.values())
    assert not planted.is_in(planted.responses["events"])


def test_results_and_files_are_not_masked(planted: Planted) -> None:
    """The documentation says that results and files are not masked."""
    run = planted.neighbors.submit(OURS, RETURN_SECRET, secrets=[NAME])
    assert wait_for_end(run)["state"] == "completed", run.logs()
    assert (run.result, run.read("left").decode()) == (planted.value, planted.value)
    planted.neighbors.root.delete(f"/runs/{run.id}")


def test_lists_and_audit_log_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    neighbors = planted.neighbors
    object_names = neighbors.object_names | {"project": OURS, "secret": NAME, "run": runs["prints it"].id}
    object_names |= {"ended": runs["raises it"].id}
    with neighbors.platform.server.client() as client:
        client.event_hooks = {"response": [planted.record]}
        for item in neighbors.operations:
            if item.method == "GET" and not item.path.endswith("/events"):
                client.get(address_of(item, object_names).removeprefix("/api/v1"))
                if item.is_list:
                    client.get(
                        address_of(item, object_names).removeprefix("/api/v1"), params={"search": planted.value[:-1]}
                    )
        assert '"secret.create"' in client.get("/audit/export").text
    assert [location for location, response in planted.responses.items() if planted.is_in(response)] == []


def test_server_log_does_not_contain_values_from_requests(planted: Planted, runs: dict[str, Run]) -> None:
    """Sends the value in every field of every request body, and in query parameters and headers."""
    neighbors = planted.neighbors
    with neighbors.client(OURS) as client:
        for item in neighbors.operations:
            body, path = body_of(item), address_of(item, neighbors.object_names).removeprefix("/api/v1")
            if item.method == "GET":
                client.request("HEAD", path, params={"search": planted.value})
            elif isinstance(body, dict):
                for body_with_value in (
                    replace_texts(body, planted.value),
                    {**body, planted.value: planted.value},
                    [planted.value],
                ):
                    client.request(item.method, path, json=body_with_value)
            client.request(item.method, path, headers={"Authorization": f"Bearer {base64_of(planted.value)}"})
    assert runs
    output = neighbors.platform.server.process.output
    assert len(output[1]) > 50_000
    assert not planted.is_in("".join(output).encode())
    assert base64_of(planted.value) not in "".join(output)


@pytest.mark.parametrize(
    "secrets_field", [{NAME: "VALUE"}, [f"{NAME}=VALUE"], [{"name": NAME, "value": "VALUE"}], "VALUE"]
)
def test_value_in_place_of_a_secret_name_is_rejected_and_not_stored(planted: Planted, secrets_field: Any) -> None:
    request = json.loads(
        json.dumps({"function": "alpha-function", "secrets": secrets_field}).replace("VALUE", "Pl4nted-by-mistake")
    )
    with planted.neighbors.client(OURS) as client:
        for path in ("runs/preview", "runs"):
            assert client.post(f"/projects/{OURS}/{path}", json=request).status_code == 422
    assert [
        location for location, content in read_everything(planted.neighbors) if b"Pl4nted-by-mistake" in content
    ] == []


def test_files_and_database_do_not_contain_the_secret(planted: Planted, runs: dict[str, Run]) -> None:
    """Also checks while a run uses the secret."""
    options: Any = {"secrets": [NAME], "volumes": [secret_volume(NAME, "/keys")]}
    active_run = planted.neighbors.submit(
        OURS, "import time\ndef main():\n    print('up', flush=True)\n    time.sleep(600)\n", **options
    )
    wait_for_output(active_run, "up")
    contents = list(read_everything(planted.neighbors))
    active_run.stop()
    wait_for_end(active_run)
    assert any(location.startswith("secrets.sealed") for location, _ in contents)
    assert any(run.id in location for location, _ in contents for run in runs.values())
    assert [location for location, content in contents if planted.is_in(content)] == []


def read_everything(neighbors: Neighbors) -> Iterator[tuple[str, bytes]]:
    """Every file in the server's folder, and every value in its database."""
    data = neighbors.platform.server.data
    for file in sorted(path for path in data.rglob("*") if path.is_file() and not path.is_symlink()):
        with contextlib.suppress(FileNotFoundError):  # a run may have just ended
            yield str(file), file.read_bytes()
    copy_file = Path(neighbors.platform.shared, "copy.db")
    with contextlib.closing(sqlite3.connect(data / "fairlead.db")) as source, sqlite3.connect(copy_file) as copy:
        source.backup(copy)
        tables = [name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            rows = copy.execute(f'SELECT * FROM "{table}"')
            columns = [description[0] for description in rows.description]
            for row in rows:
                for column, value in zip(columns, row, strict=True):
                    yield f"{table}.{column}", value if isinstance(value, bytes) else str(value).encode()
    copy.close()
    copy_file.unlink()


def replace_texts(body: Any, value: str) -> Any:
    """Replace every text in a body with a value."""
    if isinstance(body, dict):
        return {key: replace_texts(item, value) for key, item in body.items()}
    return [replace_texts(item, value) for item in body] if isinstance(body, list) else value


def base64_of(text: str) -> str:
    """Encode a text as base64, so that it is valid in a header."""
    return base64.urlsafe_b64encode(text.encode()).decode()
