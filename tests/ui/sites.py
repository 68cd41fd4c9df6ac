"""A real server for browser tests, with helpers that create data."""

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from uuid_utils import uuid7

from fairlead.adapters.database.stores import DatabaseStore, _values
from fairlead.adapters.database.tables import TABLES
from fairlead.model.columns import Condition
from fairlead.model.records import ComputeResourceRecord, RevisionRecord, RunRecord
from fairlead.ports import Transaction
from tests.faults.callers import kill_supervisor
from tests.processes.machines import Machine, RunningServer, make_resource

KINDS = 12
NOT_MODIFIED = 304


class Site:
    """A server with its own empty platform, on a local port."""

    def __init__(
        self,
        machine: Machine,
        variables: Mapping[str, str] | None = None,
        *,
        options: Sequence[str] = (),
        program: Sequence[str] | None = None,
    ) -> None:
        self._machine = machine
        self._running: RunningServer = machine.up(*options, variables=variables, program=program)
        self._client = self._running.client()

    @property
    def url(self) -> str:
        """The base URL, which stays the same after a restart."""
        return self._running.url

    @property
    def token(self) -> str:
        """The administrator's token."""
        return self._running.token

    @property
    def link(self) -> str:
        """The one-time sign-in link."""
        return self._running.link

    def api(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Any:
        """Send a request such as `GET /compute-resources` as the administrator, or with another token."""
        sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent_headers["Authorization"] = f"Bearer {token}"
        response = self._client.request(method, path, json=body, headers=sent_headers)
        summary = f"{response.status_code} {response.text[:1000]}"
        assert response.status_code < 300 or response.status_code == NOT_MODIFIED, f"{method} {path}: {summary}"
        return response.json() if response.content else None

    def make_project(self, name: str, parent: str = "cluster/local") -> Any:
        """Create a project."""
        return self.api("POST", "/projects", {"name": name, "parent": parent})

    def make_department(self, name: str, parent: str = "cluster/local") -> Any:
        """Create a department."""
        return self.api("POST", "/departments", {"name": name, "parent": parent})

    def make_resource(self, name: str, **fields: Any) -> Any:
        """Create a compute resource, with two cores and 4 GiB by default."""
        return self.api("POST", "/compute-resources", make_resource(name, **fields))

    def make_resources(self, count: int, prefix: str = "resource") -> None:
        """Create many compute resources, `resource-0001` and so on, with different values in the table.

        The server creates one of each kind. Copies are written directly to the database, which is fifty times as fast.
        """
        created = []
        for number in range(1, min(count, KINDS) + 1):
            resources = {"cpu": number, "mem": f"{2 * number}Gi"} | ({"gpu": number // 3} if number % 3 == 0 else {})
            fields = {"description": f"number {number} of {count}", "requirements": {"resources": resources}}
            created.append(self.make_resource(f"{prefix}-{number:04}", **fields)["id"])
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.changing("assets") as tx,
        ):
            kinds = [_load(tx, resource_id) for resource_id in created]
            for number in range(KINDS + 1, count + 1):
                kind, revision = kinds[number % KINDS]
                copy_fields: dict[str, Any] = {
                    "name": f"{prefix}-{number:04}",
                    "description": f"number {number} of {count}",
                }
                copy = replace(kind, id=uuid7().hex, **copy_fields)
                tx.add(copy)
                changes: dict[str, Any] = {
                    "object_id": copy.id,
                    "name": copy.name,
                    "content": revision.content | copy_fields,
                }
                tx.add(replace(revision, id=uuid7().hex, **changes))

    def multiply(self, kind: type[Any], count: int, /, **fields: Callable[[int], Any]) -> None:
        """Copy the newest record of a kind many times in the database. Each of `fields` computes a value per copy."""
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.changing("organization") as tx,
        ):
            original = tx.find(kind)[-1]
            copies = (
                replace(original, id=uuid7().hex, **_compute_fields(fields, number)) for number in range(1, count + 1)
            )
            # One statement for all copies is five times as fast.
            tx._connection.execute(sa.insert(TABLES[kind]), [_values(record) for record in copies])

    def mark_running(self, run_id: str) -> None:
        """Mark a run as running in the database, because the server does not execute runs on its cluster."""
        with (
            contextlib.closing(DatabaseStore(f"sqlite:///{self._running.data / 'fairlead.db'}")) as store,
            store.recording() as tx,
        ):
            run = tx.get(RunRecord, id=run_id)
            assert run is not None
            tx.save(replace(run, server_id="another server", state="running", revision=run.revision + 1))

    def make_token(self, user: str, **roles: str) -> str:
        """Create a token for a user with roles, such as `viewer="project/forest"`."""
        for role, scope in roles.items():
            self.api("POST", "/roles", {"subject": f"user:{user}", "role": role, "scope": scope})
        token: str = self.api("POST", "/tokens", {"name": f"token of {user}", "user": user})["token"]
        return token

    def stop(self) -> None:
        """Kill the server."""
        self._running.stop(signal.SIGKILL)

    def start(self) -> None:
        """Start the server again with the same port and data."""
        port = self.url.rpartition(":")[2]
        self._running = self._machine.up("--port", port)

    def close(self) -> None:
        """Stop the server and all processes that it started."""
        self._client.close()
        self._machine.close()
        for folder in self._machine.folder.glob("data/runs/*"):  # otherwise served runs would outlive the tests
            kill_supervisor(folder)


def _compute_fields(fields: Mapping[str, Callable[[int], Any]], number: int) -> dict[str, Any]:
    return {field: compute(number) for field, compute in fields.items()}


def _load(tx: Transaction, resource_id: str) -> tuple[ComputeResourceRecord, RevisionRecord]:
    record = tx.get(ComputeResourceRecord, id=resource_id)
    assert record is not None
    return record, tx.find(RevisionRecord, Condition("object_id", "=", resource_id))[0]
