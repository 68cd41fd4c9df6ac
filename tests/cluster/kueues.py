"""A real Kueue beside a control plane of tests: it holds Jobs that name a queue, and lets them go by quota.

with running(plane) as kueue:
    kueue.add_queue("shared", gpus=8)
    kueue.open_queue("forest", "default", leads_to="shared")

It works with its own webhooks, on this machine only. Its visibility API is off: that would listen everywhere.
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
from tests.cluster.control_planes import GUARD, POLITE_SECONDS, ControlPlane, take_ports

GROUP = "kueue.x-k8s.io"
VERSION = f"{GROUP}/v1beta2"
PATH = f"/apis/{VERSION}"
QUEUES, FLAVORS = f"{PATH}/clusterqueues", f"{PATH}/resourceflavors"
FLAVOR = "default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKED = (GROUP, "batch")  # the groups whose objects it looks at here
# Large quotas, so that runs do not wait for these resources.
PLENTY = {"cpu": "1000", "memory": "10Ti", "ephemeral-storage": "10Ti"}
GPU = "nvidia.com/gpu"
# It reads the certificates of its measures below /etc, and nowhere else: it gets an /etc of its own.
WITH_OWN_ETC = 'mount --bind "$1" /etc && shift && exec "$@"'


class Kueue:
    """One Kueue, and what an administrator does with it."""

    def __init__(self, plane: ControlPlane, admin: Client) -> None:
        self.plane, self.admin, self.folder = plane, admin, plane.folder / "kueue"
        self._program = binaries.build(program=binaries.KUEUE)
        self._source = binaries.source_of(binaries.KUEUE)
        self._hook, self._health = take_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    # Starting and stopping

    def install(self) -> None:
        """Let the cluster know what a queue is, and write down how Kueue is to work."""
        files = sorted((self._source / "config/components/crd/bases").glob("*.yaml"))
        kinds = {file.stem.removeprefix(f"{GROUP}_"): file for file in files}
        for plural, file in kinds.items():
            self._apply(f"{DEFINITIONS}/{plural}.{GROUP}", file.read_bytes())
        until(lambda: kinds.keys() <= self._known())
        self.plane.restart_others()  # or it takes half a minute until what belongs to a Job goes with it
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        for folder in ("etc/kueue/metrics/certs", "hooks"):
            (self.folder / folder).mkdir(parents=True)
            for kind in ("crt", "key"):
                shutil.copy(self.plane.folder / "pki" / f"apiserver.{kind}", self.folder / folder / f"tls.{kind}")
        (self.folder / "config.json").write_text(json.dumps(self._configure()), "utf-8")

    def start(self) -> None:
        """Start it, also again, and wait until it looks at what is created."""
        alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        etc = ["sh", "-c", WITH_OWN_ETC, "sh", str(self.folder / "etc")]
        own = [str(self._program), f"--config={self.folder / 'config.json'}", "--zap-log-level=2"]
        guarded = [sys.executable, "-ISc", GUARD, str(shutil.which(alone[0])), *alone[1:], *etc, *own]
        settings = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig)}
        with (self.folder / "kueue.log").open("ab") as log:
            self._process = subprocess.Popen(
                guarded, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=settings
            )
        until(self._is_ready)
        self._hook_in()

    def stop(self) -> None:
        """Stop Kueue and its webhooks, so that other tests are not blocked. Admitted workloads stay admitted."""
        self._unhook()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(POLITE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def log(self) -> str:
        """The output of Kueue."""
        return (self.folder / "kueue.log").read_text("utf-8", "replace")

    # Administration

    def add_queue(self, name: str, gpus: int, **spec: Any) -> None:
        """A ClusterQueue with a quota of GPUs, and plenty of everything else; ready when this returns."""
        flavor = {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
        if self.admin.find(f"{FLAVORS}/{FLAVOR}") is None:
            self.admin.post(FLAVORS, flavor)
        quotas = [{"name": kind, "nominalQuota": most} for kind, most in {**PLENTY, GPU: str(gpus)}.items()]
        group = {"coveredResources": [*PLENTY, GPU], "flavors": [{"name": FLAVOR, "resources": quotas}]}
        queue_spec = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        body = {"apiVersion": VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": queue_spec}
        self.admin.post(QUEUES, body)
        until(lambda: is_active(self.admin.get(f"{QUEUES}/{name}")))

    def change_queue(self, name: str, **spec: Any) -> None:
        """Say something else of a ClusterQueue."""
        self.admin.patch(f"{QUEUES}/{name}", {"spec": spec})

    def open_queue(self, namespace: str, name: str, *, leads_to: str) -> None:
        """A LocalQueue in a namespace."""
        meta = {"name": name, "namespace": namespace}
        body = {"apiVersion": VERSION, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": leads_to}}
        self.admin.create(body)

    def workloads(self, namespace: str) -> list[Object]:
        """The Workloads of a namespace."""
        return self.admin.items(f"{PATH}/namespaces/{namespace}/workloads")

    # Parts

    def _configure(self) -> Object:
        return {
            "apiVersion": f"config.{GROUP}/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._hook, "certDir": str(self.folder / "hooks")},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "clientConnection": {"qps": 500, "burst": 1000},
            "integrations": {"frameworks": ["batch/job"]},
            "featureGates": {"VisibilityOnDemand": False},
        }

    def _known(self) -> set[str]:
        """The kinds of its objects that the cluster knows of by now."""
        listed = self.admin.find(PATH) or {"resources": []}
        return {kind["name"] for kind in listed["resources"]}

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"Kueue ended with {self._process.returncode}:\n{self.log()[-3000:]}"
        with contextlib.suppress(httpx2.TransportError):
            return httpx2.get(f"http://127.0.0.1:{self._health}/readyz", trust_env=False).is_success
        return False

    def _hook_in(self) -> None:
        for body in self._hooks():
            self._apply(_path_of_hooks(body), json.dumps(body).encode())

    def _unhook(self) -> None:
        for body in self._hooks():
            self.admin.delete(_path_of_hooks(body))

    def _hooks(self) -> list[Object]:
        """The webhook configurations of the source, with the actual address."""
        trust = base64.b64encode(self.plane.authority.read_bytes()).decode()
        manifests = yaml.safe_load_all((self._source / "config/components/webhook/manifests.yaml").read_text("utf-8"))
        return [
            {**body, "webhooks": [self._lead(hook, trust) for hook in body["webhooks"] if _is_ours(hook)]}
            for body in manifests
        ]

    def _lead(self, hook: Object, trust: str) -> Object:
        url = f"https://127.0.0.1:{self._hook}{hook['clientConfig']['service']['path']}"
        return {**hook, "clientConfig": {"url": url, "caBundle": trust}}

    def _apply(self, path: str, content: bytes) -> None:
        headers = {"Content-Type": f"application/{APPLY}"}
        params = {"fieldManager": "tests", "force": "true"}
        answer = self.admin.http.patch(path, params=params, headers=headers, content=content)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text[:1000]}"


@contextlib.contextmanager
def running(plane: ControlPlane, admin: Client) -> Iterator[Kueue]:
    """Kueue on a control plane, until the end of the block."""
    kueue = Kueue(plane, admin)
    kueue.install()
    try:
        kueue.start()
        yield kueue
    finally:
        kueue.stop()


def is_active(queue: Object) -> bool:
    """Whether a queue lets Jobs go."""
    conditions = queue.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Active" and condition["status"] == "True" for condition in conditions)


def _is_ours(hook: Object) -> bool:
    return all(group in HOOKED for rule in hook["rules"] for group in rule["apiGroups"])


def _path_of_hooks(body: Object) -> str:
    return f"/apis/{body['apiVersion']}/{body['kind'].lower()}s/{body['metadata']['name']}"
