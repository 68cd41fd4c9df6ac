"""A one-minute cluster outage: no run is lost, none starts twice, and no objects remain.

This is a separate file, so that it runs in parallel with test_random_faults.py.
"""

import os
import time
from pathlib import Path

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.ledgers import Ledger
from tests.cluster.platforms import Platform
from tests.cluster.test_outages import api_outage
from tests.cluster.test_random_faults import SLEEP, SUCCEED, WITH_OBJECTS, prepare, warm_up
from tests.processes.machines import Machine

OUTAGE_SECONDS = 60.0


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A server that removes the objects of a run as soon as it has ended."""
    return prepare(Platform(shared_machine, control_plane, admin))


def test_hundred_runs_survive_a_cluster_outage_of_a_minute(
    platform: Platform, control_plane: ControlPlane, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    ledger = Ledger(platform, kubelet)
    before = warm_up(platform, ledger)
    gate = tmp_path / "gate"
    os.mkfifo(gate)  # a reader blocks until a writer opens the FIFO
    wait = f"echo started; : < {gate}; echo ended"
    sleeping = [ledger.expect(platform.run_simulated(SLEEP), "stopped") for _ in range(60)]
    ending = [ledger.expect(platform.shell(wait, **WITH_OBJECTS), "completed") for _ in range(20)]
    failing = [ledger.expect(platform.shell(f"{wait}; exit 5"), "failed ExitCode") for _ in range(10)]
    stopped = [ledger.expect(platform.run_simulated(SLEEP, **WITH_OBJECTS), "stopped") for _ in range(10)]
    for run in (*sleeping, *ending, *failing, *stopped):
        platform.until(run, "running")
    before_outage = {run.id: read_fields(platform, run) for run in (*sleeping, *ending, *failing)}

    with api_outage(control_plane):
        outage_end = time.monotonic() + OUTAGE_SECONDS
        os.close(os.open(gate, os.O_WRONLY))
        for run in stopped:
            run.stop()
        submitted = [ledger.expect(platform.run_simulated(SUCCEED, **WITH_OBJECTS), "completed") for _ in range(10)]
        while time.monotonic() < outage_end:
            assert {run_id: read_fields(platform, run_id) for run_id in before_outage} == before_outage
            assert {platform.get_run(run)["state"] for run in submitted} <= {"queued", "pending"}
            assert {platform.get_run(run)["state"] for run in stopped} == {"stopping"}
            time.sleep(5)

    for run in (*ending, *failing, *stopped, *submitted):
        platform.until(run, "completed", "failed", "stopped")
    assert {run.logs() for run in (*ending, *failing)} == {"started\nended\n"}
    for run in sleeping:
        assert read_fields(platform, run) == before_outage[run.id]
        run.stop()
    ledger.check(before)


def read_fields(platform: Platform, run: Run | str) -> list[object]:
    """The fields that must not change."""
    status = platform.get_run(run)
    return [status[name] for name in ("state", "reason", "message", "revision")]
