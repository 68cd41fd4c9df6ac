"""Two projects on one real server: alpha attacks, and bravo has objects of every kind that contain a mark."""

import contextlib
import json
import secrets
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

import httpx2

from fairlead.model.requests import Action
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.functions import RunParameters
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, list_files, until, wait_for_end, wait_for_output
from tests.processes.machines import Machine
from tests.security import intruders
from tests.server.machines import FILE
from tests.server.samples import CODE, DIGEST, REQUIREMENTS, address_of, body_of
from tests.server.sites import Operation, operations_of

OURS, THEIRS = "alpha", "bravo"
INTRUDER = Path(intruders.__file__)
# Writes the mark everywhere a run can write, and keeps running on request.
TENANT = """
import ctypes, os, time
from pathlib import Path

def main(keep_running):
    mark = os.environ["PLAIN"]  # {mark}
    print(mark, flush=True)
    left = Path(os.environ["FAIRLEAD_OUTPUT"], {file!r})
    left.parent.mkdir(parents=True)
    for file in (left, Path("/dataset/kept"), Path.home() / "notes", Path(os.environ["TMPDIR"]) / "notes"):
        file.write_text(mark)
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    at = libc.shmat(libc.shmget({key}, 4096, 0o1666), None, 0)
    ctypes.memmove(at, mark.encode(), len(mark))
    print("ready", flush=True)
    time.sleep(600 if keep_running else 0)
    return mark
"""


@dataclass(frozen=True)
class Neighbors:
    """A server with two projects. The attacker knows the names of bravo's objects."""

    platform: Platform
    pieces: tuple[str, str]

    @property
    def mark(self) -> str:
        """The mark that alpha must never see."""
        return "".join(self.pieces)

    @cached_property
    def root(self) -> ApiClient:
        """A platform administrator."""
        return ApiClient(self.platform.server.url, self.platform.server.token)

    @cached_property
    def tokens(self) -> dict[str, str]:
        """A member's token for each project."""
        tokens = {}
        for name in (OURS, THEIRS):
            self.root.post("/roles", {"subject": f"user:{name}-member", "role": "member", "scope": f"project/{name}"})
            request = {"name": f"{name} laptop", "user": f"{name}-member"}
            tokens[name] = str(self.root.post("/tokens", request)["token"])
        return tokens

    def project(self, name: str) -> Project:
        """A project, accessed as its member."""
        return Project(ApiClient(self.platform.server.url, self.tokens[name]), name)

    def client(self, name: str) -> httpx2.Client:
        """An HTTP client for a project's member."""
        return self.platform.server.client(self.tokens[name])

    def submit(self, project: str, text: str, action: Action = "job", **parameters: Unpack[RunParameters]) -> Run:
        """Submit a run of a Python file with a function `main` in a project."""
        file = self.platform.shared / f"{secrets.token_hex(4)}.py"
        file.write_text(textwrap.dedent(text))
        return self.project(project).function("python", source=str(file), handler="main").run(action, **parameters)

    @cached_property
    def tenants(self) -> tuple[Run, Run]:
        """Two of bravo's runs: one is running, and one has ended."""
        text = TENANT.format(mark=self.mark, file=FILE, key=intruders.SHARED_KEY)
        volumes = [shared_volume("bravo-volume", "/dataset"), secret_volume("BRAVO_KEY", "/keys")]
        options: Any = {"volumes": volumes, "secrets": ["BRAVO_KEY"], "envs": {"PLAIN": f"{self.mark}-env"}}
        running, finished = (
            self.submit(THEIRS, text, inputs={"keep_running": keep_running}, **options)
            for keep_running in (True, False)
        )
        assert wait_for_end(finished)["state"] == "completed", wait_for_end(finished)
        wait_for_output(running, "ready")
        return running, finished

    @cached_property
    def object_names(self) -> dict[str, str]:
        """The names of bravo's objects by kind, as used in URLs."""
        running, finished = self.tenants
        role = next(item for item in self.root.list("/roles") if item["subject"] == "user:bravo-member")
        token = next(item for item in self.root.list("/tokens") if item["user"] == "bravo-member")
        named = {noun: f"bravo-{noun.replace('_', '-')}" for noun in ("department", "template", "function", "volume")}
        ids = {"run": running.id, "served": running.id, "ended": finished.id, "role": role["id"], "token": token["id"]}
        others = {"project": THEIRS, "compute_resource": "bravo-resource", "secret": "BRAVO_KEY", "cluster": "local"}
        (schedule,) = self.root.list(f"/projects/{THEIRS}/schedules")
        return named | ids | others | {"schedule": schedule["name"]}

    @cached_property
    def operations(self) -> list[Operation]:
        """All operations of the server."""
        return operations_of(self.root.get("/openapi.json"))

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """What the attacker knows: paths, processes and URLs."""
        data = self.platform.server.data
        running, _ = self.tenants
        files = sorted(str(path) for path in list_files(data) if path.is_file())
        return {
            "pieces": list(self.pieces),
            "paths": [*files, *_proc_files(find_processes(running.id))],
            "folders": [str(data), *(str(folder) for folder in sorted((data / "runs").iterdir()))],
            "pids": [*find_processes(running.id), self.platform.server.process.pid],
            "url": self.platform.server.url,
            "operations": [list(self._describe_operation(item)) for item in self.operations],
        }

    def _describe_operation(self, item: Operation) -> Iterator[Any]:
        body = body_of(item)
        yield from (item.method, address_of(item, self.object_names), None if isinstance(body, bytes) else body)
        yield item.is_public


