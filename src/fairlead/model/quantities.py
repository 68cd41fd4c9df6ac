"""Kubernetes quantities, GPU memory and percentages, computed exactly without floating point."""

import re
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Self

NANO = 9
NANOS = 10**9
MILLICORE = NANOS // 1000  # in nanos
MAXIMUM = 2**63 - 1  # the Kubernetes maximum; Kubernetes silently caps larger amounts at it
MAX_TEXT_LENGTH = 64  # enough for any valid amount; limits the size of the integers below
MAX_EXPONENT = MAX_TEXT_LENGTH + 40

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

_SUFFIX_OF_EXPONENT = {exponent: suffix for suffix, exponent in DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_POWER = {power: suffix for suffix, power in BINARY_SUFFIXES.items()}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))",
    re.ASCII,
)


class QuantityFormat(Enum):
    """The notation in which a quantity was written. The quantity is printed in the same notation."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class Unlimited(Enum):
    """The explicit limit "unlimited". A missing limit is different: other layers may still set one."""

    UNLIMITED = "unlimited"

    def __str__(self) -> str:
        return self.value


UNLIMITED = Unlimited.UNLIMITED


@dataclass(frozen=True, order=True)
class Quantity:
    """A Kubernetes quantity, stored as an integer number of nano-units and printed in canonical form."""

    nanos: int
    format: QuantityFormat = field(default=QuantityFormat.DECIMAL, compare=False)  # not compared: 1Gi equals 1073741824

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kubernetes notation. Rounds up to nano-units. Raises ValueError with the reason."""
        if len(text) > MAX_TEXT_LENGTH:
            raise ValueError(f"longer than {MAX_TEXT_LENGTH} characters")
        match = _QUANTITY.fullmatch(text)
        if not match or not (match["whole"] or match["part"]):
            raise ValueError("not a number with an optional suffix")
        part = match["part"] or ""
        power, shift, notation = _read_suffix(match)
        # value = digits x 1024^power x 10^shift, in whole nanos, rounded up
        nanos = int((match["whole"] or "") + part) * 1024**power
        shift += NANO - len(part)
        # -(-a // b) divides and rounds up, as Kubernetes does beyond nine decimal places.
        nanos = nanos * 10**shift if shift >= 0 else -(-nanos // 10**-shift)
        if nanos > MAXIMUM * NANOS:
            raise ValueError(f"exceeds the maximum of {MAXIMUM}")
        return cls(-nanos if match["sign"] == "-" else nanos, notation)

    @classmethod
    def of(cls, number: int) -> Self:
        """The quantity for an integer number of units."""
        return cls(number * NANOS)

    def __str__(self) -> str:
        return _print(self.nanos, self.format)

    def __add__(self, other: "Quantity") -> Self:
        return type(self)(self.nanos + other.nanos, self.format)

    def times(self, factor: Fraction | int, *, step_nanos: int = 1) -> Self:
        """The quantity multiplied by a factor, rounded up to a multiple of the step."""
        steps = -(-self.nanos * factor.numerator // (factor.denominator * step_nanos))
        return type(self)(steps * step_nanos, self.format)

    def rounded_up(self, step_nanos: int = NANOS) -> Self:
        """The quantity rounded up to a multiple of the step, by default to a whole unit."""
        return self.times(1, step_nanos=step_nanos)

    @property
    def units(self) -> int:
        """The number of units, rounded up."""
        return -(-self.nanos // NANOS)


class GpuMemory(Quantity):
    """GPU memory. Accepts MB and GB (decimal), as Run:ai does, in addition to Mi and Gi."""

    @classmethod
    def parse(cls, text: str) -> Self:
        return super().parse(text[:-1] if text.endswith(("MB", "GB", "TB")) else text)

    def __str__(self) -> str:
        text = super().__str__()
        return text + "B" if text.endswith(("M", "G", "T")) else text


class Duration(int):
    """A duration in seconds, printed as days, hours, minutes and seconds."""

    def __str__(self) -> str:
        text, rest = "", int(self)
        for unit, seconds in SECONDS.items():
            count, rest = divmod(rest, seconds)
            text += f"{count}{unit}" if count else ""
        return text or "0s"


@dataclass(frozen=True, order=True)
class Percent:
    """A percentage of a GPU's memory."""

    value: int

    def __str__(self) -> str:
        return f"{self.value}%"


def _read_suffix(match: re.Match[str]) -> tuple[int, int, QuantityFormat]:
    """The powers of 1024 and 10 that a suffix stands for, and its notation."""
    if match["exponent"] is not None:
        # Any number times 10^104 exceeds the maximum, and times 10^-104 is less than a nano. Larger powers waste time.
        return 0, max(-MAX_EXPONENT, min(MAX_EXPONENT, int(match["exponent"]))), QuantityFormat.EXPONENT
    suffix = match["suffix"]
    if suffix in BINARY_SUFFIXES:
        return BINARY_SUFFIXES[suffix], 0, QuantityFormat.BINARY
    if suffix in DECIMAL_SUFFIXES:
        return 0, DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL
    known = ", ".join(filter(None, (*DECIMAL_SUFFIXES, *BINARY_SUFFIXES)))
    raise ValueError(f"unknown suffix {suffix!r} (known: {known})")


@lru_cache(maxsize=4096)  # a plan prints the same few amounts a dozen times
def _print(nanos: int, notation: QuantityFormat) -> str:
    # Kubernetes prints small and fractional amounts in decimal notation, even if they were written with Ki or Mi.
    if notation is QuantityFormat.BINARY and abs(nanos) >= 1024 * NANOS and not nanos % NANOS:
        return _print_binary(nanos // NANOS)
    return _print_decimal(nanos, exponential=notation is QuantityFormat.EXPONENT)


def _print_binary(units: int) -> str:
    power = 0
    while power < 6 and units % 1024 == 0:
        units, power = units // 1024, power + 1
    return f"{units}{_SUFFIX_OF_POWER.get(power, '')}"


def _print_decimal(nanos: int, *, exponential: bool) -> str:
    if nanos == 0:
        return "0"
    exponent = -9
    # The canonical form has no fraction and the largest possible suffix.
    while exponent < 18 and nanos % 1000 == 0:
        nanos, exponent = nanos // 1000, exponent + 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_SUFFIX_OF_EXPONENT[exponent]}"
