"""Resource usage of process trees, from the real /proc and a simulated one."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.local import orphans, processes, sampling
from fairlead.adapters.local.folders import remove_tree
from fairlead.adapters.local.processes import CLOCK_TICKS, PAGE_SIZE, Process
from tests.adapters.local.making import nest_folders

RUN = f"measured-{os.getpid()}"  # unique per test worker, because others run the same tests concurrently


@pytest.fixture
def child() -> Iterator[int]:
    """A process with a child; both wait until they are killed."""
    nested = f"import subprocess, sys; subprocess.run([{sys.executable!r}, '-c', 'input()'])"
    environment = {**os.environ, "FAIRLEAD_RUN": RUN}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", f"print('up'); {nested}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as started:
        assert started.stdout is not None
        started.stdout.readline()
        while len(processes.list_tree("/proc", started.pid)) < 2:
            pass
        yield started.pid
        for process in processes.list_tree("/proc", started.pid):
            os.kill(process.pid, 9)


def test_process_tree_is_found(child: int) -> None:
    tree = processes.list_tree("/proc", child)
    assert (tree[0].pid, tree[0].parent) == (child, os.getpid())
    assert tree[1].parent == child
    own = processes.list_tree("/proc", os.getpid())
    assert own[0].pid == os.getpid()
    assert {process.pid for process in tree} <= {process.pid for process in own}


def test_memory_and_cpu_time_are_measured(child: int) -> None:
    own = processes.list_tree("/proc", os.getpid())[0]
    assert 10 << 20 < own.resident < 10 << 30
    assert own.cpu_seconds > 0
    tree = processes.list_tree("/proc", child)
    assert processes.measure_memory("/proc", tree) == sum(process.resident for process in tree)


def test_shared_memory_is_counted_once_if_the_limit_would_be_exceeded(child: int) -> None:
    tree = processes.list_tree("/proc", child)
    total = processes.measure_memory("/proc", tree)
    assert processes.measure_memory("/proc", tree, limit=total) == total
    proportional = processes.measure_memory("/proc", tree, limit=total - 1)
    assert 0 < proportional < total


def test_processes_are_found_by_the_run_id_in_their_environment(child: int) -> None:
    found = list(orphans.find_processes_of(f"FAIRLEAD_RUN={RUN}".encode()))
    assert child in found
    assert len(found) == 2
    assert os.getpid() not in found
    assert list(orphans.find_processes_of(f"FAIRLEAD_RUN={RUN[:-1]}".encode())) == []


def make_proc(folder: Path, *processes: tuple[int, int, str]) -> str:
    """A fake /proc with processes, each given by pid, parent and name."""
    for pid, parent, name in processes:
        (folder / str(pid)).mkdir()
        fields = ["0"] * 30
        fields[0], fields[9], fields[10], fields[19] = "0", str(CLOCK_TICKS), str(2 * CLOCK_TICKS), "5"
        (folder / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {' '.join(fields)}\n")
    (folder / "self").mkdir()
    (folder / "meminfo").touch()
    return str(folder)


@pytest.mark.parametrize("name", ["python", "a b", "a) S 1 2", "(x)", "x\ny"])
def test_any_process_name_is_parsed(tmp_path: Path, name: str) -> None:
    assert processes.list_tree(make_proc(tmp_path, (7, 3, name)), 7) == [Process(7, 3, 3.0, 5 * PAGE_SIZE)]


def test_only_descendants_are_listed(tmp_path: Path) -> None:
    proc = make_proc(tmp_path, (1, 0, "init"), (5, 1, "a"), (6, 5, "b"), (7, 6, "c"), (8, 1, "other"))
    assert [process.pid for process in processes.list_tree(proc, 5)] == [5, 6, 7]
    assert processes.list_tree(proc, 99) == []
    assert processes.list_tree(str(tmp_path / "none"), 1) == []


def test_process_that_ends_during_the_scan_is_skipped(tmp_path: Path) -> None:
    proc = make_proc(tmp_path, (5, 1, "a"))
    (tmp_path / "6").mkdir()
    assert [process.pid for process in processes.list_tree(proc, 5)] == [5]


def test_disk_usage_counts_files_and_follows_no_symlink(tmp_path: Path) -> None:
    (tmp_path / "home" / "deep").mkdir(parents=True)
    (tmp_path / "large").write_bytes(b"x" * (1 << 20))
    (tmp_path / "home" / "deep" / "file").write_bytes(b"x" * (1 << 16))
    (tmp_path / "home" / "link").symlink_to(tmp_path / "large")
    (tmp_path / "home" / "loop").symlink_to(".")
    assert 1 << 16 <= sum(sampling.list_sizes([str(tmp_path / "home")])) < 1 << 18
    assert sum(sampling.list_sizes([str(tmp_path / "none")])) == 0


def test_sparse_file_counts_its_allocated_blocks(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert sum(sampling.list_sizes([str(tmp_path)])) < 1 << 20


def test_disk_usage_counts_folders(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).mkdir()
    assert sum(sampling.list_sizes([str(tmp_path)])) == sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512


def test_file_that_is_deleted_during_a_measurement_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("deleted", "kept"):
        (tmp_path / name).write_bytes(b"x" * 5000)
    scan = os.scandir

    @contextlib.contextmanager
    def scan_and_delete(folder: str) -> Iterator[Any]:
        with scan(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            (tmp_path / "deleted").unlink()
            yield found

    monkeypatch.setattr(os, "scandir", scan_and_delete)
    assert sum(sampling.list_sizes([str(tmp_path)])) >= 5000


def test_file_with_a_path_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    nest_folders(tmp_path / "nested", 1000)
    try:
        with pytest.raises(OSError, match="name too long"):
            sum(sampling.list_sizes([str(tmp_path)]))
    finally:
        remove_tree(tmp_path / "nested")  # pytest cannot remove it


def test_oom_kills_are_counted() -> None:
    assert processes.count_oom_kills() >= 0
