"""A cluster that is away for a minute: no run is lost, none starts twice, and nothing is left.

In a file of its own, so that another worker runs it at the same time as the random faults of test_random_faults.py.
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
from tests.cluster.test_outages import away
from tests.cluster.test_random_faults import SLEEP, SUCCEED, WHOLE, prepare, warm_up
from tests.processes.machines import Machine

AWAY_SECONDS = 60.0


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
    wait = f"echo begun; : < {gate}; echo over"
    go_on = [ledger.note(platform.pretend(SLEEP), "stopped") for _ in range(60)]
    end = [ledger.note(platform.shell(wait, **WHOLE), "completed") for _ in range(20)]
    fail = [ledger.note(platform.shell(f"{wait}; exit 5"), "failed ExitCode") for _ in range(10)]
    stop = [ledger.note(platform.pretend(SLEEP, **WHOLE), "stopped") for _ in range(10)]
    for run in (*go_on, *end, *fail, *stop):
        platform.until(run, "running")
    before_outage = {run.id: look(platform, run) for run in (*go_on, *end, *fail)}

    with away(control_plane):
        back_at = time.monotonic() + AWAY_SECONDS
        os.close(os.open(gate, os.O_WRONLY))
        for run in stop:
            run.stop()
        later = [ledger.note(platform.pretend(SUCCEED, **WHOLE), "completed") for _ in range(10)]
        while time.monotonic() < back_at:
            assert {run_id: look(platform, run_id) for run_id in before_outage} == before_outage
            assert {platform.show(run)["state"] for run in later} <= {"queued", "pending"}
            assert {platform.show(run)["state"] for run in stop} == {"stopping"}
            time.sleep(5)

    for run in (*end, *fail, *stop, *later):
        platform.until(run, "completed", "failed", "stopped")
    assert {run.logs() for run in (*end, *fail)} == {"begun\nover\n"}
    for run in go_on:
        assert look(platform, run) == before_outage[run.id]
        run.stop()
    ledger.check(before)


def look(platform: Platform, run: Run | str) -> list[object]:
    """The fields that must not change."""
    status = platform.show(run)
    return [status[name] for name in ("state", "reason", "message", "revision")]
