"""Parsers for numbers: integers, IDs, quantities of CPU and bytes, and durations."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fairlead.model.parsing import field_error, short_repr
from fairlead.model.quantities import MILLICORE, SECONDS, UNLIMITED, Duration, GpuMemory, Percent, Quantity, Unlimited

MAX_INTEGER = 2**31 - 1  # Kubernetes limits replicas, user IDs and group IDs to signed 32-bit integers
MAX_COUNT = Quantity.of(MAX_INTEGER)
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
    # Fraction() alone would accept 3/0, and 1e999999999 would exhaust memory.
    text = value if isinstance(value, str) else repr(value)
    factor = Fraction(text) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,18})?", text, re.ASCII) else Fraction(0)
    if not 1 <= factor <= 1000:
        raise field_error(
            "range", f"must be a factor from 1 to 1000, found {short_repr(value)}", "use a factor such as 1.1"
        )
    return factor


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
_WHOLE = WithJsonSchema({"type": ["integer", "string"], "minimum": 0, "maximum": MAX_INTEGER, "pattern": "^[0-9]+$"})
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
Seconds = Annotated[Duration, PlainValidator(parse_duration), PlainSerializer(int), _TIME]
Factor = Annotated[Fraction, PlainValidator(parse_factor), PlainSerializer(float), _amount(1.1)]
