"""Access to served runs, and runs that try to redirect the server to other sockets.

One-time codes, session cookies, headers and WebSockets are tested in server/test_serving*.py.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from fairlead.adapters.local import readiness_probe
from fairlead.adapters.local.specs import SOCKET
from fairlead.sdk.runs import Run
from tests.adapters.local.test_readiness_probe import make_spec
from tests.processes.execution import until, wait_for_end
from tests.processes.machines import CLIENT_OPTIONS
from tests.security.neighbors import INTRUDER, OURS, THEIRS, Neighbors

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root gives each run a user of its own")

SERVES = "import os\n\ndef main():\n    return os.environ['PLAIN']\n"
CALLS = """
import socket

def main(paths):
    reached = []
    for path in paths:
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(path)
            except OSError:
                continue
            reached.append(path)
    return reached
"""


def serve(neighbors: Neighbors, project: str, text: str, **envs: str) -> Run:
    """A served function that answers."""
    run = neighbors.submit(project, text, action="serve", envs=envs)
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    return run


@pytest.fixture(scope="module")
def served(neighbors: Neighbors) -> Iterator[Run]:
    """The served run of bravo, which returns its mark."""
    run = serve(neighbors, THEIRS, SERVES, PLAIN=neighbors.mark)
    yield run
    run.stop()
    wait_for_end(run)


def ask(neighbors: Neighbors, run: Run, token: str | None, **more: str) -> httpx2.Response:
    """Send a request with a token to the URL of a run, or to its host."""
    headers = more | ({} if token is None else {"Authorization": f"Bearer {token}"})
    path = "/" if "Host" in more else f"/served/{run.id}/"
    return httpx2.post(neighbors.platform.server.url + path, json={}, headers=headers, **CLIENT_OPTIONS)


def test_user_without_access_cannot_reach_a_served_run(neighbors: Neighbors, served: Run) -> None:
    ours, theirs = neighbors.tokens[OURS], neighbors.tokens[THEIRS]
    assert neighbors.mark in ask(neighbors, served, theirs).text
    assert ask(neighbors, served, ours).status_code == 404
    assert ask(neighbors, served, None).status_code == 401
    host = f"{served.id}.localhost"
    for token in (ours, theirs, None):  # a browser needs a one-time code
        answer = ask(neighbors, served, token, Host=host, Cookie=f"fairlead_session={token}")
        assert answer.status_code in (401, 403)
        assert neighbors.mark not in answer.text
    for route in ("url", "open"):
        with neighbors.client(OURS) as client:
            answer = client.request("GET" if route == "url" else "POST", f"/runs/{served.id}/{route}")
            assert answer.status_code == 404, answer.text


@needs_root
def test_run_of_another_project_cannot_reach_it_locally(neighbors: Neighbors, served: Run) -> None:
    folder = neighbors.platform.folder_of(served)
    paths = [str(folder / SOCKET), str(folder / "home" / SOCKET)]
    assert any(Path(path).is_socket() for path in paths)
    run = neighbors.submit(OURS, CALLS, inputs={"paths": paths})
    assert (wait_for_end(run)["state"], run.result) == ("completed", [])
    addresses = [["POST", f"/served/{served.id}/", {}, False], ["GET", f"/served/{served.id}/x", None, False]]
    known = {**neighbors.known, "operations": addresses, "ways": ["ask_the_server"]}
    asking = neighbors.submit(OURS, INTRUDER.read_text("utf-8"), inputs=known)
    assert (wait_for_end(asking)["state"], asking.result) == ("completed", {"ask_the_server": []})


# The server has root permissions, so it must never connect to a socket of another owner, not even briefly.


def answer_as(folder: Path, name: str, word: bytes) -> socket.socket:
    """A socket in a folder that responds with its name."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name))
    listener.listen(64)

    def answer() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    client.sendall(word)

    threading.Thread(target=answer, daemon=True).start()
    return listener


def call(path: Path) -> bytes:
    """The name of the server at a socket path, or None."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        return client.recv(100)
    return b""


def test_socket_replaced_by_a_symlink_is_not_followed(tmp_path: Path) -> None:
    home, elsewhere, over = tmp_path / "home", tmp_path / "elsewhere", threading.Event()
    for folder in (home, elsewhere):
        folder.mkdir()
    spec, until_then, answers = make_spec(home), time.monotonic() + 3, set()

    def look() -> None:
        while not over.is_set():
            answers.add(call(tmp_path / SOCKET))

    with answer_as(elsewhere, SOCKET, b"theirs"), answer_as(home, "kept", b"ours"):
        os.symlink(elsewhere / SOCKET, home / "link")
        looking = threading.Thread(target=look)
        looking.start()
        while time.monotonic() < until_then:
            for name in ("kept", "link"):
                with contextlib.suppress(OSError):
                    os.link(home / name, home / "next", follow_symlinks=False)
                    os.rename(home / "next", home / SOCKET)
                if name == "kept":
                    finder = threading.Thread(target=readiness_probe.find_address, args=(spec, tmp_path))
                    finder.start()
            finder.join()
        over.set()
        looking.join()
    assert answers <= {b"", b"ours"}
