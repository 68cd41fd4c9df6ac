"""Processes that outlive their run's supervisor."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fairlead.adapters.local.orphans import find_processes_of, kill_processes_of

RUN = "0198c0de0198c0de0198c0de0198c0de"
# Each process starts its successor and exits, so one of them is always newer than any list of processes.
CHAIN = """
import os, time
while True:
    if os.fork():
        time.sleep(0.002)
        os._exit(0)
"""


@pytest.fixture
def chain() -> Iterator[None]:
    variables = {**os.environ, "FAIRLEAD_RUN": RUN}
    with subprocess.Popen([sys.executable, "-S", "-c", CHAIN], env=variables, start_new_session=True) as first:
        yield
        with contextlib.suppress(ProcessLookupError):  # a failed test must not leave the chain running
            os.killpg(first.pid, signal.SIGKILL)


@pytest.mark.usefixtures("chain")
def test_no_process_of_a_run_is_left_even_if_it_starts_others() -> None:
    kill_processes_of(RUN)
    # One list can miss the only process of the chain; twenty lists do not.
    assert [list(find_processes_of(f"FAIRLEAD_RUN={RUN}".encode())) for _ in range(20)] == [[]] * 20
