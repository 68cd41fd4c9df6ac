"""Members of a project cannot distinguish another project from one that does not exist, on a real server.

server/test_visibility.py tests lists, counts, hints and errors for every role; test_served_runs.py tests served runs.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes.execution import until, wait_for_end
from tests.security.neighbors import OURS, THEIRS, Neighbors, record_events
from tests.server.samples import address_of, body_of
from tests.server.sites import Operation, problem_of

STREAMS = {
    "functions": "/projects/{project}/functions/bravo-function/code",
    "a file": "/runs/{ended}/files/models/best%20model.bin",
    "a log": "/runs/{ended}/logs?format=raw",
    "a followed log": "/runs/{run}/logs?follow=true",
    "a long poll of a run": "/runs/{run}?wait=1",
    "events": "/events?project={project}",
}


def list_operations(neighbors: Neighbors) -> Iterator[tuple[Operation, str]]:
    """Every operation on bravo's objects, with its path. The cluster is shared."""
    for item in neighbors.operations:
        if item.parameters("path") and "/clusters/" not in item.path:
            for kind in ("department", "project") if "{kind}" in item.path else ("project",):
                yield item, address_of(item, neighbors.object_names, kind).removeprefix("/api/v1")


def test_objects_of_another_project_are_not_found(neighbors: Neighbors) -> None:
    with neighbors.client(OURS) as client:
        for item, path in list_operations(neighbors):
            body = body_of(item)
            content: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": body}
            response = client.request(item.method, path, **(content if body is not None else {}))
            assert problem_of(response, 404), f"{item.method} {path}"
            assert neighbors.mark not in response.text
            if item.method == "GET":
                assert client.request("HEAD", path).status_code == 404, path


def test_member_of_the_project_can_read_its_objects(neighbors: Neighbors) -> None:
    """Ensures that the other test gets 404 only because of missing access."""
    readable = 0
    with neighbors.client(THEIRS) as client:
        for item, path in list_operations(neighbors):
            if item.method == "GET" and not path.endswith("/diff?old=1&new=2"):
                status = client.request("HEAD", path).status_code
                needs_served_run = path.endswith("/url")  # only served runs have a URL
                assert status == 409 if needs_served_run else status in ((200,) if "/runs/" in path else (200, 403)), (
                    path
                )
                readable += status == 200
    assert readable > 30


@pytest.mark.parametrize("stream", STREAMS)
def test_streams_of_another_project_are_not_found(neighbors: Neighbors, stream: str) -> None:
    path = STREAMS[stream].format(**neighbors.object_names)
    with neighbors.client(OURS) as client:
        problem_of(client.get(path), 404)


def test_event_stream_contains_only_runs_of_the_own_project(neighbors: Neighbors) -> None:
    chunks = record_events(neighbors)
    text = "def main():\n    pass\n"
    theirs = neighbors.submit(THEIRS, text)
    assert wait_for_end(theirs)["state"] == "completed"
    neighbors.project(THEIRS).api.delete(f"/runs/{theirs.id}")
    ours = neighbors.submit(OURS, text)
    assert wait_for_end(ours)["state"] == "completed"
    neighbors.project(OURS).api.delete(f"/runs/{ours.id}")
    until(lambda: b"event: deleted" in b"".join(chunks))
    stream = b"".join(chunks)
    assert ours.id.encode() in stream
    assert theirs.id.encode() not in stream
    assert THEIRS.encode() not in stream


def test_idempotency_keys_are_separate_per_user(neighbors: Neighbors) -> None:
    key, names = {"Idempotency-Key": "the-same-key"}, []
    for project in (THEIRS, OURS):
        with neighbors.client(project) as client:
            response = client.post(f"/projects/{project}/volumes", json={"name": "keyed", "size": "1Gi"}, headers=key)
            assert response.status_code == 201, response.text
            names.append(response.json()["scope"])
    assert names == [f"project/{THEIRS}", f"project/{OURS}"]


def test_cursor_of_another_user_reveals_no_other_runs(neighbors: Neighbors) -> None:
    for _ in range(2):
        wait_for_end(neighbors.submit(THEIRS, "def main():\n    pass\n"))
    with neighbors.client(THEIRS) as client:
        cursor = client.get("/runs", params={"limit": 1}).json()["next_cursor"]
    assert cursor
    with neighbors.client(OURS) as client:
        response = client.get("/runs", params={"limit": 100, "cursor": cursor})
        if response.status_code == 200:
            assert {run["scope"] for run in response.json()["items"]} <= {f"project/{OURS}"}
        else:
            problem_of(response, 400, 422)
