"""A real node: a kubelet with Debian's containerd and runc, which executes real pods of hand-made images.

    with real_nodes.running() as (plane, node):
        with plane.client() as admin:
            admin.create(make_pod("default", "hello", images.PYTHON, ["python3", "-c", "print(1)"]))

The node runs in namespaces of this machine: its files are in memory, its processes end with its first process, and its
network is a veth link. Nothing is installed, and a containerd of this machine is not touched. Pods can connect to
servers on `network.here`, and this machine can connect to the addresses of pods.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.modules import ROOT
from tests.cluster import binaries, images
from tests.cluster.clients import Client, Object
from tests.cluster.control_planes import GUARD, KUBELET, ControlPlane, take_ports
from tests.cluster.nodes import tainted
from tests.cluster.real_node import cgroups, configuring, networks, probing, trees
from tests.cluster.real_node.inside import VOLUMES, Orders

NOT_TESTED = "REAL PODS WERE NOT TESTED"  # why tests are skipped that need one
NAME = "real"
STORAGE_CLASS = "folders"
COUNT_OF_VOLUMES = 4
PATIENCE = 120.0
NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
FILES = ("ca.crt", "kubelet.crt", "kubelet.key")


class RealControlPlane(ControlPlane):
    """A control plane that does not ask who a kubelet is: certificates are for 127.0.0.1, and no real node is there."""

    def _arguments_of_api(self) -> list[str]:
        return [word for word in super()._arguments_of_api() if "--kubelet-certificate-authority" not in word]


class RealNode:
    """One node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.folder = plane, plane.folder / "node"
        self.network = networks.take(os.getpid())
        self._cgroup, self._hierarchies = f"{cgroups.NAME}{os.getpid()}", cgroups.find()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until pods are taken."""
        cgroups.make(self._cgroup, self._hierarchies)
        orders = self._prepare()
        words = [sys.executable, "-ISc", GUARD, shutil.which("unshare") or "", *NAMESPACES]
        program = [sys.executable, "-m", "tests.cluster.real_node.inside", str(orders)]
        with (self.folder / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*words, *program], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT
            )
        with self.plane.client() as admin:
            self._wait(admin)
            for volume in self._make_volumes():
                admin.create(volume)

    def stop(self) -> None:
        """Stop the node and remove everything."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # with which it ends
            self._process.wait(PATIENCE)
        cgroups.remove(self._cgroup, self._hierarchies)

    def logs(self) -> str:
        """The last log lines of its components."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text('utf-8', 'replace')[-3000:]}" for file in files)

    def _prepare(self) -> Path:
        self.folder.mkdir()
        for name in FILES:
            shutil.copy(self.plane.folder / "pki" / name, self.folder)
        self.plane.write_kubeconfig(self.folder / "kubeconfig", self.plane.token_of(KUBELET))
        configuring.write_configuration(self.folder, self.network, *take_ports(1))
        folder = configuring.HERE
        orders = Orders(
            folder=str(self.folder),
            tree=str(trees.build()),
            program=str(binaries.build()),
            images=str(images.build()),
            cgroup=self._cgroup,
            network=self.network.commands(),
            kubelet=[
                f"--config={folder}/kubelet.json",
                f"--kubeconfig={folder}/kubeconfig",
                f"--hostname-override={NAME}",
                f"--node-ip={self.network.here}",
            ],
            volumes=COUNT_OF_VOLUMES,
        )
        orders.write(self.folder / "orders.json")
        return self.folder / "orders.json"

    def _wait(self, admin: Client) -> None:
        assert self._process is not None
        end = time.monotonic() + PATIENCE
        while not is_ready(admin.find(f"/api/v1/nodes/{NAME}")) or tainted(admin, NAME):
            if self._process.poll() is not None:
                raise RuntimeError(f"the node ended:\n{self.logs()}")
            if time.monotonic() > end:
                raise RuntimeError(f"the node is not ready after {PATIENCE} s:\n{self.logs()}")
            time.sleep(0.05)

    def _make_volumes(self) -> Iterator[Object]:
        """Folders of the node as volumes, for claims of the class that is the default."""
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
        }
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [NAME]}
        for number in range(COUNT_OF_VOLUMES):
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"folder-{number}"},
                "spec": {
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                    "storageClassName": STORAGE_CLASS,
                    "local": {"path": f"{VOLUMES}/{number}"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
                },
            }


def is_ready(node: Object | None) -> bool:
    """Whether a node says that it takes pods."""
    conditions = node["status"].get("conditions", ()) if node else ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@contextlib.contextmanager
def running() -> Iterator[tuple[ControlPlane, RealNode]]:
    """Run a control plane with a real node. Raise `Missing` if this machine does not support it."""
    probing.check()
    remove_left()
    probing.check_network(trees.build())
    images.build()
    with contextlib.ExitStack() as ending:
        folder = Path(tempfile.mkdtemp(prefix=f"{cgroups.NAME}{os.getpid()}-"))
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        plane = RealControlPlane(folder)
        ending.callback(plane.stop)
        plane.start()
        node = RealNode(plane)
        ending.callback(node.stop)
        node.start()
        yield plane, node


def remove_left() -> None:
    """Remove what nodes left whose maker was killed: all else went with them."""
    cgroups.remove_left(cgroups.find())
    for folder in Path(tempfile.gettempdir()).glob(f"{cgroups.NAME}*-*"):
        if not cgroups.is_alive(folder.name.partition(cgroups.NAME)[2].partition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """A control plane with a real node, until it is interrupted."""
    with running() as (plane, node):
        print(f"export KUBECONFIG={plane.kubeconfig}\nlogs: {node.folder}\nCtrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
