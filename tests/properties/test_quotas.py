"""Properties of quotas: never exceeded, and no run starves."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.scopes import ScopeTree
from fairlead.scheduling.queue_order import Queue, QuotaLimits
from fairlead.scheduling.quotas import UNITS, QuotaAmounts

PROJECTS = ("project/forest", "project/meadow", "project/lake")
TREE = ScopeTree(
    {
        "department/vision": "platform",
        "department/speech": "platform",
        "project/forest": "department/vision",
        "project/meadow": "department/vision",
        "project/lake": "department/speech",
    }
)
LIMITS = st.dictionaries(st.sampled_from(["gpu", "cpu", "runs"]), st.integers(0, 6), max_size=3)
QUOTA_LIMITS = st.dictionaries(st.sampled_from(["platform", *TREE.parents]), LIMITS, max_size=5).map(
    lambda drawn: QuotaLimits(TREE, {scope: limits for scope, limits in drawn.items() if limits})
)


@dataclass(frozen=True)
class WaitingRun:
    """A run; the smaller its number, the longer it has waited."""

    number: int
    scope: str
    load: QuotaAmounts


LOADS = st.builds(QuotaAmounts, gpu=st.integers(0, 4), cpu=st.integers(0, 4), mem=st.just(0), runs=st.just(1))
RUNS = st.lists(st.tuples(st.sampled_from(PROJECTS), LOADS), max_size=12).map(
    lambda drawn: [WaitingRun(number, *fields) for number, fields in enumerate(drawn)]
)


def queue_with(limits: QuotaLimits, running: list[WaitingRun]) -> Queue:
    """A queue with the usage of the active runs."""
    queue = Queue(limits.allowances({}))
    for run in running:
        queue.add_usage(run.load, limits.limiting_scopes(run.scope))
    return queue


def admit(limits: QuotaLimits, running: list[WaitingRun], waiting: list[WaitingRun]) -> list[WaitingRun]:
    """The admitted runs, oldest first."""
    queue, admitted = queue_with(limits, running), list[WaitingRun]()
    for run in waiting:
        path = limits.limiting_scopes(run.scope)
        if shortages := queue.find_shortages(run.load, path):
            queue.reserve_for_waiting(run.load, path, shortages)
        else:
            queue.add_usage(run.load, path)
            admitted.append(run)
    return admitted


def find_insufficient(limits: QuotaLimits, running: list[WaitingRun], run: WaitingRun) -> set[tuple[str, str]]:
    """The quotas that are insufficient for a run, ignoring other waiting runs."""
    shortages = queue_with(limits, running).find_shortages(run.load, limits.limiting_scopes(run.scope))
    return {(short.allowance.scope, short.part) for short in shortages}


def is_possible(limits: QuotaLimits, run: WaitingRun) -> bool:
    """Whether the run fits all quotas if nothing else is running."""
    return not find_insufficient(limits, [], run)


@given(QUOTA_LIMITS, RUNS, st.lists(st.integers(0, 11), max_size=30))
def test_no_quota_is_ever_exceeded(limits: QuotaLimits, runs: list[WaitingRun], ends: list[int]) -> None:
    running, waiting = list[WaitingRun](), list(runs)
    for end in [None, *ends]:
        running = [run for run in running if run.number != end]
        running += admit(limits, running, waiting)
        waiting = [run for run in waiting if run not in running]
        for allowance in queue_with(limits, running).allowances.values():
            assert all(getattr(allowance.used, part) <= limit for part, limit in allowance.limits.items())


@given(QUOTA_LIMITS, RUNS)
def test_no_run_overtakes_an_older_one_that_waits_for_the_same_quota(
    limits: QuotaLimits, runs: list[WaitingRun]
) -> None:
    admitted = admit(limits, [], runs)
    for run in admitted:
        requested = {
            (scope, part) for scope in limits.limiting_scopes(run.scope) for part in UNITS if getattr(run.load, part)
        }
        before = [other for other in admitted if other.number < run.number]
        for older in runs[: run.number]:
            if older not in admitted and is_possible(limits, older):
                assert not requested & find_insufficient(limits, before, older)


@given(QUOTA_LIMITS, RUNS)
def test_runs_with_unrelated_quotas_do_not_affect_each_other(limits: QuotaLimits, runs: list[WaitingRun]) -> None:
    """A run waits only if a quota would be exceeded together with admitted runs and runs ahead."""
    admitted = admit(limits, [], runs)
    for run in runs:
        others = [
            other
            for other in runs[: run.number]
            if set(limits.limiting_scopes(other.scope)) & set(limits.limiting_scopes(run.scope))
        ]
        assert (run in admitted) == (run in admit(limits, [], [*others, run]))


@given(QUOTA_LIMITS, RUNS, st.lists(st.tuples(st.sampled_from(PROJECTS), LOADS), min_size=1, max_size=4))
def test_no_run_starves_while_new_runs_arrive(
    limits: QuotaLimits, runs: list[WaitingRun], stream: list[tuple[str, QuotaAmounts]]
) -> None:
    """Active runs end one after another, and new runs arrive each time one ends."""
    running, waiting = list[WaitingRun](), list(runs)
    number = len(runs)
    for _ in range(200):
        running += admit(limits, running, waiting)
        waiting = [run for run in waiting if run not in running]
        if not any(run.number < len(runs) and is_possible(limits, run) for run in waiting):
            return
        running = running[1:]
        for scope, load in stream:
            waiting.append(WaitingRun(number, scope, load))
            number += 1
        waiting = [
            run for run in waiting if run.number < len(runs) or run.number >= number - 40
        ]  # drop most of the new runs
    assert not [run for run in waiting if run.number < len(runs) and is_possible(limits, run)]
