"""Waiting reasons on a real server, compared with its nodes and runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import Conflict, NotFound
from fairlead.model.quantities import Quantity
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, until, wait_for_all, wait_for_state
from tests.processes.machines import Machine

RESOURCE_NAMES = {"cpu": "CPU core", "memory": "memory"}
# On a machine with 4 CPU cores and 4 GiB, one run of each of the first two sizes uses the entire capacity.
MUCH_MEMORY, MANY_CPUS, ALL_RESOURCES = {"cpu": 1, "mem": "3Gi"}, {"cpu": 3, "mem": "1Gi"}, {"cpu": 4, "mem": "4Gi"}
SIZES = [*[MUCH_MEMORY, MANY_CPUS] * 5, MUCH_MEMORY, ALL_RESOURCES]
AMOUNT = r"(\S+(?: [GM]iB)?)"
NEEDS = re.compile(rf"needs {AMOUNT} (CPU cores?|memory); {AMOUNT} of {AMOUNT} free on (\S+)\. In use by ([^;]+)")


@dataclass(frozen=True)
class GatedRun:
    """A run that ends when its gate file exists, and the resources that it requested."""

    run: Run
    requested: dict[str, str]
    gate: Path

    @property
    def name(self) -> str:
        """The run's name in messages about other runs."""
        return f"shell-{self.run.id}"


