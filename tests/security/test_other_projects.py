"""Members of a project cannot distinguish another project from one that does not exist, on a real server.

server/test_visibility.py tests lists, counts, hints and errors for every role; test_served_runs.py tests served runs.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.execution import until, wait_for_end
from tests.security.neighbors import OURS, THEIRS, Neighbors, look_on
from tests.server.samples import address_of, body_of
from tests.server.sites import Operation, problem_of

ADDED = {
    "functions": "/projects/{project}/functions/bravo-function/code",
    "a file": "/runs/{ended}/files/models/best%20model.bin",
    "a log": "/runs/{ended}/logs?format=raw",
    "a log as it comes": "/runs/{run}/logs?follow=true",
    "a run as it changes": "/runs/{run}?wait=1",
    "events": "/events?project={project}",
}


def addressed(neighbors: Neighbors) -> Iterator[tuple[Operation, str]]:
    """Every operation on something that only bravo has: the cluster is everybody's."""
    for item in neighbors.operations:
        if item.parameters("path") and "/clusters/" not in item.path:
            for kind in ("department", "project") if "{kind}" in item.path else ("project",):
                yield item, address_of(item, neighbors.things, kind).removeprefix("/api/v1")


def test_objects_of_another_project_are_not_found(neighbors: Neighbors) -> None:
    with neighbors.client(OURS) as client:
        for item, path in addressed(neighbors):
            body = body_of(item)
            sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
            answer = client.request(item.method, path, **(sent if body is not None else {}))
            assert problem_of(answer, 404), f"{item.method} {path}"
            assert neighbors.mark not in answer.text
            if item.method == "GET":
                assert client.request("HEAD", path).status_code == 404, path


def test_member_of_the_project_can_read_its_objects(neighbors: Neighbors) -> None:
    """So that the 404 above is not one for everybody."""
    readable = 0
    with neighbors.client(THEIRS) as client:
        for item, path in addressed(neighbors):
            if item.method == "GET" and not path.endswith("/diff?old=1&new=2"):
                own = client.request("HEAD", path).status_code
                serves = path.endswith("/url")  # which only a run has that serves
                assert own == 409 if serves else own in ((200,) if "/runs/" in path else (200, 403)), path
                readable += own == 200
    assert readable > 30


@pytest.mark.parametrize("what", ADDED)
def test_streams_of_another_project_are_not_found(neighbors: Neighbors, what: str) -> None:
    path = ADDED[what].format(**neighbors.things)
    with neighbors.client(OURS) as client:
        problem_of(client.get(path), 404)


def test_event_stream_contains_only_runs_of_the_own_project(neighbors: Neighbors) -> None:
    chunks = look_on(neighbors)
    text = "def main():\n    pass\n"
    theirs = neighbors.submit(THEIRS, text)
    assert wait_for_end(theirs)["state"] == "completed"
    neighbors.project(THEIRS).api.delete(f"/runs/{theirs.id}")
    ours = neighbors.submit(OURS, text)
    assert wait_for_end(ours)["state"] == "completed"
    neighbors.project(OURS).api.delete(f"/runs/{ours.id}")
    until(lambda: b"event: gone" in b"".join(chunks))
    stream = b"".join(chunks)
    assert ours.id.encode() in stream
    assert theirs.id.encode() not in stream
    assert THEIRS.encode() not in stream


def test_idempotency_keys_are_separate_per_user(neighbors: Neighbors) -> None:
    key, names = {"Idempotency-Key": "the-same-key"}, []
    for project in (THEIRS, OURS):
        with neighbors.client(project) as client:
            answer = client.post(f"/projects/{project}/volumes", json={"name": "keyed", "size": "1Gi"}, headers=key)
            assert answer.status_code == 201, answer.text
            names.append(answer.json()["scope"])
    assert names == [f"project/{THEIRS}", f"project/{OURS}"]


def test_cursor_of_another_user_reveals_no_other_runs(neighbors: Neighbors) -> None:
    with neighbors.client(THEIRS) as client:
        cursor = client.get("/runs", params={"limit": 1}).json()["next_cursor"]
    assert cursor
    with neighbors.client(OURS) as client:
        answer = client.get("/runs", params={"limit": 100, "cursor": cursor})
        if answer.status_code == 200:
            assert {run["scope"] for run in answer.json()["items"]} <= {f"project/{OURS}"}
        else:
            problem_of(answer, 400, 422)
