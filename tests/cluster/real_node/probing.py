"""Checks whether a real node can run on this machine, by trying everything that a node needs."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.real_node import cgroups
from tests.cluster.real_node.packages import Missing

PROGRAMS = ("apt-get", "dpkg-deb", "tar", "unshare", "nsenter", "mount", "chroot")
NAMESPACES = ("--mount", "--pid", "--net", "--cgroup", "--fork", "--propagation", "private")
MOUNTS = """
mount -t tmpfs tmpfs "$0" && cd "$0" && mkdir lower upper work root proc sys
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay root
mount -t proc proc proc && mount -t sysfs sysfs sys
"""
LINKS = ("type veth peer name fairlead1", "type bridge")
KERNEL_LOG = Path("/dev/kmsg")  # the kernel log, from which the kubelet reads OOM kills


def check() -> None:
    """Raise `Missing` with the reason if a node cannot run on this machine."""
    if os.geteuid() != 0:
        raise Missing(f"only root can start a node, and this is user {os.geteuid()}")
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise Missing(f"this is not Debian: {' and '.join(missing)} not found")
    with tempfile.TemporaryDirectory() as folder:
        _try("cannot create namespaces or mounts", "unshare", *NAMESPACES, "sh", "-ec", MOUNTS, folder)
    _try_cgroups()
    try:
        KERNEL_LOG.open("rb").close()
    except OSError as error:
        raise Missing(f"cannot read the kernel log: {error}") from error


def check_network(tree: Path) -> None:
    """Raise `Missing` if the kernel lacks veth links. Uses the node's `ip` program."""
    for kind in LINKS:
        command = f"ip link add fairlead0 {kind}".split()
        _try("cannot create network links for pods", "unshare", "--net", "chroot", str(tree), *command)


def _try_cgroups() -> None:
    name, hierarchies = f"{cgroups.PREFIX}{os.getpid()}", cgroups.find()
    if not hierarchies:
        raise Missing("no cgroup hierarchy can limit memory")
    try:
        cgroups.create(name, hierarchies)
    except OSError as error:
        raise Missing(f"cannot create cgroups: {error}") from error
    finally:
        cgroups.remove(name, hierarchies)


def _try(problem: str, *command: str) -> None:
    result: subprocess.CompletedProcess[str] = _run(command)
    if result.returncode:
        raise Missing(
            f"{problem}: {' '.join(result.stderr.split())[-300:] or f'{command[0]} ended with {result.returncode}'}"
        )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
