"""No spelling of a URL gives access to other files. Requests are sent to a real server exactly as written."""

import json
import socket
from urllib.parse import quote, urlsplit

import pytest

from fairlead import run_files
from fairlead.sdk.runs import Run
from tests.processes.execution import wait_for_end
from tests.security.neighbors import OURS, Neighbors
from tests.server.samples import fill
from tests.server.sites import Site, problem_of
from tests.server.test_run_uploads import start

# Spellings of `..` and of the separator.
DOTS = [
    "..",
    "%2e%2e",
    "%2E.",
    ".%2e",
    "%252e%252e",
    "%c0%ae%c0%ae",
    "%e0%80%ae%e0%80%ae",
    "%uff0e%uff0e",
    "..;",
    "....",
]
SLASHES = ["/", "%2f", "%2F", "%5c", "\\", "%252f", "//", "/./", "%c0%af"]
TARGETS = ["etc/passwd", "secret.key", "token", "fairlead.db", "spec.json", "state.json", "log"]
PATHS = [
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "//etc/passwd",
    "file:///etc/passwd",
    "left/../left",
    "./left",
    "left/",
    "left%00",
    "left%00.txt",
    "left%0a",
    "left%20",
    "LEFT",
    "left?x=1",
    "left/.",
    "deep/../../output/left",
    "%e2%80%8bleft",
    "link",
    "",
    ".",
    "..",
    "~",
    "%",
    "%zz",
    "left%",
    "\xff".encode().decode("latin-1"),
]
WRITE_FILES = """
import os
def main():
    os.chdir(os.environ["FAIRLEAD_OUTPUT"])
    os.mkdir("deep")
    for name in ("left", "deep/left"):
        with open(name, "w") as file:
            file.write("left here")
    print("one")
    print("two")
"""
CURSORS = [
    "-1",
    "1",
    "2",
    "1.0",
    "1e3",
    "0x1",
    "+1",
    "%201",
    "٣",
    "",
    "none",
    "true",
    "9" * 18,
    "9" * 400,
    "..",
    "0%00",
    "0,0",
]
LAST_IDS = ["-1", "1", "1e3", "٣", "", "x", "9" * 18, "9" * 400, "../../etc", "0\x7f"]


@pytest.fixture(scope="module")
def run(neighbors: Neighbors) -> Run:
    """A run that has written two files and two log lines."""
    run = neighbors.submit(OURS, WRITE_FILES)
    assert wait_for_end(run)["state"] == "completed", run.logs()
    return run


def send_request(neighbors: Neighbors, target: str, **headers: str) -> tuple[int, bytes, bytes]:
    """Send a request for a URL without normalizing it, and return the status, head and body."""
    server_url = urlsplit(neighbors.platform.server.url)
    all_headers = {
        "Host": server_url.netloc,
        "Connection": "close",
        "Authorization": f"Bearer {neighbors.tokens[OURS]}",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    with socket.create_connection((server_url.hostname, server_url.port), timeout=30) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())
        response = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    first, _, body = response.partition(b"\r\n\r\n")
    return int(first.split()[1]), first, body


def list_traversals() -> list[str]:
    """Relative paths from a run's output folder to files that must not be readable."""
    ups = [f"{dots}{slash}" * 6 for dots in DOTS for slash in SLASHES]
    return [up + TARGETS[number % len(TARGETS)] for number, up in enumerate(ups)]


@pytest.mark.parametrize("prefix", ["", "deep/", "deep%2f", "left/"])
def test_file_paths_cannot_leave_the_output_folder(neighbors: Neighbors, run: Run, prefix: str) -> None:
    for traversal in list_traversals():
        status, _, body = send_request(neighbors, f"/api/v1/runs/{run.id}/files/{prefix}{traversal}")
        assert status in (400, 404), f"{traversal}: {body[:200]!r}"


@pytest.mark.parametrize("name", PATHS, ids=repr)
def test_alternative_spellings_of_a_file_name_are_not_found(neighbors: Neighbors, run: Run, name: str) -> None:
    status, _, body = send_request(neighbors, f"/api/v1/runs/{run.id}/files/{name}")
    if name == "" or name.startswith("left?"):
        assert status in (200, 307, 404, 422)
        assert b"left here" not in body
    else:
        assert status in (400, 404), body


def test_file_is_read_by_its_url_encoded_name(neighbors: Neighbors, run: Run) -> None:
    for name in ("left", "%6c%65%66%74", "deep/left", "deep%2fleft"):
        assert send_request(neighbors, f"/api/v1/runs/{run.id}/files/{name}")[0] == 200, name


@pytest.mark.parametrize("prefix", ["/", "/assets/", "/assets/%2e%2e/", "/api/v1/", "/login/"])
def test_page_urls_cannot_reach_files_of_the_host(neighbors: Neighbors, prefix: str) -> None:
    key = (neighbors.platform.server.data / "secret.key").read_bytes().split()[0]
    for traversal in list_traversals():
        for accept in ("*/*", "text/html"):
            status, _, body = send_request(neighbors, prefix + traversal, Accept=accept)
            assert status < 500, traversal
            assert b"root:x:0" not in body, traversal
            assert key not in body, traversal


@pytest.mark.parametrize("path", ["runs/{run}/logs?cursor={value}", "runs/{run}/logs?cursor={value}&follow=true"])
def test_invalid_log_cursors_are_rejected(neighbors: Neighbors, run: Run, path: str) -> None:
    for value in CURSORS:
        url = "/api/v1/" + path.format(run=run.id, value=quote(value, safe="%,+"))
        status, _, body = send_request(neighbors, url)
        assert status in (400, 422), f"{value}: {body[:300]!r}"
        assert b"two" not in body, value


@pytest.mark.parametrize("value", LAST_IDS, ids=lambda value: repr(value[:10]))
def test_invalid_last_event_id_gets_the_full_log_or_an_error(neighbors: Neighbors, run: Run, value: str) -> None:
    status, head, body = send_request(neighbors, f"/api/v1/runs/{run.id}/logs?follow=true", **{"Last-Event-ID": value})
    assert status in (200, 400, 422), body
    if status == 200:
        assert b"text/event-stream" in head
        entries = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b'data: {"at"')]
        assert "".join(entry["text"] for entry in entries) == "one\ntwo\n"


@pytest.mark.parametrize("stream", ["../stdout", "stdin", "platform", "stdout,stderr", "STDOUT", "%00", "stdout%0a"])
def test_unknown_log_stream_is_rejected(neighbors: Neighbors, run: Run, stream: str) -> None:
    assert send_request(neighbors, f"/api/v1/runs/{run.id}/logs?stream={stream}")[0] in (400, 422)


def test_uploaded_file_is_stored_under_its_exact_name(site: Site) -> None:
    fill(site, "alpha")
    run_id, token = start(site)
    names = ["a", "a\n", "two\nlines", "\\..\\..", "...", "é"]
    for name in names:
        response = site.request("PUT", f"/runs/{run_id}/uploads/output/{quote(name)}", name.encode(), token=token)
        assert response.status_code == 200, f"{name!r}: {response.text}"
        assert response.json()["path"] == f"output/{name}"
    for name in ("..", "../result.json", "./a", "a/../../b", "/a", "a//b", ""):
        path = f"/runs/{run_id}/uploads/output/{quote(name, safe='').replace('.', '%2e')}"
        problem_of(site.request("PUT", path, b"x", token=token), 422)
    with site.store.reading() as tx:
        stored = {file.path: run_files.load_file(tx, run_id, file.path) for file in run_files.list_files(tx, run_id)}
    assert stored == {f"output/{name}": name.encode() for name in names}