@pytest.fixture(scope="module")
def platform(shared_machine: Machine) -> Iterator[Platform]:
    """A server configured with 4 CPU cores and 4 GiB of memory."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=4,mem=4Gi"}
    with execution.open_platform(shared_machine, variables=variables) as opened:
        yield opened


def nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def format_amount(amount: str) -> str:
    """An amount, formatted as in messages."""
    return re.sub(r"(?<=\d)([GM]i)$", r" \1B", amount)


def submit(platform: Platform, number: int, resources: Any) -> GatedRun:
    """Submit a run that ends when its gate file exists."""
    gate = platform.shared / f"gate-{number}"
    run = platform.shell(f"until [ -e {gate} ]; do sleep 0.02; done", resources=resources)
    return GatedRun(run, {"cpu": str(resources["cpu"]), "memory": resources["mem"]}, gate)


def wait_for_states(platform: Platform, running: list[GatedRun], waiting: list[GatedRun]) -> None:
    """Wait until the given runs are running and all others have a waiting reason."""
    with platform.server.client() as client:
        expected = sorted(gated.run.id for gated in running)
        until(lambda: sorted(client.get("/nodes").json()[0]["runs"]) == expected)
    for gated in running:
        wait_for_state(gated.run, "running")
    until(lambda: all(gated.run.refresh().data["reason"] == "Unschedulable" for gated in waiting))


def check_reason(platform: Platform, gated: GatedRun, running: list[GatedRun]) -> Any:
    """Compare the explanation of a run with the facts, and return it."""
    with platform.server.client() as client:
        why, (node,) = client.get(f"/runs/{gated.run.id}/why").json(), client.get("/nodes").json()
    assert (why["state"], why["fit"]["verdict"]) == ("queued", "later")
    lacking = [name for name, amount in gated.requested.items() if nanos(amount) > nanos(node["free"][name])]
    needs = NEEDS.findall(why["message"])
    assert [resource_name.removesuffix("s") for _, resource_name, *_ in needs] == [
        RESOURCE_NAMES[name] for name in lacking
    ]
    for resource, (needed, _, free, total, node_name, holders) in zip(lacking, needs, strict=True):
        assert (needed, node_name) == (format_amount(gated.requested[resource]), node["name"])
        assert (free, total) == (format_amount(node["free"][resource]), format_amount(node["capacity"][resource]))
        assert sorted(re.findall(r"(\S+?)(?:,|$| and)", holders)) == sorted(other.name for other in running)
        used = nanos(node["capacity"][resource]) - nanos(node["free"][resource])
        assert sum(nanos(other.requested[resource]) for other in running) == used
    return why


def check_waits(gated: GatedRun, suggestions: Any, running: list[GatedRun]) -> list[GatedRun]:
    """Check the suggestions to wait for other runs, and return those runs.

    Only runs that free enough capacity on their own when they end are suggested. The message shows what they use.
    """
    others = {blocker.run.id: [other for other in running if other is not blocker] for blocker in running}
    blockers = [
        blocker
        for blocker in running
        if all(
            nanos(gated.requested[name]) + sum(nanos(other.requested[name]) for other in others[blocker.run.id])
            <= nanos(total)
            for name, total in (("cpu", "4"), ("memory", "4Gi"))
        )
    ]
    waits = {suggestion["run_id"]: suggestion["message"] for suggestion in suggestions if suggestion["kind"] == "wait"}
    assert waits.keys() == {blocker.run.id for blocker in blockers}
    for blocker in blockers:
        cores = f"{blocker.requested['cpu']} CPU core{'s' * (blocker.requested['cpu'] != '1')}"
        usage = f"which uses {cores} and {format_amount(blocker.requested['memory'])} memory on "
        assert waits[blocker.run.id].startswith(f"wait for run {blocker.name}, {usage}")
    return blockers


def test_twelve_waiting_runs_give_correct_reasons(platform: Platform) -> None:
    """Two runs fill the machine. The first waiting run starts when the run that it was waiting for ends."""
    runs = [submit(platform, number, resources) for number, resources in enumerate(SIZES)]
    running, waiting = runs[:2], runs[2:]
    while waiting:
        wait_for_states(platform, running, waiting)
        whys = [check_reason(platform, gated, running) for gated in waiting]
        assert [why["ahead"] for why in whys] == list(range(len(waiting)))
        waited_for = [
            check_waits(gated, why["fit"]["suggestions"], running) for gated, why in zip(waiting, whys, strict=True)
        ]
        first = waiting.pop(0)
        for blocker in waited_for[0] or running:  # the last run needs the entire capacity, so all others must end
            blocker.gate.touch()
            running = [other for other in running if other is not blocker]
        assert wait_for_state(first.run, "running", "failed") == "running"
        running.append(first)
        assert [str(gated.run.state) for gated in waiting] == ["queued"] * len(waiting)
    running[0].gate.touch()
    assert [run["state"] for run in wait_for_all([gated.run for gated in runs])] == ["completed"] * 12


def test_cli_prints_the_same_explanation(platform: Platform, shared_machine: Machine) -> None:
    running, waiting = (submit(platform, number, ALL_RESOURCES) for number in (20, 21))
    wait_for_states(platform, [running], [waiting])
    why = check_reason(platform, waiting, [running])
    variables = {"FAIRLEAD_URL": platform.server.url, "FAIRLEAD_TOKEN": platform.server.token}
    explained = shared_machine.fairlead("why", waiting.run.id, variables=variables)
    assert (explained.code, explained.err) == (0, "")
    assert explained.out.splitlines()[0] == f"queued: {why['message']}"
    assert f"1. wait for run {running.name}, which uses 4 CPU cores and 4 GiB memory on " in explained.out
    running.gate.touch()
    waiting.gate.touch()
    assert [run["state"] for run in wait_for_all([running.run, waiting.run])] == ["completed"] * 2


def test_suggestion_is_applied_before_and_after_submission(platform: Platform) -> None:
    active = platform.shell("sleep 300", resources={"cpu": 3})
    wait_for_state(active, "running")
    waiting = platform.shell("echo changed", resources={"cpu": 2})
    until(lambda: waiting.why().suggestions)
    why = waiting.why()
    assert [suggestion.kind for suggestion in why.suggestions] == ["lower", "wait"]
    assert f"2. wait for run shell-{active.id}, which uses 3 CPU cores on " in why
    changed = why.apply(1)
    with pytest.raises(Conflict, match="changes nothing"):
        why.apply(2)
    with pytest.raises(NotFound, match="suggestion 3 does not exist"):
        why.apply(3)
    assert [run.wait(60, progress=False).state for run in (changed, waiting)] == ["completed", "stopped"]
    assert changed.logs() == "changed\n"
    function = platform.project.function("previewed", command=["echo", "previewed"])
    preview = function.preview(resources={"cpu": 2})
    assert "Fits later" in preview.explain()
    previewed = preview.apply(preview.fit.suggestions[0])
    assert previewed.wait(60, progress=False).state == "completed"
    assert "Fits" not in previewed.explain()
    wait_for_all([active.stop()])
