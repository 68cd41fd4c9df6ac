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
