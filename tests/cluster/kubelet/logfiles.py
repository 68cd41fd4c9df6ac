"""Container logs, written and read the way containerd and the kubelet do it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

MAX_LINE = 16 * 1024
FOLLOW_SECONDS = 0.05
# The fallback termination message of a failed container.
FALLBACK_BYTES, FALLBACK_LINES = 2048, 80


class Log:
    """The log of one container. Each line has a timestamp, a stream, and a tag: full (F) or partial (P)."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._unfinished = {"stdout": b"", "stderr": b""}
        file.touch()

    def write(self, stream: str, data: bytes) -> None:
        """Add container output. Text after the last newline is buffered."""
        *lines, rest = (self._unfinished[stream] + data).split(b"\n")
        entries = [part for line in lines for part in _split_line(line, last_tag="F")]
        while len(rest) >= MAX_LINE:
            entries.append(("P", rest[:MAX_LINE]))
            rest = rest[MAX_LINE:]
        self._unfinished[stream] = rest
        self._append(stream, entries)

    def close(self) -> None:
        """Write the buffered text."""
        for stream, rest in self._unfinished.items():
            self._append(stream, [("P", rest)] if rest else [])
        self._unfinished = {"stdout": b"", "stderr": b""}

    def tail(self) -> str:
        """The last lines of the log, as a termination message."""
        texts = [entry.text + (b"\n" if entry.whole else b"") for entry in parse_entries(self.file.read_bytes())]
        return b"".join(texts[-FALLBACK_LINES:])[-FALLBACK_BYTES:].decode("utf-8", "replace")

    def _append(self, stream: str, entries: list[tuple[str, bytes]]) -> None:
        # The file may already be deleted, because a forced deletion does not wait for processes.
        with contextlib.suppress(FileNotFoundError), self.file.open("r+b") as file:
            file.seek(0, 2)
            for tag, text in entries:
                file.write(f"{format_time(datetime.now(UTC))} {stream} {tag} ".encode() + text + b"\n")


@dataclass(frozen=True)
class Entry:
    """A log line, or part of one."""

    time: str
    whole: bool
    text: bytes


@dataclass(frozen=True)
class LogOptions:
    """The options of a log request."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None


async def read(file: Path, options: LogOptions, has_ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log in chunks; with `follow`, until the container has ended."""
    remaining, offset, at_line_start, first = options.limit, 0, True, True
    while True:
        is_last = has_ended()
        try:
            with file.open("rb") as log:
                log.seek(offset)
                data = log.read()
        except FileNotFoundError:
            return
        data = data[: data.rfind(b"\n") + 1]
        offset += len(data)
        entries = parse_entries(data)
        if first and options.tail is not None:
            entries = entries[-options.tail :] if options.tail else []
        first = False
        for entry in entries:
            if options.since and datetime.fromisoformat(entry.time[:26] + "+00:00") < options.since:
                continue
            text = f"{entry.time} ".encode() + entry.text if options.timestamps and at_line_start else entry.text
            text += b"\n" if entry.whole else b""
            at_line_start = entry.whole
            if remaining is not None:
                text, remaining = text[:remaining], remaining - len(text)
            yield text
            if remaining is not None and remaining <= 0:
                return
        if is_last or not options.follow:
            return
        await asyncio.sleep(FOLLOW_SECONDS)


def parse_entries(data: bytes) -> list[Entry]:
    """The entries of a log file."""
    parts = [line.split(b" ", 3) for line in data.split(b"\n") if line]
    return [Entry(time.decode(), tag == b"F", text) for time, _, tag, text in parts]


def parse_options(params: dict[str, str]) -> LogOptions:
    """Parse a log request to the kubelet."""
    since = datetime.fromisoformat(params["sinceTime"]) if "sinceTime" in params else None
    if "sinceSeconds" in params:
        since = datetime.now(UTC) - timedelta(seconds=int(params["sinceSeconds"]))
    return LogOptions(
        follow=params.get("follow") == "true",
        timestamps=params.get("timestamps") == "true",
        since=since,
        tail=int(params["tailLines"]) if "tailLines" in params else None,
        limit=int(params["limitBytes"]) if "limitBytes" in params else None,
    )


def format_time(moment: datetime) -> str:
    """Format a time for a log, with nanoseconds."""
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z"


def _split_line(line: bytes, last_tag: str) -> list[tuple[str, bytes]]:
    """Split a line into parts of the maximum length."""
    parts = [line[at : at + MAX_LINE] for at in range(0, len(line), MAX_LINE)] or [b""]
    return [*(("P", part) for part in parts[:-1]), (last_tag, parts[-1])]
