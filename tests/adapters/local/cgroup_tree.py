"""A recorded cgroup v2 tree in a folder, with the rules of the kernel that matter to the server."""

import errno
import os
from pathlib import Path

import pytest

from fairlead.adapters.local import cgroups

# The files of a new group on Linux 6.8, by controller.
CORE = {
    "cgroup.controllers": "",
    "cgroup.subtree_control": "",
    "cgroup.procs": "",
    "cgroup.kill": "",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n",
}
FILES = {
    "memory": {
        "memory.current": "0\n",
        "memory.peak": "0\n",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "memory.oom.group": "0\n",
        "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n",
        "memory.stat": "anon 0\nfile 0\nkernel 0\nactive_file 0\ninactive_file 0\n",
    },
    "cpu": {"cpu.max": "max 100000\n", "cpu.weight": "100\n"},
    "pids": {"pids.max": "max\n", "pids.current": "0\n"},
    "cpuset": {"cpuset.cpus": "\n", "cpuset.mems": "\n", "cpuset.cpus.effective": "0-3\n"},
}
ALL = "cpuset cpu io memory hugetlb pids rdma misc"


class CgroupTree:
    """A cgroup v2 file system, mounted at `root`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.refused = root, ""  # a folder in which the server may not write
        self._mkdir, self._rmdir, self._write = os.mkdir, os.rmdir, cgroups._write
        root.mkdir()
        for name, text in CORE.items():
            (root / name).write_text(text)
        (root / "cgroup.controllers").write_text(ALL)
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        monkeypatch.setattr(cgroups, "_write", self.write)

    def add(self, path: str, subtree_control: str = "", procs: str = "") -> Path:
        """Add a group, for which the groups above it must enable the controllers."""
        folder = self.root / path
        os.mkdir(folder)
        (folder / "cgroup.subtree_control").write_text(subtree_control)
        (folder / "cgroup.procs").write_text(procs)
        return folder

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Create a group with the files of the controllers that its parent has enabled."""
        self._refuse(path)
        self._mkdir(path, mode)
        if self.root in Path(path).parents:
            for name, text in CORE.items():
                Path(path, name).write_text(text)
            self._update(Path(path))

    def rmdir(self, path: str) -> None:
        """Remove a group, unless it has processes."""
        if self.root in Path(path).parents:
            for file in Path(path).iterdir():
                file.unlink()
        self._rmdir(path)

    def write(self, file: str, value: str) -> None:
        """Write to a file of a group."""
        self._refuse(file)
        path = Path(file)
        folder = path.parent
        if path.name == "cgroup.subtree_control":
            if (folder / "cgroup.procs").read_text().strip() and folder != self.root:
                raise OSError(errno.EBUSY, "Device or resource busy")
            path.write_text(f"{path.read_text()} {value.removeprefix('+')}".strip())
            for child in folder.iterdir():
                if child.is_dir():
                    self._update(child)
        elif path.name == "cgroup.procs":
            if (folder / "cgroup.subtree_control").read_text().strip() and folder != self.root:
                raise OSError(errno.EBUSY, "Device or resource busy")
            for other in self.root.rglob("cgroup.procs"):
                other.write_text("".join(f"{pid}\n" for pid in other.read_text().split() if pid != value))
            path.write_text(f"{path.read_text()}{value}\n")
        elif not path.exists():
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self._write(file, value)

    def _update(self, folder: Path) -> None:
        enabled = (folder.parent / "cgroup.subtree_control").read_text().split()
        (folder / "cgroup.controllers").write_text(" ".join(enabled))
        for controller in enabled:
            for name, text in FILES.get(controller, {}).items():
                if not (folder / name).exists():
                    (folder / name).write_text(text)

    def _refuse(self, path: str) -> None:
        if self.refused and Path(path).parent == self.root / self.refused:
            raise PermissionError(errno.EACCES, "Permission denied")
