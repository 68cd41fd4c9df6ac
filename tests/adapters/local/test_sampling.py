"""A supervisor's usage samples: above a limit, and only briefly above it."""

import os
from pathlib import Path

import pytest

from fairlead.adapters.local import sampling
from fairlead.adapters.local.cgroups import Cgroup
from fairlead.adapters.local.processes import RunProcess
from fairlead.adapters.local.sampling import ProcessSampler
from fairlead.adapters.local.specs import Spec, UserMapping

LIMIT = 100


def check_memory(folder: Path, monkeypatch: pytest.MonkeyPatch, *measured: int) -> tuple[str, str] | None:
    """The result of a check with the given memory measurements."""
    identity = UserMapping(os.getuid(), os.getgid(), [])
    spec = Spec("r", "p", "train", "boot", ["true"], {}, "/", "/", identity, memory=LIMIT)
    amounts = iter(measured)
    monkeypatch.setattr(sampling, "measure_memory", lambda *_: next(amounts))
    return ProcessSampler(folder, spec, RunProcess(os.getpid(), {}, -1, isolated=False, cgroup=Cgroup({}))).check()


def test_run_over_its_memory_limit_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_memory(tmp_path, monkeypatch, LIMIT) is None
    result = check_memory(tmp_path, monkeypatch, LIMIT + 1, LIMIT + 9)
    assert result is not None
    assert result[0] == "OOMKilled"


def test_single_measurement_over_the_limit_does_not_kill_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_memory(tmp_path, monkeypatch, 3 * LIMIT, LIMIT // 2) is None


def test_many_files_are_measured_in_several_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number}").write_bytes(b"x" * 5000)
    identity = UserMapping(os.getuid(), os.getgid(), [])
    spec = Spec("r", "p", "train", "boot", ["true"], {}, "/", "/", identity, disk=LIMIT, disk_folders=[str(tmp_path)])
    sampler = ProcessSampler(tmp_path, spec, RunProcess(os.getpid(), {}, -1, isolated=False, cgroup=Cgroup({})))
    monkeypatch.setattr(sampling, "DISK_SECONDS", 0.0)
    monkeypatch.setattr(sampling, "DISK_SHARE", 0)
    results: list[tuple[str, str] | None] = []
    while not results or results[-1] is None:
        sampler.next_sample = 0.0
        results.append(sampler.check())
    assert len(results) > 10
    assert results[-1] is not None
    assert results[-1][0] == "Evicted"
