"""The root file system of a real node: a small Debian with containerd, runc and network plugins. It is cached."""

import subprocess
from pathlib import Path

from tests.cluster.real_node import packages

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iproute2", "mount")


def build() -> Path:
    """The root folder of a node, built if it is missing. Nodes mount it read-only."""
    return packages.cached("node", __file__, _write)


def _write(tree: Path) -> None:
    tree.mkdir()
    archive = tree.with_suffix(".tar")
    packages.write_tree(PACKAGES, archive)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
