"""Two projects on one real server: bravo has something of every kind with a mark in it, and alpha lives next door."""

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
# Writes the mark everywhere a run can write, and continues on request.
TENANT = """
import ctypes, os, time
from pathlib import Path

def main(stays):
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
    print("settled", flush=True)
    time.sleep(600 if stays else 0)
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
        """The token of a member of each project."""
        made = {}
        for name in (OURS, THEIRS):
            self.root.post("/roles", {"subject": f"user:{name}-member", "role": "member", "scope": f"project/{name}"})
            request = {"name": f"{name} laptop", "user": f"{name}-member"}
            made[name] = str(self.root.post("/tokens", request)["token"])
        return made

    def project(self, name: str) -> Project:
        """A project, as its member has it."""
        return Project(ApiClient(self.platform.server.url, self.tokens[name]), name)

    def client(self, name: str) -> httpx2.Client:
        """How the member of a project asks the server."""
        return self.platform.server.client(self.tokens[name])

    def submit(self, project: str, text: str, action: Action = "job", **parameters: Unpack[RunParameters]) -> Run:
        """A run of a Python file with a function `main`, in a project."""
        file = self.platform.shared / f"{secrets.token_hex(4)}.py"
        file.write_text(textwrap.dedent(text))
        return self.project(project).function("python", source=str(file), handler="main").run(action, **parameters)

    @cached_property
    def tenants(self) -> tuple[Run, Run]:
        """Two runs of bravo: one that goes on, and one that has ended."""
        text = TENANT.format(mark=self.mark, file=FILE, key=intruders.SHARED_KEY)
        volumes = [shared_volume("bravo-volume", "/dataset"), secret_volume("BRAVO_KEY", "/keys")]
        options: Any = {"volumes": volumes, "secrets": ["BRAVO_KEY"], "envs": {"PLAIN": f"{self.mark}-env"}}
        staying, gone = (self.submit(THEIRS, text, inputs={"stays": stays}, **options) for stays in (True, False))
        assert wait_for_end(gone)["state"] == "completed", wait_for_end(gone)
        wait_for_output(staying, "settled")
        return staying, gone

    @cached_property
    def things(self) -> dict[str, str]:
        """The objects of bravo by kind, as in URLs."""
        staying, gone = self.tenants
        role = next(item for item in self.root.list("/roles") if item["subject"] == "user:bravo-member")
        token = next(item for item in self.root.list("/tokens") if item["user"] == "bravo-member")
        named = {noun: f"bravo-{noun.replace('_', '-')}" for noun in ("department", "template", "function", "volume")}
        ids = {"run": staying.id, "served": staying.id, "ended": gone.id, "role": role["id"], "token": token["id"]}
        others = {"project": THEIRS, "compute_resource": "bravo-resource", "secret": "BRAVO_KEY", "cluster": "local"}
        (schedule,) = self.root.list(f"/projects/{THEIRS}/schedules")
        return named | ids | others | {"schedule": schedule["name"]}

    @cached_property
    def operations(self) -> list[Operation]:
        """Everything that can be asked of the server."""
        return operations_of(self.root.get("/openapi.json"))

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """All that an intruder could want to know: paths, processes, addresses."""
        data = self.platform.server.data
        staying, _ = self.tenants
        files = sorted(str(path) for path in list_files(data) if path.is_file())
        return {
            "pieces": list(self.pieces),
            "paths": [*files, *_proc_files(find_processes(staying.id))],
            "folders": [str(data), *(str(folder) for folder in sorted((data / "runs").iterdir()))],
            "pids": [*find_processes(staying.id), self.platform.server.process.pid],
            "url": self.platform.server.url,
            "operations": [list(self._addressed(item)) for item in self.operations],
        }

    def _addressed(self, item: Operation) -> Iterator[Any]:
        body = body_of(item)
        yield from (item.method, address_of(item, self.things), None if isinstance(body, bytes) else body)
        yield item.is_public


def _proc_files(pids: Sequence[int]) -> list[str]:
    return [f"/proc/{pid}/environ" for pid in pids]


def shared_volume(claim: str, path: str, **more: Any) -> dict[str, Any]:
    """A shared volume of a request."""
    spec = {"claim_name": claim}
    return {"volume_type": "shared_volume", "name": "shared", "mount_path": path, "spec": spec, **more}


def secret_volume(secret: str, path: str) -> dict[str, Any]:
    """A secret as a file."""
    return {"volume_type": "secret", "name": "keys", "mount_path": path, "spec": {"name": secret}}


def look_on(neighbors: Neighbors) -> list[bytes]:
    """Collect the event stream until the server stops."""
    chunks: list[bytes] = []

    def hear_all() -> None:
        client = neighbors.client(OURS)
        with contextlib.suppress(httpx2.HTTPError), client, client.stream("GET", "/events") as answer:
            chunks.extend(answer.iter_bytes())

    threading.Thread(target=hear_all, daemon=True).start()
    until(lambda: b"event: ready" in b"".join(chunks))
    return chunks


@contextlib.contextmanager
def open_neighbors(machine: Machine) -> Iterator[Neighbors]:
    """A server with the two projects, in a folder that everybody can get to: what keeps others out is the server."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=64", "FAIRLEAD_LOG_LEVEL": "debug"}
    with execution.open_platform(machine, variables=variables) as platform:
        platform.allow(existing_volumes="allow")
        made = Neighbors(platform, ("Pl4nted-", secrets.token_hex(12)))
        for name in (OURS, THEIRS):
            _furnish(made.root, name)
        made.root.put(f"/projects/{THEIRS}/secrets/BRAVO_KEY", {"value": f"{made.mark}-secret"})
        yield made


def _furnish(root: ApiClient, name: str) -> None:
    """A project with something of every kind, the same in each."""
    scope, function = f"project/{name}", f"/projects/{name}/functions/{name}-function"
    root.post("/departments", {"name": f"{name}-department", "parent": "cluster/local"})
    root.post("/projects", {"name": name, "parent": f"department/{name}-department"})
    root.post("/compute-resources", {"name": f"{name}-resource", "scope": scope, "requirements": REQUIREMENTS})
    root.post("/templates", {"name": f"{name}-template", "scope": scope, "requirements": {}})
    for kind, place in (("department", f"{name}-department"), ("project", name)):
        root.put(f"/policies/{kind}/{place}", {"rules": {"resources.gpu": {"max": 4}}})
    for volume in (f"{name}-volume", "dataset"):
        root.post(f"/projects/{name}/volumes", {"name": volume, "size": "1Gi"})
    root.put(function, {"text": f"def main():\n    return {json.dumps(name)}\n", "handler": "main"})
    root.put(f"/projects/{name}/secrets/{name.upper()}_KEY", {"value": f"the secret of {name}"})
    root.post(f"/projects/{name}/schedules", {"function": f"{name}-function", "schedule": "0 6 29 2 *"})
    root.put_bytes(f"/projects/{name}/code/{DIGEST}", CODE)
