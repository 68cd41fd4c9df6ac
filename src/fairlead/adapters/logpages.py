"""Pages of a log that is a file."""

from datetime import UTC, datetime
from pathlib import Path

from fairlead.adapters.logfiles import read_pieces
from fairlead.model.observations import LogEntry, LogPage


def read_page(file: Path, cursor: int, max_bytes: int, *, ended: bool) -> LogPage:
    """A log from a cursor on, which nobody writes to any more where it has ended."""
    if ended and not file.exists():
        return LogPage([], cursor, complete=True)
    pieces = list(read_pieces(file, cursor, max_bytes))
    end = pieces[-1].end if pieces else cursor
    entries = [LogEntry(_moment(piece.nanoseconds), piece.stream, piece.data, piece.end) for piece in pieces]
    # Whoever wrote it may have been killed in the middle of a record: where nothing whole is left, that is the end.
    whole = not pieces or end == file.stat().st_size
    return LogPage(entries, end, complete=ended and whole)


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC)
