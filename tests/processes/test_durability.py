"""`kill -9` during writes: acknowledged writes survive, and no write is partially stored."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx2
import sqlalchemy as sa

from tests.processes.machines import Machine, RunningServer, make_resource
from tests.suites import examples

WRITES = examples(fast=300, all=1000)
WRITERS = 4

# All compute resources with their numbers of revisions and audit entries.
STORED = """
SELECT c.id, c.name, c.revision,
  (SELECT count(*) FROM revisions r WHERE r.object_id = c.id),
  (SELECT max(r.number) FROM revisions r WHERE r.object_id = c.id),
  (SELECT count(*) FROM audit a WHERE a.object_id = c.id)
FROM compute_resources c
"""
ORPHANS = """
SELECT object_id FROM {table} WHERE object_id NOT IN (SELECT id FROM compute_resources){condition}
"""


@dataclass
class WriteLog:
    """The requests that were sent, and the acknowledged revision for each name."""

    sent: dict[str, str] = field(default_factory=dict)  # the idempotency key for each name
    acknowledged: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    half_done: threading.Event = field(default_factory=threading.Event)

    def acknowledge(self, name: str, revision: int) -> None:
        """Record an acknowledged revision. Sets an event after half of the writes."""
        with self.lock:
            self.acknowledged[name] = revision
            if sum(self.acknowledged.values()) >= WRITES // 2:
                self.half_done.set()


def test_acknowledged_writes_survive_kill_and_are_atomic(machine: Machine, database: tuple[str, ...]) -> None:
    server, log = machine.up(*database), WriteLog()
    with ThreadPoolExecutor(WRITERS) as writers:
        futures = [writers.submit(_write, server, log, writer) for writer in range(WRITERS)]
        assert log.half_done.wait(120)
        assert server.stop(signal.SIGKILL).code == -signal.SIGKILL
        results = [future.result(60) for future in futures]
    assert results == ["cut off"] * WRITERS, "the server was killed too late"
    assert WRITES // 2 <= sum(log.acknowledged.values()) < WRITES

    server = machine.up(*database)
    _check_stored(server, database, log)
    _retry(server, log)
    _check_stored(server, database, log)


def _write(server: RunningServer, log: WriteLog, writer: int) -> str:
    """Create compute resources, and edit every third one."""
    with server.client() as client:
        try:
            for number in range(WRITES // WRITERS):
                name = f"written-{writer}-{number}"
                log.sent[name] = f"key-of-{name}"
                _create(client, log, name)
                if number % 3 == 0:
                    response = client.patch(f"/compute-resources/{name}", json={"description": "edited"})
                    assert response.status_code == 200, response.text
                    log.acknowledge(name, response.json()["revision"])
        except httpx2.TransportError:
            return "cut off"
    return "done"


def _create(client: httpx2.Client, log: WriteLog, name: str) -> None:
    headers = {"Idempotency-Key": log.sent[name]}
    response = client.post("/compute-resources", json=make_resource(name), headers=headers)
    assert response.status_code == 201, response.text
    log.acknowledge(name, response.json()["revision"])


def _retry(server: RunningServer, log: WriteLog) -> None:
    """Retry requests that got no response: each takes effect once, whether or not the first request succeeded."""
    unanswered = [name for name in log.sent if name not in log.acknowledged]
    with server.client() as client:
        for name in unanswered:
            _create(client, log, name)


def _check_stored(server: RunningServer, database: tuple[str, ...], log: WriteLog) -> None:
    url = database[1] if database else f"sqlite:///{server.data / 'fairlead.db'}"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        rows = {row.name: row for row in connection.execute(sa.text(STORED))}
        only_resources = " AND kind = 'compute_resource'"
        orphans = [
            *connection.execute(sa.text(ORPHANS.format(table="revisions", condition=""))),
            *connection.execute(sa.text(ORPHANS.format(table="audit", condition=only_resources))),
        ]
        kinds = set(connection.execute(sa.text("SELECT kind FROM audit")).scalars())
    assert "compute_resource" in kinds
    assert orphans == []
    assert set(rows) <= set(log.sent)
    for name, revision in log.acknowledged.items():
        assert rows[name].revision >= revision, name
    for _id, name, revision, revisions, newest, entries in rows.values():
        assert (revisions, newest, entries) == (revision, revision, revision), name
