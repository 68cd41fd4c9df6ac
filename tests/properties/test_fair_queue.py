"""The queue compared with a simple reference that examines every waiting run again after each start."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.controllers.runs import RESYNC_SECONDS
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS, STOP_GRACE_SECONDS
from fairlead.scheduling.fair_shares import URGENT_SECONDS
from tests.contracts.memory import MemoryStore
from tests.services.executing import HOME, OTHER, Platform, initialize_platform

CAPACITY = {"cpu": 8, "gpu": 2, "slots": 16}
HOUR = 3600


@dataclass(frozen=True)
class Submit:
    """A step that submits a run."""

    scope: str
    cpu: int
    gpu: int
    priority: int
    deadline: int | None  # in minutes


@dataclass(frozen=True)
class End:
    """A step that ends one of the running runs."""

    index: int


@dataclass(frozen=True)
class Wait:
    """A step in which time passes."""

    seconds: float


Step = Submit | End | Wait
SUBMISSIONS = st.builds(
    Submit,
    scope=st.sampled_from([HOME, OTHER]),
    cpu=st.sampled_from([1, 2, 3, 4, 6, 8]),
    gpu=st.sampled_from([0, 0, 1, 2]),
    priority=st.sampled_from([0, 0, 0, 1, -1]),
    deadline=st.sampled_from([None, None, 5, 30, 60]),
)
WAITS = st.sampled_from([60.0, RESERVE_AFTER_SECONDS, HOUR, URGENT_SECONDS])
STEP = st.one_of(SUBMISSIONS, SUBMISSIONS, st.builds(End, st.integers(0, 7)), st.builds(Wait, WAITS))
# Short lists would rarely contain runs of both projects that wait at the same time.
STEPS = st.lists(STEP, min_size=10, max_size=30)


@dataclass(eq=False)
class SimulatedRun:
    """A run in the reference."""

    number: int
    submit: Submit
    submitted_at: float

    @property
    def amounts(self) -> dict[str, int]:
        """What the run requests."""
        return {"cpu": self.submit.cpu, "gpu": self.submit.gpu, "slots": 1}

    @property
    def key(self) -> tuple[float, int]:
        """The effective submission time: one point of priority is worth one hour."""
        return self.submitted_at - self.submit.priority * HOUR, self.number


@dataclass
class Reference:
    """A machine with a queue, as simple as possible."""

    now: float = 0.0
    waiting: list[SimulatedRun] = field(default_factory=list)
    running: list[SimulatedRun] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    reserved: SimulatedRun | None = None

    def fits(self, run: SimulatedRun, *others: SimulatedRun) -> bool:
        """Whether a run fits next to the running runs and others."""
        used = [each.amounts for each in (*self.running, *others)]
        return all(
            not amount or sum(each[name] for each in used) + amount <= CAPACITY[name]
            for name, amount in run.amounts.items()
        )

    def share(self, scope: str) -> float:
        """The dominant share of a project."""
        used = [run.amounts for run in self.running if run.submit.scope == scope]
        return max(sum(each[name] for each in used) / CAPACITY[name] for name in CAPACITY)

    def order(self) -> Iterator[SimulatedRun]:
        """The waiting runs in the order in which they are considered, while nothing starts."""
        urgent = [run for run in self.waiting if self.now - run.submitted_at >= URGENT_SECONDS]
        yield from sorted(urgent, key=lambda run: run.key)
        others = [run for run in self.waiting if run not in urgent]
        # If projects have equal shares, the older run is next.
        yield from sorted(others, key=lambda run: (self.share(run.submit.scope), run.key))

    def may_start(self, run: SimulatedRun) -> bool:
        """Whether a run fits and takes nothing that is reserved for another run."""
        if not self.fits(run):
            return False
        if self.reserved in (None, run) or self.fits(run, self.reserved):
            return True
        release = self._find_release(self.reserved)
        deadline = run.submit.deadline
        return deadline is not None and release is not None and deadline * 60 + STOP_GRACE_SECONDS <= release

    def _find_release(self, reserved: SimulatedRun) -> float | None:
        """When the deadlines of running runs guarantee that the reserved run fits. They have just been started."""
        ending = sorted((run for run in self.running if run.submit.deadline), key=lambda run: run.submit.deadline or 0)
        later = Reference(running=list(self.running))
        for run in ending:
            later.running.remove(run)
            if later.fits(reserved):
                return (run.submit.deadline or 0) * 60.0
        return None

    def admit(self) -> None:
        """Start all runs that may start."""
        while self._start_next():
            pass

    def _start_next(self) -> bool:
        if self.reserved is not None and self.fits(self.reserved):
            self._start(self.reserved)
            return True
        for run in self.order():
            if self.may_start(run):
                self._start(run)
                return True
            if self.reserved is None and not self.fits(run) and self.now - run.submitted_at >= RESERVE_AFTER_SECONDS:
                self.reserved = run
        return False

    def _start(self, run: SimulatedRun) -> None:
        self.waiting.remove(run)
        self.running.append(run)
        self.started.append(run.number)
        if run is self.reserved:
            self.reserved = None


class Comparison:
    """The platform and the reference, which take the same steps."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.controller, self.reference = platform, platform.control(), Reference()
        self.numbers: dict[str, int] = {}  # by run ID

    def take(self, step: Step) -> None:
        """Take a step, and compare what started, what waits and what is reserved."""
        seconds = step.seconds if isinstance(step, Wait) else RESYNC_SECONDS + 1
        self.platform.world.clock.pass_by(seconds=seconds)
        self.reference.now += seconds
        changed: set[str] = set()
        if isinstance(step, Submit):
            changed = {self._submit(step)}
        elif isinstance(step, End) and self.reference.running:
            changed = {self._end(self.reference.running[step.index % len(self.reference.running)])}
        self.reference.admit()
        self.controller.sync(changed)
        self._compare()

    def _submit(self, step: Submit) -> str:
        deadline: dict[str, Any] = {} if step.deadline is None else {"deadline": f"{step.deadline}m"}
        resources = {"cpu": step.cpu, "gpu": step.gpu, "mem": "1Mi", "disk": "1Mi"}
        run = self.platform.submit(step.scope, resources=resources, priority=step.priority, **deadline)
        self.numbers[run.id] = len(self.numbers)
        self.reference.waiting.append(SimulatedRun(self.numbers[run.id], step, self.reference.now))
        return run.id

    def _end(self, run: SimulatedRun) -> str:
        run_id = next(each for each, number in self.numbers.items() if number == run.number)
        self.platform.executor.end(run_id)
        self.reference.running.remove(run)
        return run_id

    def _compare(self) -> None:
        reference, records = self.reference, [self.platform.run(run_id) for run_id in self.numbers]
        assert self.started == reference.started
        waiting = {self.numbers[run.id] for run in records if run.state == "queued"}
        assert waiting == {run.number for run in reference.waiting}
        reserved = [self.numbers[run.id] for run in records if run.reserved_by]
        assert reserved == ([] if reference.reserved is None else [reference.reserved.number])
        # No waiting run could start.
        assert not [run.number for run in reference.waiting if reference.may_start(run)]

    @property
    def started(self) -> list[int]:
        """The numbers of all started runs, in order."""
        return [self.numbers[run_id] for run_id in self.platform.executor.runs]


