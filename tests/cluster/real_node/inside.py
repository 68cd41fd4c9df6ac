"""The first process of a real node: it mounts the node's file systems, and starts containerd and the kubelet.

It is started in new mount and PID namespaces. When it exits, Linux kills all of the node's processes and removes all
mounts. All written files are in memory. It exits when its input ends, or when containerd or the kubelet exits.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster.real_node import cgroups
from tests.cluster.real_node.configuring import HERE
from tests.cluster.real_node.networks import NAMESPACE

PROGRAM = "/usr/bin/kubernetes"
VOLUMES = "/var/lib/volumes"
# Sysctls that a kubelet sets. Files with the expected values are mounted over them, so that the machine is unchanged.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
ETC_FILES = {"passwd": "root:x:0:0:root:/:/bin/false\n", "hosts": "127.0.0.1 localhost\n", "resolv.conf": ""}
TMPFS_FOLDERS = ("run", "tmp", "var/lib/containerd", "var/lib/kubelet", VOLUMES.lstrip("/"))
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Arguments:
    """The first process's arguments."""

    folder: str  # contains the configuration; logs are written there
    tree: str
    program: str
    images: str
    cgroup: str
    network: Sequence[str]  # commands for `ip`
    kubelet: Sequence[str]
    volumes: int

    def write(self, file: Path) -> None:
        """Write the arguments to a file."""
        file.write_text(json.dumps(asdict(self)), "utf-8")


def main() -> None:
    """Run the node until the input or a process ends."""
    arguments = Arguments(**json.loads(Path(sys.argv[1]).read_text("utf-8")))
    threading.Thread(target=_watch_input, daemon=True).start()
    hierarchies = cgroups.find()
    cgroups.enter(arguments.cgroup, hierarchies)
    root = make_root(arguments)
    mount_kernel(root, hierarchies)
    for number in range(arguments.volumes):
        (root / VOLUMES.lstrip("/") / str(number)).mkdir()
    for command in arguments.network:
        _run_in_root(root, "ip", *command.split())
    namespace = root / "run" / "netns" / NAMESPACE
    enter_command = ["nsenter", f"--net={namespace}", "chroot", str(root)]
    containerd = _start(arguments, "containerd", *enter_command, "containerd", "--config", f"{HERE}/containerd.toml")
    import_images(root, arguments.images, containerd)
    kubelet = _start(arguments, "kubelet", "chroot", str(root), PROGRAM, "kubelet", *arguments.kubelet)
    while (ended := os.wait())[0] not in (containerd.pid, kubelet.pid):  # also reaps orphaned pod processes
        pass
    name = "kubelet" if ended[0] == kubelet.pid else "containerd"
    sys.exit(f"{name} ended with {os.waitstatus_to_exitcode(ended[1])}")


def make_root(arguments: Arguments) -> Path:
    """Mount the node's root file system: the tree, with an overlay in memory."""
    memory = Path(arguments.folder) / "memory"
    memory.mkdir()
    _mount("tmpfs", memory)
    root, upper, work = (memory / name for name in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir()
    _mount("overlay", root, f"lowerdir={arguments.tree},upperdir={upper},workdir={work}")
    for name in TMPFS_FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", root / name)
    node_folder, program = root / HERE.lstrip("/"), root / PROGRAM.lstrip("/")
    node_folder.mkdir()
    program.touch()
    for name, text in ETC_FILES.items():
        (root / "etc" / name).write_text(text, "ascii")
    _run("mount", "--bind", arguments.folder, str(node_folder))
    _run("mount", "--bind", arguments.program, str(program))
    return root


def mount_kernel(root: Path, hierarchies: Sequence[cgroups.Hierarchy]) -> None:
    """Mount /proc and /sys, with the node's cgroup as root."""
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    _mount("proc", root / "proc")
    _mount("sysfs", root / "sys")
    _run("mount", "--rbind", "/dev", str(root / "dev"))
    cgroup_root = root / "sys" / "fs" / "cgroup"
    for hierarchy in hierarchies:
        if hierarchy.kind == "cgroup2":
            _mount("cgroup2", cgroup_root)
            break
        if not any(cgroup_root.iterdir()):
            _mount("tmpfs", cgroup_root)
        mount_point = cgroup_root / ",".join(hierarchy.controllers).removeprefix("name=")
        mount_point.mkdir()
        _mount("cgroup", mount_point, hierarchy.options)
    for name, value in SYSCTLS.items():
        file = root / "run" / name.replace("/", ".")
        file.write_text(f"{value}\n", "ascii")
        _run("mount", "--bind", str(file), str(root / "proc" / "sys" / name))


def import_images(root: Path, archive: str, containerd: subprocess.Popen[bytes]) -> None:
    """Import the images as soon as containerd is ready."""
    while subprocess.run(["chroot", str(root), "ctr", "version"], capture_output=True, check=False).returncode:
        if containerd.poll() is not None:
            sys.exit(f"containerd ended with {containerd.returncode}")
        time.sleep(PAUSE_SECONDS)
    with Path(archive).open("rb") as images:
        command = ["chroot", str(root), "ctr", "--namespace", "k8s.io", "images", "import", "-"]
        subprocess.run(command, stdin=images, check=True)


def _start(arguments: Arguments, name: str, *command: str) -> subprocess.Popen[bytes]:
    with (Path(arguments.folder) / f"{name}.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")


def _mount(kind: str, target: Path, options: str = "") -> None:
    _run("mount", "-t", kind, *(("-o", options) if options else ()), kind, str(target))


def _run_in_root(root: Path, *command: str) -> None:
    _run("chroot", str(root), *command)


def _run(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True)


def _watch_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
