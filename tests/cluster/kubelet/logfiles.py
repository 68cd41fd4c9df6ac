"""Logs of containers, written and read as containerd and the kubelet do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

LONGEST_LINE = 16 * 1024
FOLLOW_SECONDS = 0.05
# The fallback termination message of a failed container.
FALLBACK_BYTES, FALLBACK_LINES = 2048, 80


class Log:
    """The log of one container: each line with its time, its stream, and whether it is whole (F) or goes on (P)."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._left = {"stdout": b"", "stderr": b""}
        file.touch()

    def write(self, stream: str, data: bytes) -> None:
        """Add what a container wrote; the part after the last line end waits for the rest."""
        *lines, rest = (self._left[stream] + data).split(b"\n")
        entries = [part for line in lines for part in _parts(line, last="F")]
        while len(rest) >= LONGEST_LINE:
            entries.append(("P", rest[:LONGEST_LINE]))
            rest = rest[LONGEST_LINE:]
        self._left[stream] = rest
        self._append(stream, entries)

    def close(self) -> None:
        """Add what was written without a line end."""
        for stream, rest in self._left.items():
            self._append(stream, [("P", rest)] if rest else [])
        self._left = {"stdout": b"", "stderr": b""}

    def tail(self) -> str:
        """The last that was written."""
        texts = [entry.text + (b"\n" if entry.whole else b"") for entry in parse_entries(self.file.read_bytes())]
        return b"".join(texts[-FALLBACK_LINES:])[-FALLBACK_BYTES:].decode("utf-8", "replace")

    def _append(self, stream: str, entries: list[tuple[str, bytes]]) -> None:
        # The file may be gone: a forced deletion does not wait for processes.
        with contextlib.suppress(FileNotFoundError), self.file.open("r+b") as file:
            file.seek(0, 2)
            for tag, text in entries:
                file.write(f"{format_time(datetime.now(UTC))} {stream} {tag} ".encode() + text + b"\n")


@dataclass(frozen=True)
class Entry:
    """A line of a log, or a part of one."""

    time: str
    whole: bool
    text: bytes


@dataclass(frozen=True)
class Reading:
    """The options of a log request."""

    follow: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    limit: int | None = None


async def read(file: Path, asked: Reading, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log in chunks; with `follow`, until the container has ended."""
    left, at, fresh, first = asked.limit, 0, True, True
    while True:
        over = ended()
        try:
            with file.open("rb") as opened:
                opened.seek(at)
                data = opened.read()
        except FileNotFoundError:
            return
        data = data[: data.rfind(b"\n") + 1]
        at += len(data)
        entries = parse_entries(data)
        if first and asked.tail is not None:
            entries = entries[-asked.tail :] if asked.tail else []
        first = False
        for entry in entries:
            if asked.since and datetime.fromisoformat(entry.time[:26] + "+00:00") < asked.since:
                continue
            text = f"{entry.time} ".encode() + entry.text if asked.timestamps and fresh else entry.text
            text += b"\n" if entry.whole else b""
            fresh = entry.whole
            if left is not None:
                text, left = text[:left], left - len(text)
            yield text
            if left is not None and left <= 0:
                return
        if over or not asked.follow:
            return
        await asyncio.sleep(FOLLOW_SECONDS)


def parse_entries(data: bytes) -> list[Entry]:
    """The entries of a log file."""
    parts = [line.split(b" ", 3) for line in data.split(b"\n") if line]
    return [Entry(time.decode(), tag == b"F", text) for time, _, tag, text in parts]


def parse_reading(params: dict[str, str]) -> Reading:
    """Parse a log request to the kubelet."""
    since = datetime.fromisoformat(params["sinceTime"]) if "sinceTime" in params else None
    if "sinceSeconds" in params:
        since = datetime.now(UTC) - timedelta(seconds=int(params["sinceSeconds"]))
    return Reading(
        follow=params.get("follow") == "true",
        timestamps=params.get("timestamps") == "true",
        since=since,
        tail=int(params["tailLines"]) if "tailLines" in params else None,
        limit=int(params["limitBytes"]) if "limitBytes" in params else None,
    )


def format_time(when: datetime) -> str:
    """A time as logs have it, to the nanosecond."""
    return f"{when:%Y-%m-%dT%H:%M:%S.%f}000Z"


def _parts(line: bytes, last: str) -> list[tuple[str, bytes]]:
    """A line in the parts that fit."""
    cut = [line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE)] or [b""]
    return [*(("P", part) for part in cut[:-1]), (last, cut[-1])]
