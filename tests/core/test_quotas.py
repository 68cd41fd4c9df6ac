"""What quotas leave, what is said of one that leaves too little, and whose turn it is."""

from typing import Any

import pytest

from fairlead.core import quotas
from fairlead.core.queue_order import Queue, QuotaLimits
from fairlead.core.quotas import Allowance, QuotaAmounts, QuotaHolder
from fairlead.core.scope_tree import ScopeTree
from fairlead.model.plans import Fit
from fairlead.model.policies import Quota
from fairlead.model.queries import Condition

GI = 2**30
VISION, SPEECH = "department/vision", "department/speech"
TREE = ScopeTree(
    {
        VISION: "cluster/main",
        SPEECH: "cluster/main",
        "cluster/main": "platform",
        "project/forest": VISION,
        "project/lake": SPEECH,
    }
)


def make_load(gpu: int = 0, cpu: int = 0, mem: int = 0, runs: int = 1) -> QuotaAmounts:
    """What a run asks for."""
    return QuotaAmounts(gpu, cpu, mem, runs)


def make_allowance(
    used: QuotaAmounts = quotas.NOTHING, *, scope: str = VISION, reserved: QuotaAmounts = quotas.NOTHING, **said: Any
) -> Allowance:
    """A quota as people write it, with what is held of it."""
    holders = said.pop("holders", ())
    return Allowance(scope, quotas.limits_of(Quota.model_validate(said)), used, reserved, holders)


def tell(asked: QuotaAmounts, *allowances: Allowance) -> list[str]:
    """What is lacking, in words."""
    return [shortage.describe() for shortage in quotas.find_shortages(asked, allowances)]


def test_amounts_of_a_quota_are_whole_numbers() -> None:
    said = Quota.model_validate({"gpu": 8, "cpu": "1500m", "mem": "2Gi", "runs": 5})
    assert quotas.limits_of(said) == {"gpu": 8, "cpu": 1500, "mem": 2 * GI, "runs": 5}
    assert quotas.limits_of(Quota.model_validate({"mem": 0})) == {"mem": 0}
    assert quotas.limits_of(Quota()) == {}


HELD = (
    QuotaHolder("id-41", "train-41", QuotaAmounts(2, 0, 0, 1)),
    QuotaHolder("id-42", "train-42", QuotaAmounts(4, 0, 0, 1)),
)


@pytest.mark.parametrize(
    ("asked", "allowance", "told"),
    [
        (
            make_load(gpu=4),
            make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HELD),
            "needs 4 GPUs; 2 of 8 free in the department/vision quota; run train-42 uses 4",
        ),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(1, 0, 0, 1), gpu=1),
            "needs 1 GPU; 0 of 1 free in the department/vision quota",
        ),
        (
            make_load(gpu=10),
            make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HELD),
            "needs 10 GPUs; the department/vision quota is 8",
        ),
        (
            make_load(cpu=4000),
            make_allowance(QuotaAmounts(0, 198500, 0, 9), cpu=200),
            "needs 4 CPU cores; 1.5 of 200 free in the department/vision quota",
        ),
        (
            make_load(mem=200 * GI),
            make_allowance(QuotaAmounts(0, 0, 900 * GI, 9), mem="1Ti"),
            "needs 200 GiB memory; 124 GiB of 1 TiB free in the department/vision quota",
        ),
        (
            make_load(mem=2 * GI + 1),
            make_allowance(mem="2Gi"),
            "needs 2147483649 bytes memory; the department/vision quota is 2147483648 bytes",
        ),
        (
            make_load(),
            make_allowance(QuotaAmounts(0, 0, 0, 2), runs=2, holders=HELD),
            "2 of 2 runs active in the department/vision quota; one of them is run train-41",
        ),
        (make_load(), make_allowance(runs=0), "the department/vision quota is 0 runs"),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(6, 0, 0, 2), reserved=QuotaAmounts(gpu=4, runs=1), gpu=8, holders=HELD),
            "needs 1 GPU; 2 of 8 free in the department/vision quota, but reserved for a run ahead in the queue",
        ),
        (
            make_load(),
            make_allowance(QuotaAmounts(0, 0, 0, 1), reserved=QuotaAmounts(runs=1), runs=2),
            "1 of 2 runs active in the department/vision quota, but reserved for a run ahead in the queue",
        ),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(12, 0, 0, 2), gpu=8),
            "needs 1 GPU; 0 of 8 free in the department/vision quota",
        ),
    ],
    ids=str,
)
def test_what_is_lacking_is_told_with_numbers(asked: QuotaAmounts, allowance: Allowance, told: str) -> None:
    assert tell(asked, allowance) == [told]


