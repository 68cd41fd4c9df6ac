"""A real server that executes runs on the real control plane, with helpers for tests."""

import copy
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.processes.machines import Machine, ProcessResult, RunningServer

CLUSTER = "main"


class Platform:
    """A server with a registered cluster and a project."""

    def __init__(
        self,
        machine: Machine,
        plane: ControlPlane,
        admin: Client,
        kubeconfig: Path | None = None,
        *options: str,
        **details: Any,
    ) -> None:
        self.machine, self.plane, self.admin, self.options = machine, plane, admin, options
        self.name = f"p{uuid.uuid4().hex[:8]}"
        self.variables: dict[str, str] = {}
        self.server: RunningServer = machine.up(*options)
        self.port = self.server.url.rpartition(":")[2]
        request = {"name": CLUSTER, "namespace": f"{self.name}-{{project}}", "server_url": self.server.url, **details}
        self.api("POST", "/clusters", request)
        self.terminal("clusters", "connect", CLUSTER, "--kubeconfig", str(kubeconfig or plane.kubeconfig))
        self.api("POST", "/projects", {"name": "forest", "parent": f"cluster/{CLUSTER}"})
        self.allow(existing_volumes="allow", allow_root=True)
        until(lambda: self.api("GET", "/nodes"))

    @property
    def project(self) -> Project:
        """The project whose runs are executed on the cluster."""
        return Project(ApiClient(self.server.url, self.server.token), "forest")

    @property
    def namespace(self) -> str:
        """The namespace of the project."""
        return f"{self.name}-forest"

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send an API request as an administrator."""
        with self.server.client() as client:
            response = client.request(method, path, json=body)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text[:1000]}"
        return response.json() if response.content else None

    def terminal(self, *arguments: str, code: int = 0) -> ProcessResult:
        """Run a CLI command as an administrator."""
        variables = {"FAIRLEAD_URL": self.server.url, "FAIRLEAD_TOKEN": self.server.token}
        ended = self.machine.fairlead(*arguments, variables=variables)
        assert ended.code == code, f"{' '.join(arguments)}: {ended}"
        return ended

    def allow(self, **switches: Any) -> None:
        """Set switches in the platform policy."""
        self.api("PUT", "/policies/platform/platform", {"switches": switches})

    def run(self, name: str = "train", **request: Any) -> Run:
        """Submit a run, of a container by default."""
        request = {"function": {"name": name, "kind": "container", "image": "example.test/sleep"}, **request}
        created = self.api("POST", "/projects/forest/runs", request)
        return Run(self.project.api, created)

    def run_simulated(self, image: str, **request: Any) -> Run:
        """Submit a run of a simulated image."""
        return self.run(function={"name": image, "kind": "container", "image": f"example.test/{image}"}, **request)

    def shell(self, text: str, **request: Any) -> Run:
        """Submit a run of a shell script."""
        function = {"name": "shell", "kind": "container", "image": "busybox", "command": ["sh", "-c", text]}
        return self.run(function=function, **request)

    def python(self, source: str, name: str = "train", image: str | None = None, **request: Any) -> Run:
        """Submit a run of the function `main` in a Python file."""
        file = self.machine.folder / f"{name}_{uuid.uuid4().hex[:8]}.py"
        file.write_text(source, "utf-8")
        run: Run = self.project.function(name, source=str(file), handler="main", image=image).run(**request)
        return run

    def get_run(self, run: Run | str) -> dict[str, Any]:
        """Get a run's data from the API."""
        status: dict[str, Any] = self.api("GET", f"/runs/{run if isinstance(run, str) else run.id}")
        return status

    def until(self, run: Run | str, *states_or_reasons: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until a run has one of these states or reasons, and return its data."""
        status: dict[str, Any] = wait_for(
            lambda: self.get_run(run),
            lambda status: status["state"] in states_or_reasons or status["reason"] in states_or_reasons,
            seconds,
        )
        return status

    def objects(self, plural: str, group: str = "/api/v1") -> list[dict[str, Any]]:
        """The objects of a kind in the project's namespace."""
        return self.admin.items(f"{group}/namespaces/{self.namespace}/{plural}")

    def job_of(self, run: Run | str) -> dict[str, Any]:
        """The Job of a run."""
        run_id = run if isinstance(run, str) else run.id
        (job,) = self.admin.items("/apis/batch/v1/jobs", labelSelector=f"fairlead.dev/run={run_id}")
        return job

    def pods_of(self, run: Run | str) -> list[dict[str, Any]]:
        """The pods of a run."""
        run_id = run if isinstance(run, str) else run.id
        return self.admin.items("/api/v1/pods", labelSelector=f"fairlead.dev/run={run_id}")

    def restart(self) -> None:
        """Kill the server if it is running, and start it again with the same data and port."""
        self.server.stop(signal.SIGKILL)
        data = self.server.data.name
        self.server = self.machine.up("--port", self.port, *self.options, data=data, variables=self.variables)

    def join(self) -> "Platform":
        """Start a second server for this platform, with the same database but a different data folder."""
        other = copy.copy(self)
        other.variables = {"FAIRLEAD_SECRET_KEYS": (self.server.data / "secret.key").read_text("utf-8").split()[0]}
        other.server = self.machine.up(*self.options, data="other", variables=other.variables)
        other.port = other.server.url.rpartition(":")[2]
        until(lambda: other.api("GET", "/nodes"))
        return other


def wait_for(read: Callable[[], Any], is_done: Callable[[Any], bool], seconds: float = 60.0) -> Any:
    """Poll until a condition holds, and return its value."""
    deadline = time.monotonic() + seconds
    while not is_done(value := read()):
        assert time.monotonic() < deadline, f"still {value}"
        time.sleep(0.05)
    return value
