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

from fairlead.adapters.local import supervisor
from fairlead.adapters.local.specs import SOCKET
from fairlead.sdk.runs import Run
from tests.adapters.local.test_readiness_probe import make_spec
from tests.processes.execution import until, wait_for_end
from tests.processes.machines import CLIENT_OPTIONS
from tests.security.neighbors import INTRUDER, OURS, THEIRS, Neighbors

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")

RETURN_MARK = "import os\n\ndef main():\n    return os.environ['PLAIN']\n"
CONNECT_TO_SOCKETS = """
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
    """Start a served function, and wait until it is ready."""
    run = neighbors.submit(project, text, action="serve", envs=envs)
    until(lambda: run.refresh().data["reason"] == "Ready", 120)
    return run


@pytest.fixture(scope="module")
def served(neighbors: Neighbors) -> Iterator[Run]:
    """Bravo's served run, which returns its mark."""
    run = serve(neighbors, THEIRS, RETURN_MARK, PLAIN=neighbors.mark)
    yield run
    run.stop()
    wait_for_end(run)


def send_request(neighbors: Neighbors, run: Run, token: str | None, **extra_headers: str) -> httpx2.Response:
    """Send a request with a token to a run's URL or host."""
    headers = extra_headers | ({} if token is None else {"Authorization": f"Bearer {token}"})
    path = "/" if "Host" in extra_headers else f"/served/{run.id}/"
    return httpx2.post(neighbors.platform.server.url + path, json={}, headers=headers, **CLIENT_OPTIONS)


def test_user_without_access_cannot_reach_a_served_run(neighbors: Neighbors, served: Run) -> None:
    ours, theirs = neighbors.tokens[OURS], neighbors.tokens[THEIRS]
    assert neighbors.mark in send_request(neighbors, served, theirs).text
    assert send_request(neighbors, served, ours).status_code == 404
    assert send_request(neighbors, served, None).status_code == 401
    host = f"{served.id}.localhost"
    for token in (ours, theirs, None):  # a browser needs a one-time code
        response = send_request(neighbors, served, token, Host=host, Cookie=f"fairlead_session={token}")
        assert response.status_code in (401, 403)
        assert neighbors.mark not in response.text
    for route in ("url", "open"):
        with neighbors.client(OURS) as client:
            response = client.request("GET" if route == "url" else "POST", f"/runs/{served.id}/{route}")
            assert response.status_code == 404, response.text


@needs_root
def test_run_of_another_project_cannot_reach_it_locally(neighbors: Neighbors, served: Run) -> None:
    folder = neighbors.platform.folder_of(served)
    paths = [str(folder / SOCKET), str(folder / "home" / SOCKET)]
    assert any(Path(path).is_socket() for path in paths)
    run = neighbors.submit(OURS, CONNECT_TO_SOCKETS, inputs={"paths": paths})
    assert (wait_for_end(run)["state"], run.result) == ("completed", [])
    addresses = [["POST", f"/served/{served.id}/", {}, False], ["GET", f"/served/{served.id}/x", None, False]]
    known = {**neighbors.known, "operations": addresses, "attacks": ["send_requests"]}
    attack = neighbors.submit(OURS, INTRUDER.read_text("utf-8"), inputs=known)
    assert (wait_for_end(attack)["state"], attack.result) == ("completed", {"send_requests": []})


# The server has root permissions, so it must never connect to a socket with a different owner, not even briefly.


def respond_as(folder: Path, name: str, text: bytes) -> socket.socket:
    """Create a socket in a folder that responds with a fixed text."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name))
    listener.listen(64)

    def respond() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    client.sendall(text)

    threading.Thread(target=respond, daemon=True).start()
    return listener


def call(path: Path) -> bytes:
    """Connect to a socket and read its response; empty if connecting or reading fails."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        return client.recv(100)
    return b""


def test_socket_replaced_by_a_symlink_is_not_followed(tmp_path: Path) -> None:
    home, other_folder, finished = tmp_path / "home", tmp_path / "other", threading.Event()
    for folder in (home, other_folder):
        folder.mkdir()
    spec, deadline, responses = make_spec(home), time.monotonic() + 3, set()

    def connect_repeatedly() -> None:
        while not finished.is_set():
            responses.add(call(tmp_path / SOCKET))

    with respond_as(other_folder, SOCKET, b"theirs"), respond_as(home, "socket", b"ours"):
        os.symlink(other_folder / SOCKET, home / "link")
        connect_thread = threading.Thread(target=connect_repeatedly)
        connect_thread.start()
        while time.monotonic() < deadline:
            for name in ("socket", "link"):
                with contextlib.suppress(OSError):
                    os.link(home / name, home / "next", follow_symlinks=False)
                    os.rename(home / "next", home / SOCKET)
                if name == "socket":
                    probe_thread = threading.Thread(target=supervisor.find_address, args=(spec, tmp_path))
                    probe_thread.start()
            probe_thread.join()
        finished.set()
        connect_thread.join()
    assert responses <= {b"", b"ours"}
