"""Packing code: identical code produces identical archives, and errors name unpicklable objects."""

import functools
import io
import os
import stat
import tarfile
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import Unreadable
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.functions import pack_function
from fairlead.source_code import MAX_SOURCE_BYTES, SKIPPED, PackedCode, pack_path
from tests.cli.terminal import write
from tests.suites import examples

FILES = {"src/main.py": "import lib.more\n", "src/lib/more.py": "x = 1\n", "src/data.txt": "é\n"}
NAMES = st.text(st.sampled_from("abé ._-"), min_size=1, max_size=8).filter(
    lambda name: name.strip(".") and not name.startswith(".#") and name not in SKIPPED
)
TREES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=50), st.booleans()), min_size=1, max_size=5)
FOLDERS = st.dictionaries(NAMES.map(lambda name: f"d{name}"), TREES, min_size=1, max_size=3)

LOCK = threading.Lock()
CONNECTION = ApiClient("http://127.0.0.1:1", "secret")
LARGE = bytes(MAX_SOURCE_BYTES)


def entries_of(packed: PackedCode) -> dict[str, tuple[bytes, int]]:
    with tarfile.open(fileobj=io.BytesIO(packed.archive)) as archive:
        members = archive.getmembers()
        assert [member.name for member in members] == sorted(member.name for member in members)
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.isfile()) for m in members} == {(0, 0, 0, "", "", True)}
        opened = {member: archive.extractfile(member) for member in members}
        return {member.name: (file.read() if file else b"", member.mode) for member, file in opened.items()}


def make_tree(folder: Path, tree: dict[str, dict[str, tuple[bytes, bool]]], *, mask: int, time: int) -> Path:
    """A folder tree with varying permissions and timestamps."""
    for name, files in tree.items():
        (folder / "src" / name).mkdir(parents=True)
        for file, (content, executable) in files.items():
            path = folder / "src" / name / file
            path.write_bytes(content)
            path.chmod((0o777 if executable else 0o666) & ~mask)
            os.utime(path, (time, time))
    return folder / "src"


@given(FOLDERS)
@settings(max_examples=examples(fast=15, all=100), deadline=None)
def test_equal_trees_give_equal_archives(tree: dict[str, dict[str, tuple[bytes, bool]]]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first = pack_path(make_tree(Path(one), tree, mask=0o077, time=1))
        second = pack_path(make_tree(Path(two), dict(reversed(tree.items())), mask=0o002, time=10**9))
    assert first == second
    assert first.digest == second.digest
    assert entries_of(first) == {
        f"src/{folder}/{name}": (content, 0o755 if executable else 0o644)
        for folder, files in tree.items()
        for name, (content, executable) in files.items()
    }


@given(FOLDERS, FOLDERS)
@settings(max_examples=examples(fast=15, all=100), deadline=None)
def test_different_trees_have_different_digests(one: Any, two: Any) -> None:
    with tempfile.TemporaryDirectory() as first_folder, tempfile.TemporaryDirectory() as second_folder:
        first = pack_path(make_tree(Path(first_folder), one, mask=0, time=1))
        second = pack_path(make_tree(Path(second_folder), two, mask=0, time=1))
    assert (first.digest == second.digest) == (one == two)


@pytest.mark.parametrize(
    ("path", "source"), [("src", "src"), ("src/", "src"), ("src/main.py", "main.py"), (".", "here")]
)
def test_the_source_is_the_name_of_the_file_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, source: str
) -> None:
    write(tmp_path / "here", FILES)
    monkeypatch.chdir(tmp_path / "here")
    packed = pack_path(Path(path))
    assert (packed.source, packed.handler) == (source, None)
    assert {name.split("/")[0] for name in entries_of(packed)} == {source}


def test_links_are_packed_as_their_targets(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "src" / "also.py").symlink_to("lib/more.py")
    (tmp_path / "src" / "library").symlink_to("lib")
    packed = entries_of(pack_path(tmp_path / "src"))
    assert set(packed) == {*FILES, "src/also.py", "src/library/more.py"}
    assert packed["src/also.py"] == packed["src/lib/more.py"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/etc/hostname", "points outside"),
        ("../other.py", "points outside"),
        ("../src2", "points outside"),
        ("nowhere.py", "is broken"),
        ("link", "is broken"),
        (".", "points to a folder that contains it"),
        ("../src", "points to a folder that contains it"),
    ],
)
def test_broken_and_outside_links_are_rejected_by_name(tmp_path: Path, target: str, message: str) -> None:
    write(tmp_path, {**FILES, "other.py": "", "src2/a.py": ""})
    (tmp_path / "src" / "link").symlink_to(target)
    with pytest.raises(Unreadable, match=f"{tmp_path}/src/link {message}"):
        pack_path(tmp_path / "src")


