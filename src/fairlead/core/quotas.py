"""Quotas: what runs hold of them, what one more would lack, and what that makes of a fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from fairlead.core.fitting.evaluation import LATER, NOW
from fairlead.core.fitting.formatting import describe_amount, describe_pair
from fairlead.model.columns import MAX_INTEGER
from fairlead.model.plans import Fit, Setting
from fairlead.model.policies import Quota
from fairlead.model.quantities import MILLICORE, NANOS, Quantity, QuantityFormat
from fairlead.model.records import RunRecord

# The amounts of a quota: one of each in nanos, what nodes call it, and the word for it after an amount.
UNITS = {"gpu": NANOS, "cpu": MILLICORE, "mem": NANOS, "runs": NANOS}
RESOURCES = {"gpu": "gpu", "cpu": "cpu", "mem": "memory", "runs": "runs"}
WORDS = {"gpu": "GPU", "cpu": "CPU", "mem": "memory", "runs": "run"}
COUNTED = ("gpu", "runs")


class RunResources(NamedTuple):
    """What a run holds while it has a place, all its pods together. A part of a GPU counts as one."""

    gpus: int = 0
    cpu_millicores: int = 0
    mem_bytes: int = 0


class QuotaAmounts(NamedTuple):
    """What runs hold together, in what quotas speak of: GPUs, millicores, bytes, and how many runs there are."""

    gpu: int = 0
    cpu: int = 0
    mem: int = 0
    runs: int = 0

    @classmethod
    def of(cls, held: RunResources, number: int = 1) -> "QuotaAmounts":
        """What so many runs hold, each of them this."""
        return cls(held.gpus * number, held.cpu_millicores * number, held.mem_bytes * number, number)

    def plus(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """Both together."""
        return QuotaAmounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def less(self, other: "QuotaAmounts") -> "QuotaAmounts":
        """What is left without the other."""
        return QuotaAmounts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = QuotaAmounts()


@dataclass(frozen=True)
class QuotaHolder:
    """A run that has a place, and that the reader may know."""

    run_id: str
    name: str
    load: QuotaAmounts


@dataclass(frozen=True)
class Allowance:
    """The quota of a scope, what runs that have a place hold of it, and what is set aside for those before this one."""

    scope: str
    limits: Mapping[str, int]  # by the fields of a load, where the quota says something of them
    used: QuotaAmounts = NOTHING
    aside: QuotaAmounts = NOTHING
    holders: tuple[QuotaHolder, ...] = ()

    @cached_property
    def left(self) -> Mapping[str, int]:
        """What one more run may ask for; less than nothing where the quota was larger once."""
        return {
            part: limit - getattr(self.used, part) - getattr(self.aside, part) for part, limit in self.limits.items()
        }

    def find_shortages(self, asked: QuotaAmounts) -> "Iterator[QuotaShortage]":
        """What there is not enough of. Who asks for nothing of something is not held by it."""
        for part, left in self.left.items():
            amount: int = getattr(asked, part)
            if amount > max(left, 0):
                yield QuotaShortage(self, part, amount)

    def without(self, run_id: str | None) -> "Allowance":
        """The same once a run has ended."""
        gone = [holder for holder in self.holders if holder.run_id == run_id]
        staying = tuple(holder for holder in self.holders if holder not in gone)
        return replace(self, used=self.used.less(gone[0].load), holders=staying) if gone else self


class QuotaShortage(NamedTuple):
    """Something of which a quota has too little left for a run."""

    allowance: Allowance
    part: str
    asked: int

    @property
    def alone(self) -> bool:
        """Whether the run exceeds the quota by itself, so that nobody's end helps."""
        return self.asked > self.allowance.limits[self.part]

    def tell(self) -> str:
        """What is lacking, with the numbers of this moment."""
        if self.alone:
            return self._describe_alone()
        part, limit, used = self.part, self.allowance.limits[self.part], getattr(self.allowance.used, self.part)
        quota = f"quota of {self.allowance.scope}: {show(part, limit)}"
        told = f"{quota} at once, and {used} {_have(used)} a place"
        if part != "runs":
            held = f"{_show_bare(part, used)} {_are(part, used)} held" if used else "none is held"
            told = f"{quota}, of which {held}; this run asks for {describe_pair(RESOURCES[part], *self._compared)[0]}"
        if used + self.asked <= limit:
            return f"{told}{';' if part == 'runs' else ', and'} one before it in the queue comes first"
        return f"{told}{self._describe_next()}"

    def describe_wait(self) -> str:
        """What is waited for, without what changes by the second."""
        if self.alone:
            return self._describe_alone()
        limit = show(self.part, self.allowance.limits[self.part])
        asks = "at once" if self.part == "runs" else f"in all, and it asks for {_show_bare(self.part, self.asked)}"
        return f"waits for its turn: the quota of {self.allowance.scope} is {limit} {asks}"

    @property
    def _compared(self) -> tuple[int, int]:
        """What is asked for and what is left of it, in nanos."""
        left = self.allowance.limits[self.part] - getattr(self.allowance.used, self.part)
        return self.asked * UNITS[self.part], max(left, 0) * UNITS[self.part]

    def _describe_alone(self) -> str:
        limit = self.allowance.limits[self.part]
        if self.part == "runs":
            return f"the quota of {self.allowance.scope} is {show(self.part, limit)}"
        asked, has = describe_pair(RESOURCES[self.part], self.asked * UNITS[self.part], limit * UNITS[self.part])
        word = _word(self.part, self.asked)
        return f"asks for {asked} {word}, and the quota of {self.allowance.scope} is {has}"

    def _describe_next(self) -> str:
        """Who holds most of it, of those that the reader may know."""
        holding = [holder for holder in self.allowance.holders if getattr(holder.load, self.part)]
        if not holding:
            return ""
        most = max(holding, key=lambda holder: int(getattr(holder.load, self.part)))
        holds = "" if self.part == "runs" else f" holds {_show_bare(self.part, getattr(most.load, self.part))}"
        return f"; next: run {most.name}{holds}"


