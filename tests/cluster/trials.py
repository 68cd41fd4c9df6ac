"""A run with all kinds of objects in its own namespace, and checks on these objects."""

import itertools
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

from fairlead.errors import Unavailable
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.cluster.clients import Object, until
from tests.cluster.control_planes import take_ports
from tests.cluster.platforms import CLUSTER, Platform
from tests.cluster.proxies import Fault, Moment, send_signal

KINDS = {
    "Job": "/apis/batch/v1/{}/jobs",
    "Deployment": "/apis/apps/v1/{}/deployments",
    "ReplicaSet": "/apis/apps/v1/{}/replicasets",
    "Pod": "/api/v1/{}/pods",
    "ConfigMap": "/api/v1/{}/configmaps",
    "Secret": "/api/v1/{}/secrets",
    "PersistentVolumeClaim": "/api/v1/{}/persistentvolumeclaims",
    "Service": "/api/v1/{}/services",
}
CLUSTER_OBJECTS = ("kube-root-ca.crt",)  # in every namespace
# The number of a running run's objects by kind.
RUN_OBJECTS = {"ConfigMap": 1, "Job": 1, "PersistentVolumeClaim": 1, "Pod": 1, "Secret": 2}
SERVED_RUN_OBJECTS = {"Deployment": 1, "Pod": 1, "ReplicaSet": 1, "Service": 1}
KEY, PULL = "sesame-open", json.dumps({"auths": {"registry.example": {"auth": "bWU6bWluZQ=="}}})
SOURCE = """
import os, pathlib, time

def main(executions, go):
    with open(executions, "a") as file:
        file.write(os.environ["FAIRLEAD_RUN"] + "\\n")
    print("started", flush=True)
    while not pathlib.Path(go).exists():
        time.sleep(0.05)
    return {"key": len(os.environ["API_KEY"])}
"""
RESULT = {"key": len(KEY)}
_numbers = itertools.count()


class Trial:
    """A project with one run. Each execution adds a line to the file `executions`, and ends when `go` exists."""

    def __init__(self, platform: Platform, *, blocked: bool = False) -> None:
        self.platform, self.name = platform, f"t{next(_numbers)}"
        self.namespace = f"{platform.name}-{self.name}"
        self.executions, self.go = self._file("executions"), self._file("go")
        self.source = self._file("train.py")
        self.source.write_text(SOURCE, "utf-8")
        if not blocked:
            self.go.touch()
        platform.api("POST", "/projects", {"name": self.name, "parent": f"cluster/{CLUSTER}"})
        self.project.set_secret("API_KEY", KEY)
        self.project.set_secret("PULL", PULL)
        self.submitted = threading.Event()

    @property
    def project(self) -> Project:
        """The project on the current server."""
        return Project(ApiClient(self.platform.server.url, self.platform.server.token), self.name)

    def submit(self) -> Run:
        """Submit the run."""
        function = self.project.function("train", source=str(self.source), handler="main", pull_secrets=["PULL"])
        claim = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data"}
        run = function.run(
            inputs={"executions": str(self.executions), "go": str(self.go)},
            secrets=["API_KEY"],
            volumes=[{**claim, "spec": {"size": "1Gi"}}],
        )
        self.submitted.set()
        return run

    def serve(self) -> Run:
        """Submit a served run instead."""
        (port,) = take_ports(1)
        command = ["python3", "-m", "http.server", str(port)]
        function = {"name": "web", "kind": "container", "image": "python:3.12", "command": command, "port": port}
        created = self.platform.api("POST", f"/projects/{self.name}/runs", {"action": "serve", "function": function})
        self.submitted.set()
        return Run(self.project.api, created)

    def make_kill_fault(
        self, method: str, pattern: str, moment: Moment, number: signal.Signals = signal.SIGKILL, **options: Any
    ) -> Fault:
        """A fault that kills the server, or sends another signal, at one of this run's requests."""
        action = send_signal(self.platform.server.process.pid, number, self.submitted)
        return Fault(method, pattern.replace("{}", f"namespaces/{self.namespace}"), action, moment, **options)

    def wait_for_result(self, run: Run) -> None:
        """Wait until the run has completed, and check its result."""
        ended = self.platform.until(run, "completed", "failed", "stopped")
        assert (ended["state"], run.refresh().result) == ("completed", RESULT), ended

    def read_log(self, run: Run) -> str:
        """The log of a run, once the server has synchronized with the cluster."""
        while True:
            try:
                return str(run.logs())
            except Unavailable as error:
                time.sleep(error.retry_after_seconds)

    def count_executions(self) -> int:
        """How many times the run was executed."""
        return len(self.executions.read_text("utf-8").splitlines()) if self.executions.exists() else 0

    def count_created(self, kind: str) -> int:
        """The number of objects of a kind ever created in the namespace, from the audit log.

        A watch is not sufficient, because the API server drops events after 75 seconds and then returns 410 Gone. A
        list does not contain deleted objects.
        """
        return self.platform.plane.count_created(f"{kind.lower()}s", self.namespace)

    def list_objects(self) -> list[Object]:
        """All objects in the namespace, except those that every namespace has."""
        objects = [{**item, "kind": kind} for kind in KINDS for item in self.platform.admin.items(self._path(kind))]
        return [item for item in objects if item["metadata"]["name"] not in CLUSTER_OBJECTS]

    def count_objects(self) -> dict[str, int]:
        """The number of objects per kind."""
        kinds = [item["kind"] for item in self.list_objects()]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def find_orphans(self) -> list[str]:
        """Objects without an existing owner, except the main objects of runs, which have none."""
        objects = self.list_objects()
        existing_uids = {item["metadata"]["uid"] for item in objects}
        owners = {
            f"{item['kind']}/{item['metadata']['name']}": {
                owner["uid"] for owner in item["metadata"].get("ownerReferences", ())
            }
            for item in objects
            if item["kind"] not in ("Job", "Deployment")
        }
        return [name for name, uids in owners.items() if not uids & existing_uids]

    def check_all(self, run: Run) -> None:
        """Check that the run executed once with one Job and one pod, and that its objects are deleted with it."""
        assert (self.count_created("Job"), self.count_created("Pod"), self.count_executions()) == (1, 1, 1)
        assert self.find_orphans() == []
        assert self.count_objects() == RUN_OBJECTS
        self.platform.api("DELETE", f"/runs/{run.id}")
        until(lambda: not self.list_objects())

    def _path(self, kind: str) -> str:
        return KINDS[kind].format(f"namespaces/{self.namespace}")

    def _file(self, name: str) -> Path:
        return self.platform.machine.folder / f"{self.name}-{name}"
