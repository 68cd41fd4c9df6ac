"""The API server of the cluster is away for a while: no run changes its state, and afterwards all catch up."""

import contextlib
import time
from collections.abc import Iterator

from fairlead.sdk.runs import Run
from tests.cluster.clients import until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform

AWAY_SECONDS = 8.0
UNSEEN = "the watch of cluster/main failed: the cluster is unreachable: "
KEPT = ("state", "reason", "message", "revision")


def image(name: str) -> dict[str, str]:
    return {"name": name, "kind": "container", "image": f"example.test/{name}"}


@contextlib.contextmanager
def away(plane: ControlPlane) -> Iterator[None]:
    """The API server is killed; at the end of the block it is there again, and so is what makes and places pods."""
    plane.stop_api()
    try:
        yield
    finally:
        plane.start_api()
        plane.restart_others()


def test_states_are_unchanged_during_an_outage_and_updated_after_it(
    platform: Platform, control_plane: ControlPlane, kubelet: FakeKubelet
) -> None:
    kubelet.outcomes["example.test/ends-soon"] = Outcome("exit", 0, seconds=4, log="done\n")
    kubelet.outcomes["example.test/fails-soon"] = Outcome("exit", 5, seconds=4, log="oops\n")
    goes_on, stopped = platform.run("goes-on"), platform.run("stopped")
    for run in (goes_on, stopped):
        platform.until(run, "running")
    first = platform.run("first", resources={"gpu": 8})
    platform.until(first, "running")
    waits = platform.run("waits", resources={"gpu": 8})
    platform.until(waits, "Unschedulable")
    ends, fails = platform.run(function=image("ends-soon")), platform.run(function=image("fails-soon"))
    for run in (ends, fails):
        platform.until(run, "running")
    requested = platform.run("asked")
    platform.until(requested, "running")

    before = {run.id: _look(platform, run) for run in (goes_on, ends, fails, first, waits, requested)}
    with away(control_plane):
        away_at = time.monotonic()
        submitted = platform.run(function=image("succeed"))
        stopped.stop()
        while time.monotonic() - away_at < AWAY_SECONDS:
            assert {run_id: _look(platform, run_id) for run_id in before} == before
            assert platform.show(submitted)["state"] in ("queued", "pending")
            assert platform.show(stopped)["state"] == "stopping"
            time.sleep(0.5)
        delayed = platform.show(submitted)
        assert (delayed["state"], delayed["reason"]) == ("pending", "StartDelayed")
        assert delayed["message"].startswith(UNSEEN)
        assert platform.api("GET", "/nodes"), "what was seen last is still known"

    assert platform.until(ends, "completed", "failed")["state"] == "completed"
    failed = platform.until(fails, "completed", "failed")
    assert (failed["reason"], failed["message"]) == ("ExitCode", "exited with code 5: oops")
    assert (ends.logs(), fails.logs()) == ("done\n", "oops\n")
    assert platform.until(submitted, "completed", "failed")["state"] == "completed"
    platform.until(stopped, "stopped")
    first.stop()
    platform.until(waits, "running")
    for run in (goes_on, requested):
        assert _look(platform, run) == before[run.id]
        assert len(platform.pods_of(run)) == 1
        run.stop()
        platform.until(run, "stopped")
    waits.stop()


def test_server_started_during_an_outage_waits_for_the_cluster(platform: Platform, control_plane: ControlPlane) -> None:
    run = platform.run()
    platform.until(run, "running")
    before = _look(platform, run)
    with away(control_plane):
        platform.restart()
        later = platform.run(function=image("succeed"))
        time.sleep(2)
        assert _look(platform, run) == before
        assert platform.show(later)["state"] in ("queued", "pending")
        assert platform.api("GET", f"/runs/{run.id}/why")["state"] == "running"
    platform.until(later, "completed")
    assert _look(platform, run) == before
    run.stop()
    until(lambda: not platform.pods_of(run))
    platform.until(run, "stopped")


def _look(platform: Platform, run: Run | str) -> list[object]:
    """The fields that must not change."""
    status = platform.show(run)
    return [status[name] for name in KEPT]
