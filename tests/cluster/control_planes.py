"""A real Kubernetes control plane for tests: etcd, API server, controller manager and scheduler, as processes.

    with running() as plane:
        with plane.client() as admin:
            admin.get("/version")

It has its own folder, listens on the loopback address, and is stopped by process id. Linux kills it if the thread that
started it dies, so start it from a thread that lives long enough.
"""

import base64
import contextlib
import json
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx2

from tests.cluster import binaries
from tests.cluster.certificates import write_certificates
from tests.cluster.clients import PATIENCE, Client, Object, Refused, path_of

ADMIN, KUBELET, MANAGER, SCHEDULER = "admin", "fake-kubelet", "system:kube-controller-manager", "system:kube-scheduler"
ISSUER = "https://kubernetes.default.svc"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
# Seconds until pods are evicted from a node that is not ready; the default of Kubernetes is five minutes.
LEAVING_SECONDS = 3
POLITE_SECONDS = 5  # an API server that is asked to end waits a minute for those who watch
# Ports below those that Linux gives to clients: an API server that stopped finds its own still free.
PORTS = range(20000, 32000)
# Kills a program when its parent dies for any reason.
GUARD = "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"


class ControlPlane:
    """One control plane. `stop_api` and `start_api` make an outage: etcd keeps what it has, the address stays."""

    def __init__(self, folder: Path, *, audit: bool = False, measured: bool = False) -> None:
        self.folder, self._audit = folder, audit
        self._commands = binaries.find()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peer, port, measures = take_ports(4)
        self._measures = measures if measured else 0  # where the scheduler tells how long things take it
        self.url = f"https://127.0.0.1:{port}"
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, KUBELET, MANAGER, SCHEDULER)}

    # Components

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signed the server's."""
        return self.folder / "pki" / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for an administrator."""
        return self.folder / "admin.kubeconfig"

    @property
    def token(self) -> str:
        """The token of an administrator."""
        return self._tokens[ADMIN]

    def token_of(self, user: str) -> str:
        """The token of one of the users that are there from the beginning."""
        return self._tokens[user]

    def client(self, token: str | None = None) -> Client:
        """A client of the API server, with administrator permissions unless a token is given."""
        return Client(self.url, self.authority, token or self.token)

    # Starting and stopping

    def start(self) -> None:
        """Start everything, and wait until a pod would be taken."""
        self._prepare()
        self._run("etcd", *self._arguments_of_etcd())
        self.start_api()
        self._run("kube-controller-manager", *self._arguments_of_manager())
        self._run("kube-scheduler", *self._arguments_of_scheduler())
        with self.client() as admin:
            self._wait(lambda: admin.find("/api/v1/namespaces/default/serviceaccounts/default"))

    def stop(self) -> None:
        """End everything, the last started first."""
        for name in reversed(list(self._processes)):
            self._end(name, signal.SIGKILL)

    def start_api(self) -> None:
        """Start the API server, also again, and wait until it is ready."""
        self._run("kube-apiserver", *self._arguments_of_api())
        with self.client() as admin:
            self._wait(lambda: admin.text("/readyz"))

    def restart_others(self) -> None:
        """Start again what asks the API server: after an outage it would wait for half a minute before it does."""
        for part, arguments in (
            ("kube-controller-manager", self._arguments_of_manager()),
            ("kube-scheduler", self._arguments_of_scheduler()),
        ):
            self._end(part, signal.SIGKILL)
            self._run(part, *arguments)

    def stop_manager(self) -> None:
        """End the controllers: objects stay as they are created."""
        self._end("kube-controller-manager", signal.SIGKILL)

    def stop_api(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the API server alone."""
        self._end("kube-apiserver", number)

    def log_of(self, part: str) -> str:
        """The output of a component."""
        return (self.folder / f"{part}.log").read_text("utf-8", "replace")

    # Authentication

    def write_kubeconfig(self, file: Path, token: str) -> Path:
        """A kubeconfig with a token."""
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        context = {"cluster": "test", "user": "test"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        file.touch(0o600)
        file.write_text(json.dumps(config, indent=2), "utf-8")
        return file

    def make_account(self, namespace: str, name: str, rules: Sequence[Object] = ()) -> str:
        """The token of a service account, for which the given objects (roles and their bindings) are created too."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        with self.client() as admin:
            for body in (account, *rules):
                try:
                    admin.create(body)
                except Refused as refused:
                    if refused.status != 409:
                        raise
            request = {"spec": {"expirationSeconds": 24 * 3600}}
            return str(admin.post(f"{path_of(account)}/token", request)["status"]["token"])

    # Requests

    def requests(self, user: str | None = None) -> list[Object]:
        """The completed requests from the audit log, optionally of one user."""
        lines = (self.folder / "audit.log").read_text("utf-8").splitlines()
        events = (json.loads(line) for line in lines)
        done = (event for event in events if event["stage"] == "ResponseComplete")
        return [event for event in done if user is None or event["user"]["username"] == user]

    def count_created(self, resource: str, namespace: str) -> int:
        """How many objects of a resource were ever created in a namespace, also those that are gone."""
        mark = f'"namespace":"{namespace}"'
        lines = (self.folder / "audit.log").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in lines if mark in line and '"verb":"create"' in line]
        wanted = {"resource": resource, "namespace": namespace, "subresource": None}
        return sum(
            event["stage"] == "ResponseComplete"
            and event["responseStatus"]["code"] == 201
            and all(event["objectRef"].get(name) == value for name, value in wanted.items())
            for event in events
        )

    def read_measures(self) -> str:
        """The Prometheus metrics of the scheduler."""
        answer = httpx2.get(f"https://127.0.0.1:{self._measures}/metrics", verify=False, timeout=PATIENCE)
        answer.raise_for_status()
        return answer.text

    def kubectl(self, *words: str) -> str:
        """Run kubectl and return its output."""
        command = [*self._commands["kubectl"], "--kubeconfig", str(self.kubeconfig), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    # How each part is started

    def _prepare(self) -> None:
        write_certificates(self.folder / "pki", "apiserver", "kubelet-client", "kubelet")
        groups = [f'{token},{user},{user},"system:masters"' for user, token in self._tokens.items()]
        (self.folder / "tokens.csv").touch(0o600)
        (self.folder / "tokens.csv").write_text("\n".join(groups) + "\n", "utf-8")
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT), "utf-8")
        self.write_kubeconfig(self.kubeconfig, self.token)
        for user, file in ((MANAGER, "manager.kubeconfig"), (SCHEDULER, "scheduler.kubeconfig")):
            self.write_kubeconfig(self.folder / file, self._tokens[user])

    def _arguments_of_etcd(self) -> list[str]:
        own, peers = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={own}",
            f"--advertise-client-urls={own}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _arguments_of_api(self) -> list[str]:
        pki = self.folder / "pki"
        audit = [f"--audit-log-path={self.folder / 'audit.log'}", f"--audit-policy-file={self.folder / 'audit.yaml'}"]
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={httpx2.URL(self.url).port}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={pki / 'accounts.pub'}",
            f"--service-account-signing-key-file={pki / 'accounts.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}",
            f"--default-not-ready-toleration-seconds={LEAVING_SECONDS}",
            f"--default-unreachable-toleration-seconds={LEAVING_SECONDS}",
            *(audit if self._audit else ()),
        ]

    def _arguments_of_manager(self) -> list[str]:
        config = self.folder / "manager.kubeconfig"
        return [
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self.folder / 'pki' / 'accounts.key'}",
            f"--root-ca-file={self.authority}",
            "--node-monitor-grace-period=24h",  # nodes here have no heartbeat
            "--node-startup-grace-period=24h",
            "--node-monitor-period=1s",
            "--node-eviction-rate=100",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _arguments_of_scheduler(self) -> list[str]:
        config = self.folder / "scheduler.kubeconfig"
        quick = ["--kube-api-qps=500", "--kube-api-burst=1000"]
        pki = self.folder / "pki"
        arguments = [
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            "--authorization-always-allow-paths=/metrics",
        ]
        own = [f"--secure-port={self._measures}", *(arguments if self._measures else ())]
        return [f"--kubeconfig={config}", "--leader-elect=false", *own, *quick]

    # Processes

    def _run(self, part: str, *arguments: str) -> None:
        assert part not in self._processes, f"{part} is running already"
        words = [sys.executable, "-ISc", GUARD, *self._commands[part], *arguments]
        with (self.folder / f"{part}.log").open("ab") as log:
            self._processes[part] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _end(self, part: str, number: signal.Signals) -> None:
        process = self._processes.pop(part)
        process.send_signal(number)
        try:
            process.wait(POLITE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, check: Callable[[], object]) -> None:
        """Wait for a condition. Ignores errors until then, unless a component has exited."""
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(Refused, httpx2.TransportError):
                if check():
                    return
            for part, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{part} ended with {process.returncode}:\n{self.log_of(part)[-3000:]}")
            if time.monotonic() > end:
                raise RuntimeError(f"the control plane is not ready after {PATIENCE} s; its logs are in {self.folder}")
            time.sleep(0.05)


@contextlib.contextmanager
def running(*, audit: bool = False, measured: bool = False) -> Iterator[ControlPlane]:
    """A control plane in a temporary folder, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-cluster-"))
    plane = ControlPlane(folder, audit=audit, measured=measured)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


def take_ports(count: int) -> list[int]:
    """Free TCP ports of this machine."""
    with contextlib.ExitStack() as sockets:
        taken: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            tried = sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                taken.append(port)
            if len(taken) == count:
                return taken
    raise RuntimeError(f"there are no {count} free ports among {PORTS.start} to {PORTS.stop}")
