"""Quotas: remaining amounts, descriptions of shortages, and the order of the queue."""

from typing import Any

import pytest

from fairlead.model.assets import Quota
from fairlead.model.columns import Condition
from fairlead.model.plans import Fit
from fairlead.model.scopes import ScopeTree
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import Queue, QuotaLimits
from fairlead.scheduling.quotas import Allowance, QuotaAmounts, QuotaHolder

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
    """The amounts that a run requests."""
    return QuotaAmounts(gpu, cpu, mem, runs)


def make_allowance(
    used: QuotaAmounts = quotas.NOTHING, *, scope: str = VISION, reserved: QuotaAmounts = quotas.NOTHING, **fields: Any
) -> Allowance:
    """A quota with its current usage."""
    holders = fields.pop("holders", ())
    return Allowance(scope, quotas.limits_of(Quota.model_validate(fields)), used, reserved, holders)


def describe_shortages(requested: QuotaAmounts, *allowances: Allowance) -> list[str]:
    """The descriptions of all shortages."""
    return [shortage.describe() for shortage in quotas.find_shortages(requested, allowances)]


def test_quota_amounts_are_integers() -> None:
    quota = Quota.model_validate({"gpu": 8, "cpu": "1500m", "mem": "2Gi", "runs": 5})
    assert quotas.limits_of(quota) == {"gpu": 8, "cpu": 1500, "mem": 2 * GI, "runs": 5}
    assert quotas.limits_of(Quota.model_validate({"mem": 0})) == {"mem": 0}
    assert quotas.limits_of(Quota()) == {}


HOLDERS = (
    QuotaHolder("id-41", "train-41", QuotaAmounts(2, 0, 0, 1)),
    QuotaHolder("id-42", "train-42", QuotaAmounts(4, 0, 0, 1)),
)


@pytest.mark.parametrize(
    ("requested", "allowance", "message"),
    [
        (
            make_load(gpu=4),
            make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HOLDERS),
            "needs 4 GPUs; 2 of 8 free in the department/vision quota; run train-42 uses 4",
        ),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(1, 0, 0, 1), gpu=1),
            "needs 1 GPU; 0 of 1 free in the department/vision quota",
        ),
        (
            make_load(gpu=10),
            make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HOLDERS),
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
            make_allowance(QuotaAmounts(0, 0, 0, 2), runs=2, holders=HOLDERS),
            "2 of 2 runs active in the department/vision quota; one of them is run train-41",
        ),
        (make_load(), make_allowance(runs=0), "the department/vision quota is 0 runs"),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(6, 0, 0, 2), reserved=QuotaAmounts(gpu=4, runs=1), gpu=8, holders=HOLDERS),
            "needs 1 GPU; 2 of 8 free in the department/vision quota; "
            "free quota is reserved for a run ahead in the queue",
        ),
        (
            make_load(),
            make_allowance(QuotaAmounts(0, 0, 0, 1), reserved=QuotaAmounts(runs=1), runs=2),
            "1 of 2 runs active in the department/vision quota; free quota is reserved for a run ahead in the queue",
        ),
        (
            make_load(gpu=1),
            make_allowance(QuotaAmounts(12, 0, 0, 2), gpu=8),
            "needs 1 GPU; 0 of 8 free in the department/vision quota",
        ),
    ],
    ids=str,
)
def test_shortages_are_described_with_numbers(requested: QuotaAmounts, allowance: Allowance, message: str) -> None:
    assert describe_shortages(requested, allowance) == [message]


@pytest.mark.parametrize(
    ("requested", "allowance"),
    [
        (make_load(gpu=2), make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8)),
        (
            make_load(cpu=1),
            make_allowance(QuotaAmounts(12, 0, 0, 2), gpu=8),
        ),  # the quota was lowered, and this run requests no GPU
        (make_load(gpu=0), make_allowance(gpu=0)),
        (make_load(gpu=9), make_allowance(QuotaAmounts(0, 0, 0, 99), mem="1Gi")),
    ],
    ids=str,
)
def test_requests_within_the_remaining_quota_have_no_shortage(requested: QuotaAmounts, allowance: Allowance) -> None:
    assert describe_shortages(requested, allowance) == []


def test_all_shortages_are_listed_with_permanent_ones_first() -> None:
    platform = make_allowance(QuotaAmounts(10, 0, 0, 9), scope="platform", gpu=12, runs=9)
    vision = make_allowance(gpu=2)
    assert describe_shortages(make_load(gpu=3), platform, vision) == [
        "needs 3 GPUs; the department/vision quota is 2",
        "needs 3 GPUs; 2 of 12 free in the platform quota",
        "9 of 9 runs active in the platform quota",
    ]