@pytest.mark.parametrize(
    ("asked", "allowance"),
    [
        (make_load(gpu=2), make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8)),
        (
            make_load(cpu=1),
            make_allowance(QuotaAmounts(12, 0, 0, 2), gpu=8),
        ),  # it was larger once; this run asks for none
        (make_load(gpu=0), make_allowance(gpu=0)),
        (make_load(gpu=9), make_allowance(QuotaAmounts(0, 0, 0, 99), mem="1Gi")),
    ],
    ids=str,
)
def test_a_run_that_asks_for_what_is_left_or_for_nothing_of_it_lacks_nothing(
    asked: QuotaAmounts, allowance: Allowance
) -> None:
    assert tell(asked, allowance) == []


def test_every_quota_that_is_over_is_told_and_first_what_no_end_helps_against() -> None:
    platform = make_allowance(QuotaAmounts(10, 0, 0, 9), scope="platform", gpu=12, runs=9)
    vision = make_allowance(gpu=2)
    assert [text for text in tell(make_load(gpu=3), platform, vision)] == [
        "needs 3 GPUs; the department/vision quota is 2",
        "needs 3 GPUs; 2 of 12 free in the platform quota",
        "9 of 9 runs active in the platform quota",
    ]


@pytest.mark.parametrize(
    ("asked", "said", "told"),
    [
        (
            make_load(gpu=4),
            {"gpu": 8},
            "waiting for 4 of 8 GPUs in the department/vision quota",
        ),
        (make_load(), {"runs": 2}, "waiting for a free slot: the department/vision quota is 2 runs at once"),
        (make_load(gpu=9), {"gpu": 8}, "needs 9 GPUs; the department/vision quota is 8"),
    ],
    ids=str,
)
def test_what_is_kept_with_a_run_has_no_number_that_changes_by_the_second(
    asked: QuotaAmounts, said: dict[str, Any], told: str
) -> None:
    for used in (QuotaAmounts(8, 0, 0, 2), QuotaAmounts(99, 0, 0, 99)):
        (short,) = quotas.find_shortages(asked, [make_allowance(used, holders=HELD, **said)])
        assert short.describe_wait() == told


@pytest.mark.parametrize(
    ("verdict", "asked", "held"),
    [
        ("now", 4, "later"),
        ("later", 4, "later"),
        ("never", 4, "never"),
        ("unknown", 4, "unknown"),
        ("now", 9, "later"),
        ("unknown", 9, "unknown"),
        ("now", 2, "now"),
        ("never", 2, "never"),
    ],
)
def test_a_quota_comes_before_what_the_nodes_say(verdict: str, asked: int, held: str) -> None:
    fit = Fit(verdict, reasons=() if verdict == "now" else ("no node has room",))
    found = quotas.apply_quotas(fit, make_load(gpu=asked), [make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8)])
    assert found.verdict == held
    assert found.reasons[-len(fit.reasons) :] == fit.reasons or not fit.reasons
    assert (len(found.reasons) > len(fit.reasons)) == (asked > 2)


def test_there_is_room_for_as_many_as_every_quota_has_left() -> None:
    both = [
        make_allowance(QuotaAmounts(2, 0, 0, 1), scope="platform", gpu=8),
        make_allowance(QuotaAmounts(0, 0, 0, 4), runs=6),
    ]
    assert quotas.count_fitting_runs(make_load(gpu=2), both, 10) == 2
    assert quotas.count_fitting_runs(make_load(gpu=4), both, 10) == 1
    assert quotas.count_fitting_runs(make_load(gpu=7), both, 10) == 0
    assert quotas.count_fitting_runs(make_load(gpu=7), [make_allowance(QuotaAmounts(9, 0, 0, 1), gpu=8)], 10) == 0
    assert quotas.count_fitting_runs(make_load(gpu=1), [], 10) == 10


def test_the_end_of_a_run_gives_back_what_it_holds() -> None:
    allowance = make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HELD)
    assert allowance.without("id-42").remaining == {"gpu": 6}
    assert allowance.without("id-99") is allowance


# Quotas of an organization


