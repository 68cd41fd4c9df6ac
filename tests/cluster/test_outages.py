"""API server outages: no run changes its state, and all runs are updated afterwards."""

import contextlib
import time
from collections.abc import Iterator

from fairlead.sdk.runs import Run
from tests.cluster.clients import until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform

OUTAGE_SECONDS = 8.0
UNREACHABLE = "a watch on cluster/main failed: the cluster is unreachable: "
FIELDS = ("state", "reason", "message", "revision")


def image(name: str) -> dict[str, str]:
    return {"name": name, "kind": "container", "image": f"example.test/{name}"}


@contextlib.contextmanager
def api_outage(plane: ControlPlane) -> Iterator[None]:
    """Stop the API server during the block. Restart it, the controller manager and the scheduler afterwards."""
    plane.stop_api()
    try:
        yield
    finally:
        plane.start_api()
        plane.restart_components()


def test_states_are_unchanged_during_an_outage_and_updated_after_it(
    platform: Platform, control_plane: ControlPlane, kubelet: FakeKubelet
) -> None:
    kubelet.outcomes["example.test/ends-soon"] = Outcome("exit", 0, seconds=4, log="done\n")
    kubelet.outcomes["example.test/fails-soon"] = Outcome("exit", 5, seconds=4, log="oops\n")
    sleeping, stopped = platform.run("sleeping"), platform.run("stopped")
    for run in (sleeping, stopped):
        platform.until(run, "running")
    first = platform.run("first", resources={"gpu": 8})
    platform.until(first, "running")
    waiting = platform.run("waiting", resources={"gpu": 8})
    platform.until(waiting, "Unschedulable")
    ending, failing = platform.run(function=image("ends-soon")), platform.run(function=image("fails-soon"))
    for run in (ending, failing):
        platform.until(run, "running")
    other = platform.run("other")
    platform.until(other, "running")

    before = {run.id: _read_fields(platform, run) for run in (sleeping, ending, failing, first, waiting, other)}
    with api_outage(control_plane):
        outage_start = time.monotonic()
        submitted = platform.run(function=image("succeed"))
        stopped.stop()
        while time.monotonic() - outage_start < OUTAGE_SECONDS:
            assert {run_id: _read_fields(platform, run_id) for run_id in before} == before
            assert platform.get_run(submitted)["state"] in ("queued", "pending")
            assert platform.get_run(stopped)["state"] == "stopping"
            time.sleep(0.5)
        delayed = platform.get_run(submitted)
        assert (delayed["state"], delayed["reason"]) == ("pending", "StartDelayed")
        assert delayed["message"].startswith(UNREACHABLE)
        assert platform.api("GET", "/nodes"), "the last known nodes are still listed"

    assert platform.until(ending, "completed", "failed")["state"] == "completed"
    failed = platform.until(failing, "completed", "failed")
    assert (failed["reason"], failed["message"]) == ("ExitCode", "exited with code 5: oops")
    assert (ending.logs(), failing.logs()) == ("done\n", "oops\n")
    assert platform.until(submitted, "completed", "failed")["state"] == "completed"
    platform.until(stopped, "stopped")
    first.stop()
    platform.until(waiting, "running")
    for run in (sleeping, other):
        assert _read_fields(platform, run) == before[run.id]
        assert len(platform.pods_of(run)) == 1
        run.stop()
        platform.until(run, "stopped")
    waiting.stop()


def test_server_started_during_an_outage_waits_for_the_cluster(platform: Platform, control_plane: ControlPlane) -> None:
    run = platform.run()
    platform.until(run, "running")
    before = _read_fields(platform, run)
    with api_outage(control_plane):
        platform.restart()
        submitted = platform.run(function=image("succeed"))
        time.sleep(2)
        assert _read_fields(platform, run) == before
        assert platform.get_run(submitted)["state"] in ("queued", "pending")
        assert platform.api("GET", f"/runs/{run.id}/why")["state"] == "running"
    platform.until(submitted, "completed")
    assert _read_fields(platform, run) == before
    run.stop()
    until(lambda: not platform.pods_of(run))
    platform.until(run, "stopped")


def _read_fields(platform: Platform, run: Run | str) -> list[object]:
    """The fields that must not change."""
    status = platform.get_run(run)
    return [status[name] for name in FIELDS]
