"""Output files of a run: regular files are listed and opened, and no file outside the folder is ever read."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from fairlead.adapters.local import folders
from fairlead.adapters.local.folders import list_outputs, open_output


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output folder with every kind of file, next to a private file."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("private")
    folder = tmp_path / "output"
    (folder / "models" / "best").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "model.bin").write_bytes(b"\0\1\2")
    (folder / "models" / "best" / "weights").write_bytes(b"w" * 1000)
    (folder / "räume & 50%.txt").write_text("text")
    (folder / "link").symlink_to(tmp_path / "private" / "key")
    (folder / "inner").symlink_to("model.bin")
    (folder / "folder").symlink_to(tmp_path / "private")
    (folder / "loop").symlink_to(".")
    (folder / "gone").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    return folder


def test_regular_files_are_listed_by_name_with_their_sizes(output: Path) -> None:
    listed = [(file.path, file.size) for file in list_outputs(output)]
    assert listed == [("model.bin", 3), ("models/best/weights", 1000), ("räume & 50%.txt", 4)]
    assert all(file.modified_at.tzinfo is not None for file in list_outputs(output))


@pytest.mark.parametrize("path", ["model.bin", "models/best/weights", "räume & 50%.txt"])
def test_listed_file_can_be_opened(output: Path, path: str) -> None:
    with open_output(output, path) as file:
        assert file.read() == (output / path).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        "link",
        "inner",
        "folder/key",
        "loop/model.bin",
        "gone",
        "pipe",
        "empty",
        "models",
        "models/",
        "models//best/weights",
        "../private/key",
        "models/../../private/key",
        "models/../model.bin",
        "./model.bin",
        "model.bin/",
        "model.bin/x",
        "/etc/passwd",
        "/",
        "",
        ".",
        "..",
        "none",
        "model.bin\0",
        "\0",
        "x" * 10_000,
        "\ud800",
        "caf\udce9",
    ],
)
def test_path_that_is_not_a_listed_file_cannot_be_opened(output: Path, path: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011
        open_output(output, path)


def test_no_file_descriptor_is_left_open(output: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("models/best/weights", "models/none", "pipe", "link", "models", "../x"):
        with contextlib.suppress(OSError):
            open_output(output, path).close()
    list_outputs(output)
    assert len(os.listdir("/proc/self/fd")) == before


def test_missing_or_symlinked_output_folder_has_no_files(output: Path, tmp_path: Path) -> None:
    assert list_outputs(tmp_path / "none") == []
    (tmp_path / "elsewhere").symlink_to(tmp_path / "private")
    assert list_outputs(tmp_path / "elsewhere") == []
    with pytest.raises(OSError):  # noqa: PT011
        open_output(tmp_path / "elsewhere", "key")


def test_number_of_listed_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 5)
    for number in range(9):
        (tmp_path / f"f{number}").touch()
    assert [file.path for file in list_outputs(tmp_path)] == ["f0", "f1", "f2", "f3", "f4"]


def test_very_deep_folders_do_not_break_the_listing(tmp_path: Path) -> None:
    """A run can create any number of files; listing them must not exhaust resources."""
    (tmp_path / "model.bin").touch()
    folder_fd = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(1200):
            os.mkdir("d", dir_fd=folder_fd)
            child_fd = os.open("d", os.O_RDONLY, dir_fd=folder_fd)
            os.close(folder_fd)
            folder_fd = child_fd
        assert "model.bin" in [file.path for file in list_outputs(tmp_path)]
    finally:
        os.close(folder_fd)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # also too deep for pytest's cleanup


def test_file_name_that_is_not_utf_8_is_not_listed(tmp_path: Path) -> None:
    """Lone surrogates in a file name cannot be written as JSON."""
    (tmp_path / "model.bin").touch()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).touch()
    assert [file.path for file in list_outputs(tmp_path)] == ["model.bin"]