def test_a_run_is_bound_by_the_quotas_of_all_scopes_above_it() -> None:
    said = [("platform", Quota(gpu=9)), (VISION, Quota(runs=1)), (SPEECH, Quota()), ("project/lake", Quota(gpu=0))]
    bounds = QuotaLimits.of(TREE, said)
    assert bounds.limiting_scopes("project/forest") == ("platform", VISION)
    assert bounds.limiting_scopes("project/lake") == ("platform", "project/lake")
    assert bounds.limiting_scopes("project/new") == ("platform",)
    assert QuotaLimits.of(TREE, [(SPEECH, Quota())]).limiting_scopes("project/lake") == ()


def test_what_runs_hold_is_counted_at_each_scope_above_them() -> None:
    bounds = QuotaLimits.of(TREE, [("platform", Quota(gpu=9)), (VISION, Quota(runs=1))])
    held = {("project/forest", 1, 500, 10): 2, ("project/lake", 3, 0, 0): 1}
    assert {scope: found.used for scope, found in bounds.allowances(held).items()} == {
        "platform": QuotaAmounts(5, 1000, 20, 3),
        VISION: QuotaAmounts(2, 1000, 20, 2),
    }


def test_runs_are_looked_for_where_a_quota_reaches() -> None:
    bounds = QuotaLimits.of(TREE, [("platform", Quota(gpu=9)), (VISION, Quota(runs=1))])
    assert bounds.within("platform", VISION) == ()
    (condition,) = bounds.within(VISION)
    assert (condition.column, condition.operator, set(condition.value)) == ("scope", "in", {VISION, "project/forest"})
    assert isinstance(condition, Condition)


# Whose turn it is: runs are said by their scope and what they ask for, the oldest first


def let_in(line: Queue, bounds: QuotaLimits, *asked: tuple[str, QuotaAmounts]) -> list[int]:
    """Which of those that wait are let in, by number."""
    found = []
    for number, (scope, load) in enumerate(asked):
        path = bounds.limiting_scopes(scope)
        if lacking := line.find_shortages(load, path):
            line.reserve_for_waiting(load, path, lacking)
        else:
            line.add_usage(load, path)
            found.append(number)
    return found


FOREST, LAKE = "project/forest", "project/lake"
ONE, TWO, THREE = ((FOREST, make_load(gpu=gpus)) for gpus in (1, 2, 3))
CORE = (FOREST, make_load(cpu=1000))


@pytest.mark.parametrize(
    ("said", "asked", "let"),
    [
        ({VISION: {"runs": 2}}, [CORE, CORE, CORE], [0, 1]),
        # One that is held lets nobody pass who asks for the same, and everybody who does not.
        ({VISION: {"gpu": 4}}, [THREE, THREE, ONE], [0]),
        ({VISION: {"gpu": 2}}, [TWO, TWO, CORE], [0, 2]),
        ({VISION: {"gpu": 1}}, [ONE, ONE, (LAKE, make_load(gpu=1))], [0, 2]),
        # What can never be holds nobody back.
        ({VISION: {"gpu": 2}}, [THREE, TWO], [1]),
        # Held by its department, it does not hold back others by what the platform has.
        ({"platform": {"gpu": 4}, VISION: {"gpu": 2}}, [ONE, TWO, (LAKE, make_load(gpu=3))], [0, 2]),
        # What the first in line asks for beside what it lacks is kept for it; not so for those behind it.
        ({VISION: {"gpu": 1, "cpu": 2}}, [ONE, (FOREST, make_load(gpu=1, cpu=2000)), CORE], [0]),
        ({VISION: {"gpu": 1, "runs": 4}}, [*[ONE] * 5, *[CORE] * 3], [0, 5, 6]),
        # Held by the platform, the first in line has its part of the department's quota kept for it too.
        ({"platform": {"gpu": 1}, VISION: {"cpu": 2}}, [ONE, (FOREST, make_load(gpu=1, cpu=2000)), CORE], [0]),
    ],
    ids=str,
)
def test_the_oldest_comes_first_quota_by_quota(
    said: dict[str, Any], asked: list[tuple[str, QuotaAmounts]], let: list[int]
) -> None:
    bounds = QuotaLimits.of(TREE, ((scope, Quota.model_validate(quota)) for scope, quota in said.items()))
    assert let_in(Queue(bounds.allowances({})), bounds, *asked) == let
