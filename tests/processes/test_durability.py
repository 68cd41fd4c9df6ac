"""`kill -9` in the middle of writes: what was acknowledged is there afterwards, and nothing is there by halves."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx2
import sqlalchemy as sa

from tests.processes.machines import Machine, Running, make_resource
from tests.suites import examples

WRITES = examples(fast=300, all=1000)
WRITERS = 4

# All compute resources with the number of their revisions and audit entries.
STORED = """
SELECT c.id, c.name, c.revision,
  (SELECT count(*) FROM revisions r WHERE r.object_id = c.id),
  (SELECT max(r.number) FROM revisions r WHERE r.object_id = c.id),
  (SELECT count(*) FROM audit a WHERE a.object_id = c.id)
FROM compute_resources c
"""
STRAY = """
SELECT object_id FROM {table} WHERE object_id NOT IN (SELECT id FROM compute_resources){more}
"""


@dataclass
class Noted:
    """The requests that were sent, and the acknowledged revision of each name."""

    sent: dict[str, str] = field(default_factory=dict)  # the idempotency key of each name
    acknowledged: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    half: threading.Event = field(default_factory=threading.Event)

    def acknowledge(self, name: str, revision: int) -> None:
        """Record a response. Sets an event after half of them."""
        with self.lock:
            self.acknowledged[name] = revision
            if sum(self.acknowledged.values()) >= WRITES // 2:
                self.half.set()


def test_acknowledged_writes_survive_kill_and_are_atomic(machine: Machine, database: tuple[str, ...]) -> None:
    server, noted = machine.up(*database), Noted()
    with ThreadPoolExecutor(WRITERS) as writers:
        working = [writers.submit(_write, server, noted, writer) for writer in range(WRITERS)]
        assert noted.half.wait(120)
        assert server.stop(signal.SIGKILL).code == -signal.SIGKILL
        ended = [work.result(60) for work in working]
    assert ended == ["cut off"] * WRITERS, "the server was killed too late"
    assert WRITES // 2 <= sum(noted.acknowledged.values()) < WRITES

    server = machine.up(*database)
    _check_whole(server, database, noted)
    _send_again(server, noted)
    _check_whole(server, database, noted)


def _write(server: Running, noted: Noted, writer: int) -> str:
    """Create compute resources, and edit every third of them."""
    with server.client() as client:
        try:
            for number in range(WRITES // WRITERS):
                name = f"kept-{writer}-{number}"
                noted.sent[name] = f"key-of-{name}"
                _create(client, noted, name)
                if number % 3 == 0:
                    answer = client.patch(f"/compute-resources/{name}", json={"description": "edited"})
                    assert answer.status_code == 200, answer.text
                    noted.acknowledge(name, answer.json()["revision"])
        except httpx2.TransportError:
            return "cut off"
    return "done"


def _create(client: httpx2.Client, noted: Noted, name: str) -> None:
    headers = {"Idempotency-Key": noted.sent[name]}
    answer = client.post("/compute-resources", json=make_resource(name), headers=headers)
    assert answer.status_code == 201, answer.text
    noted.acknowledge(name, answer.json()["revision"])


def _send_again(server: Running, noted: Noted) -> None:
    """Retries without a response have an effect once, whether or not the first request succeeded."""
    unanswered = [name for name in noted.sent if name not in noted.acknowledged]
    with server.client() as client:
        for name in unanswered:
            _create(client, noted, name)


def _check_whole(server: Running, database: tuple[str, ...], noted: Noted) -> None:
    url = database[1] if database else f"sqlite:///{server.data / 'fairlead.db'}"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        rows = {row.name: row for row in connection.execute(sa.text(STORED))}
        of_kind = " AND kind = 'compute_resource'"
        strays = [
            *connection.execute(sa.text(STRAY.format(table="revisions", more=""))),
            *connection.execute(sa.text(STRAY.format(table="audit", more=of_kind))),
        ]
        kinds = set(connection.execute(sa.text("SELECT kind FROM audit")).scalars())
    assert "compute_resource" in kinds
    assert strays == []
    assert set(rows) <= set(noted.sent)
    for name, revision in noted.acknowledged.items():
        assert rows[name].revision >= revision, name
    for _id, name, revision, revisions, newest, entries in rows.values():
        assert (revisions, newest, entries) == (revision, revision, revision), name
