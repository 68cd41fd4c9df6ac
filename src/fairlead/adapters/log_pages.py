"""Reads pages of a log file."""

from datetime import UTC, datetime
from pathlib import Path

from fairlead.adapters.logs import read_records
from fairlead.model.runs import LogEntry, LogPage


def read_page(file: Path, cursor: int, max_bytes: int, *, ended: bool) -> LogPage:
    """Read a page starting at a cursor. `ended`: the run has ended, so nothing more will be written."""
    if ended and not file.exists():
        return LogPage([], cursor, complete=True)
    records = list(read_records(file, cursor, max_bytes))
    end = records[-1].end if records else cursor
    entries = [LogEntry(_to_datetime(record.nanoseconds), record.stream, record.data, record.end) for record in records]
    # The writer may have been killed while writing a record, so the log is also complete if no whole record is left.
    at_end = not records or end == file.stat().st_size
    return LogPage(entries, end, complete=ended and at_end)


def _to_datetime(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
