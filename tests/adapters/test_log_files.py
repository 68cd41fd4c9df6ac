"""Run log files: records are read back from any valid cursor."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.adapters.logs import HEADER, MAX_RECORD_BYTES, STREAMS, LogRecord, LogWriter, read_records

RecordTuple = tuple[str, bytes, int]
RECORDS = st.lists(
    st.tuples(st.sampled_from(STREAMS), st.binary(min_size=1, max_size=60), st.integers(0, 2**63)), max_size=8
)
ALL = 1 << 40


def write(file: Path, records: list[RecordTuple]) -> None:
    """Write a log with these records."""
    file.unlink(missing_ok=True)
    log = LogWriter(file)
    for record in records:
        log.write(*record)
    log.close()


def read(file: Path, start: int = 0, max_bytes: int = ALL) -> list[LogRecord]:
    """The records starting at a cursor."""
    return list(read_records(file, start, max_bytes))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a log is rewritten repeatedly."""
    return tmp_path_factory.mktemp("log") / "log"


@given(RECORDS)
def test_records_are_read_back_from_any_cursor(log: Path, records: list[RecordTuple]) -> None:
    write(log, records)
    read_back = read(log)
    assert [(record.stream, record.data, record.nanoseconds) for record in read_back] == records
    for index, record in enumerate(read_back):
        assert read(log, record.end) == read_back[index + 1 :]


@given(RECORDS, st.integers(1, 200))
def test_pages_of_any_size_give_the_complete_log(log: Path, records: list[RecordTuple], max_bytes: int) -> None:
    write(log, records)
    cursor, collected = 0, []
    while page := read(log, cursor, max_bytes):
        collected += page
        cursor = page[-1].end
        assert sum(len(record.data) + HEADER.size for record in page[:-1]) < max_bytes
    assert collected == read(log)
    assert cursor == log.stat().st_size


@given(RECORDS, st.data())
def test_truncated_record_is_not_read_yet(log: Path, records: list[RecordTuple], data: st.DataObject) -> None:
    write(log, records)
    content, read_back = log.read_bytes(), read(log)
    length = data.draw(st.integers(0, len(content)))
    log.write_bytes(content[:length])
    assert read(log) == [record for record in read_back if record.end <= length]
    log.write_bytes(content)
    assert read(log) == read_back


@given(RECORDS, st.data())
def test_cursor_inside_a_record_is_rejected(log: Path, records: list[RecordTuple], data: st.DataObject) -> None:
    write(log, records)
    boundaries = {0, *(record.end for record in read(log))}
    inside = [cursor for cursor in range(log.stat().st_size) if cursor not in boundaries]
    if inside:
        cursor = data.draw(st.sampled_from(inside))
        with pytest.raises(ValueError, match="no record begins at the cursor"):
            read(log, cursor)


@pytest.mark.parametrize("cursor", [-1, 1000, 1 << 70])
def test_cursor_outside_the_log_is_rejected(log: Path, cursor: int) -> None:
    write(log, [("stdout", b"hello\n", 1)])
    with pytest.raises(ValueError, match="the cursor is outside the log"):
        read(log, cursor)


def test_missing_log_is_empty(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []


def test_empty_write_stores_no_record(log: Path) -> None:
    write(log, [("stdout", b"", 1)])
    assert log.stat().st_size == 0


def test_page_has_at_least_one_record_of_any_size(log: Path) -> None:
    write(log, [("stdout", b"x" * 10_000, 1), ("stdout", b"y", 2)])
    assert [len(record.data) for record in read(log, 0, 10)] == [10_000]
    assert read(log, 0, 0) == []


@pytest.mark.parametrize("size", [MAX_RECORD_BYTES, MAX_RECORD_BYTES + 1, 3 * MAX_RECORD_BYTES])
def test_single_write_can_be_large(log: Path, size: int) -> None:
    write(log, [("stderr", b"x" * size, 1), ("stdout", b"after", 2)])
    read_back = read(log)
    assert b"".join(record.data for record in read_back) == b"x" * size + b"after"


def test_log_at_its_maximum_size_contains_one_notice(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log", max_bytes=10)
    for data in (b"12345", b"12345", b"6", b"7"):
        log.write("stdout", data, 1)
    log.close()
    *stored, last = read(tmp_path / "log")
    assert [record.data for record in stored] == [b"12345", b"12345"]
    assert (last.stream, b"maximum size" in last.data) == ("platform", True)


def test_full_log_is_unchanged_when_it_is_opened_again(tmp_path: Path) -> None:
    for data in (b"12345678", b"12345678", b"9"):
        log = LogWriter(tmp_path / "log", max_bytes=40)
        log.write("stdout", data, 1)
        log.close()
    assert [record.data for record in read(tmp_path / "log")] == [b"12345678", b"12345678"]


def test_streams_are_distinguished_and_in_order(log: Path) -> None:
    records: list[RecordTuple] = [("stdout", b"a", 3), ("stderr", b"b", 2), ("platform", b"c", 1)]
    write(log, records)
    assert [(record.stream, record.data, record.nanoseconds) for record in read(log)] == records
