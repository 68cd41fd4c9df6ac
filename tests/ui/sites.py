"""A real server for the tests of the web page, and what is put on it before a browser looks."""

import contextlib
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from uuid_utils import uuid7

from fairlead.adapters.database.stores import DatabaseStore, _values
from fairlead.adapters.database.tables import TABLES
from fairlead.model.queries import Condition
from fairlead.model.records import ComputeResourceRecord, RevisionRecord, RunRecord
from fairlead.ports import Transaction
from tests.faults.callers import kill_supervisor
from tests.processes.machines import Machine, Running, make_resource

KINDS = 12
UNCHANGED = 304


class Site:
    """A server with an empty platform of its own, on a port of this machine."""

    def __init__(self, machine: Machine, variables: Mapping[str, str] | None = None) -> None:
        self._machine = machine
        self._running: Running = machine.up(variables=variables)
        self._client = self._running.client()

    @property
    def url(self) -> str:
        """Where it serves; the same after a restart."""
        return self._running.url

    @property
    def token(self) -> str:
        """A token of its administrator."""
        return self._running.token

    @property
    def link(self) -> str:
        """The address that signs a browser in, once."""
        return self._running.link

    def api(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Any:
        """What the server answers to `GET /compute-resources`: as its administrator, unless another token is given."""
        sent = {name.replace("_", "-"): said for name, said in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        answer = self._client.request(method, path, json=body, headers=sent)
        said = f"{answer.status_code} {answer.text[:1000]}"
        assert answer.status_code < 300 or answer.status_code == UNCHANGED, f"{method} {path}: {said}"
        return answer.json() if answer.content else None

    def make_project(self, name: str, parent: str = "cluster/local") -> Any:
        """A project."""
        return self.api("POST", "/projects", {"name": name, "parent": parent})

    def make_department(self, name: str, parent: str = "cluster/local") -> Any:
        """A department."""
        return self.api("POST", "/departments", {"name": name, "parent": parent})

    def make_resource(self, name: str, **fields: Any) -> Any:
        """A compute resource: two cores and 4 GiB, unless other requirements are said."""
        return self.api("POST", "/compute-resources", make_resource(name, **fields))

    def make_resources(self, count: int, prefix: str = "resource") -> None:
        """Many compute resources, `resource-0001` and so on, of kinds that differ in what tables show.

        The server makes one of each kind; their likes are written past it, which is fifty times as fast.
        """
        made = []
        for number in range(1, min(count, KINDS) + 1):
            resources = {"cpu": number, "mem": f"{2 * number}Gi"} | ({"gpu": number // 3} if number % 3 == 0 else {})
            said = {"description": f"number {number} of {count}", "requirements": {"resources": resources}}
            made.append(self.make_resource(f"{prefix}-{number:04}", **said)["id"])
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.changing("assets") as tx,
        ):
            kinds = [_load(tx, made_id) for made_id in made]
            for number in range(KINDS + 1, count + 1):
                kind, revision = kinds[number % KINDS]
                own: dict[str, Any] = {"name": f"{prefix}-{number:04}", "description": f"number {number} of {count}"}
                like = replace(kind, id=uuid7().hex, **own)
                tx.add(like)
                kept: dict[str, Any] = {"object_id": like.id, "name": like.name, "content": revision.content | own}
                tx.add(replace(revision, id=uuid7().hex, **kept))

    def multiply(self, kind: type[Any], count: int, /, **own: Callable[[int], Any]) -> None:
        """Many records like the newest one of a kind, written past the server; `own` says what each has for itself."""
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.changing("organization") as tx,
        ):
            like = tx.find(kind)[-1]
            likes = (replace(like, id=uuid7().hex, **_own(own, number)) for number in range(1, count + 1))
            # One statement for all: five times as fast as to add each.
            tx._connection.execute(sa.insert(TABLES[kind]), [_values(record) for record in likes])

    def give_place(self, run_id: str) -> None:
        """Let a run have a place, written past the server, which executes none of its cluster."""
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.recording() as tx,
        ):
            run = tx.get(RunRecord, id=run_id)
            assert run is not None
            tx.save(replace(run, server_id="another server", state="running", revision=run.revision + 1))

    def make_token(self, user: str, **roles: str) -> str:
        """A token of a user with roles: `viewer="project/forest"`."""
        for role, scope in roles.items():
            self.api("POST", "/roles", {"subject": f"user:{user}", "role": role, "scope": scope})
        token: str = self.api("POST", "/tokens", {"name": f"token of {user}", "user": user})["token"]
        return token

    def stop(self) -> None:
        """End the server, as somebody does who pulls the plug."""
        self._running.tell(signal.SIGKILL)

    def start(self) -> None:
        """Start it again, where it was and with what it kept."""
        port = self.url.rpartition(":")[2]
        self._running = self._machine.up("--port", port)

    def close(self) -> None:
        """End it, and whatever it started."""
        self._client.close()
        self._machine.close()
        for folder in self._machine.folder.glob("data/runs/*"):  # or what serves would outlive the tests
            kill_supervisor(folder)


def _own(own: Mapping[str, Callable[[int], Any]], number: int) -> dict[str, Any]:
    return {field: make(number) for field, make in own.items()}


def _load(tx: Transaction, made_id: str) -> tuple[ComputeResourceRecord, RevisionRecord]:
    record = tx.get(ComputeResourceRecord, id=made_id)
    assert record is not None
    return record, tx.find(RevisionRecord, Condition("object_id", "=", made_id))[0]
