"""A log on a full disk: stored parts can be read, and gaps are reported."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.adapters.logs import HEADER, LogWriter, read_records

FIRST = b"first\n"
LATER = b"later\n"


@contextlib.contextmanager
def max_file_size(size: int) -> Iterator[None]:
    """Limit the size of files during the block, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def read(file: Path) -> list[tuple[str, bytes]]:
    """The stream and data of each log record."""
    return [(record.stream, record.data) for record in read_records(file, 0, 1 << 20)]


@pytest.mark.parametrize("room", [0, 1, HEADER.size, HEADER.size + 3], ids=lambda room: f"{room} bytes of room")
def test_partial_record_is_reported_as_a_gap_and_hides_no_later_records(tmp_path: Path, room: int) -> None:
    file = tmp_path / "log"
    with contextlib.closing(LogWriter(file)) as log:
        log.write("stdout", FIRST, 1)
        had_gaps = log.has_gaps
        with max_file_size(file.stat().st_size + room):
            log.write("stdout", b"x" * 100, 2)
            log.write("stderr", b"y" * 20, 3)
        log.write("stdout", LATER, 4)
        assert (had_gaps, log.has_gaps) == (False, True)
    gap = ("platform", b"the disk was full; 120 bytes of output were discarded\n")
    assert read(file) == [("stdout", FIRST), gap, ("stdout", LATER)]


def test_gap_at_the_end_is_reported_when_the_log_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = LogWriter(file)
    log.write("stdout", FIRST, 1)
    with max_file_size(file.stat().st_size):
        log.write("stdout", b"x" * 100, 2)
    log.close()
    assert read(file)[-1] == ("platform", b"the disk was full; 100 bytes of output were discarded\n")
