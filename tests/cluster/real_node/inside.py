"""The first process of a real node: it makes what the node sees, starts containerd and the kubelet, and waits.

It is started in namespaces of mounts and processes of its own. When it ends, Linux ends every process of the node and
forgets every mount; all that they wrote was in memory. It ends when its input ends, or one of the two it started.
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
# Sysctl files that a kubelet writes. They are covered with the expected values, so that the machine is not changed.
WANTED = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
SETTINGS = {"passwd": "root:x:0:0:root:/:/bin/false\n", "hosts": "127.0.0.1 localhost\n", "resolv.conf": ""}
IN_MEMORY = ("run", "tmp", "var/lib/containerd", "var/lib/kubelet", VOLUMES.lstrip("/"))
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Orders:
    """The arguments of the first process."""

    folder: str  # with the configuration; logs are written there
    tree: str
    program: str
    images: str
    cgroup: str
    network: Sequence[str]  # for `ip`
    kubelet: Sequence[str]
    volumes: int

    def write(self, file: Path) -> None:
        """Write them down."""
        file.write_text(json.dumps(asdict(self)), "utf-8")


def main() -> None:
    """Do as ordered, until the input or a process ends."""
    orders = Orders(**json.loads(Path(sys.argv[1]).read_text("utf-8")))
    threading.Thread(target=_watch_input, daemon=True).start()
    hierarchies = cgroups.find()
    cgroups.enter(orders.cgroup, hierarchies)
    root = make_root(orders)
    mount_kernel(root, hierarchies)
    for number in range(orders.volumes):
        (root / VOLUMES.lstrip("/") / str(number)).mkdir()
    for words in orders.network:
        _inside(root, "ip", *words.split())
    namespace = root / "run" / "netns" / NAMESPACE
    enter = ["nsenter", f"--net={namespace}", "chroot", str(root)]
    containerd = _start(orders, "containerd", *enter, "containerd", "--config", f"{HERE}/containerd.toml")
    import_images(root, orders.images, containerd)
    kubelet = _start(orders, "kubelet", "chroot", str(root), PROGRAM, "kubelet", *orders.kubelet)
    while (ended := os.wait())[0] not in (containerd.pid, kubelet.pid):  # others are what pods leave behind
        pass
    name = "kubelet" if ended[0] == kubelet.pid else "containerd"
    sys.exit(f"{name} ended with {os.waitstatus_to_exitcode(ended[1])}")


def make_root(orders: Orders) -> Path:
    """The files of the node: those of the tree, and what is written over them in memory."""
    memory = Path(orders.folder) / "memory"
    memory.mkdir()
    _mount("tmpfs", memory)
    root, upper, work = (memory / name for name in ("root", "upper", "work"))
    for made in (root, upper, work):
        made.mkdir()
    _mount("overlay", root, f"lowerdir={orders.tree},upperdir={upper},workdir={work}")
    for name in IN_MEMORY:
        (root / name).mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", root / name)
    own, program = root / HERE.lstrip("/"), root / PROGRAM.lstrip("/")
    own.mkdir()
    program.touch()
    for name, text in SETTINGS.items():
        (root / "etc" / name).write_text(text, "ascii")
    _run("mount", "--bind", orders.folder, str(own))
    _run("mount", "--bind", orders.program, str(program))
    return root


def mount_kernel(root: Path, hierarchies: Sequence[cgroups.Hierarchy]) -> None:
    """Mount /proc and /sys, with the cgroup of the node as root."""
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    _mount("proc", root / "proc")
    _mount("sysfs", root / "sys")
    _run("mount", "--rbind", "/dev", str(root / "dev"))
    above = root / "sys" / "fs" / "cgroup"
    for hierarchy in hierarchies:
        if hierarchy.kind == "cgroup2":
            _mount("cgroup2", above)
            break
        if not any(above.iterdir()):
            _mount("tmpfs", above)
        own = above / ",".join(hierarchy.controllers).removeprefix("name=")
        own.mkdir()
        _mount("cgroup", own, hierarchy.options)
    for name, value in WANTED.items():
        file = root / "run" / name.replace("/", ".")
        file.write_text(f"{value}\n", "ascii")
        _run("mount", "--bind", str(file), str(root / "proc" / "sys" / name))


def import_images(root: Path, archive: str, containerd: subprocess.Popen[bytes]) -> None:
    """Give containerd the images, once it answers."""
    while subprocess.run(["chroot", str(root), "ctr", "version"], capture_output=True, check=False).returncode:
        if containerd.poll() is not None:
            sys.exit(f"containerd ended with {containerd.returncode}")
        time.sleep(PAUSE_SECONDS)
    with Path(archive).open("rb") as images:
        words = ["chroot", str(root), "ctr", "--namespace", "k8s.io", "images", "import", "-"]
        subprocess.run(words, stdin=images, check=True)


def _start(orders: Orders, name: str, *words: str) -> subprocess.Popen[bytes]:
    with (Path(orders.folder) / f"{name}.log").open("ab") as log:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")


def _mount(kind: str, place: Path, options: str = "") -> None:
    _run("mount", "-t", kind, *(("-o", options) if options else ()), kind, str(place))


def _inside(root: Path, *words: str) -> None:
    _run("chroot", str(root), *words)


def _run(*words: str) -> None:
    subprocess.run(words, stdin=subprocess.DEVNULL, check=True)


def _watch_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