def test_circular_links_are_rejected(tmp_path: Path) -> None:
    write(tmp_path, {"src/a/x.py": "", "src/b/y.py": ""})
    (tmp_path / "src" / "a" / "b").symlink_to("../b")
    (tmp_path / "src" / "b" / "a").symlink_to("../a")
    with pytest.raises(Unreadable, match="points to a folder that contains it"):
        pack_path(tmp_path / "src")


def test_the_packed_path_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "link.py").symlink_to("src/main.py")
    assert list(entries_of(pack_path(tmp_path / "link.py"))) == ["link.py"]


def test_editor_locks_and_pipes_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "src" / ".#main.py").symlink_to("me@here.1234")
    os.mkfifo(tmp_path / "src" / "pipe")
    assert set(entries_of(pack_path(tmp_path / "src"))) == set(FILES)


def test_unpackable_paths_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for path, message in {
        "nowhere.py": "does not exist",
        "empty": "contains no files",
        "pipe": "is not a file or folder",
    }.items():
        with pytest.raises(Unreadable, match=message):
            pack_path(tmp_path / path)


def test_too_much_code_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    with (tmp_path / "src" / "model.bin").open("wb") as file:
        file.truncate(MAX_SOURCE_BYTES)
    with pytest.raises(Unreadable, match="src has more than 10,485,760 bytes") as caught:
        pack_path(tmp_path / "src")
    assert "volume" in caught.value.hint
    (tmp_path / "src" / "model.bin").unlink()
    assert pack_path(tmp_path / "src").source == "src"


def add(a: int, b: int = 2) -> int:
    return a + b


def test_a_function_is_packed_with_cloudpickle() -> None:
    packed = pack_function(add)
    assert (packed.source, packed.handler) == ("add.pkl", "add")
    entries = entries_of(packed)
    assert {"add.pkl", "cloudpickle/__init__.py", "cloudpickle/cloudpickle.py"} <= set(entries)
    assert {mode for _, mode in entries.values()} == {stat.S_IMODE(0o644)}
    assert cloudpickle.loads(entries["add.pkl"][0])(1) == 3
    assert pack_function(add) == packed


@pytest.mark.parametrize("function", [lambda: 1, functools.partial(add, 1), print, int, add])
def test_every_callable_gets_a_name(function: Callable[..., Any]) -> None:
    packed = pack_function(function)
    assert packed.handler in ("function", "print", "int", "add")
    assert packed.source == f"{packed.handler}.pkl"


def test_the_pickle_registry_is_restored() -> None:
    before = cloudpickle.list_registry_pickle_by_value()
    pack_function(add)
    assert cloudpickle.list_registry_pickle_by_value() == before


def _uses_lock() -> None:
    LOCK.acquire()


def _uses_lock_indirectly() -> None:
    def inner() -> None:
        _uses_lock()

    inner()


def _calls_itself(n: int) -> None:
    _calls_itself(n - 1)
    _uses_lock()


def _uses_connection() -> Any:
    return CONNECTION.get("/runs")


def _uses_large() -> int:
    return len(LARGE)


def make_closure() -> Callable[[], str]:
    held = {"files": [Path(__file__).open("rb")]}  # noqa: SIM115
    return lambda: str(held)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_uses_lock, "the function _uses_lock cannot be sent to a run: it uses LOCK (lock): cannot pickle"),
        (_uses_lock_indirectly, "it uses _uses_lock.LOCK (lock): "),
        (_calls_itself, "it uses _uses_lock.LOCK (lock): "),
        (functools.partial(print, b=LOCK), "it uses b (lock): "),
        (LOCK.acquire, "cannot pickle"),
        (
            _uses_connection,
            "it uses CONNECTION (ApiClient): Fairlead objects (ApiClient) cannot be sent to a run",
        ),
        (_uses_large, "it uses LARGE (bytes): the pickled function is larger than 10,485,760 bytes"),
    ],
)
def test_unpicklable_dependencies_are_named(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        pack_function(function)
    assert message in str(caught.value)
    assert caught.value.hint


def test_an_open_file_in_a_closure_is_named() -> None:
    function = make_closure()
    with pytest.raises(Unreadable, match=r"it uses held\.files\.0 \(BufferedReader\)"):
        pack_function(function)
    closure: Any = function.__closure__
    closure[0].cell_contents["files"][0].close()
