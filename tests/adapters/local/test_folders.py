"""Observations from a run folder."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local.allocation import Runtime, prepare_run
from fairlead.adapters.local.folders import RunFolder, observe_active, remove_tree
from fairlead.adapters.local.specs import USAGE
from fairlead.model.runs import Observation, Phase
from tests.adapters.local.making import make_allocation, make_launch_spec, make_machine, nest_folders

STATE: dict[str, Any] = {"pid": 1, "boot_id": "b1", "started_at": 0.0}
STARTED = datetime.fromtimestamp(0, UTC)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"phase": "starting"}, Observation(Phase.STARTING)),
        ({"phase": "running"}, Observation(Phase.RUNNING, started_at=STARTED)),
        (
            {"phase": "starting", "reason": "", "message": "nothing listens yet"},
            Observation(Phase.STARTING, message="nothing listens yet"),
        ),
        (
            {"phase": "running", "reason": "Ready", "message": "answers", "address": "serve.sock", "ends": 0},
            Observation(Phase.RUNNING, "Ready", "answers", started_at=STARTED),
        ),
        (
            {"phase": "degraded", "reason": "OOMKilled", "message": "too much", "address": None, "ends": 2},
            Observation(Phase.DEGRADED, "OOMKilled", "too much", started_at=STARTED),
        ),
    ],
)
def test_active_run_is_observed_from_the_supervisor_state(state: dict[str, Any], expected: Observation) -> None:
    assert observe_active({**STATE, **state}) == expected


def test_truncated_usage_sample_does_not_hide_others(tmp_path: Path) -> None:
    (tmp_path / USAGE).write_text('{"at": 0, "mem": 1}\n{"at": 1, "m{"at": 2, "mem": 3}\n{"at": 3, "mem": 4}\n{"at": 4')
    assert [sample["mem"] for sample in RunFolder(tmp_path).read_usage()] == [1, 4]


@pytest.mark.parametrize("remove", ["clean_up", "delete"])
def test_temporary_folder_has_a_short_path_without_namespaces(tmp_path: Path, remove: str) -> None:
    run_id = "0123456789abcdef" * 2
    folder = tmp_path / "runs" / run_id
    allocation = replace(make_allocation(tmp_path, uid=None), folder=folder)
    machine, runtime = make_machine(isolation_error="no"), Runtime(Path("/usr/bin/python3"), (), {})
    for _ in range(2):  # repeated after a crash
        spec = prepare_run(make_launch_spec(run_id), allocation, machine, runtime)
    temporary = Path(spec.env["TMPDIR"])
    # Programs create sockets in folders there, and the path of a socket is limited to 107 bytes.
    assert len(str(temporary)) <= len(str(tmp_path)) + len("/tmp/") + 16
    (temporary / "file").touch()
    assert (folder / "home" / "tmp" / "file").exists()
    getattr(RunFolder(folder), remove)()
    assert os.listdir(tmp_path / "tmp") == []


def test_deeply_nested_folders_are_removed(tmp_path: Path) -> None:
    for name in ("home", "volumes"):
        (tmp_path / name).mkdir()
        nest_folders(tmp_path / name / "nested", 3000)
    (tmp_path / "code").mkdir()
    (tmp_path / "home" / "output").mkdir()
    RunFolder(tmp_path).clean_up()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["home", "home/output"]


def test_links_are_not_followed_when_a_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "home" / "inside").mkdir(parents=True)
    (tmp_path / "home" / "inside" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "home")
    remove_tree(tmp_path / "link")
    remove_tree(tmp_path / "missing")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "kept", "link"]


@pytest.mark.skipif(os.getuid() == 0, reason="NOT TESTED: root can remove folders without permissions")
def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    (tmp_path / "home" / "locked" / "inside").mkdir(parents=True)
    (tmp_path / "home" / "locked").chmod(0)
    remove_tree(tmp_path / "home")
    assert not (tmp_path / "home").exists()
