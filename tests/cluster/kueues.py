"""A real Kueue for the test control plane: it suspends the Jobs in a queue, and admits them within the quota.

    with running(plane, admin) as kueue:
        kueue.add_cluster_queue("shared", gpus=8)
        kueue.add_local_queue("forest", "default", cluster_queue="shared")

It uses its own webhooks and listens only on the loopback address. Its visibility API is disabled, because it would
listen on all interfaces.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import yaml

from tests.cluster import binaries
from tests.cluster.clients import APPLY, Client, Object, until
from tests.cluster.control_planes import GUARD, SHUTDOWN_SECONDS, ControlPlane, take_ports

GROUP = "kueue.x-k8s.io"
VERSION = f"{GROUP}/v1beta2"
PATH = f"/apis/{VERSION}"
QUEUES, FLAVORS = f"{PATH}/clusterqueues", f"{PATH}/resourceflavors"
FLAVOR = "default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOK_GROUPS = (GROUP, "batch")  # the API groups with webhooks in tests
# Large quotas, so that runs do not wait for these resources.
LARGE_QUOTAS = {"cpu": "1000", "memory": "10Ti", "ephemeral-storage": "10Ti"}
GPU = "nvidia.com/gpu"
# Kueue reads its metrics certificates only from /etc, so a different folder is mounted there.
MOUNT_ETC = 'mount --bind "$1" /etc && shift && exec "$@"'


class Kueue:
    """A Kueue process, with administrator operations."""

    def __init__(self, plane: ControlPlane, admin: Client) -> None:
        self.plane, self.admin, self.folder = plane, admin, plane.folder / "kueue"
        self._program = binaries.build(program=binaries.KUEUE)
        self._source = binaries.source_of(binaries.KUEUE)
        self._webhook_port, self._health_port = take_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    # Starting and stopping

    def install(self) -> None:
        """Create the custom resource definitions, and write Kueue's configuration."""
        files = sorted((self._source / "config/components/crd/bases").glob("*.yaml"))
        definitions = {file.stem.removeprefix(f"{GROUP}_"): file for file in files}
        for plural, file in definitions.items():
            self._apply(f"{DEFINITIONS}/{plural}.{GROUP}", file.read_bytes())
        until(lambda: definitions.keys() <= self._list_resources())
        self.plane.restart_components()  # otherwise the garbage collector takes half a minute to learn the new kinds
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        for folder in ("etc/kueue/metrics/certs", "hooks"):
            (self.folder / folder).mkdir(parents=True)
            for kind in ("crt", "key"):
                shutil.copy(self.plane.folder / "pki" / f"apiserver.{kind}", self.folder / folder / f"tls.{kind}")
        (self.folder / "config.json").write_text(json.dumps(self._configure()), "utf-8")

    def start(self) -> None:
        """Start Kueue, including after `stop`, and register its webhooks."""
        unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        with_etc = ["sh", "-c", MOUNT_ETC, "sh", str(self.folder / "etc")]
        program = [str(self._program), f"--config={self.folder / 'config.json'}", "--zap-log-level=2"]
        command = [sys.executable, "-ISc", GUARD, str(shutil.which(unshare[0])), *unshare[1:], *with_etc, *program]
        env = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        with (self.folder / "kueue.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=env
            )
        until(self._is_ready)
        self._register_webhooks()

    def stop(self) -> None:
        """Stop Kueue and its webhooks, so that other tests are not blocked. Admitted workloads stay admitted."""
        self._delete_webhooks()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(SHUTDOWN_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def log(self) -> str:
        """The output of Kueue."""
        return (self.folder / "kueue.log").read_text("utf-8", "replace")

    # Administration

    def add_cluster_queue(self, name: str, gpus: int, **spec: Any) -> None:
        """Create a ClusterQueue with a GPU quota and large quotas for everything else, and wait until it is active."""
        flavor = {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
        if self.admin.find(f"{FLAVORS}/{FLAVOR}") is None:
            self.admin.post(FLAVORS, flavor)
        quotas = [{"name": kind, "nominalQuota": quota} for kind, quota in {**LARGE_QUOTAS, GPU: str(gpus)}.items()]
        group = {"coveredResources": [*LARGE_QUOTAS, GPU], "flavors": [{"name": FLAVOR, "resources": quotas}]}
        queue_spec = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        body = {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": queue_spec}
        self.admin.post(QUEUES, body)
        until(lambda: is_active(self.admin.get(f"{QUEUES}/{name}")))

    def change_queue(self, name: str, **spec: Any) -> None:
        """Change fields in a ClusterQueue."""
        self.admin.patch(f"{QUEUES}/{name}", {"spec": spec})

    def add_local_queue(self, namespace: str, name: str, *, cluster_queue: str) -> None:
        """Create a LocalQueue in a namespace."""
        meta = {"name": name, "namespace": namespace}
        body = {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": cluster_queue}}
        self.admin.create(body)

    def workloads(self, namespace: str) -> list[Object]:
        """The Workloads in a namespace."""
        return self.admin.items(f"{PATH}/namespaces/{namespace}/workloads")

    # Parts

    def _configure(self) -> Object:
        return {
            "apiVersion": f"config.{GROUP}/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._webhook_port, "certDir": str(self.folder / "hooks")},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 500, "burst": 1000},
            "integrations": {"frameworks": ["batch/job"]},
            "featureGates": {"VisibilityOnDemand": False},
        }

    def _list_resources(self) -> set[str]:
        """The Kueue resources that the API server serves."""
        resources = self.admin.find(PATH) or {"resources": []}
        return {kind["name"] for kind in resources["resources"]}

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Kueue ended with {self._process.returncode}:\n{self.log()[-3000:]}"
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"http://127.0.0.1:{self._health_port}/readyz", trust_env=False).is_success
        return False

    def _register_webhooks(self) -> None:
        for body in self._list_webhooks():
            self._apply(_webhooks_path(body), json.dumps(body).encode())

    def _delete_webhooks(self) -> None:
        for body in self._list_webhooks():
            self.admin.delete(_webhooks_path(body))

    def _list_webhooks(self) -> list[Object]:
        """The webhook configurations from the source, with the actual address."""
        ca_bundle = base64.b64encode(self.plane.authority.read_bytes()).decode()
        manifests = yaml.safe_load_all((self._source / "config/components/webhook/manifests.yaml").read_text("utf-8"))
        return [
            {**body, "webhooks": [self._set_url(hook, ca_bundle) for hook in body["webhooks"] if _is_used(hook)]}
            for body in manifests
        ]

    def _set_url(self, hook: Object, ca_bundle: str) -> Object:
        url = f"https://127.0.0.1:{self._webhook_port}{hook['clientConfig']['service']['path']}"
        return {**hook, "clientConfig": {"url": url, "caBundle": ca_bundle}}

    def _apply(self, path: str, content: bytes) -> None:
        headers = {"Content-Type": f"application/{APPLY}"}
        params = {"fieldManager": "tests", "force": "true"}
        response = self.admin.http.patch(path, params=params, headers=headers, content=content)
        assert response.is_success, f"{path}: {response.status_code} {response.text[:1000]}"


@contextlib.contextmanager
def running(plane: ControlPlane, admin: Client) -> Iterator[Kueue]:
    """Run Kueue on a control plane during the block."""
    kueue = Kueue(plane, admin)
    kueue.install()
    try:
        kueue.start()
        yield kueue
    finally:
        kueue.stop()


def is_active(queue: Object) -> bool:
    """Whether a ClusterQueue is active."""
    conditions = queue.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)


def _is_used(hook: Object) -> bool:
    return all(group in WEBHOOK_GROUPS for rule in hook["rules"] for group in rule["apiGroups"])


def _webhooks_path(body: Object) -> str:
    return f"/apis/{body['apiVersion']}/{body['kind'].lower()}s/{body['metadata']['name']}"
