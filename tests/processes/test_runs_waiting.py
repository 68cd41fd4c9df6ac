"""Runs that wait say what they wait for, and it is true: held against the nodes and the runs of a real server."""

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
from tests.processes.execution import Platform, end_all, reach, until
from tests.processes.machines import Machine

WORDS = {"cpu": "CPU core", "memory": "memory"}
# Of a machine with 4 CPU and 4Gi: one that needs much memory and one that needs many CPUs fill it.
LARGE, QUICK, WHOLE = {"cpu": 1, "mem": "3Gi"}, {"cpu": 3, "mem": "1Gi"}, {"cpu": 4, "mem": "4Gi"}
SIZES = [*[LARGE, QUICK] * 5, LARGE, WHOLE]
AMOUNT = r"(\S+(?: [GM]iB)?)"
NEEDS = re.compile(rf"needs {AMOUNT} (CPU cores?|memory); {AMOUNT} of {AMOUNT} free on (\S+)\. In use by ([^;]+)")


@dataclass(frozen=True)
class Held:
    """A run that goes on until it is let go, and what it asks for as people write it."""

    run: Run
    requested: dict[str, str]
    gate: Path

    @property
    def name(self) -> str:
        """The name of the run in messages about other runs."""
        return f"shell-{self.run.id}"


@pytest.fixture(scope="module")
def platform(shared_machine: Machine) -> Iterator[Platform]:
    """A server that thinks its machine is small."""
    variables = {"FAIRLEAD_CAPACITY": "cpu=4,mem=4Gi"}
    with execution.open_platform(shared_machine, variables=variables) as opened:
        yield opened


def nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def show(amount: str) -> str:
    """An amount as messages show it."""
    return re.sub(r"(?<=\d)([GM]i)$", r" \1B", amount)


def submit(platform: Platform, number: int, resources: Any) -> Held:
    """A run that goes on until there is a file."""
    gate = platform.shared / f"gate-{number}"
    run = platform.shell(f"until [ -e {gate} ]; do sleep 0.02; done", resources=resources)
    return Held(run, {"cpu": str(resources["cpu"]), "memory": resources["mem"]}, gate)


def settle(platform: Platform, running: list[Held], waiting: list[Held]) -> None:
    """Wait until the capacity is used, and all other runs have a waiting reason."""
    with platform.server.client() as client:
        scopes = sorted(held.run.id for held in running)
        until(lambda: sorted(client.get("/nodes").json()[0]["runs"]) == scopes)
    for held in running:
        reach(held.run, "running")
    until(lambda: all(held.run.refresh().data["reason"] == "Unschedulable" for held in waiting))


def check_reason(platform: Platform, held: Held, running: list[Held]) -> Any:
    """Compare the explanation of a run with the facts, and return it."""
    with platform.server.client() as client:
        why, (node,) = client.get(f"/runs/{held.run.id}/why").json(), client.get("/nodes").json()
    assert (why["state"], why["fit"]["verdict"]) == ("queued", "later")
    lacking = [name for name, amount in held.requested.items() if nanos(amount) > nanos(node["free"][name])]
    needs = NEEDS.findall(why["message"])
    assert [word.removesuffix("s") for _, word, *_ in needs] == [WORDS[name] for name in lacking]
    for resource, (needed, _, free, has, where, holders) in zip(lacking, needs, strict=True):
        assert (needed, where) == (show(held.requested[resource]), node["name"])
        assert (free, has) == (show(node["free"][resource]), show(node["capacity"][resource]))
        assert sorted(re.findall(r"(\S+?)(?:,|$| and)", holders)) == sorted(each.name for each in running)
        used = nanos(node["capacity"][resource]) - nanos(node["free"][resource])
        assert sum(nanos(each.requested[resource]) for each in running) == used
    return why


