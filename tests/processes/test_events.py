"""Live events of real servers: immediate on the server that changes a run, soon on the others."""

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

from tests.processes import execution
from tests.processes.execution import Platform, end
from tests.processes.machines import Machine, Running

Told = Iterator[tuple[str, dict[str, Any]]]


@contextlib.contextmanager
def listening(server: Running, token: str | None = None, **params: str) -> Iterator[Told]:
    """The events of a server, from the first one on."""
    with server.client(token) as client, client.stream("GET", "/events", params=params, timeout=20) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = _read(answer.iter_lines())
        assert next(events) == ("ready", {})
        yield events


def test_every_state_change_and_deletion_is_streamed(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, listening(platform.server) as events:
        run = platform.shell("true")
        states, revisions = [], []
        for name, data in events:
            assert (name, data["id"]) == ("run", run.id)
            states.append(data["state"])
            revisions.append(data["revision"])
            if not data["active"]:
                break
        assert states[-1] == "completed"
        assert revisions == sorted(set(revisions))
        run.delete()
        assert next(events) == ("deleted", {"id": run.id})


def test_events_are_streamed_only_to_users_with_access(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, platform.server.client() as root:
        for name in ("seen", "hidden"):
            assert root.post("/projects", json={"name": name, "parent": "cluster/local"}).status_code == 201
        role = {"subject": "user:vera", "role": "viewer", "scope": "project/seen"}
        assert root.post("/roles", json=role).status_code == 201
        made = root.post("/tokens", json={"name": "vera", "user": "vera"}).json()
        with listening(platform.server, made["token"]) as events:
            _submit(platform, "hidden")
            run_id = _submit(platform, "seen")
            assert next(events)[1]["id"] == run_id
            assert root.delete(f"/tokens/{made['id']}").status_code == 204
            *_, (name, last) = events
            assert (name, last["code"]) == ("error", "unauthenticated")


def test_project_stream_contains_only_its_runs(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, platform.server.client() as root:
        root.post("/projects", json={"name": "other", "parent": "cluster/local"})
        assert root.get("/events", params={"project": "nowhere"}).status_code == 404
        with listening(platform.server, project="other") as events:
            end(platform.shell("true"))
            run_id = _submit(platform, "other")
            assert next(events)[1]["id"] == run_id


def test_other_server_streams_changes_within_seconds(machine: Machine, postgresql_url: str) -> None:
    options = ("--database", postgresql_url)
    with execution.open_platform(machine, *options) as platform:
        other = machine.up(*options, data="other")
        with listening(other) as events:
            run = platform.shell("true")
            event = next(data for name, data in events if name == "run" and not data["active"])
            assert (event["id"], event["state"]) == (run.id, "completed")


def test_server_shutdown_closes_streams_cleanly(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, listening(platform.server) as events:
        run = platform.shell("sleep 60")
        assert next(events)[1]["id"] == run.id
        platform.server.process.send(signal.SIGTERM)
        assert all(name == "run" for name, _ in events)  # one that is cut off is an error of the client
        platform.server.process.wait()


def _submit(platform: Platform, project: str) -> str:
    request = {"function": {"name": "nothing", "command": ["true"]}}
    with platform.server.client() as client:
        answer = client.post(f"/projects/{project}/runs", json=request)
    assert answer.status_code == 201, answer.text
    run_id: str = answer.json()["id"]
    return run_id


def _read(lines: Iterator[str]) -> Told:
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
