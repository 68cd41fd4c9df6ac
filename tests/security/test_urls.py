"""No way of writing an address leads to a file that it does not name: on a real server, byte by byte as it is sent."""

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

# Ways to write `..`, and what may stand between them.
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
WHOLE = [
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
LEAVES = """
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
    """A run that has left two files and two lines."""
    made = neighbors.submit(OURS, LEAVES)
    assert wait_for_end(made)["state"] == "completed", made.logs()
    return made


def ask(neighbors: Neighbors, target: str, **headers: str) -> tuple[int, bytes, bytes]:
    """Status, head and body of the answer to an address, as it is written."""
    place = urlsplit(neighbors.platform.server.url)
    sent = {
        "Host": place.netloc,
        "Connection": "close",
        "Authorization": f"Bearer {neighbors.tokens[OURS]}",
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    first, _, body = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), first, body


def tricks() -> list[str]:
    """Ways up from the output of a run, and then down to what must not be read."""
    ups = [f"{dots}{slash}" * 6 for dots in DOTS for slash in SLASHES]
    return [up + TARGETS[number % len(TARGETS)] for number, up in enumerate(ups)]


@pytest.mark.parametrize("below", ["", "deep/", "deep%2f", "left/"])
def test_file_paths_cannot_leave_the_output_folder(neighbors: Neighbors, run: Run, below: str) -> None:
    for trick in tricks():
        status, _, body = ask(neighbors, f"/api/v1/runs/{run.id}/files/{below}{trick}")
        assert status in (400, 404), f"{trick}: {body[:200]!r}"


@pytest.mark.parametrize("name", WHOLE, ids=repr)
def test_alternative_spellings_of_a_file_name_are_not_found(neighbors: Neighbors, run: Run, name: str) -> None:
    status, _, body = ask(neighbors, f"/api/v1/runs/{run.id}/files/{name}")
    if name == "" or name.startswith("left?"):
        assert status in (200, 307, 404, 422)
        assert b"left here" not in body
    else:
        assert status in (400, 404), body


def test_file_is_read_by_its_url_encoded_name(neighbors: Neighbors, run: Run) -> None:
    for name in ("left", "%6c%65%66%74", "deep/left", "deep%2fleft"):
        assert ask(neighbors, f"/api/v1/runs/{run.id}/files/{name}")[0] == 200, name


@pytest.mark.parametrize("start_of_address", ["/", "/assets/", "/assets/%2e%2e/", "/api/v1/", "/login/"])
def test_page_urls_cannot_reach_files_of_the_host(neighbors: Neighbors, start_of_address: str) -> None:
    key = (neighbors.platform.server.data / "secret.key").read_bytes().split()[0]
    for trick in tricks():
        for accept in ("*/*", "text/html"):
            status, _, body = ask(neighbors, start_of_address + trick, Accept=accept)
            assert status < 500, trick
            assert b"root:x:0" not in body, trick
            assert key not in body, trick


@pytest.mark.parametrize("where", ["runs/{run}/logs?cursor={odd}", "runs/{run}/logs?cursor={odd}&follow=true"])
def test_invalid_log_cursors_are_rejected(neighbors: Neighbors, run: Run, where: str) -> None:
    for odd in CURSORS:
        address = "/api/v1/" + where.format(run=run.id, odd=quote(odd, safe="%,+"))
        status, _, body = ask(neighbors, address)
        assert status in (400, 422), f"{odd}: {body[:300]!r}"
        assert b"two" not in body, odd


@pytest.mark.parametrize("odd", LAST_IDS, ids=lambda odd: repr(odd[:10]))
def test_invalid_last_event_id_gets_the_full_log_or_an_error(neighbors: Neighbors, run: Run, odd: str) -> None:
    status, head, body = ask(neighbors, f"/api/v1/runs/{run.id}/logs?follow=true", **{"Last-Event-ID": odd})
    assert status in (200, 400, 422), body
    if status == 200:
        assert b"text/event-stream" in head
        entries = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b'data: {"at"')]
        assert "".join(entry["text"] for entry in entries) == "one\ntwo\n"


@pytest.mark.parametrize("stream", ["../stdout", "stdin", "platform", "stdout,stderr", "STDOUT", "%00", "stdout%0a"])
def test_unknown_log_stream_is_rejected(neighbors: Neighbors, run: Run, stream: str) -> None:
    assert ask(neighbors, f"/api/v1/runs/{run.id}/logs?stream={stream}")[0] in (400, 422)


def test_uploaded_file_is_stored_under_its_exact_name(site: Site) -> None:
    fill(site, "alpha")
    run_id, token = start(site)
    names = ["a", "a\n", "two\nlines", "\\..\\..", "...", "é"]
    for name in names:
        answer = site.request("PUT", f"/runs/{run_id}/uploads/output/{quote(name)}", name.encode(), token=token)
        assert answer.status_code == 200, f"{name!r}: {answer.text}"
        assert answer.json()["path"] == f"output/{name}"
    for name in ("..", "../result.json", "./a", "a/../../b", "/a", "a//b", ""):
        path = f"/runs/{run_id}/uploads/output/{quote(name, safe='').replace('.', '%2e')}"
        problem_of(site.request("PUT", path, b"x", token=token), 422)
    with site.store.reading() as tx:
        stored = {file.path: run_files.load_file(tx, run_id, file.path) for file in run_files.list_files(tx, run_id)}
    assert stored == {f"output/{name}": name.encode() for name in names}
