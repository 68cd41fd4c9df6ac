"""Whether this machine can have a real node: what that needs is tried, and undone."""

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
    without = [name for name in PROGRAMS if shutil.which(name) is None]
    if without:
        raise Missing(f"this is not Debian: {' and '.join(without)} not found")
    with tempfile.TemporaryDirectory() as folder:
        _try("no namespaces or mounts of its own", "unshare", *NAMESPACES, "sh", "-ec", MOUNTS, folder)
    _try_cgroups()
    try:
        KERNEL_LOG.open("rb").close()
    except OSError as error:
        raise Missing(f"the log of the kernel cannot be read: {error}") from error


def check_network(tree: Path) -> None:
    """Raise `Missing` if the kernel lacks veth links. Uses the `ip` program of the node."""
    for kind in LINKS:
        words = f"ip link add fairlead0 {kind}".split()
        _try("no links for pods", "unshare", "--net", "chroot", str(tree), *words)


def _try_cgroups() -> None:
    name, hierarchies = f"{cgroups.NAME}{os.getpid()}", cgroups.find()
    if not hierarchies:
        raise Missing("no cgroup hierarchy can limit memory")
    try:
        cgroups.make(name, hierarchies)
    except OSError as error:
        raise Missing(f"cgroups cannot be made here: {error}") from error
    finally:
        cgroups.remove(name, hierarchies)


def _try(lack: str, *words: str) -> None:
    ended: subprocess.CompletedProcess[str] = _run(words)
    if ended.returncode:
        raise Missing(f"{lack}: {' '.join(ended.stderr.split())[-300:] or f'{words[0]} ended with {ended.returncode}'}")


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
