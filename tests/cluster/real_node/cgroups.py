"""The cgroups of a real node: one per hierarchy, with all of the node's processes."""

import contextlib
import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "fairlead-node-"
CPUSETS = ("cpuset.cpus", "cpuset.mems")
NEW_NAMESPACE = 0x02000000  # CLONE_NEWCGROUP
LEAF = "node"
CONTROLLERS = ("memory", "pids", "cpu", "cpuset", "io")
TIMEOUT = 30.0


@dataclass(frozen=True)
class Hierarchy:
    """One cgroup hierarchy."""

    kind: str  # cgroup or cgroup2
    controllers: tuple[str, ...]
    path: Path

    @property
    def options(self) -> str:
        """The mount options for mounting this hierarchy again."""
        named = [name for name in self.controllers if name.startswith("name=")]
        return ",".join(["none", *named] if named else self.controllers)


def find() -> list[Hierarchy]:
    """The cgroup hierarchies if they can limit memory: all version 1 hierarchies, or the single version 2 one."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    own_controllers = [line.split(":")[1] for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    version_1 = [
        Hierarchy("cgroup", names, Path(mount[1]))
        for names in (tuple(controllers.split(",")) for controllers in own_controllers if controllers)
        for mount in mounts
        if mount[2] == "cgroup" and set(names) <= set(mount[3].split(","))
    ]
    version_2 = [
        Hierarchy("cgroup2", tuple((Path(mount[1]) / "cgroup.controllers").read_text("utf-8").split()), Path(mount[1]))
        for mount in mounts
        if mount[2] == "cgroup2"
    ]
    versions = (version_1, version_2[:1])
    return next(
        (
            hierarchies
            for hierarchies in versions
            if any("memory" in hierarchy.controllers for hierarchy in hierarchies)
        ),
        [],
    )


def create(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Create a cgroup in every hierarchy. Raises OSError if permission is denied."""
    for hierarchy in hierarchies:
        cgroup = hierarchy.path / name
        cgroup.mkdir(exist_ok=True)
        if hierarchy.kind == "cgroup2":
            _delegate_controllers(hierarchy.path)
        elif "cpuset" in hierarchy.controllers:  # processes can join only if these are set
            for setting in CPUSETS:
                (cgroup / setting).write_text((hierarchy.path / setting).read_text("utf-8"), "utf-8")


def enter(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Move this process into a cgroup and a new cgroup namespace."""
    for hierarchy in hierarchies:
        (hierarchy.path / name / "cgroup.procs").write_text("0", "utf-8")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "cannot create a cgroup namespace")
    for hierarchy in hierarchies:
        if hierarchy.kind == "cgroup2":  # a cgroup with processes cannot enable controllers for its children
            leaf = hierarchy.path / name / LEAF
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text("0", "utf-8")
            _delegate_controllers(leaf.parent)


def remove(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Remove a cgroup and its children after the last process has exited."""
    deadline = time.monotonic() + TIMEOUT
    for hierarchy in hierarchies:
        while (hierarchy.path / name).exists():
            for folder, _, _ in os.walk(hierarchy.path / name, topdown=False):
                with contextlib.suppress(OSError):  # a process is still exiting
                    os.rmdir(folder)
            assert time.monotonic() < deadline, f"{hierarchy.path / name} still has processes"
            time.sleep(0.02)


def remove_leftovers(hierarchies: Sequence[Hierarchy]) -> None:
    """Remove the cgroups of nodes whose creator was killed. Their names contain the creator's PID."""
    for hierarchy in hierarchies:
        for cgroup in hierarchy.path.glob(f"{PREFIX}*"):
            if not is_alive(cgroup.name.removeprefix(PREFIX)):
                remove(cgroup.name, [hierarchy])


def is_alive(process: str) -> bool:
    """Whether a process with this PID exists."""
    return Path(f"/proc/{process}").exists()


def _delegate_controllers(parent: Path) -> None:
    """Enable the required version 2 controllers for child cgroups."""
    available, enabled = (
        (parent / f"cgroup.{name}").read_text("utf-8").split() for name in ("controllers", "subtree_control")
    )
    for name in CONTROLLERS:
        if name in available and name not in enabled:
            (parent / "cgroup.subtree_control").write_text(f"+{name}", "utf-8")
