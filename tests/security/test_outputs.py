"""Output files of malicious runs: the server reads only the run's regular files."""

import json
import os
import time
from urllib.parse import quote

import pytest

from fairlead.sdk.runs import Run
from tests.processes.execution import wait_for_end, wait_for_output
from tests.security.neighbors import OURS, Neighbors

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")

SECONDS = 20.0  # for a response; reading from a pipe would block forever
# Valid file names. All are listed, and can be read under the listed names.
NAMES = [
    "plain",
    "two\nlines",
    "plain\n",
    "\r\nSet-Cookie: a=b",
    "tab\tand\x1b[31mred",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "..\\..\\etc\\passwd",
    "...",
    " ",
    "'\"; rm -rf .",
    "\u202etxt.exe",
    "é/..é/ü",
    "x" * 255,
    "-rf",
    "~",
    "$HOME",
    "a?b=c#d&e;f",
]
CREATE_SPECIAL_FILES = """
import json, os, socket, stat

def attempt(make, *args):
    try:
        make(*args)
    except OSError:
        pass

def main(targets, names):
    os.chdir(os.environ["FAIRLEAD_OUTPUT"])
    for number, target in enumerate(targets):
        attempt(os.symlink, target, f"soft-{number}")
        attempt(os.link, target, f"hard-{number}")
        attempt(os.symlink, os.path.dirname(target), f"folder-{number}")
        attempt(os.symlink, "../" * 20 + target.lstrip("/"), f"relative-{number}")
    for name, target in (("environ", "/proc/self/environ"), ("zero", "/dev/zero"), ("root", "/"), ("own", "plain")):
        attempt(os.symlink, target, name)
    os.mkfifo("pipe")
    attempt(os.mknod, "whiteout", stat.S_IFCHR | 0o666, 0)
    attempt(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    attempt(os.mknod, "disk", stat.S_IFBLK | 0o666, os.stat("/").st_dev)
    socket.socket(socket.AF_UNIX).bind("socket")
    for name in names:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w", newline="") as file:
            file.write(name)
    with open(b"caf\\xe9", "w") as file:
        file.write("no text")
    os.chmod("plain", 0)
    os.mkdir("closed", 0)
    return sorted(os.listdir("."), key=os.fsencode)[:5]
"""
# Statements that create something else in place of the output folder.
REPLACEMENTS = {
    "link": "os.symlink(target, out)",
    "pipe": "os.mkfifo(out)",
    "file": "open(out, 'w').write('x')",
    "closed": "os.mkdir(out, 0)",
    "nothing": "pass",
}
# Swaps a file and a folder with symlinks as fast as possible until the run is stopped.
SWAP_FILES = """
import os

def main(file, folder):
    os.chdir(os.environ["FAIRLEAD_OUTPUT"])
    for name in ("plain", "mine/kept"):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w") as output:
            output.write("mine")
    os.symlink(file, "link")
    os.symlink(folder, "theirs")
    print("swapping", flush=True)
    while True:
        for one, other in (("plain", "link"), ("mine", "theirs")):
            os.rename(one, "temporary")
            os.rename(other, one)
            os.rename("temporary", other)
"""


@pytest.fixture(scope="module")
def malicious_run(neighbors: Neighbors) -> Run:
    """A run that has created links, special files and unusual file names."""
    targets = [path for path in neighbors.known["paths"] if "/proc/" not in path]
    run = neighbors.submit(OURS, CREATE_SPECIAL_FILES, inputs={"targets": targets, "names": NAMES})
    assert wait_for_end(run)["state"] == "completed", f"{wait_for_end(run)} {run.logs()}"
    return run


def test_only_regular_files_are_listed(malicious_run: Run) -> None:
    assert sorted(file["path"] for file in malicious_run.files()) == sorted(NAMES)


def test_listed_files_can_be_read_whatever_their_name(malicious_run: Run) -> None:
    for name in NAMES:
        assert malicious_run.read(name).decode() == name


def test_file_names_cannot_inject_response_headers(neighbors: Neighbors, malicious_run: Run) -> None:
    with neighbors.client(OURS) as client:
        for name in NAMES:
            response = client.get(f"/runs/{malicious_run.id}/files/{quote(name)}")
            assert (response.status_code, response.headers.get("set-cookie")) == (200, None), name
            disposition = response.headers["content-disposition"]
            assert disposition == f"attachment; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}"
            assert response.headers["content-type"] == "application/octet-stream"
            assert response.headers["x-content-type-options"] == "nosniff"


def test_links_and_special_files_give_not_found_without_blocking(neighbors: Neighbors, malicious_run: Run) -> None:
    data = neighbors.platform.server.data
    known = [path for path in neighbors.known["paths"] if "/proc/" not in path]
    names = [f"{kind}-{number}" for kind in ("soft", "hard", "relative") for number in range(len(known))]
    names += [f"folder-{number}/{os.path.basename(path)}" for number, path in enumerate(known)]
    names += ["environ", "zero", "own", "pipe", "whiteout", "null", "disk", "socket", "closed", "closed/x"]
    names += [f"root{path}" for path in ("/etc/shadow", "/proc/self/environ", f"{data}/secret.key")]
    with neighbors.client(OURS) as client:
        client.timeout = SECONDS
        for name in names:
            response = client.get(f"/runs/{malicious_run.id}/files/{quote(name)}")
            assert response.status_code == 404, f"{name}: {response.content[:200]!r}"
            assert neighbors.mark not in response.text


def test_file_swapped_for_a_symlink_during_reading_is_not_followed(neighbors: Neighbors) -> None:
    running, _ = neighbors.tenants
    folder = neighbors.platform.folder_of(running) / "home" / "output" / "models"
    (folder / "kept").write_text(neighbors.mark)
    run = neighbors.submit(OURS, SWAP_FILES, inputs={"file": str(folder / "kept"), "folder": str(folder)})
    wait_for_output(run, "swapping")
    contents: set[bytes] = set()
    deadline = time.monotonic() + 3
    with neighbors.client(OURS) as client:
        while time.monotonic() < deadline:
            for name in ("plain", "mine/kept", "link", "theirs/kept"):
                response = client.get(f"/runs/{run.id}/files/{name}")
                contents.add(response.content if response.status_code == 200 else b"")
            assert neighbors.mark not in json.dumps(client.get(f"/runs/{run.id}/files").json())
    run.stop()
    wait_for_end(run)
    assert contents == {b"", b"mine"}


@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=[*REPLACEMENTS])
def test_replaced_output_folder_has_no_files(neighbors: Neighbors, replace: str) -> None:
    _, finished = neighbors.tenants
    target = neighbors.platform.folder_of(finished) / "home" / "output"
    text = f"""
        import os
        def main(target):
            out = os.environ["FAIRLEAD_OUTPUT"]
            os.rmdir(out)
            {replace}
    """
    run = neighbors.submit(OURS, text, inputs={"target": str(target)})
    assert wait_for_end(run)["state"] == "completed", run.logs()
    with neighbors.client(OURS) as client:
        client.timeout = SECONDS
        assert client.get(f"/runs/{run.id}/files").json() == []
        assert client.get(f"/runs/{run.id}/files/models/best%20model.bin").status_code == 404
