"""Output is stored line by line, but incomplete lines are not delayed for long."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.adapters.local import supervisor
from fairlead.adapters.local.supervisor import MAX_LINE, WAIT_SECONDS, LineBuffer
from fairlead.adapters.logs import LogWriter, Masker, read_records


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return self.now

    def time_ns(self) -> int:
        """The current time in nanoseconds."""
        return int(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that the line buffer uses."""
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    return clock


@contextlib.contextmanager
def open_lines(folder: Path, *secrets: str) -> Iterator[LineBuffer]:
    """A stream with an empty log."""
    (folder / "log").unlink(missing_ok=True)
    with contextlib.closing(LogWriter(folder / "log")) as log:
        yield LineBuffer("stdout", Masker(secrets), log)


def stored_lines(folder: Path) -> list[bytes]:
    """The records of the log."""
    return [record.data for record in read_records(folder / "log", 0, 1 << 40)]


def test_line_in_several_chunks_is_stored_as_one_record(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path) as stream:
        for chunk in (b"loss", b" ", b"0.3", b"\nacc"):
            stream.feed(chunk)
        assert stored_lines(tmp_path) == [b"loss 0.3\n"]
        stream.finish()
        assert stored_lines(tmp_path) == [b"loss 0.3\n", b"acc"]


def test_incomplete_line_is_flushed_after_a_short_wait(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path) as stream:
        stream.feed(b"50 %")
        clock.now += WAIT_SECONDS / 2
        stream.flush_stale()
        assert stored_lines(tmp_path) == []
        clock.now += WAIT_SECONDS
        stream.flush_stale()
        assert stored_lines(tmp_path) == [b"50 %"]


def test_progress_bar_without_newlines_is_stored_as_it_arrives(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path) as stream:
        for percent in range(10):
            stream.feed(b"\r%d" % percent)
            clock.now += WAIT_SECONDS * 0.6
            stream.flush_stale()
        assert 4 <= len(stored_lines(tmp_path)) <= 6


def test_endless_line_is_stored_in_parts(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path) as stream:
        for _ in range(160):
            stream.feed(b"x" * (1 << 16))  # 10 MB
            assert len(stream.pending) < 2 * MAX_LINE
        stream.finish()
        assert sum(map(len, stored_lines(tmp_path))) == 160 << 16
        assert max(map(len, stored_lines(tmp_path))) <= 2 * MAX_LINE


def test_secret_split_at_the_maximum_line_length_is_masked(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path, "hunter2") as stream:
        stream.feed(b"x" * (MAX_LINE - 3) + b"hun")
        stream.feed(b"ter2\n")
        stream.finish()
        assert b"".join(stored_lines(tmp_path)) == b"x" * (MAX_LINE - 3) + b"***\n"


def test_secret_that_arrives_slowly_is_masked(tmp_path: Path, clock: Clock) -> None:
    with open_lines(tmp_path, "hunter2") as stream:
        for byte in b"hunter2":
            stream.feed(bytes([byte]))
            clock.now += 1
            stream.flush_stale()
        stream.finish()
        assert b"".join(stored_lines(tmp_path)) == b"***"


@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_no_byte_is_lost(tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], flush: bool) -> None:
    folder = tmp_path_factory.getbasetemp()
    with open_lines(folder) as stream:
        for chunk in chunks:
            stream.feed(chunk)
            if flush:
                stream.since = 0.0
                stream.flush_stale()
        stream.finish()
        assert b"".join(stored_lines(folder)) == b"".join(chunks)
