"""Properties of quotas: never exceeded, and no run starves."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.queue_order import Queue, QuotaLimits
from fairlead.core.quotas import UNITS, QuotaAmounts
from fairlead.core.scope_tree import ScopeTree

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
BOUNDS = st.dictionaries(st.sampled_from(["platform", *TREE.parents]), LIMITS, max_size=5).map(
    lambda said: QuotaLimits(TREE, {scope: limits for scope, limits in said.items() if limits})
)


@dataclass(frozen=True)
class Asking:
    """A run; the smaller its number, the longer it has waited."""

    number: int
    scope: str
    load: QuotaAmounts


LOADS = st.builds(QuotaAmounts, gpu=st.integers(0, 4), cpu=st.integers(0, 4), mem=st.just(0), runs=st.just(1))
RUNS = st.lists(st.tuples(st.sampled_from(PROJECTS), LOADS), max_size=12).map(
    lambda said: [Asking(number, *each) for number, each in enumerate(said)]
)


def measure(bounds: QuotaLimits, running: list[Asking]) -> Queue:
    """A line, with what these hold."""
    line = Queue(bounds.allowances({}))
    for run in running:
        line.add_usage(run.load, bounds.limiting_scopes(run.scope))
    return line


def look(bounds: QuotaLimits, running: list[Asking], waiting: list[Asking]) -> list[Asking]:
    """The admitted runs, oldest first."""
    line, found = measure(bounds, running), list[Asking]()
    for run in waiting:
        path = bounds.limiting_scopes(run.scope)
        if lacking := line.find_shortages(run.load, path):
            line.reserve_for_waiting(run.load, path, lacking)
        else:
            line.add_usage(run.load, path)
            found.append(run)
    return found


def find_lacking(bounds: QuotaLimits, running: list[Asking], run: Asking) -> set[tuple[str, str]]:
    """The quotas that are insufficient for a run, ignoring other waiting runs."""
    found = measure(bounds, running).find_shortages(run.load, bounds.limiting_scopes(run.scope))
    return {(short.allowance.scope, short.part) for short in found}


def is_possible(bounds: QuotaLimits, run: Asking) -> bool:
    """Whether all quotas would let it in if nothing ran."""
    return not find_lacking(bounds, [], run)


@given(BOUNDS, RUNS, st.lists(st.integers(0, 11), max_size=30))
def test_no_quota_is_ever_exceeded(bounds: QuotaLimits, runs: list[Asking], ends: list[int]) -> None:
    running, waiting = list[Asking](), list(runs)
    for end in [None, *ends]:
        running = [run for run in running if run.number != end]
        running += look(bounds, running, waiting)
        waiting = [run for run in waiting if run not in running]
        for allowance in measure(bounds, running).allowances.values():
            assert all(getattr(allowance.used, part) <= limit for part, limit in allowance.limits.items())


@given(BOUNDS, RUNS)
def test_nobody_is_let_in_before_an_older_one_that_waits_for_the_same(bounds: QuotaLimits, runs: list[Asking]) -> None:
    let_in = look(bounds, [], runs)
    for run in let_in:
        asked = {
            (scope, part) for scope in bounds.limiting_scopes(run.scope) for part in UNITS if getattr(run.load, part)
        }
        before = [other for other in let_in if other.number < run.number]
        for older in runs[: run.number]:
            if older not in let_in and is_possible(bounds, older):
                assert not asked & find_lacking(bounds, before, older)


@given(BOUNDS, RUNS)
def test_who_is_bound_by_none_of_the_same_quotas_is_held_back_by_nobody(
    bounds: QuotaLimits, runs: list[Asking]
) -> None:
    """A run waits only if a quota would be exceeded together with admitted runs and runs ahead."""
    let_in = look(bounds, [], runs)
    for run in runs:
        others = [
            other
            for other in runs[: run.number]
            if set(bounds.limiting_scopes(other.scope)) & set(bounds.limiting_scopes(run.scope))
        ]
        assert (run in let_in) == (run in look(bounds, [], [*others, run]))


@given(BOUNDS, RUNS, st.lists(st.tuples(st.sampled_from(PROJECTS), LOADS), min_size=1, max_size=4))
def test_everybody_has_a_turn_however_many_come_later(
    bounds: QuotaLimits, runs: list[Asking], stream: list[tuple[str, QuotaAmounts]]
) -> None:
    """Running runs end one after the other, and new runs arrive with each end."""
    running, waiting = list[Asking](), list(runs)
    number = len(runs)
    for _ in range(200):
        running += look(bounds, running, waiting)
        waiting = [run for run in waiting if run not in running]
        if not any(run.number < len(runs) and is_possible(bounds, run) for run in waiting):
            return
        running = running[1:]
        for scope, load in stream:
            waiting.append(Asking(number, scope, load))
            number += 1
        waiting = [run for run in waiting if run.number < len(runs) or run.number >= number - 40]  # the others give up
    assert not [run for run in waiting if run.number < len(runs) and is_possible(bounds, run)]
