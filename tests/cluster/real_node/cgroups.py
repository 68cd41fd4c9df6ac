"""The cgroups of a real node: one in each hierarchy, in which all that runs there stays."""

import contextlib
import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "fairlead-node-"
CPUSETS = ("cpuset.cpus", "cpuset.mems")
NEW_NAMESPACE = 0x02000000  # CLONE_NEWCGROUP
LEAF = "node"
NEEDED = ("memory", "pids", "cpu", "cpuset", "io")
PATIENCE = 30.0


@dataclass(frozen=True)
class Hierarchy:
    """One tree of cgroups."""

    kind: str  # cgroup, or cgroup2
    controllers: tuple[str, ...]
    place: Path

    @property
    def options(self) -> str:
        """The mount options for another mount of this hierarchy."""
        named = [name for name in self.controllers if name.startswith("name=")]
        return ",".join(["none", *named] if named else self.controllers)


def find() -> list[Hierarchy]:
    """The cgroup hierarchies that can limit memory: all of version 1, or the one of version 2."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    ours = [line.split(":")[1] for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    first = [
        Hierarchy("cgroup", names, Path(mount[1]))
        for names in (tuple(controllers.split(",")) for controllers in ours if controllers)
        for mount in mounts
        if mount[2] == "cgroup" and set(names) <= set(mount[3].split(","))
    ]
    second = [
        Hierarchy("cgroup2", tuple((Path(mount[1]) / "cgroup.controllers").read_text("utf-8").split()), Path(mount[1]))
        for mount in mounts
        if mount[2] == "cgroup2"
    ]
    cgroups = (first, second[:1])
    return next((version for version in cgroups if any("memory" in each.controllers for each in version)), [])


def make(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Create a cgroup in every hierarchy. Raises OSError without permission."""
    for hierarchy in hierarchies:
        own = hierarchy.place / name
        own.mkdir(exist_ok=True)
        if hierarchy.kind == "cgroup2":
            _hand_down(hierarchy.place)
        elif "cpuset" in hierarchy.controllers:  # processes can join only if these are set
            for setting in CPUSETS:
                (own / setting).write_text((hierarchy.place / setting).read_text("utf-8"), "utf-8")


def enter(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Let this process live in that cgroup, and see nothing above it."""
    for hierarchy in hierarchies:
        (hierarchy.place / name / "cgroup.procs").write_text("0", "utf-8")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_NAMESPACE):
        raise OSError(ctypes.get_errno(), "no namespace of cgroups")
    for hierarchy in hierarchies:
        if hierarchy.kind == "cgroup2":  # a cgroup with processes cannot enable controllers for its children
            leaf = hierarchy.place / name / LEAF
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text("0", "utf-8")
            _hand_down(leaf.parent)


def remove(name: str, hierarchies: Sequence[Hierarchy]) -> None:
    """Remove it with all below it, once the last process has gone."""
    end = time.monotonic() + PATIENCE
    for hierarchy in hierarchies:
        while (hierarchy.place / name).exists():
            for folder, _, _ in os.walk(hierarchy.place / name, topdown=False):
                with contextlib.suppress(OSError):  # a process is still exiting
                    os.rmdir(folder)
            assert time.monotonic() < end, f"{hierarchy.place / name} still has processes"
            time.sleep(0.02)


def remove_left(hierarchies: Sequence[Hierarchy]) -> None:
    """Remove those of nodes whose maker was killed: its process is in their names."""
    for hierarchy in hierarchies:
        for own in hierarchy.place.glob(f"{NAME}*"):
            if not is_alive(own.name.removeprefix(NAME)):
                remove(own.name, [hierarchy])


def is_alive(process: str) -> bool:
    """Whether there is a process of this number."""
    return Path(f"/proc/{process}").exists()


def _hand_down(parent: Path) -> None:
    """Let those below have controllers of version 2, as far as they have them not."""
    available, given = (
        (parent / f"cgroup.{name}").read_text("utf-8").split() for name in ("controllers", "subtree_control")
    )
    for name in NEEDED:
        if name in available and name not in given:
            (parent / "cgroup.subtree_control").write_text(f"+{name}", "utf-8")
