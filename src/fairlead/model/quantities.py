"""Kubernetes quantities, GPU memory, durations and numbers: exact values without floating point, and their parsers."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Self, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fairlead.model.parsing import field_error, short_repr

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


MAX_INTEGER = 2**31 - 1  # Kubernetes limits replicas, user IDs and group IDs to signed 32-bit integers
MAX_COUNT = Quantity.of(MAX_INTEGER)
MIN_WEIGHT, MAX_WEIGHT = Fraction(1, 1000), Fraction(1000)
MAX_EXACT_FLOAT = 2**53  # floats cannot represent every integer above this
QuantityT = TypeVar("QuantityT", bound=Quantity)


def parse_integer(value: Any, *, minimum: int = 0, maximum: int = MAX_INTEGER, hint: str | None = None) -> int:
    """Parse an integer or text that contains one."""
    # At most 20 digits, because int() raises ValueError for more than 4,300.
    if isinstance(value, str) and re.fullmatch(r"\+?[0-9]{1,20}", value, re.ASCII):
        value = int(value)
    hint = hint or f"use a whole number from {minimum} to {maximum}"
    # bool is a subclass of int, so `true` would count as 1.
    if isinstance(value, bool) or not isinstance(value, int):
        raise field_error("whole_number", f"must be a whole number, found {short_repr(value)}", hint)
    if not minimum <= value <= maximum:
        raise field_error("range", f"must be from {minimum} to {maximum}, found {short_repr(value)}", hint)
    return value


def parse_id(value: Any) -> int:
    """Parse a user or group ID. Policies decide whether 0 (root) is allowed."""
    return parse_integer(value, hint="use a numeric ID such as 1000")


def parse_cpu(value: Any) -> Quantity:
    """Parse an amount of CPU in cores. It must be a multiple of a millicore."""
    quantity = _parse_quantity(value, "8, 0.5 or 500m", Quantity)
    # Kubernetes rejects CPU in finer steps. Rounding would silently change the user's value.
    if quantity.rounded_up(MILLICORE) != quantity:
        raise field_error("precision", f"must be a multiple of 1m, found {short_repr(value)}", "round it up")
    return quantity


def parse_bytes(value: Any) -> Quantity:
    """Parse an amount of memory or disk, rounded up to whole bytes."""
    quantity = _parse_quantity(value, "32Gi or 500M", Quantity)
    # Kubernetes reads 400m of memory as 0.4 bytes, which is almost always a typo for 400M.
    if isinstance(value, str) and value.endswith(("n", "u", "m")) and quantity.nanos:
        meant = value[:-1] + "M" if value.endswith("m") else "a suffix such as Mi or Gi"
        message = f"{short_repr(value)} is less than a byte (m means thousandths)"
        raise field_error("precision", message, f"did you mean {meant}?")
    return quantity.rounded_up()


def parse_count(value: Any) -> Quantity:
    """Parse the number of units of an extended resource."""
    quantity = _parse_quantity(value, "2", Quantity)
    if quantity.rounded_up() != quantity:
        raise field_error(
            "whole_number", f"must be a whole number, found {short_repr(value)}", "use a number such as 2"
        )
    if quantity > MAX_COUNT:
        raise field_error(
            "range", f"must be at most {MAX_INTEGER}, found {short_repr(value)}", "use a number such as 2"
        )
    return quantity


def parse_gpu_memory(value: Any) -> Percent | GpuMemory:
    """Parse GPU memory: a percentage of a device, or an amount."""
    if isinstance(value, Percent | GpuMemory):
        return value
    if isinstance(value, str) and value.endswith("%"):
        if not re.fullmatch(r"[0-9]{1,3}%", value, re.ASCII) or not 1 <= int(value[:-1]) <= 100:
            message = f"must be a whole percentage from 1% to 100%, found {short_repr(value)}"
            raise field_error("range", message, "use a percentage such as 50%")
        return Percent(int(value[:-1]))
    # 50 could mean percent, MiB or GB.
    if not isinstance(value, str):
        raise field_error(
            "unit", f"{short_repr(value)} has no unit", "use a percentage such as 50% or an amount such as 10GB"
        )
    quantity = _parse_quantity(value, "10GB, 10000MB, 8Gi or 50%", GpuMemory)
    # Schedulers that share GPUs count memory in MiB.
    if quantity.nanos < 2**20 * 10**9:
        hint = "use an amount such as 10GB or a percentage such as 50%"
        raise field_error("range", f"must be at least 1Mi, found {short_repr(value)}", hint)
    return quantity.rounded_up()


def or_unlimited(parse: Callable[[Any], Quantity]) -> Callable[[Any], Quantity | Unlimited]:
    """A parser for limits: a positive amount, or the word `unlimited`."""

    def parse_limit(value: Any) -> Quantity | Unlimited:
        if value is UNLIMITED or (isinstance(value, str) and value.lower() == "unlimited"):
            return UNLIMITED
        # Container runtimes treat a limit of 0 as no limit, so 0 is rejected.
        return positive(parse, "use unlimited for no limit, or remove the field")(value)

    return parse_limit


def positive(parse: Callable[[Any], Quantity], hint: str) -> Callable[[Any], Quantity]:
    """Wrap a parser so that it also rejects zero."""

    def parse_positive(value: Any) -> Quantity:
        quantity = parse(value)
        if not quantity.nanos:
            raise field_error("range", f"must be more than 0, found {short_repr(value)}", hint)
        return quantity

    return parse_positive


def parse_duration(value: Any) -> Duration:
    """Parse a duration: a number of seconds, or text such as 90m, 2h or 1d12h."""
    hint = "use seconds, or a duration such as 90m, 2h or 1d12h"
    if isinstance(value, str) and re.fullmatch(r"([0-9]{1,9}[smhd])+", value, re.ASCII):
        value = sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", value))
    if isinstance(value, str) and not value.isdecimal():
        raise field_error("duration", f"invalid duration {short_repr(value)}", hint)
    return Duration(parse_integer(value, minimum=1, hint=hint))


def parse_factor(value: Any) -> Fraction:
    """Parse a factor of at least 1 exactly, without rounding."""
    factor = _parse_fraction(value)
    if not 1 <= factor <= 1000:
        raise field_error(
            "range", f"must be a factor from 1 to 1000, found {short_repr(value)}", "use a factor such as 1.1"
        )
    return factor


def parse_weight(value: Any) -> Fraction:
    """Parse the weight of a project in a queue."""
    weight = _parse_fraction(value)
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        message = f"must be a weight from {float(MIN_WEIGHT)} to {MAX_WEIGHT}, found {short_repr(value)}"
        raise field_error("range", message, "use a weight such as 2 or 0.5")
    return weight


def parse_positive_integer(value: Any) -> int:
    """Parse an integer of at least 1."""
    return parse_integer(value, minimum=1)


def _parse_fraction(value: Any) -> Fraction:
    """Parse a number with up to four digits before the decimal point. Returns 0 for anything else."""
    # Fraction() alone would accept 3/0, and 1e999999999 would exhaust memory.
    text = value if isinstance(value, str) else repr(value)
    return Fraction(text) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,18})?", text, re.ASCII) else Fraction(0)


def _parse_quantity(value: Any, example: str, kind: type[QuantityT]) -> QuantityT:
    if isinstance(value, kind):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise field_error(
            "quantity", f"must be an amount, found {short_repr(value)}", f"use an amount such as {example}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise field_error("quantity", f"invalid amount {value}", f"use an amount such as {example}")
    if isinstance(value, float) and abs(value) >= MAX_EXACT_FLOAT:
        raise field_error("quantity", f"{value} is too large to be represented exactly", "put it in quotes")
    try:
        # repr gives the shortest text that parses to the same float, so 0.1 is exactly a tenth here.
        quantity = kind.parse(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise field_error(
            "quantity", f"invalid amount {short_repr(value)}: {error}", _suggest_amount(str(value), example)
        ) from None
    if quantity.nanos < 0:
        raise field_error(
            "range", f"must not be negative, found {short_repr(value)}", f"use an amount such as {example}"
        )
    return quantity


def _suggest_amount(text: str, example: str) -> str:
    """A hint for common mistakes: a suffix with B, in lower case or after a space, or `unlimited` in a request."""
    if text.lower() == "unlimited":
        return f"use an amount such as {example}; unlimited is allowed only for cpu, mem and disk limits"
    match = re.fullmatch(r"([0-9.]+) *([kmgtpe])(i?)b?", text, re.ASCII | re.IGNORECASE)
    if match is None or re.fullmatch(r"[0-9.]+([kMGTPE]|[KMGTPE]i)", text, re.ASCII):
        return f"use an amount such as {example}"
    number, letter = match[1], match[2].upper()
    decimal = f"{number}{'k' if letter == 'K' else letter}"
    return f"use {number}{letter}i" if match[3] else f"use {number}{letter}i (binary) or {decimal} (decimal)"


def _amount(*examples: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "number"], "examples": list(examples)})


_TEXT = PlainSerializer(str, return_type=str, when_used="unless-none")
_WHOLE_SCHEMA: dict[str, Any] = {
    "type": ["integer", "string"],
    "minimum": 0,
    "maximum": MAX_INTEGER,
    "pattern": "^[0-9]+$",
}
_WHOLE = WithJsonSchema(_WHOLE_SCHEMA)
_TIME = WithJsonSchema({"type": ["string", "integer"], "examples": ["90m", "2h", "1d12h", 3600]})
_GPU_MEMORY = WithJsonSchema({"type": "string", "examples": ["50%", "10GB", "8Gi"]})

Cpu = Annotated[Quantity, PlainValidator(parse_cpu), _TEXT, _amount(8, "500m")]
CpuLimit = Annotated[Quantity | Unlimited, PlainValidator(or_unlimited(parse_cpu)), _TEXT, _amount(12, "unlimited")]
Bytes = Annotated[Quantity, PlainValidator(parse_bytes), _TEXT, _amount("32Gi", "500M")]
BytesLimit = Annotated[
    Quantity | Unlimited, PlainValidator(or_unlimited(parse_bytes)), _TEXT, _amount("64Gi", "unlimited")
]
Size = Annotated[Quantity, PlainValidator(positive(parse_bytes, "use a size such as 10Gi")), _TEXT, _amount("10Gi")]
Count = Annotated[Quantity, PlainValidator(parse_count), _TEXT, _amount(2)]
DeviceMemory = Annotated[Percent | GpuMemory, PlainValidator(parse_gpu_memory), _TEXT, _GPU_MEMORY]
Id = Annotated[int, PlainValidator(parse_id), _WHOLE]
WholeNumber = Annotated[int, PlainValidator(parse_integer), _WHOLE]
PositiveInteger = Annotated[
    int, PlainValidator(parse_positive_integer), WithJsonSchema({**_WHOLE_SCHEMA, "minimum": 1})
]
Seconds = Annotated[Duration, PlainValidator(parse_duration), PlainSerializer(int), _TIME]
Factor = Annotated[Fraction, PlainValidator(parse_factor), PlainSerializer(float), _amount(1.1)]
Weight = Annotated[Fraction, PlainValidator(parse_weight), PlainSerializer(float), _amount(2, 0.5)]
