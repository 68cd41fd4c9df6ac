"""A pytest plugin that records how long each test took and, with coverage, which test executed each line.

Servers that a test starts are included.
"""

import json
import os
from collections import Counter

import coverage
import pytest

from tests.architecture.modules import ROOT

DURATIONS = ROOT / ".pytest_cache" / "durations.json"

_seconds: Counter[str] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """Attribute everything that is executed from now on to this test."""
    os.environ["COVERAGE_TEST"] = nodeid  # for the processes that it starts: see tests/processes/launcher.py
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of a test."""
    _seconds[report.nodeid] += report.duration  # type: ignore[assignment]  # Counter adds floats too


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the durations, in the process that knows those from all workers."""
    if not hasattr(session.config, "workerinput"):
        DURATIONS.parent.mkdir(exist_ok=True)
        DURATIONS.write_text(json.dumps(dict(_seconds)), "utf-8")