@dataclass(frozen=True)
class ScopeUsage:
    """What runs that have a place hold together, as a quota says it. Those that wait for one hold nothing."""

    gpu: int
    cpu: str
    mem: str
    runs: int


def count_resources(settings: Iterable[Setting]) -> RunResources:
    """What a run with these settings holds: what it requests, which is set aside for it, for each of its pods."""
    values: Mapping[str, Any] = {setting.path: setting.value for setting in settings}
    pods = values.get("replicas") or 1
    cpu, mem = (values.get(f"resources.{name}.requests") or Quantity(0) for name in ("cpu", "mem"))
    return RunResources(
        gpus=(values.get("resources.gpu.devices") or 0) * pods,
        cpu_millicores=_bound(cpu.times(pods, step_nanos=MILLICORE).nanos // MILLICORE),
        mem_bytes=_bound(mem.times(pods, step_nanos=NANOS).nanos // NANOS),
    )


def sum_usage(tallies: Iterable[tuple[RunResources, int]]) -> ScopeUsage:
    """What runs hold together, of each of which there are so many."""
    counted = list(tallies)
    gpus, cores, memory = (sum(held[part] * number for held, number in counted) for part in range(3))
    return ScopeUsage(
        gpu=gpus,
        cpu=str(Quantity(cores * MILLICORE)),
        mem=str(Quantity(memory * NANOS, QuantityFormat.BINARY)),
        runs=sum(number for _, number in counted),
    )


def amounts_of(run: RunRecord) -> QuotaAmounts:
    """What a run holds once it has a place."""
    return QuotaAmounts.of(RunResources(run.gpus, run.cpu_millicores, run.mem_bytes))


def limits_of(quota: Quota) -> dict[str, int]:
    """What a quota says, in whole numbers."""
    said: dict[str, int | Quantity | None] = {part: getattr(quota, part) for part in UNITS}
    return {
        part: amount.nanos // UNITS[part] if isinstance(amount, Quantity) else amount
        for part, amount in said.items()
        if amount is not None
    }


def find_shortages(asked: QuotaAmounts, allowances: Iterable[Allowance]) -> list[QuotaShortage]:
    """What there is too little left of for a run: what it exceeds by itself first, then from the platform down."""
    found = [short for allowance in allowances for short in allowance.find_shortages(asked)]
    return sorted(found, key=lambda short: not short.alone)


def apply_quotas(fit: Fit, asked: QuotaAmounts, allowances: Iterable[Allowance]) -> Fit:
    """A fit where quotas come first: while one holds a run, it does not run, whatever room the nodes have."""
    found = find_shortages(asked, allowances)
    if not found:
        return fit
    verdict = LATER if fit.verdict == NOW else fit.verdict
    return replace(fit, verdict=verdict, reasons=(*(short.tell() for short in found), *fit.reasons))


def count_fitting_runs(asked: QuotaAmounts, allowances: Sequence[Allowance], most: int) -> int:
    """For how many such runs quotas have room, up to so many."""
    rooms = [most]
    for allowance in allowances:
        for part, left in allowance.left.items():
            if amount := getattr(asked, part):
                rooms.append(max(left, 0) // amount)
    return min(rooms)


def show(part: str, amount: int) -> str:
    """An amount with its word."""
    return f"{_show_bare(part, amount)} {_word(part, amount)}"


def _show_bare(part: str, amount: int) -> str:
    return describe_amount(RESOURCES[part], amount * UNITS[part])


def _word(part: str, amount: int) -> str:
    return WORDS[part] + "s" * (part in COUNTED and amount != 1)


def _are(part: str, amount: int) -> str:
    return "is" if part == "mem" or (part in COUNTED and amount == 1) else "are"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _bound(number: int) -> int:
    """As much as a column holds, which is more than there is."""
    return min(number, MAX_INTEGER)
