"""A run that waits for a GPU while CPU cores are free: in the web UI, in the CLI, and what happens next.

The server's clock is injected: it is moved forward by ten minutes while the run waits.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fairlead.model.names import run_name
from tests.processes.execution import until
from tests.processes.machines import Launcher, Machine
from tests.ui.running import open_run, stop, submit, wait, wait_for_end
from tests.ui.sites import Site

CAPACITY = ("--capacity", "cpu=8,mem=8Gi,gpu=2,runs=20")
# Starts a server whose clock is ahead by the seconds in a file.
SHIFTED = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

ahead = Path(sys.argv.pop(1))

from fairlead.services import registry

registry.now = lambda: datetime.now(UTC) + timedelta(seconds=float(ahead.read_text() or 0))

from fairlead import app

sys.exit(app.main())
"""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The file with the seconds by which the server's clock is ahead."""
    file = tmp_path / "ahead"
    file.write_text("0")
    return file


@pytest.fixture
def machine(tmp_path: Path, launcher: Launcher) -> Iterator[Machine]:
    """The machine of the server and the CLI."""
    opened = Machine(tmp_path, launcher)
    yield opened
    opened.close()


@pytest.fixture
def site(machine: Machine, clock: Path) -> Iterator[Site]:
    """A server with two GPUs and eight cores."""
    opened = Site(machine, options=CAPACITY, program=(sys.executable, "-c", SHIFTED, str(clock)))
    opened.make_resource("two-cores", requirements={"resources": {"cpu": 2, "mem": "64Mi"}})
    opened.make_resource("three-cores", requirements={"resources": {"cpu": 3, "mem": "64Mi"}})
    yield opened
    opened.close()


def submit_waiting(site: Site, name: str, **resources: Any) -> dict[str, Any]:
    """Submit a run that does not end by itself."""
    return submit(site, name, "sleep 300", resources={"mem": "64Mi", **resources})


def test_a_gpu_run_that_waits_does_not_delay_cpu_runs(machine: Machine, site: Site, clock: Path, page: Page) -> None:
    busy = wait(site, submit_waiting(site, "busy", cpu=1, gpu=2), "running")
    gpu_run = submit_waiting(site, "gpu-run", cpu=2, gpu=1)
    until(lambda: site.api("GET", f"/runs/{gpu_run['id']}")["reason"] == "Unschedulable")
    clock.write_text("600")
    until(lambda: any("is reserved for it" in detail for detail in why(site, gpu_run)["details"]))

    # Five of eight cores are neither in use nor reserved.
    assert fits_now(site) == {"two-cores": 2, "three-cores": 1}
    cpu_runs = [wait(site, submit_waiting(site, "cpu-run", cpu=2), "running") for _ in range(2)]
    assert fits_now(site) == {"two-cores": 0, "three-cores": 0}
    late = submit_waiting(site, "late", cpu=2)
    until(lambda: site.api("GET", f"/runs/{late['id']}")["reason"] == "WaitingForTurn")
    conflict = f"it would fit, but what it needs (2 CPU cores) is reserved for {name_of(gpu_run)}"

    check_cli(machine, site, gpu_run, late, conflict)
    check_page(page, site, busy, gpu_run, late)

    stop(site, busy)
    wait(site, site.api("GET", f"/runs/{gpu_run['id']}"), "running")
    wait(site, site.api("GET", f"/runs/{late['id']}"), "running")
    stop(site, gpu_run, late, *cpu_runs)
    for run in (busy, gpu_run, late, *cpu_runs):
        wait_for_end(site, site.api("GET", f"/runs/{run['id']}"))


def name_of(run: dict[str, Any]) -> str:
    """A run's name in messages."""
    return run_name(run["function"], run["id"])


def why(site: Site, run: dict[str, Any]) -> Any:
    """The explanation of a run."""
    return site.api("GET", f"/runs/{run['id']}/why")


def fits_now(site: Site) -> dict[str, int]:
    """How many runs fit now on each compute resource, which must agree with the verdict of a preview."""
    (cluster,) = site.api("GET", "/capacity?project=default")
    counts = {each["name"]: each["fits_now"] for each in cluster["compute_resources"]}
    for name, count in counts.items():
        request = {"function": {"name": "new", "command": ["true"]}, "profile": name}
        fit = site.api("POST", "/projects/default/runs/preview", request)["fit"]
        assert fit["verdict"] == ("now" if count else "later"), fit
    return {name: counts[name] for name in ("two-cores", "three-cores")}


def check_cli(machine: Machine, site: Site, gpu_run: Any, late: Any, conflict: str) -> None:
    """The CLI explains both runs, and a fit check agrees."""
    variables = {"FAIRLEAD_URL": site.url, "FAIRLEAD_TOKEN": site.token}
    explained = machine.fairlead("why", gpu_run["id"], variables=variables).out
    assert explained.startswith("queued: needs 1 GPU; 0 of 2 free on ")
    assert "it is number 1 in the queue of cluster/local" in explained
    assert "what it requests is reserved for it" in explained
    explained = machine.fairlead("why", late["id"], variables=variables).out
    assert explained.startswith(f"queued: {conflict}, which is ahead in the queue\n")
    assert f"ahead of it: {name_of(gpu_run)}\n" in explained
    checked = machine.fairlead("fit", "--cpu", "2", "--mem", "64Mi", variables=variables).out
    assert conflict in checked


def check_page(page: Page, site: Site, busy: Any, gpu_run: Any, late: Any) -> None:
    """The pages of both runs say what they wait for, and link the run that is ahead."""
    open_run(page, gpu_run)
    expect(page.get_by_text("Needs 1 GPU; 0 of 2 free on").first).to_be_visible()
    expect(page.get_by_text(f"In use by {name_of(busy)}").first).to_be_visible()
    expect(page.get_by_text("Next in the queue.")).to_be_visible()
    expect(page.get_by_text("What it requests is reserved for it")).to_be_visible()
    open_run(page, late)
    expect(page.get_by_text("It would fit, but what it needs (2 CPU cores) is reserved").first).to_be_visible()
    expect(page.get_by_text("1 run ahead in the queue:")).to_be_visible()
    page.get_by_role("link", name=name_of(gpu_run)).click()
    expect(page).to_have_url(f"{site.url}/runs/{gpu_run['id']}")