def _proc_files(pids: Sequence[int]) -> list[str]:
    return [f"/proc/{pid}/environ" for pid in pids]


def shared_volume(claim: str, path: str, **options: Any) -> dict[str, Any]:
    """A shared volume in a request."""
    spec = {"claim_name": claim}
    return {"volume_type": "shared_volume", "name": "shared", "mount_path": path, "spec": spec, **options}


def secret_volume(secret: str, path: str) -> dict[str, Any]:
    """A secret volume in a request."""
    return {"volume_type": "secret", "name": "keys", "mount_path": path, "spec": {"name": secret}}


def record_events(neighbors: Neighbors) -> list[bytes]:
    """Record alpha's event stream in the background until the server stops."""
    chunks: list[bytes] = []

    def read_events() -> None:
        client = neighbors.client(OURS)
        with contextlib.suppress(httpx2.HTTPError), client, client.stream("GET", "/events") as response:
            chunks.extend(response.iter_bytes())

    threading.Thread(target=read_events, daemon=True).start()
    until(lambda: b"event: ready" in b"".join(chunks))
    return chunks


@contextlib.contextmanager
def open_neighbors(machine: Machine) -> Iterator[Neighbors]:
    """Start a server with the two projects in a folder that is accessible to all users."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64", "FAIRLEAD_LOG_LEVEL": "debug"}
    with execution.open_platform(machine, variables=variables) as platform:
        platform.allow(existing_volumes="allow")
        neighbors = Neighbors(platform, ("Pl4nted-", secrets.token_hex(12)))
        for name in (OURS, THEIRS):
            _create_objects(neighbors.root, name)
        neighbors.root.put(f"/projects/{THEIRS}/secrets/BRAVO_KEY", {"value": f"{neighbors.mark}-secret"})
        yield neighbors


def _create_objects(root: ApiClient, name: str) -> None:
    """Create a project with objects of every kind."""
    scope, function = f"project/{name}", f"/projects/{name}/functions/{name}-function"
    root.post("/departments", {"name": f"{name}-department", "parent": "cluster/local"})
    root.post("/projects", {"name": name, "parent": f"department/{name}-department"})
    root.post("/compute-resources", {"name": f"{name}-resource", "scope": scope, "requirements": REQUIREMENTS})
    root.post("/templates", {"name": f"{name}-template", "scope": scope, "requirements": {}})
    for kind, scope_name in (("department", f"{name}-department"), ("project", name)):
        root.put(f"/policies/{kind}/{scope_name}", {"rules": {"resources.gpu": {"max": 4}}})
    for volume in (f"{name}-volume", "dataset"):
        root.post(f"/projects/{name}/volumes", {"name": volume, "size": "1Gi"})
    root.put(function, {"text": f"def main():\n    return {json.dumps(name)}\n", "handler": "main"})
    root.put(f"/projects/{name}/secrets/{name.upper()}_KEY", {"value": f"the secret of {name}"})
    root.post(f"/projects/{name}/schedules", {"function": f"{name}-function", "schedule": "0 6 29 2 *"})
    root.put_bytes(f"/projects/{name}/code/{DIGEST}", CODE)
