"""Quotas: what runs hold of them, what one more would lack, and what that makes of a fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from fairlead.core.fitting.evaluation import LATER, NOW
from fairlead.core.fitting.formatting import show_amount, show_distinct
from fairlead.model.columns import LARGEST
from fairlead.model.plans import Fit, Setting
from fairlead.model.policies import Quota
from fairlead.model.quantities import MILLICORE, NANOS, Form, Quantity
from fairlead.model.records import RunRecord

# The amounts of a quota: one of each in nanos, what nodes call it, and the word for it after an amount.
UNITS = {"gpu": NANOS, "cpu": MILLICORE, "mem": NANOS, "runs": NANOS}
RESOURCES = {"gpu": "gpu", "cpu": "cpu", "mem": "memory", "runs": "runs"}
WORDS = {"gpu": "GPU", "cpu": "CPU", "mem": "memory", "runs": "run"}
COUNTED = ("gpu", "runs")


class Held(NamedTuple):
    """What a run holds while it has a place, all its pods together. A part of a GPU counts as one."""

    gpus: int = 0
    cpu_millicores: int = 0
    mem_bytes: int = 0


class Load(NamedTuple):
    """What runs hold together, in what quotas speak of: GPUs, millicores, bytes, and how many runs there are."""

    gpu: int = 0
    cpu: int = 0
    mem: int = 0
    runs: int = 0

    @classmethod
    def of(cls, held: Held, number: int = 1) -> "Load":
        """What so many runs hold, each of them this."""
        return cls(held.gpus * number, held.cpu_millicores * number, held.mem_bytes * number, number)

    def plus(self, other: "Load") -> "Load":
        """Both together."""
        return Load(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def less(self, other: "Load") -> "Load":
        """What is left without the other."""
        return Load(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = Load()


@dataclass(frozen=True)
class Holder:
    """A run that has a place, and that the reader may know."""

    run_id: str
    name: str
    load: Load


@dataclass(frozen=True)
class Allowance:
    """The quota of a scope, what runs that have a place hold of it, and what is set aside for those before this one."""

    scope: str
    limits: Mapping[str, int]  # by the fields of a load, where the quota says something of them
    used: Load = NOTHING
    aside: Load = NOTHING
    holders: tuple[Holder, ...] = ()

    @cached_property
    def left(self) -> Mapping[str, int]:
        """What one more run may ask for; less than nothing where the quota was larger once."""
        return {
            part: limit - getattr(self.used, part) - getattr(self.aside, part) for part, limit in self.limits.items()
        }

    def find_short(self, asked: Load) -> "Iterator[Short]":
        """What there is not enough of. Who asks for nothing of something is not held by it."""
        for part, left in self.left.items():
            amount: int = getattr(asked, part)
            if amount > max(left, 0):
                yield Short(self, part, amount)

    def without(self, run_id: str | None) -> "Allowance":
        """The same once a run has ended."""
        gone = [holder for holder in self.holders if holder.run_id == run_id]
        staying = tuple(holder for holder in self.holders if holder not in gone)
        return replace(self, used=self.used.less(gone[0].load), holders=staying) if gone else self


class Short(NamedTuple):
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
            told = f"{quota}, of which {held}; this run asks for {show_distinct(RESOURCES[part], *self._compared)[0]}"
        if used + self.asked <= limit:
            return f"{told}{';' if part == 'runs' else ', and'} one before it in the queue comes first"
        return f"{told}{self._describe_next()}"

    def describe_turn(self) -> str:
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
        asked, has = show_distinct(RESOURCES[self.part], self.asked * UNITS[self.part], limit * UNITS[self.part])
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
class Used:
    """What runs that have a place hold together, as a quota says it. Those that wait for one hold nothing."""

    gpu: int
    cpu: str
    mem: str
    runs: int


def count(settings: Iterable[Setting]) -> Held:
    """What a run with these settings holds: what it requests, which is set aside for it, for each of its pods."""
    values: Mapping[str, Any] = {setting.path: setting.value for setting in settings}
    pods = values.get("replicas") or 1
    cpu, mem = (values.get(f"resources.{name}.requests") or Quantity(0) for name in ("cpu", "mem"))
    return Held(
        gpus=(values.get("resources.gpu.devices") or 0) * pods,
        cpu_millicores=_bound(cpu.times(pods, step_nanos=MILLICORE).nanos // MILLICORE),
        mem_bytes=_bound(mem.times(pods, step_nanos=NANOS).nanos // NANOS),
    )


def add_up(tallies: Iterable[tuple[Held, int]]) -> Used:
    """What runs hold together, of each of which there are so many."""
    counted = list(tallies)
    gpus, cores, memory = (sum(held[part] * number for held, number in counted) for part in range(3))
    return Used(
        gpu=gpus,
        cpu=str(Quantity(cores * MILLICORE)),
        mem=str(Quantity(memory * NANOS, Form.BINARY)),
        runs=sum(number for _, number in counted),
    )


def load_of(run: RunRecord) -> Load:
    """What a run holds once it has a place."""
    return Load.of(Held(run.gpus, run.cpu_millicores, run.mem_bytes))


def limits_of(quota: Quota) -> dict[str, int]:
    """What a quota says, in whole numbers."""
    said: dict[str, int | Quantity | None] = {part: getattr(quota, part) for part in UNITS}
    return {
        part: amount.nanos // UNITS[part] if isinstance(amount, Quantity) else amount
        for part, amount in said.items()
        if amount is not None
    }


def find_short(asked: Load, allowances: Iterable[Allowance]) -> list[Short]:
    """What there is too little left of for a run: what it exceeds by itself first, then from the platform down."""
    found = [short for allowance in allowances for short in allowance.find_short(asked)]
    return sorted(found, key=lambda short: not short.alone)


def hold(fit: Fit, asked: Load, allowances: Iterable[Allowance]) -> Fit:
    """A fit where quotas come first: while one holds a run, it does not run, whatever room the nodes have."""
    found = find_short(asked, allowances)
    if not found:
        return fit
    verdict = LATER if fit.verdict == NOW else fit.verdict
    return replace(fit, verdict=verdict, reasons=(*(short.tell() for short in found), *fit.reasons))


def count_room(asked: Load, allowances: Sequence[Allowance], most: int) -> int:
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
    return show_amount(RESOURCES[part], amount * UNITS[part])


def _word(part: str, amount: int) -> str:
    return WORDS[part] + "s" * (part in COUNTED and amount != 1)


def _are(part: str, amount: int) -> str:
    return "is" if part == "mem" or (part in COUNTED and amount == 1) else "are"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _bound(number: int) -> int:
    """As much as a column holds, which is more than there is."""
    return min(number, LARGEST)
