"""Short factories for machines, allocations and launch specs."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import fairlead
from fairlead import source_code
from fairlead.adapters.local.allocation import Allocation, Runtime, find_runtime
from fairlead.adapters.local.machines import Machine, find_machine
from fairlead.files.documents import load_program
from fairlead.model.records import VolumeRecord
from fairlead.model.runs import ExecutionId, LaunchSpec
from fairlead.model.scopes import Cluster
from fairlead.planning.plan import plan_run
from fairlead.source_code import ArchiveEntry
from tests.contracts.samples import NOW
from tests.making import PYTHON, make_cluster, make_policy, make_request, make_snapshot
from tests.scheduling.nodes import make_amounts

BOOTSTRAP = (Path(fairlead.__file__).parent / "in_container" / "bootstrap.py").read_text("utf-8")
ALLOWED = make_policy(switches={"existing_volumes": "allow", "allow_root": True})
NO_OP = "def main():\n    pass\n"


def make_machine(**fields: Any) -> Machine:
    """A machine with two cores."""
    defaults: dict[str, Any] = {
        "name": "box",
        "capacity": make_amounts(cpu=2, mem="8Gi", disk="100Gi", gpu=0, pods=16),
        "labels": {},
        "gpus": (),
        "cpus": (0, 1),
        "isolation_error": None,
        "boot_id": "b1",
        "protections": {},
    }
    return Machine(**{**defaults, **fields})


def make_allocation(folder: Path, **fields: Any) -> Allocation:
    """An allocation for a run in a folder."""
    defaults: dict[str, Any] = {"volumes": folder / "volumes", "uid": 700_000, "cpus": (), "devices": ()}
    defaults |= {"gids": {1000: 800_000}}
    return Allocation(folder=folder / "runs" / "r1", **{**defaults, **fields})


@cache
def this_machine() -> Machine:
    """The machine that runs these tests."""
    return find_machine(Path(tempfile.gettempdir()), {})


@cache
def runtime() -> Runtime:
    """The Python that runs these tests."""
    return find_runtime(Path(sys.executable), os.environ)


def make_volume(volume_id: str, name: str) -> VolumeRecord:
    """A volume that runs share."""
    stamps: dict[str, Any] = {"created_by": "ada", "created_at": NOW, "updated_by": "ada", "updated_at": NOW}
    return VolumeRecord(id=volume_id, scope="project/forest", name=name, size="1Gi", **stamps)


def make_launch_spec(
    run_id: str = "r1",
    source: str = NO_OP,
    *,
    secrets: Mapping[str, str] | None = None,
    shared: Mapping[str, str] | None = None,
    project: str = "forest",
    cluster: Cluster | None = None,
    **fields: Any,
) -> LaunchSpec:
    """A run of a file with a function main, planned as the server plans it."""
    code = source_code.pack_entries([ArchiveEntry("train.py", source.encode())])
    request = {"function": PYTHON, "secrets": list(secrets or {}), **fields}
    snapshot = make_snapshot(
        cluster or make_cluster(name="here", executor="local"),
        ALLOWED,
        code=replace(load_program(), digest=f"sha256:{hashlib.sha256(code).hexdigest()}"),
        project=project,
    )
    planned = plan_run(make_request(**request), snapshot, run_id)
    assert planned.demand is not None, "; ".join(map(str, planned.violations))
    return LaunchSpec(
        execution_id=ExecutionId(run_id),
        project=project,
        project_id=f"id-{project}",
        name=planned.manifests[0]["metadata"]["name"],
        manifests=planned.manifests,
        demand=planned.demand,
        code=code,
        volumes={name: make_volume(volume_id, name) for name, volume_id in (shared or {}).items()},
        secrets=secrets or {},
    )


def nest_folders(path: Path, depth: int) -> None:
    """Create folders inside each other, and a file in the last one."""
    path.mkdir()
    folder = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=folder)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=folder))
    os.close(folder)
