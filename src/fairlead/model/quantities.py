"""Amounts: Kubernetes quantities, GPU memory and percentages, exact and without floating point."""

import re
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Self

NANO = 9
NANOS = 10**9
MILLICORE = NANOS // 1000  # in nanos
MAXIMUM = 2**63 - 1
LONGEST_TEXT = 64
LONGEST_POWER = LONGEST_TEXT + 40

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

_SUFFIX_OF_EXPONENT = {exponent: suffix for suffix, exponent in DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_POWER = {power: suffix for suffix, power in BINARY_SUFFIXES.items()}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))",
    re.ASCII,
)


class Form(Enum):
    """The family of suffixes in which an amount was written, and is printed again."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class Unlimited(Enum):
    """The limit that says "no limit", unlike a limit that is left out and says nothing."""

    UNLIMITED = "unlimited"

    def __str__(self) -> str:
        return self.value


UNLIMITED = Unlimited.UNLIMITED


@dataclass(frozen=True, order=True)
class Quantity:
    """A Kubernetes quantity: whole nano-units inside the program, canonical text outside it."""

    nanos: int
    form: Form = field(default=Form.DECIMAL, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read Kubernetes' grammar; digits finer than nano round up. Raise ValueError with the reason."""
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"an amount has at most {LONGEST_TEXT} characters")
        match = _QUANTITY.fullmatch(text)
        if not match or not (match["whole"] or match["part"]):
            raise ValueError("a number with an optional suffix is expected")
        part = match["part"] or ""
        power, shift, form = _read_suffix(match)
        # value = digits x 1024^power x 10^shift, in whole nanos, rounded up
        nanos = int((match["whole"] or "") + part) * 1024**power
        shift += NANO - len(part)
        nanos = nanos * 10**shift if shift >= 0 else -(-nanos // 10**-shift)
        if nanos > MAXIMUM * NANOS:
            raise ValueError(f"larger than the largest amount, {MAXIMUM}")
        return cls(-nanos if match["sign"] == "-" else nanos, form)

    @classmethod
    def of(cls, number: int) -> Self:
        """A whole number of units."""
        return cls(number * NANOS)

    def __str__(self) -> str:
        return _print(self.nanos, self.form)

    def __add__(self, other: "Quantity") -> Self:
        return type(self)(self.nanos + other.nanos, self.form)

    def times(self, factor: Fraction | int, *, step_nanos: int = 1) -> Self:
        """This amount multiplied, rounded up to a multiple of the step."""
        steps = -(-self.nanos * factor.numerator // (factor.denominator * step_nanos))
        return type(self)(steps * step_nanos, self.form)

    def rounded_up(self, step_nanos: int = NANOS) -> Self:
        """This amount, or the next multiple of the step above it: of a unit, where nothing else is said."""
        return self.times(1, step_nanos=step_nanos)

    @property
    def whole(self) -> int:
        """The number of units, the last begun one included."""
        return -(-self.nanos // NANOS)


class GpuMemory(Quantity):
    """GPU memory: as Run:ai writes it, MB and GB (decimal) beside Mi and Gi."""

    @classmethod
    def parse(cls, text: str) -> Self:
        return super().parse(text[:-1] if text.endswith(("MB", "GB", "TB")) else text)

    def __str__(self) -> str:
        text = super().__str__()
        return text + "B" if text.endswith(("M", "G", "T")) else text


class Duration(int):
    """Seconds, which people read as days, hours, minutes and seconds."""

    def __str__(self) -> str:
        text, rest = "", int(self)
        for unit, seconds in SECONDS.items():
            count, rest = divmod(rest, seconds)
            text += f"{count}{unit}" if count else ""
        return text or "0s"


@dataclass(frozen=True, order=True)
class Percent:
    """A share of a GPU's memory, in whole percents of the device."""

    value: int

    def __str__(self) -> str:
        return f"{self.value}%"


def _read_suffix(match: re.Match[str]) -> tuple[int, int, Form]:
    """The power of 1024 and of 10 that a suffix stands for."""
    if match["exponent"] is not None:
        # 10^104 is over the maximum with any digit, 10^-104 under a nano with all: larger powers would only cost time.
        return 0, max(-LONGEST_POWER, min(LONGEST_POWER, int(match["exponent"]))), Form.EXPONENT
    suffix = match["suffix"]
    if suffix in BINARY_SUFFIXES:
        return BINARY_SUFFIXES[suffix], 0, Form.BINARY
    if suffix in DECIMAL_SUFFIXES:
        return 0, DECIMAL_SUFFIXES[suffix], Form.DECIMAL
    known = ", ".join(filter(None, (*DECIMAL_SUFFIXES, *BINARY_SUFFIXES)))
    raise ValueError(f"unknown suffix {suffix!r}; known are {known}")


@lru_cache(maxsize=4096)  # a plan prints the same few amounts a dozen times
def _print(nanos: int, form: Form) -> str:
    if form is Form.BINARY and abs(nanos) >= 1024 * NANOS and not nanos % NANOS:
        return _print_binary(nanos // NANOS)
    return _print_decimal(nanos, exponential=form is Form.EXPONENT)


def _print_binary(units: int) -> str:
    power = 0
    while power < 6 and units % 1024 == 0:
        units, power = units // 1024, power + 1
    return f"{units}{_SUFFIX_OF_POWER.get(power, '')}"


def _print_decimal(nanos: int, *, exponential: bool) -> str:
    if nanos == 0:
        return "0"
    exponent = -9
    while exponent < 18 and nanos % 1000 == 0:
        nanos, exponent = nanos // 1000, exponent + 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_SUFFIX_OF_EXPONENT[exponent]}"
