"""Packing code: identical code produces identical archives."""

import io
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from fairlead.files.documents import load_code
from fairlead.model.plans import PlanWarning
from fairlead.model.requests import Function
from fairlead.source_code import pack_path
from tests.cli.terminal import write

FILES = {"src/main.py": "import lib.more\n", "src/lib/more.py": "x = 1\n", "src/data.txt": "é\n"}


def make_function(source: str | None, handler: str | None = None) -> Function:
    return Function(name="train", source=source, handler=handler)


def pack(folder: Path, source: str) -> bytes:
    return pack_path(folder / source, folder).archive


def names_in(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        return packed.getnames()


def test_archives_do_not_depend_on_times_location_and_order(tmp_path: Path) -> None:
    write(tmp_path / "one", FILES)
    write(tmp_path / "deep" / "two", dict(reversed(FILES.items())))
    for file in (tmp_path / "deep").rglob("*"):
        os.utime(file, (1, 1))
        file.chmod(0o700 if file.is_dir() else 0o600)
    first = pack(tmp_path / "one", "src")
    assert first == pack(tmp_path / "one", "src") == pack(tmp_path / "deep" / "two", "src")


def test_archives_contain_the_executable_bit(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    before = pack(tmp_path, "src")
    (tmp_path / "src" / "main.py").chmod(0o744)
    assert pack(tmp_path, "src") != before


@pytest.mark.parametrize("change", [{"src/main.py": "import lib\n"}, {"src/new.py": ""}])
def test_different_code_gives_different_archives(tmp_path: Path, change: dict[str, str]) -> None:
    write(tmp_path, FILES)
    before = pack(tmp_path, "src")
    write(tmp_path, change)
    assert pack(tmp_path, "src") != before


def test_an_archive_has_no_times_and_owners_and_sorted_names(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path, "src"))) as packed:
        entries = packed.getmembers()
    assert [entry.name for entry in entries] == ["src/data.txt", "src/lib/more.py", "src/main.py"]
    assert {(entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {(0, 0, 0, "", "")}


def test_caches_and_tool_folders_are_not_packed(tmp_path: Path) -> None:
    ignored = [
        "__pycache__/main.pyc",
        "lib/__pycache__/more.pyc",
        ".git/HEAD",
        ".venv/bin/x",
        ".ipynb_checkpoints/a.py",
    ]
    write(tmp_path, {**FILES, **{f"src/{name}": "" for name in ignored}})
    assert names_in(pack(tmp_path, "src")) == sorted(FILES)


def test_a_parent_folder_named_like_a_cache_is_ignored(tmp_path: Path) -> None:
    write(tmp_path / ".venv" / "work", FILES)
    assert names_in(pack(tmp_path / ".venv" / "work", "src")) == sorted(FILES)


def test_a_single_file_is_packed_under_its_given_path(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    assert names_in(pack(tmp_path, "src/main.py")) == ["src/main.py"]


def test_code_comes_with_its_digest_and_the_bootstrap(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    code, findings = load_code(tmp_path, make_function("src", handler="main:main"))
    assert findings == ()
    assert code.archive == pack(tmp_path, "src")
    assert code.digest.startswith("sha256:")
    assert "def main()" in code.bootstrap


def test_without_a_source_there_is_only_the_bootstrap(tmp_path: Path) -> None:
    code, findings = load_code(tmp_path, make_function(None))
    assert findings == ()
    assert (code.archive, code.digest) == (b"", "")


def test_a_missing_source_is_a_warning(tmp_path: Path) -> None:
    code, [finding] = load_code(tmp_path, make_function("nowhere.py"))
    assert isinstance(finding, PlanWarning)
    assert "does not exist" in finding.message
    assert (code.archive, "def main()" in code.bootstrap) == (b"", True)


def test_an_unreadable_source_is_reported(tmp_path: Path) -> None:
    source = "/".join(["x" * 200] * 2) + "/" + "y" * 90
    (tmp_path / "x").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    for name in (source, "loop.py"):
        _, [finding] = load_code(tmp_path, make_function(name))
        assert finding.path == "function.source"
        assert finding.hint


def test_a_folder_needs_a_handler_or_a_main_module(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    _, [finding] = load_code(tmp_path, make_function("src"))
    assert (finding.path, finding.rule) == ("function.handler", "required")
    assert load_code(tmp_path, make_function("src"), "workspace")[1] == ()
    write(tmp_path, {"src/__main__.py": ""})
    assert load_code(tmp_path, make_function("src"))[1] == ()


def test_a_too_large_source_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "model.bin").open("wb") as file:
        file.truncate(100 * 2**20)
    tracemalloc.start()
    _, [finding] = load_code(tmp_path, make_function("model.bin"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "has more than 10,485,760 bytes" in finding.message
    assert peak < 50 * 2**20
    assert (finding.path, finding.rule) == ("function.source", "size")


def test_links_that_point_outside_are_rejected(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "src" / "data").symlink_to("/etc")
    code, [finding] = load_code(tmp_path, make_function("src", handler="main:main"))
    assert (finding.path, finding.rule, code.archive) == ("function.source", "file", b"")
    assert "points outside" in finding.message
