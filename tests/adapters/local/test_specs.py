"""A supervisor's spec file."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from fairlead.adapters.local.specs import SPEC, Mount, Spec, UserMapping, read_json, write_json

FULL = Spec(
    run_id="r1",
    project_id="id-forest",
    name="train-r1",
    boot_id="b1",
    command=["python3", "-u", "ä b"],
    env={"A": "1", "B": "\n$x \u2028"},
    cwd="/fairlead",
    home="/data/runs/r1/home",
    identity=UserMapping(1000, 1000, [7], 700_000, 800_001, [800_007]),
    secret_envs=["TOKEN"],
    isolated=True,
    network="none",
    mounts=[Mount("/data", "/v", read_only=True), Mount("/s", size=5), Mount("/t", secrets={"TOKEN": "TOKEN"})],
    revealed=["/opt/python"],
    hidden=["/data"],
    memory=1 << 30,
    disk=1 << 40,
    cpu=500,
    max_processes=99,
    cgroup={"memory": "/sys/fs/cgroup/fairlead-r1"},
    disk_folders=["/data/runs/r1/home"],
    cpus=[0, 3],
    devices=["GPU-1"],
    deadline=1.5,
    grace=2.0,
    serves=True,
    port=20_001,
    nvml="/site",
    amounts={"cpu": 10**9},
)
MINIMAL = Spec("r1", "forest", "train-r1", "b1", ["x"], {}, "/", "/home", UserMapping(0, 0))


@pytest.mark.parametrize("spec", [FULL, MINIMAL])
def test_saved_spec_is_loaded_unchanged(tmp_path: Path, spec: Spec) -> None:
    spec.save(tmp_path)
    assert Spec.load(tmp_path) == spec


def test_every_field_is_tested() -> None:
    for field in fields(Spec):
        assert getattr(FULL, field.name) != getattr(MINIMAL, field.name) or field.name in (
            "run_id",
            "project",
            "name",
            "boot_id",
        )


def test_spec_file_contains_no_secret_value(tmp_path: Path) -> None:
    """A spec contains the names of secrets, and has no field for their values."""
    FULL.save(tmp_path)
    content = json.loads((tmp_path / SPEC).read_text())
    assert content["secret_envs"] == ["TOKEN"]
    assert "secrets" not in content


def test_json_file_is_written_atomically(tmp_path: Path) -> None:
    write_json(tmp_path / "state.json", {"phase": "starting"})
    with pytest.raises(TypeError):
        write_json(tmp_path / "state.json", {"phase": object()})
    assert read_json(tmp_path / "state.json") == {"phase": "starting"}


def test_missing_json_file_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read_json(tmp_path / "none.json") is None
    assert read_json(tmp_path / "none" / "state.json") is None
    assert read_json(tmp_path / "file" / "state.json") is None
