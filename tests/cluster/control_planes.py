"""A real Kubernetes control plane for tests: etcd, API server, controller manager and scheduler, as processes.

    with running() as plane:
        with plane.client() as admin:
            admin.get("/version")

It has its own folder, listens on the loopback address, and is stopped by process ID. Linux kills it if the thread that
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
from tests.cluster.clients import TIMEOUT, ApiError, Client, Object, path_of

ADMIN, KUBELET, MANAGER, SCHEDULER = "admin", "fake-kubelet", "system:kube-controller-manager", "system:kube-scheduler"
ISSUER = "https://kubernetes.default.svc"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
# Seconds until pods are evicted from a node that is not ready; Kubernetes' default is five minutes.
EVICTION_SECONDS = 3
SHUTDOWN_SECONDS = 5  # an API server that gets SIGTERM waits a minute for open watches
# Below Linux's ephemeral ports, so that no client takes a stopped API server's port.
PORTS = range(20000, 32000)
# Kills a program when its parent dies for any reason.
GUARD = "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 9, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"


class ControlPlane:
    """One control plane. `stop_api` and `start_api` simulate an outage: etcd keeps its data, the URL stays the same."""

    def __init__(self, folder: Path, *, audit: bool = False, with_metrics: bool = False) -> None:
        self.folder, self._audit = folder, audit
        self._commands = binaries.find()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd, self._peer, port, metrics_port = take_ports(4)
        self._metrics_port = metrics_port if with_metrics else 0  # the scheduler's
        self.url = f"https://127.0.0.1:{port}"
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, KUBELET, MANAGER, SCHEDULER)}

    # Components

    @property
    def authority(self) -> Path:
        """The CA certificate."""
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
        """The token of a predefined user."""
        return self._tokens[user]

    def client(self, token: str | None = None) -> Client:
        """A client for the API server, with administrator permissions unless a token is given."""
        return Client(self.url, self.authority, token or self.token)

    # Starting and stopping

    def start(self) -> None:
        """Start all components, and wait until pods can be created."""
        self._prepare()
        self._start_process("etcd", *self._etcd_arguments())
        self.start_api()
        self._start_process("kube-controller-manager", *self._manager_arguments())
        self._start_process("kube-scheduler", *self._scheduler_arguments())
        with self.client() as admin:
            self._wait(lambda: admin.find("/api/v1/namespaces/default/serviceaccounts/default"))

    def stop(self) -> None:
        """Stop all components in reverse order."""
        for name in reversed(list(self._processes)):
            self._stop_process(name, signal.SIGKILL)

    def start_api(self) -> None:
        """Start the API server, including after `stop_api`, and wait until it is ready."""
        self._start_process("kube-apiserver", *self._api_arguments())
        with self.client() as admin:
            self._wait(lambda: admin.text("/readyz"))

    def restart_components(self) -> None:
        """Restart the controller manager and the scheduler, which would otherwise take half a minute to reconnect."""
        for component, arguments in (
            ("kube-controller-manager", self._manager_arguments()),
            ("kube-scheduler", self._scheduler_arguments()),
        ):
            self._stop_process(component, signal.SIGKILL)
            self._start_process(component, *arguments)

    def stop_manager(self) -> None:
        """Stop the controller manager, so that objects stay unchanged."""
        self._stop_process("kube-controller-manager", signal.SIGKILL)

    def stop_api(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Stop only the API server."""
        self._stop_process("kube-apiserver", number)

    def log_of(self, component: str) -> str:
        """The output of a component."""
        return (self.folder / f"{component}.log").read_text("utf-8", "replace")

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
        """Create a service account with the given roles and role bindings, and return a token."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        with self.client() as admin:
            for body in (account, *rules):
                try:
                    admin.create(body)
                except ApiError as error:
                    if error.status != 409:
                        raise
            request = {"spec": {"expirationSeconds": 24 * 3600}}
            return str(admin.post(f"{path_of(account)}/token", request)["status"]["token"])

    # Requests

    def requests(self, user: str | None = None) -> list[Object]:
        """The completed requests from the audit log, optionally only those of one user."""
        lines = (self.folder / "audit.log").read_text("utf-8").splitlines()
        events = (json.loads(line) for line in lines)
        completed = (event for event in events if event["stage"] == "ResponseComplete")
        return [event for event in completed if user is None or event["user"]["username"] == user]

    def count_created(self, resource: str, namespace: str) -> int:
        """The number of objects of a resource type ever created in a namespace, including deleted ones."""
        pattern = f'"namespace":"{namespace}"'
        lines = (self.folder / "audit.log").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in lines if pattern in line and '"verb":"create"' in line]
        expected = {"resource": resource, "namespace": namespace, "subresource": None}
        return sum(
            event["stage"] == "ResponseComplete"
            and event["responseStatus"]["code"] == 201
            and all(event["objectRef"].get(name) == value for name, value in expected.items())
            for event in events
        )

    def read_metrics(self) -> str:
        """The scheduler's Prometheus metrics."""
        response = httpx2.get(f"https://127.0.0.1:{self._metrics_port}/metrics", verify=False, timeout=TIMEOUT)
        response.raise_for_status()
        return response.text

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl and return its output."""
        command = [*self._commands["kubectl"], "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout

    # Component arguments

    def _prepare(self) -> None:
        write_certificates(self.folder / "pki", "apiserver", "kubelet-client", "kubelet")
        groups = [f'{token},{user},{user},"system:masters"' for user, token in self._tokens.items()]
        (self.folder / "tokens.csv").touch(0o600)
        (self.folder / "tokens.csv").write_text("\n".join(groups) + "\n", "utf-8")
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT), "utf-8")
        self.write_kubeconfig(self.kubeconfig, self.token)
        for user, file in ((MANAGER, "manager.kubeconfig"), (SCHEDULER, "scheduler.kubeconfig")):
            self.write_kubeconfig(self.folder / file, self._tokens[user])

    def _etcd_arguments(self) -> list[str]:
        client_url, peer_url = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _api_arguments(self) -> list[str]:
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
            f"--default-not-ready-toleration-seconds={EVICTION_SECONDS}",
            f"--default-unreachable-toleration-seconds={EVICTION_SECONDS}",
            *(audit if self._audit else ()),
        ]

    def _manager_arguments(self) -> list[str]:
        config = self.folder / "manager.kubeconfig"
        return [
            f"--kubeconfig={config}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self.folder / 'pki' / 'accounts.key'}",
            f"--root-ca-file={self.authority}",
            "--node-monitor-grace-period=24h",  # test nodes have no heartbeat
            "--node-startup-grace-period=24h",
            "--node-monitor-period=1s",
            "--node-eviction-rate=100",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _scheduler_arguments(self) -> list[str]:
        config = self.folder / "scheduler.kubeconfig"
        rate_limits = ["--kube-api-qps=500", "--kube-api-burst=1000"]
        pki = self.folder / "pki"
        arguments = [
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            "--authorization-always-allow-paths=/metrics",
        ]
        metrics_arguments = [f"--secure-port={self._metrics_port}", *(arguments if self._metrics_port else ())]
        return [f"--kubeconfig={config}", "--leader-elect=false", *metrics_arguments, *rate_limits]

    # Processes

    def _start_process(self, component: str, *arguments: str) -> None:
        assert component not in self._processes, f"{component} is running already"
        command = [sys.executable, "-ISc", GUARD, *self._commands[component], *arguments]
        with (self.folder / f"{component}.log").open("ab") as log:
            self._processes[component] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def _stop_process(self, component: str, number: signal.Signals) -> None:
        process = self._processes.pop(component)
        process.send_signal(number)
        try:
            process.wait(SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, check: Callable[[], object]) -> None:
        """Wait for a condition. Errors are ignored until then, unless a component has exited."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            with contextlib.suppress(ApiError, httpx2.TransportError):
                if check():
                    return
            for component, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(
                        f"{component} ended with {process.returncode}:\n{self.log_of(component)[-3000:]}"
                    )
            if time.monotonic() > deadline:
                raise RuntimeError(f"the control plane is not ready after {TIMEOUT} s; its logs are in {self.folder}")
            time.sleep(0.05)


@contextlib.contextmanager
def running(*, audit: bool = False, with_metrics: bool = False) -> Iterator[ControlPlane]:
    """Run a control plane in a temporary folder during the block."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-cluster-"))
    plane = ControlPlane(folder, audit=audit, with_metrics=with_metrics)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


def take_ports(count: int) -> list[int]:
    """Free TCP ports on this machine."""
    with contextlib.ExitStack() as sockets:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            probe = sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise RuntimeError(f"fewer than {count} ports are free between {PORTS.start} and {PORTS.stop}")
