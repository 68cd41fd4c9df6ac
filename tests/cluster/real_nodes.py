"""A real node: a kubelet with Debian's containerd and runc, which executes real pods with locally built images.

    with real_nodes.running() as (plane, node):
        with plane.client() as admin:
            admin.create(make_pod("default", "hello", images.PYTHON, ["python3", "-c", "print(1)"]))

The node runs in namespaces on this machine: its files are in memory, its processes end with its first process, and its
network is a veth link. Nothing is installed, and a containerd on this machine is left alone. Pods can connect to
servers on `network.host_address`, and this machine can connect to the addresses of pods.
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
from tests.cluster.nodes import has_kubernetes_taints
from tests.cluster.real_node import cgroups, configuring, networks, probing, trees
from tests.cluster.real_node.inside import VOLUMES, Arguments

NOT_TESTED = "REAL PODS WERE NOT TESTED"  # the beginning of the skip reason for tests that need a real node
NAME = "real"
STORAGE_CLASS = "folders"
VOLUME_COUNT = 4
TIMEOUT = 120.0
NAMESPACES = ["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
FILES = ("ca.crt", "kubelet.crt", "kubelet.key")


class RealControlPlane(ControlPlane):
    """A control plane that does not verify kubelets, because their certificates are only valid for 127.0.0.1."""

    def _api_arguments(self) -> list[str]:
        return [argument for argument in super()._api_arguments() if "--kubelet-certificate-authority" not in argument]


class RealNode:
    """One real node."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.folder = plane, plane.folder / "node"
        self.network = networks.choose_network(os.getpid())
        self._cgroup, self._hierarchies = f"{cgroups.PREFIX}{os.getpid()}", cgroups.find()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the node, and wait until it accepts pods."""
        cgroups.create(self._cgroup, self._hierarchies)
        arguments_file = self._prepare()
        command = [sys.executable, "-ISc", GUARD, shutil.which("unshare") or "", *NAMESPACES]
        program = [sys.executable, "-m", "tests.cluster.real_node.inside", str(arguments_file)]
        with (self.folder / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *program], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT
            )
        with self.plane.client() as admin:
            self._wait(admin)
            for volume in self._make_volumes():
                admin.create(volume)

    def stop(self) -> None:
        """Stop the node and remove everything."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # the first process ends with its input
            self._process.wait(TIMEOUT)
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
        arguments = Arguments(
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
                f"--node-ip={self.network.host_address}",
            ],
            volumes=VOLUME_COUNT,
        )
        arguments.write(self.folder / "arguments.json")
        return self.folder / "arguments.json"

    def _wait(self, admin: Client) -> None:
        assert self._process is not None
        deadline = time.monotonic() + TIMEOUT
        while not is_ready(admin.find(f"/api/v1/nodes/{NAME}")) or has_kubernetes_taints(admin, NAME):
            if self._process.poll() is not None:
                raise RuntimeError(f"the node ended:\n{self.logs()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the node is not ready after {TIMEOUT} s:\n{self.logs()}")
            time.sleep(0.05)

    def _make_volumes(self) -> Iterator[Object]:
        """A default storage class, and local volumes for its claims."""
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
        for number in range(VOLUME_COUNT):
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
    """Whether a node is ready."""
    conditions = node["status"].get("conditions", ()) if node else ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@contextlib.contextmanager
def running() -> Iterator[tuple[ControlPlane, RealNode]]:
    """Run a control plane with a real node. Raise `Missing` if this machine does not support it."""
    probing.check()
    remove_leftovers()
    probing.check_network(trees.build())
    images.build()
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{cgroups.PREFIX}{os.getpid()}-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        plane = RealControlPlane(folder)
        stack.callback(plane.stop)
        plane.start()
        node = RealNode(plane)
        stack.callback(node.stop)
        node.start()
        yield plane, node


def remove_leftovers() -> None:
    """Remove cgroups and folders of nodes whose creator was killed. Everything else was removed by Linux."""
    cgroups.remove_leftovers(cgroups.find())
    for folder in Path(tempfile.gettempdir()).glob(f"{cgroups.PREFIX}*-*"):
        if not cgroups.is_alive(folder.name.partition(cgroups.PREFIX)[2].partition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run a control plane with a real node until it is interrupted."""
    with running() as (plane, node):
        print(f"export KUBECONFIG={plane.kubeconfig}\nlogs: {node.folder}\nCtrl-C ends it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