def check_waits(held: Held, suggestions: Any, running: list[Held]) -> list[Held]:
    """The runs that it may wait for: exactly those whose end alone makes the room, with what they hold."""
    others = {each.run.id: [other for other in running if other is not each] for each in running}
    enough = [
        each
        for each in running
        if all(
            nanos(held.requested[name]) + sum(nanos(other.requested[name]) for other in others[each.run.id])
            <= nanos(has)
            for name, has in (("cpu", "4"), ("memory", "4Gi"))
        )
    ]
    waits = {suggestion["run_id"]: suggestion["message"] for suggestion in suggestions if suggestion["kind"] == "wait"}
    assert waits.keys() == {each.run.id for each in enough}
    for each in enough:
        cores = f"{each.requested['cpu']} CPU core{'s' * (each.requested['cpu'] != '1')}"
        holds = f"which uses {cores} and {show(each.requested['memory'])} memory on "
        assert waits[each.run.id].startswith(f"wait for run {each.name}, {holds}")
    return enough


def test_twelve_waiting_runs_give_correct_reasons(platform: Platform) -> None:
    """Two runs fill the machine. The first waiting run starts when the run that it was waiting for ends."""
    runs = [submit(platform, number, resources) for number, resources in enumerate(SIZES)]
    running, waiting = runs[:2], runs[2:]
    while waiting:
        settle(platform, running, waiting)
        whys = [check_reason(platform, held, running) for held in waiting]
        assert [why["ahead"] for why in whys] == list(range(len(waiting)))
        waited_for = [
            check_waits(held, why["fit"]["suggestions"], running) for held, why in zip(waiting, whys, strict=True)
        ]
        first = waiting.pop(0)
        for each in waited_for[0] or running:  # no single one makes room for the last
            each.gate.touch()
            running = [other for other in running if other is not each]
        assert reach(first.run, "running", "failed") == "running"
        running.append(first)
        assert [str(held.run.state) for held in waiting] == ["queued"] * len(waiting)
    running[0].gate.touch()
    assert [run["state"] for run in end_all([held.run for held in runs])] == ["completed"] * 12


def test_cli_prints_the_same_explanation(platform: Platform, shared_machine: Machine) -> None:
    running, waiting = (submit(platform, number, WHOLE) for number in (20, 21))
    settle(platform, [running], [waiting])
    why = check_reason(platform, waiting, [running])
    where = {"FAIRLEAD_URL": platform.server.url, "FAIRLEAD_TOKEN": platform.server.token}
    explained = shared_machine.fairlead("why", waiting.run.id, variables=where)
    assert (explained.code, explained.err) == (0, "")
    assert explained.out.splitlines()[0] == f"queued: {why['message']}"
    assert f"1. wait for run {running.name}, which uses 4 CPU cores and 4 GiB memory on " in explained.out
    running.gate.touch()
    waiting.gate.touch()
    assert [run["state"] for run in end_all([running.run, waiting.run])] == ["completed"] * 2


def test_suggestion_is_applied_before_and_after_submission(platform: Platform) -> None:
    holds = platform.shell("sleep 300", resources={"cpu": 3})
    reach(holds, "running")
    waits = platform.shell("echo changed", resources={"cpu": 2})
    until(lambda: waits.why().suggestions)
    why = waits.why()
    assert [suggestion.kind for suggestion in why.suggestions] == ["lower", "wait"]
    assert f"2. wait for run shell-{holds.id}, which uses 3 CPU cores on " in why
    changed = why.apply(1)
    with pytest.raises(Conflict, match="changes nothing"):
        why.apply(2)
    with pytest.raises(NotFound, match="suggestion 3 does not exist"):
        why.apply(3)
    assert [run.wait(60, progress=False).state for run in (changed, waits)] == ["completed", "stopped"]
    assert changed.logs() == "changed\n"
    function = platform.project.function("previewed", command=["echo", "previewed"])
    preview = function.preview(resources={"cpu": 2})
    assert "Fits later" in preview.explain()
    previewed = preview.apply(preview.fit.suggestions[0])
    assert previewed.wait(60, progress=False).state == "completed"
    assert "Fits" not in previewed.explain()
    end_all([holds.stop()])