@contextmanager
def compare() -> Iterator[Comparison]:
    """A new platform and a new reference."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Comparison(initialize_platform(MemoryStore(), monkeypatch))


def end_all(comparison: Comparison) -> None:
    """End running runs until no run waits."""
    while comparison.reference.running:
        comparison.take(End(0))


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_runs_start_as_in_the_reference_and_all_of_them_start(steps: list[Step]) -> None:
    with compare() as comparison:
        for step in steps:
            comparison.take(step)
        end_all(comparison)
        assert not comparison.reference.waiting
        assert sorted(comparison.started) == sorted(comparison.numbers.values())


@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_the_order_is_deterministic(steps: list[Step]) -> None:
    histories = []
    for _ in range(2):
        with compare() as comparison:
            for step in steps:
                comparison.take(step)
            histories.append(comparison.started)
    assert histories[0] == histories[1]


def submit(scope: str = HOME, cpu: int = 1, **values: Any) -> Submit:
    """A submission of a run without GPU, priority and deadline."""
    return Submit(**{"scope": scope, "cpu": cpu, "gpu": 0, "priority": 0, "deadline": None, **values})


@pytest.mark.parametrize(
    ("steps", "started"),
    [
        ([submit(cpu=2), submit(OTHER, cpu=6), submit(cpu=6), submit(OTHER, cpu=6), End(1)], [0, 1, 3]),
        ([submit(cpu=4), submit(cpu=8), Wait(RESERVE_AFTER_SECONDS), submit(OTHER), End(0)], [0, 1]),
        ([submit(gpu=2), submit(gpu=1), Wait(RESERVE_AFTER_SECONDS), submit(cpu=6), submit()], [0, 2]),
    ],
)
def test_the_reference_agrees_with_examples(steps: list[Step], started: list[int]) -> None:
    with compare() as comparison:
        for step in steps:
            comparison.take(step)
        assert comparison.started == started