@pytest.mark.parametrize(
    ("requested", "quota", "message"),
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
def test_wait_descriptions_do_not_depend_on_current_usage(
    requested: QuotaAmounts, quota: dict[str, Any], message: str
) -> None:
    for used in (QuotaAmounts(8, 0, 0, 2), QuotaAmounts(99, 0, 0, 99)):
        (shortage,) = quotas.find_shortages(requested, [make_allowance(used, holders=HOLDERS, **quota)])
        assert shortage.describe_wait() == message


@pytest.mark.parametrize(
    ("verdict", "requested", "expected"),
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
def test_quota_reasons_come_before_node_reasons(verdict: str, requested: int, expected: str) -> None:
    fit = Fit(verdict, reasons=() if verdict == "now" else ("no node has room",))
    limited = quotas.apply_quotas(fit, make_load(gpu=requested), [make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8)])
    assert limited.verdict == expected
    assert limited.reasons[-len(fit.reasons) :] == fit.reasons or not fit.reasons
    assert (len(limited.reasons) > len(fit.reasons)) == (requested > 2)


def test_the_tightest_quota_limits_the_number_of_runs() -> None:
    both = [
        make_allowance(QuotaAmounts(2, 0, 0, 1), scope="platform", gpu=8),
        make_allowance(QuotaAmounts(0, 0, 0, 4), runs=6),
    ]
    assert quotas.count_fitting_runs(make_load(gpu=2), both, 10) == 2
    assert quotas.count_fitting_runs(make_load(gpu=4), both, 10) == 1
    assert quotas.count_fitting_runs(make_load(gpu=7), both, 10) == 0
    assert quotas.count_fitting_runs(make_load(gpu=7), [make_allowance(QuotaAmounts(9, 0, 0, 1), gpu=8)], 10) == 0
    assert quotas.count_fitting_runs(make_load(gpu=1), [], 10) == 10


def test_ending_a_run_frees_its_quota() -> None:
    allowance = make_allowance(QuotaAmounts(6, 0, 0, 2), gpu=8, holders=HOLDERS)
    assert allowance.without("id-42").remaining == {"gpu": 6}
    assert allowance.without("id-99") is allowance


# Organization quotas


def test_quotas_of_all_parent_scopes_apply_to_a_run() -> None:
    quota_list = [
        ("platform", Quota(gpu=9)),
        (VISION, Quota(runs=1)),
        (SPEECH, Quota()),
        ("project/lake", Quota(gpu=0)),
    ]
    limits = QuotaLimits.of(TREE, quota_list)
    assert limits.limiting_scopes("project/forest") == ("platform", VISION)
    assert limits.limiting_scopes("project/lake") == ("platform", "project/lake")
    assert limits.limiting_scopes("project/new") == ("platform",)
    assert QuotaLimits.of(TREE, [(SPEECH, Quota())]).limiting_scopes("project/lake") == ()


def test_usage_is_counted_in_all_parent_scopes() -> None:
    limits = QuotaLimits.of(TREE, [("platform", Quota(gpu=9)), (VISION, Quota(runs=1))])
    usage = {("project/forest", 1, 500, 10): 2, ("project/lake", 3, 0, 0): 1}
    assert {scope: allowance.used for scope, allowance in limits.allowances(usage).items()} == {
        "platform": QuotaAmounts(5, 1000, 20, 3),
        VISION: QuotaAmounts(2, 1000, 20, 2),
    }


def test_runs_are_searched_within_the_scope_of_the_quota() -> None:
    limits = QuotaLimits.of(TREE, [("platform", Quota(gpu=9)), (VISION, Quota(runs=1))])
    assert limits.within("platform", VISION) == ()
    (condition,) = limits.within(VISION)
    assert (condition.column, condition.operator, set(condition.value)) == ("scope", "in", {VISION, "project/forest"})
    assert isinstance(condition, Condition)


# Queue order: each run is a tuple of its scope and its amounts, oldest first


def admit(queue: Queue, limits: QuotaLimits, *requested: tuple[str, QuotaAmounts]) -> list[int]:
    """The indexes of the queued runs that are admitted."""
    admitted = []
    for number, (scope, load) in enumerate(requested):
        path = limits.limiting_scopes(scope)
        if shortages := queue.find_shortages(load, path):
            queue.reserve_for_waiting(load, path, shortages)
        else:
            queue.add_usage(load, path)
            admitted.append(number)
    return admitted


FOREST, LAKE = "project/forest", "project/lake"
ONE, TWO, THREE = ((FOREST, make_load(gpu=gpus)) for gpus in (1, 2, 3))
CORE = (FOREST, make_load(cpu=1000))


@pytest.mark.parametrize(
    ("quota_fields", "requested", "expected"),
    [
        ({VISION: {"runs": 2}}, [CORE, CORE, CORE], [0, 1]),
        # A waiting run blocks later runs that request the same resource, but no others.
        ({VISION: {"gpu": 4}}, [THREE, THREE, ONE], [0]),
        ({VISION: {"gpu": 2}}, [TWO, TWO, CORE], [0, 2]),
        ({VISION: {"gpu": 1}}, [ONE, ONE, (LAKE, make_load(gpu=1))], [0, 2]),
        # A run that can never start blocks no other run.
        ({VISION: {"gpu": 2}}, [THREE, TWO], [1]),
        # A run that waits for its department quota reserves nothing from the platform quota.
        ({"platform": {"gpu": 4}, VISION: {"gpu": 2}}, [ONE, TWO, (LAKE, make_load(gpu=3))], [0, 2]),
        # All resources of the first waiting run are reserved; those of later ones are not.
        ({VISION: {"gpu": 1, "cpu": 2}}, [ONE, (FOREST, make_load(gpu=1, cpu=2000)), CORE], [0]),
        ({VISION: {"gpu": 1, "runs": 4}}, [*[ONE] * 5, *[CORE] * 3], [0, 5, 6]),
        # If the first run waits for the platform quota, its share of the department quota is also reserved.
        ({"platform": {"gpu": 1}, VISION: {"cpu": 2}}, [ONE, (FOREST, make_load(gpu=1, cpu=2000)), CORE], [0]),
    ],
    ids=str,
)
def test_the_oldest_run_is_admitted_first_per_quota(
    quota_fields: dict[str, Any], requested: list[tuple[str, QuotaAmounts]], expected: list[int]
) -> None:
    limits = QuotaLimits.of(TREE, ((scope, Quota.model_validate(quota)) for scope, quota in quota_fields.items()))
    assert admit(Queue(limits.allowances({})), limits, *requested) == expected
