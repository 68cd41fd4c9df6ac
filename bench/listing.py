"""Measures loading a page of 50 runs from a short and a long list, over HTTP, from one server with SQLite.

Runs are inserted into the database while the server is running. Figures are medians of 50 requests on one connection.
"""

import contextlib
import statistics
import tempfile
import uuid
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from bench.fairlead_peer import Fairlead
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.database.tables import runs
from fairlead.model.records import RunRecord

FEW, MANY = 100, 10_000
REQUESTS = 50
START = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        peer = Fairlead(Path(folder), Path(folder) / "fairlead")
        try:
            peer.start()
            medians = {}
            for start, end in ((0, FEW), (FEW, MANY)):
                _write(peer.database_url, start, end)
                medians[end] = statistics.median(peer.list_50(REQUESTS)) * 1000
        finally:
            peer.stop()
    for size, milliseconds in medians.items():
        print(f"list 50 of {size:>6,} runs  {milliseconds:6.2f} ms  x {milliseconds / medians[FEW]:.2f}")


def _write(url: str, start: int, end: int) -> None:
    with contextlib.closing(DatabaseStore(url)) as store, store.engine.begin() as connection:
        connection.execute(sa.insert(runs), [asdict(_run(number)) for number in range(start, end)])


def _run(number: int) -> RunRecord:
    at = START + timedelta(minutes=number)
    audit_fields = {"created_by": "ada", "created_at": at, "updated_by": "fairlead", "updated_at": at}
    outcome = {"state": "completed", "reason": "Completed", "message": "has completed", "active": False}
    fields = {"scope": "project/default", "function": f"train-{number % 20}", "action": "job", "finished_at": at}
    return RunRecord(id=uuid.UUID(int=number).hex, **audit_fields, **outcome, **fields)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
