"""Run files in stores: saving, listing without contents, reading ranges, and deletion with the run."""

import io
import os
from datetime import timedelta

import pytest
import sqlalchemy as sa

from fairlead import run_files
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.errors import Conflict, NotFound
from fairlead.model.records import FilePartRecord, RunFileRecord, RunRecord
from fairlead.ports import Store
from fairlead.run_files import PART_BYTES
from tests.contracts.samples import NOW, add_records, make, make_scopes

pytestmark = pytest.mark.every_store

SIZES = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES]


@pytest.fixture
def run_store(filled_store: Store) -> Store:
    """A store with two runs; the ID of one is a prefix of the other's."""
    add_records(filled_store, make(RunRecord, "r1"), make(RunRecord, "r10"))
    return filled_store


def save(store: Store, path: str, content: bytes, run_id: str = "r1") -> RunFileRecord:
    """Save a file."""
    with store.recording() as tx:
        return run_files.save_file(tx, run_id, path, content, NOW)


def list_paths(store: Store, run_id: str = "r1", under: str = "") -> list[str]:
    """The files of a run."""
    with store.reading() as tx:
        return [file.path for file in run_files.list_files(tx, run_id, under)]


@pytest.mark.parametrize("size", SIZES)
def test_files_round_trip(run_store: Store, size: int) -> None:
    content = os.urandom(size)
    record = save(run_store, "output/a", content)
    assert record == RunFileRecord(id="r1/output/a", run_id="r1", path="output/a", size=size, modified_at=NOW)
    with run_store.reading() as tx:
        assert run_files.load_file(tx, "r1", "output/a") == content
        assert run_files.load_size(tx, "r1", "output/a") == size
        assert run_files.list_files(tx, "r1") == [record]
        parts = tx.find(FilePartRecord)
    assert [len(part.content) for part in parts] == [PART_BYTES] * (size // PART_BYTES) + [size % PART_BYTES] * (
        size % PART_BYTES > 0
    )
    with run_files.open_file(run_store, "r1", "output/a") as opened:
        assert opened.read() == content
    with run_files.open_file(run_store, "r1", "output/a") as opened:
        assert b"".join(iter(lambda: opened.read(300_001), b"")) == content


def test_a_file_is_saved_from_a_stream(run_store: Store) -> None:
    source = io.BytesIO(b"before and after")
    source.read(7)
    with run_store.recording() as tx:
        assert run_files.save_file(tx, "r1", "log", source, NOW).size == 16
    with run_store.reading() as tx:
        assert run_files.load_file(tx, "r1", "log") == b"before and after"


@pytest.mark.parametrize(
    ("start", "max_bytes"),
    [
        (0, 0),
        (0, 10),
        (5, 0),
        (PART_BYTES - 1, 2),
        (PART_BYTES, PART_BYTES),
        (PART_BYTES - 5, PART_BYTES + 10),
        (2 * PART_BYTES + 9, 5),
        (0, 9 * PART_BYTES),
    ],
)
def test_ranges_of_a_file_are_read(run_store: Store, start: int, max_bytes: int) -> None:
    content = os.urandom(2 * PART_BYTES + 10)
    save(run_store, "log", content)
    with run_store.reading() as tx:
        assert run_files.load_range(tx, "r1", "log", start, max_bytes) == content[start : start + max_bytes]


def test_ranges_beyond_the_end_are_empty(run_store: Store) -> None:
    save(run_store, "log", b"x" * PART_BYTES)
    with run_store.reading() as tx:
        assert run_files.load_range(tx, "r1", "log", PART_BYTES, 10) == b""
        assert run_files.load_range(tx, "r1", "log", 50 * PART_BYTES, 10) == b""
        assert run_files.load_range(tx, "r1", "gone", 0, 10) == b""
        assert run_files.load_file(tx, "r1", "gone") is None
        assert run_files.load_size(tx, "r1", "gone") is None
    with pytest.raises(NotFound, match="has no output file 'gone'"):
        run_files.open_file(run_store, "r1", "output/gone")


def test_saving_a_file_replaces_the_one_at_its_path(run_store: Store) -> None:
    save(run_store, "output/a", b"x" * (3 * PART_BYTES))
    with run_store.recording() as tx:
        run_files.save_file(tx, "r1", "output/a", b"short", NOW + timedelta(hours=1))
    with run_store.reading() as tx:
        assert run_files.load_file(tx, "r1", "output/a") == b"short"
        assert tx.count(FilePartRecord) == 1
        assert run_files.measure_files(tx, "r1") == (1, 5)


def test_files_are_listed_by_path_prefix(run_store: Store) -> None:
    for path in ("output/b", "log", "output/a/é", "output/a", "usage.json", "output", "output0", "output-x"):
        save(run_store, path, b"12")
    save(run_store, "output/theirs", b"123", "r10")
    assert list_paths(run_store) == sorted(
        ("log", "output", "output-x", "output/a", "output/a/é", "output/b", "output0", "usage.json")
    )
    assert list_paths(run_store, under="output/") == ["output/a", "output/a/é", "output/b"]
    assert list_paths(run_store, "r10") == ["output/theirs"]
    assert list_paths(run_store, "r2") == []
    with run_store.reading() as tx:
        assert run_files.measure_files(tx, "r1", "output/") == (3, 6)
        assert run_files.measure_files(tx, "r2") == (0, 0)


def test_files_are_removed_by_path_prefix(run_store: Store) -> None:
    for path in ("output/b", "log", "output/a"):
        save(run_store, path, b"12")
    save(run_store, "log", b"123", "r10")
    with run_store.recording() as tx:
        assert run_files.remove_files(tx, "r1", "output/") == 2
    assert list_paths(run_store) == ["log"]
    with run_store.recording() as tx:
        assert run_files.remove_files(tx, "r1") == 1
    with run_store.reading() as tx:
        assert tx.count(FilePartRecord) == 1
        assert run_files.load_file(tx, "r10", "log") == b"123"


def test_files_are_deleted_with_their_run(run_store: Store) -> None:
    save(run_store, "log", b"1")
    save(run_store, "log", b"2", "r10")
    with run_store.recording() as tx:
        tx.remove(make(RunRecord, "r1"))
    with run_store.reading() as tx:
        assert [file.run_id for file in tx.find(RunFileRecord)] == ["r10"]
        assert [part.content for part in tx.find(FilePartRecord)] == [b"2"]


def test_a_file_of_a_missing_run_is_rejected(run_store: Store) -> None:
    with pytest.raises(Conflict):
        save(run_store, "log", b"", "gone")


def test_a_file_deleted_while_it_is_read_is_an_error(run_store: Store) -> None:
    save(run_store, "log", os.urandom(3 * PART_BYTES))
    with run_files.open_file(run_store, "r1", "log") as opened:
        opened.read(10)
        with run_store.recording() as tx:
            run_files.remove_files(tx, "r1")
        with pytest.raises(OSError, match="was deleted"):
            opened.read()


def test_listing_files_reads_no_contents(database_store: DatabaseStore) -> None:
    add_records(database_store, *make_scopes(), make(RunRecord, "r1"))
    save(database_store, "log", b"secret")
    statements: list[str] = []
    sa.event.listen(database_store.engine, "before_cursor_execute", lambda _c, _cu, text, *_: statements.append(text))
    with database_store.recording() as tx:
        run_files.list_files(tx, "r1")
        run_files.measure_files(tx, "r1")
    assert statements
    assert [text for text in statements if "file_parts" in text] == []
