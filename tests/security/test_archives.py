"""Malicious code archives: the server shows or rejects them, and runs write only into their own folder."""

import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.sdk.runs import Run
from tests.processes.execution import wait_for_all, wait_for_end
from tests.security.archives import digest_of, make_escapes, make_malformed
from tests.security.neighbors import OURS, Neighbors
from tests.server.sites import Site, problem_of, within

MALFORMED = make_malformed()
SECONDS = 5.0  # of CPU time; anything longer is considered endless


@pytest.fixture(scope="module")
def project(common_site: Site) -> Site:
    """An in-process server with a project."""
    common_site.post("/projects", {"name": "forest"})
    return common_site


def show(site: Site, archive: bytes) -> Any:
    """List the files of an uploaded archive. The upload itself always succeeds."""
    digest = digest_of(archive)
    assert site.request("PUT", f"/projects/forest/code/{digest}", archive).status_code == 200
    function = {"source": "main.py", "handler": "main", "code": digest}
    site.put("/projects/forest/functions/odd", function, headers={"If-Match": "*"})
    with within(SECONDS):
        return site.request("GET", "/projects/forest/functions/odd/code")


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_archive_is_shown_or_rejected_in_time(project: Site, name: str) -> None:
    response = show(project, MALFORMED[name])
    if response.status_code != 200:
        assert "cannot be read" in problem_of(response, 404)["detail"]
    else:
        assert len(response.json()["files"]) <= 1000
        assert len(response.content) < 2 << 20


@pytest.mark.parametrize("name", make_escapes("/x"))
def test_showing_an_escaping_archive_writes_nothing(project: Site, tmp_path: Path, name: str) -> None:
    (tmp_path / "kept").write_text("kept")
    show(project, make_escapes(str(tmp_path))[name])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("kept", "kept")]


# In a run


def submit(neighbors: Neighbors, archive: bytes) -> Run:
    """Submit a run with an archive as its code."""
    connection, digest = neighbors.project(OURS).api, digest_of(archive)
    connection.put_bytes(f"/projects/{OURS}/code/{digest}", archive)
    function = {"name": "packed", "source": "main.py", "handler": "main", "code": digest}
    return Run(connection, connection.post(f"/projects/{OURS}/runs", {"function": function}))


def test_escaping_archive_stays_inside_the_run(neighbors: Neighbors) -> None:
    folder = neighbors.platform.shared / "escapes"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "kept").write_text("kept")
    (folder / "kept").chmod(0o666)
    escapes = make_escapes(str(folder))
    runs = [submit(neighbors, archive) for archive in escapes.values()]
    for name, ended in zip(escapes, wait_for_all(runs), strict=True):
        assert (ended["state"], ended["reason"]) in (("completed", "Completed"), ("failed", "ExitCode")), name
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("kept", "kept")]


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")
def test_malformed_archive_affects_only_its_run(neighbors: Neighbors) -> None:
    before = neighbors.platform.server.process.output[1].count("Traceback")
    runs = [submit(neighbors, archive) for archive in MALFORMED.values()]
    for name, run, ended in zip(MALFORMED, runs, wait_for_all(runs, 240), strict=True):
        assert ended["state"] in ("completed", "failed"), name
        assert ended["state"] == "failed" or run.result in ("first", "second"), name
        assert "Traceback" not in ended["message"], name
    assert wait_for_end(neighbors.submit(OURS, "def main():\n    pass\n"))["state"] == "completed"
    assert neighbors.platform.server.process.output[1].count("Traceback") == before
