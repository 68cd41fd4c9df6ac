"""Event streams on real servers: immediate on the server that changes a run, and with a short delay on others."""

import contextlib
import json
import signal
from collections.abc import Iterator
from typing import Any

from tests.processes import execution
from tests.processes.execution import Platform, wait_for_end
from tests.processes.machines import Machine, RunningServer

Events = Iterator[tuple[str, dict[str, Any]]]


@contextlib.contextmanager
def open_stream(server: RunningServer, token: str | None = None, **params: str) -> Iterator[Events]:
    """Open a server's event stream, and wait until it is ready."""
    with server.client(token) as client, client.stream("GET", "/events", params=params, timeout=20) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        events = _read(response.iter_lines())
        assert next(events) == ("ready", {})
        yield events


def test_every_state_change_and_deletion_is_streamed(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, open_stream(platform.server) as events:
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
        for name in ("visible", "hidden"):
            assert root.post("/projects", json={"name": name, "parent": "cluster/local"}).status_code == 201
        role = {"subject": "user:vera", "role": "viewer", "scope": "project/visible"}
        assert root.post("/roles", json=role).status_code == 201
        created = root.post("/tokens", json={"name": "vera", "user": "vera"}).json()
        with open_stream(platform.server, created["token"]) as events:
            _submit(platform, "hidden")
            run_id = _submit(platform, "visible")
            assert next(events)[1]["id"] == run_id
            assert root.delete(f"/tokens/{created['id']}").status_code == 204
            *_, (name, last) = events
            assert (name, last["code"]) == ("error", "unauthenticated")


def test_project_stream_contains_only_its_runs(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, platform.server.client() as root:
        root.post("/projects", json={"name": "other", "parent": "cluster/local"})
        assert root.get("/events", params={"project": "nowhere"}).status_code == 404
        with open_stream(platform.server, project="other") as events:
            wait_for_end(platform.shell("true"))
            run_id = _submit(platform, "other")
            assert next(events)[1]["id"] == run_id


def test_other_server_streams_changes_within_seconds(machine: Machine, postgresql_url: str) -> None:
    options = ("--database", postgresql_url)
    with execution.open_platform(machine, *options) as platform:
        other = machine.up(*options, data="other")
        with open_stream(other) as events:
            run = platform.shell("true")
            event = next(data for name, data in events if name == "run" and not data["active"])
            assert (event["id"], event["state"]) == (run.id, "completed")


def test_server_shutdown_closes_streams_cleanly(machine: Machine) -> None:
    with execution.open_platform(machine) as platform, open_stream(platform.server) as events:
        run = platform.shell("sleep 60")
        assert next(events)[1]["id"] == run.id
        platform.server.process.send(signal.SIGTERM)
        assert all(name == "run" for name, _ in events)  # an aborted stream raises an error in the client
        platform.server.process.wait()


def _submit(platform: Platform, project: str) -> str:
    request = {"function": {"name": "nothing", "command": ["true"]}}
    with platform.server.client() as client:
        response = client.post(f"/projects/{project}/runs", json=request)
    assert response.status_code == 201, response.text
    run_id: str = response.json()["id"]
    return run_id


def _read(lines: Iterator[str]) -> Events:
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
