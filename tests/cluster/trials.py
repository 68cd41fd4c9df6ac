"""A run with everything that a run can have, in a namespace of its own, and what is found there afterwards."""

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
from tests.cluster.proxies import Fault, Moment, send

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
OF_THE_CLUSTER = ("kube-root-ca.crt",)  # in every namespace
# The objects of a running run.
WHOLE = {"ConfigMap": 1, "Job": 1, "PersistentVolumeClaim": 1, "Pod": 1, "Secret": 2}
SERVING = {"Deployment": 1, "Pod": 1, "ReplicaSet": 1, "Service": 1}
KEY, PULL = "sesame-open", json.dumps({"auths": {"registry.example": {"auth": "bWU6bWluZQ=="}}})
SOURCE = """
import os, pathlib, time

def main(ran, go):
    with open(ran, "a") as file:
        file.write(os.environ["FAIRLEAD_RUN"] + "\\n")
    print("begun", flush=True)
    while not pathlib.Path(go).exists():
        time.sleep(0.05)
    return {"key": len(os.environ["API_KEY"])}
"""
RESULT = {"key": len(KEY)}
_numbers = itertools.count()


class Trial:
    """A project of its own. Its run adds a line to `ran` each time that it is executed, and ends once `go` is there."""

    def __init__(self, platform: Platform, *, waits: bool = False) -> None:
        self.platform, self.name = platform, f"t{next(_numbers)}"
        self.namespace = f"{platform.name}-{self.name}"
        self.ran, self.go = self._file("ran"), self._file("go")
        self.source = self._file("train.py")
        self.source.write_text(SOURCE, "utf-8")
        if not waits:
            self.go.touch()
        platform.api("POST", "/projects", {"name": self.name, "parent": f"cluster/{CLUSTER}"})
        self.project.set_secret("API_KEY", KEY)
        self.project.set_secret("PULL", PULL)
        self.submitted = threading.Event()

    @property
    def project(self) -> Project:
        """The project, at the server that is there now."""
        return Project(ApiClient(self.platform.server.url, self.platform.server.token), self.name)

    def submit(self) -> Run:
        """Submit the run."""
        function = self.project.function("train", source=str(self.source), handler="main", pull_secrets=["PULL"])
        claim = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data"}
        run = function.run(
            inputs={"ran": str(self.ran), "go": str(self.go)},
            secrets=["API_KEY"],
            volumes=[{**claim, "spec": {"size": "1Gi"}}],
        )
        self.submitted.set()
        return run

    def serve(self) -> Run:
        """Submit a run that serves instead."""
        (port,) = take_ports(1)
        command = ["python3", "-m", "http.server", str(port)]
        function = {"name": "web", "kind": "container", "image": "python:3.12", "command": command, "port": port}
        created = self.platform.api("POST", f"/projects/{self.name}/runs", {"action": "serve", "function": function})
        self.submitted.set()
        return Run(self.project.api, created)

    def killing(
        self, method: str, address: str, moment: Moment, number: signal.Signals = signal.SIGKILL, **when: Any
    ) -> Fault:
        """A fault that kills the server (or sends another signal) at a request about this run."""
        permission = send(self.platform.server.process.pid, number, self.submitted)
        return Fault(method, address.replace("{}", f"namespaces/{self.namespace}"), permission, moment, **when)

    def complete(self, run: Run) -> None:
        """Wait until the run has completed, with its result."""
        ended = self.platform.until(run, "completed", "failed", "stopped")
        assert (ended["state"], run.refresh().result) == ("completed", RESULT), ended

    def read_log(self, run: Run) -> str:
        """The log of a run, once the server has synchronized with the cluster."""
        while True:
            try:
                return str(run.logs())
            except Unavailable as error:
                time.sleep(error.retry_after_seconds)

    def count_runs(self) -> int:
        """How often it was executed."""
        return len(self.ran.read_text("utf-8").splitlines()) if self.ran.exists() else 0

    def count_made(self, kind: str) -> int:
        """How many objects of a kind were ever created in the namespace.

        From the audit log: the watch cache of the API server forgets events after 75 seconds, and a watch from an older
        version answers 410 Gone; a list would miss what was created and removed since.
        """
        return self.platform.plane.count_created(f"{kind.lower()}s", self.namespace)

    def list_objects(self) -> list[Object]:
        """All that is in the namespace and not of the cluster's own."""
        objects = [{**each, "kind": kind} for kind in KINDS for each in self.platform.admin.items(self._path(kind))]
        return [each for each in objects if each["metadata"]["name"] not in OF_THE_CLUSTER]

    def count_objects(self) -> dict[str, int]:
        """The number of objects per kind."""
        kinds = [each["kind"] for each in self.list_objects()]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def find_orphans(self) -> list[str]:
        """Objects without an existing owner, except the main objects of runs, which have none."""
        objects = self.list_objects()
        living = {each["metadata"]["uid"] for each in objects}
        owners = {
            f"{each['kind']}/{each['metadata']['name']}": {
                owner["uid"] for owner in each["metadata"].get("ownerReferences", ())
            }
            for each in objects
            if each["kind"] not in ("Job", "Deployment")
        }
        return [name for name, uids in owners.items() if not uids & living]

    def check_all(self, run: Run) -> None:
        """It ran once, of one Job with one pod; all that is there belongs to it, and goes with it."""
        assert (self.count_made("Job"), self.count_made("Pod"), self.count_runs()) == (1, 1, 1)
        assert self.find_orphans() == []
        assert self.count_objects() == WHOLE
        self.platform.api("DELETE", f"/runs/{run.id}")
        until(lambda: not self.list_objects())

    def _path(self, kind: str) -> str:
        return KINDS[kind].format(f"namespaces/{self.namespace}")

    def _file(self, name: str) -> Path:
        return self.platform.machine.folder / f"{self.name}-{name}"
