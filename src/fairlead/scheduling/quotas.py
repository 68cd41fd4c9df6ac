"""Quotas: their usage by runs, the resources that another run would lack, and their effect on a fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from fairlead.model.assets import Quota, ScopeUsage
from fairlead.model.plans import Fit, RunResources
from fairlead.model.quantities import MILLICORE, NANOS, Quantity, QuantityFormat
from fairlead.model.records import RunRecord
from fairlead.scheduling.evaluation import LATER, NOW
from fairlead.scheduling.reasons import describe_amount, describe_pair

# For each quota field: its unit in nanos, its Kubernetes resource name, and its noun in messages.
UNITS = {"gpu": NANOS, "cpu": MILLICORE, "mem": NANOS, "runs": NANOS}
RESOURCES = {"gpu": "gpu", "cpu": "cpu", "mem": "memory", "runs": "runs"}
NOUNS = {"gpu": "GPU", "cpu": "CPU core", "mem": "memory", "runs": "run"}


class QuotaAmounts(NamedTuple):
    """Amounts that quotas limit: GPUs, millicores, bytes and the number of runs."""

    gpu: int = 0
    cpu: int = 0
    mem: int = 0
    runs: int = 0

    @classmethod
    def of(cls, resources: RunResources, count: int = 1) -> "QuotaAmounts":
        """The amounts of `count` runs with the same resources."""
        return cls(resources.gpus * count, resources.cpu_millicores * count, resources.mem_bytes * count, count)

    def plus(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """The sum of both."""
        return QuotaAmounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """The difference between the two."""
        return QuotaAmounts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = QuotaAmounts()


@dataclass(frozen=True)
class QuotaHolder:
    """An admitted run that uses a quota and that the caller may see."""

    run_id: str
    name: str
    usage: QuotaAmounts


@dataclass(frozen=True)
class Allowance:
    """The quota of a scope with its usage by admitted runs, and the amounts reserved for runs ahead in the queue."""

    scope: str
    limits: Mapping[str, int]  # by `QuotaAmounts` field; only fields with a limit
    used: QuotaAmounts = NOTHING
    reserved: QuotaAmounts = NOTHING
    # Only runs that the caller may see, so their sum may be less than `used`.
    holders: tuple[QuotaHolder, ...] = ()

    @cached_property
    def remaining(self) -> Mapping[str, int]:
        """The amounts available to another run; negative if the quota was lowered below its usage."""
        return {
            part: limit - getattr(self.used, part) - getattr(self.reserved, part) for part, limit in self.limits.items()
        }

    def find_shortages(self, requested: QuotaAmounts) -> "Iterator[QuotaShortage]":
        """The amounts that exceed what remains of the quota. A request of 0 never exceeds it."""
        for part, remaining in self.remaining.items():
            amount: int = getattr(requested, part)
            # A quota that was lowered below its usage does not delay runs that do not request the resource.
            if amount > max(remaining, 0):
                yield QuotaShortage(self, part, amount)

    def without(self, run_id: str | None) -> "Allowance":
        """The allowance after a run has ended."""
        gone = [holder for holder in self.holders if holder.run_id == run_id]
        staying = tuple(holder for holder in self.holders if holder not in gone)
        return replace(self, used=self.used.minus(gone[0].usage), holders=staying) if gone else self


class QuotaShortage(NamedTuple):
    """A quota amount that is too small for a run."""

    allowance: Allowance
    part: str
    requested: int

    @property
    def exceeds_limit(self) -> bool:
        """Whether the run alone exceeds the quota, so that waiting does not help."""
        return self.requested > self.allowance.limits[self.part]

    def describe(self) -> str:
        """A message with current numbers."""
        if self.exceeds_limit:
            return self._describe_excess()
        part, limit, used = self.part, self.allowance.limits[self.part], getattr(self.allowance.used, self.part)
        quota = f"the {self.allowance.scope} quota"
        message = f"{used} of {format_amount(part, limit)} active in {quota}"
        if part != "runs":
            requested, free = describe_pair(
                RESOURCES[part], self.requested * UNITS[part], max(limit - used, 0) * UNITS[part]
            )
            needs = f"needs {requested} {_noun(part, self.requested)}"
            message = f"{needs}; {free} of {_format_bare(part, limit)} free in {quota}"
        # The free amount would be enough, so the numbers alone do not explain why the run waits.
        if used + self.requested <= limit:
            return f"{message}; free quota is reserved for a run ahead in the queue"
        return f"{message}{self._describe_largest_holder()}"

    def describe_wait(self) -> str:
        """A message without numbers that change often. It is stored with the run."""
        if self.exceeds_limit:
            return self._describe_excess()
        limit = format_amount(self.part, self.allowance.limits[self.part])
        if self.part == "runs":
            return f"waiting for a free slot: the {self.allowance.scope} quota is {limit} at once"
        requested = _format_bare(self.part, self.requested)
        return f"waiting for {requested} of {limit} in the {self.allowance.scope} quota"

    def _describe_excess(self) -> str:
        limit = self.allowance.limits[self.part]
        if self.part == "runs":
            return f"the {self.allowance.scope} quota is {format_amount(self.part, limit)}"
        requested, allowed = describe_pair(
            RESOURCES[self.part], self.requested * UNITS[self.part], limit * UNITS[self.part]
        )
        return f"needs {requested} {_noun(self.part, self.requested)}; the {self.allowance.scope} quota is {allowed}"

    def _describe_largest_holder(self) -> str:
        holders = [holder for holder in self.allowance.holders if getattr(holder.usage, self.part)]
        if not holders:
            return ""
        largest = max(holders, key=lambda holder: int(getattr(holder.usage, self.part)))
        if self.part == "runs":
            return f"; one of them is run {largest.name}"
        return f"; run {largest.name} uses {_format_bare(self.part, getattr(largest.usage, self.part))}"


def sum_usage(tallies: Iterable[tuple[RunResources, int]]) -> ScopeUsage:
    """The total usage of runs, given as pairs of resources and the number of runs with these resources."""
    counted = list(tallies)
    gpus, cores, memory = (sum(resources[part] * number for resources, number in counted) for part in range(3))
    return ScopeUsage(
        gpu=gpus,
        cpu=str(Quantity(cores * MILLICORE)),
        mem=str(Quantity(memory * NANOS, QuantityFormat.BINARY)),
        runs=sum(number for _, number in counted),
    )


def amounts_of(run: RunRecord) -> QuotaAmounts:
    """The amounts that a run uses once it is admitted."""
    return QuotaAmounts.of(RunResources(run.gpus, run.cpu_millicores, run.mem_bytes))


def limits_of(quota: Quota) -> dict[str, int]:
    """The limits of a quota as integers, in the units of `QuotaAmounts`."""
    amounts: dict[str, int | Quantity | None] = {part: getattr(quota, part) for part in UNITS}
    return {
        part: amount.nanos // UNITS[part] if isinstance(amount, Quantity) else amount
        for part, amount in amounts.items()
        if amount is not None
    }


def find_shortages(requested: QuotaAmounts, allowances: Iterable[Allowance]) -> list[QuotaShortage]:
    """The shortages of all quotas: first those that waiting does not resolve, then from the platform down."""
    shortages = [shortage for allowance in allowances for shortage in allowance.find_shortages(requested)]
    return sorted(shortages, key=lambda shortage: not shortage.exceeds_limit)


def apply_quotas(fit: Fit, requested: QuotaAmounts, allowances: Iterable[Allowance]) -> Fit:
    """The fit with quotas taken into account: a run that lacks quota does not start, even if nodes are free."""
    shortages = find_shortages(requested, allowances)
    if not shortages:
        return fit
    # Not `never`, even if the run alone exceeds the quota: an administrator can raise a quota at any time.
    verdict = LATER if fit.verdict == NOW else fit.verdict
    return replace(fit, verdict=verdict, reasons=(*(shortage.describe() for shortage in shortages), *fit.reasons))


def count_fitting_runs(requested: QuotaAmounts, allowances: Sequence[Allowance], maximum: int) -> int:
    """How many such runs the quotas allow, up to `maximum`."""
    counts = [maximum]
    for allowance in allowances:
        for part, remaining in allowance.remaining.items():
            if amount := getattr(requested, part):
                counts.append(max(remaining, 0) // amount)
    return min(counts)


def format_amount(part: str, amount: int) -> str:
    """An amount with its noun, such as `4 GPUs`."""
    return f"{_format_bare(part, amount)} {_noun(part, amount)}"


def _format_bare(part: str, amount: int) -> str:
    return describe_amount(RESOURCES[part], amount * UNITS[part])


def _noun(part: str, amount: int) -> str:
    return NOUNS[part] + "s" * (part != "mem" and amount * UNITS[part] != NANOS)
