"""Numbers as people write them: whole numbers, ids, quantities of cpu and bytes, durations."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fairlead.model.parsing import show, wrong
from fairlead.model.quantities import MILLICORE, SECONDS, UNLIMITED, Duration, GpuMemory, Percent, Quantity, Unlimited

LARGEST_ID = 2**31 - 1
MOST_COUNTED = Quantity.of(LARGEST_ID)
LARGEST_EXACT_FLOAT = 2**53
QuantityT = TypeVar("QuantityT", bound=Quantity)


def parse_whole(value: Any, *, least: int = 0, most: int = LARGEST_ID, hint: str | None = None) -> int:
    """A whole number, also as digits in quotes."""
    if isinstance(value, str) and re.fullmatch(r"\+?[0-9]{1,20}", value, re.ASCII):
        value = int(value)
    hint = hint or f"write a whole number from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong("whole_number", f"must be a whole number, found {show(value)}", hint)
    if not least <= value <= most:
        raise wrong("range", f"must be from {least} to {most}, found {show(value)}", hint)
    return value


def parse_id(value: Any) -> int:
    """A user or group id. Whether 0, root, is allowed is for policy to say."""
    return parse_whole(value, hint="write a numeric id, such as 1000")


def parse_cpu(value: Any) -> Quantity:
    """CPU in cores, to the thousandth."""
    quantity = _parse_quantity(value, "8, 0.5 or 500m", Quantity)
    if quantity.rounded_up(MILLICORE) != quantity:
        raise wrong("precision", f"is finer than one millicore: {show(value)}", "1m is the smallest step")
    return quantity


def parse_bytes(value: Any) -> Quantity:
    """Memory or disk; a begun byte counts as a byte."""
    quantity = _parse_quantity(value, "32Gi or 500M", Quantity)
    if isinstance(value, str) and value.endswith(("n", "u", "m")) and quantity.nanos:
        meant = value[:-1] + "M" if value.endswith("m") else "a suffix such as Mi or Gi"
        message = f"{show(value)} is a fraction of a byte (m means thousandths)"
        raise wrong("precision", message, f"did you mean {meant}?")
    return quantity.rounded_up()


def parse_count(value: Any) -> Quantity:
    """How many of an extended resource: a whole number, as a quantity."""
    quantity = _parse_quantity(value, "2", Quantity)
    if quantity.rounded_up() != quantity:
        raise wrong("whole_number", f"must be a whole number, found {show(value)}", "write a number such as 2")
    if quantity > MOST_COUNTED:
        raise wrong("range", f"must be at most {LARGEST_ID}, found {show(value)}", "write a number such as 2")
    return quantity


def parse_gpu_memory(value: Any) -> Percent | GpuMemory:
    """GPU memory of a device: a share in percent, or an amount."""
    if isinstance(value, Percent | GpuMemory):
        return value
    if isinstance(value, str) and value.endswith("%"):
        if not re.fullmatch(r"[0-9]{1,3}%", value, re.ASCII) or not 1 <= int(value[:-1]) <= 100:
            message = f"must be a whole percentage from 1% to 100%, found {show(value)}"
            raise wrong("range", message, "write a share such as 50%")
        return Percent(int(value[:-1]))
    if not isinstance(value, str):
        raise wrong("unit", f"{show(value)} says no unit", "write a share such as 50% or an amount such as 10GB")
    quantity = _parse_quantity(value, "10GB, 10000MB, 8Gi or 50%", GpuMemory)
    if quantity.nanos < 2**20 * 10**9:
        hint = "write an amount such as 10GB or a share such as 50%"
        raise wrong("range", f"must be at least 1Mi, found {show(value)}", hint)
    return quantity.rounded_up()


def or_unlimited(parse: Callable[[Any], Quantity]) -> Callable[[Any], Quantity | Unlimited]:
    """The same parser for a limit: more than nothing, or the word `unlimited`."""

    def parse_limit(value: Any) -> Quantity | Unlimited:
        if value is UNLIMITED or (isinstance(value, str) and value.lower() == "unlimited"):
            return UNLIMITED
        return positive(parse, "write unlimited for no limit, or leave it out")(value)

    return parse_limit


def positive(parse: Callable[[Any], Quantity], hint: str) -> Callable[[Any], Quantity]:
    """The same parser, for what makes no sense as zero."""

    def parse_positive(value: Any) -> Quantity:
        quantity = parse(value)
        if not quantity.nanos:
            raise wrong("range", f"must be more than 0, found {show(value)}", hint)
        return quantity

    return parse_positive


def parse_duration(value: Any) -> Duration:
    """Seconds, from a number of them or from text such as 90m, 2h or 1d12h."""
    hint = "write seconds, or a text such as 90m, 2h or 1d12h"
    if isinstance(value, str) and re.fullmatch(r"([0-9]{1,9}[smhd])+", value, re.ASCII):
        value = sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", value))
    if isinstance(value, str) and not value.isdecimal():
        raise wrong("duration", f"is no duration: {show(value)}", hint)
    return Duration(parse_whole(value, least=1, hint=hint))


def parse_factor(value: Any) -> Fraction:
    """A factor of at least 1, exactly as written."""
    text = value if isinstance(value, str) else repr(value)
    factor = Fraction(text) if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,18})?", text, re.ASCII) else Fraction(0)
    if not 1 <= factor <= 1000:
        raise wrong("range", f"must be a factor from 1 to 1000, found {show(value)}", "write one such as 1.1")
    return factor


def _parse_quantity(value: Any, example: str, kind: type[QuantityT]) -> QuantityT:
    if isinstance(value, kind):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong("quantity", f"must be an amount, found {show(value)}", f"write an amount such as {example}")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong("quantity", f"{value} is no amount", f"write an amount such as {example}")
    if isinstance(value, float) and abs(value) >= LARGEST_EXACT_FLOAT:
        raise wrong("quantity", f"{value} is too large to be exact as a number", "write it as text, in quotes")
    try:
        # repr is the shortest text that reads back as the same float, so 0.1 is exactly a tenth here.
        quantity = kind.parse(value if isinstance(value, str) else repr(value))
    except ValueError as error:
        raise wrong("quantity", f"{show(value)} is no amount: {error}", _suggest(str(value), example)) from None
    if quantity.nanos < 0:
        raise wrong("range", f"must not be negative, found {show(value)}", f"write an amount such as {example}")
    return quantity


def _suggest(text: str, example: str) -> str:
    """What was probably meant: bytes with a B, small letters, a space before the suffix, a limit's word."""
    if text.lower() == "unlimited":
        return f"unlimited is for limits of cpu, mem and disk; write an amount such as {example}"
    match = re.fullmatch(r"([0-9.]+) *([kmgtpe])(i?)b?", text, re.ASCII | re.IGNORECASE)
    if match is None or re.fullmatch(r"[0-9.]+([kMGTPE]|[KMGTPE]i)", text, re.ASCII):
        return f"write an amount such as {example}"
    number, letter = match[1], match[2].upper()
    decimal = f"{number}{'k' if letter == 'K' else letter}"
    return f"write {number}{letter}i" if match[3] else f"write {number}{letter}i (binary) or {decimal} (decimal)"


def _amount(*examples: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": ["string", "number"], "examples": list(examples)})


_TEXT = PlainSerializer(str, return_type=str, when_used="unless-none")
_WHOLE = WithJsonSchema({"type": ["integer", "string"], "minimum": 0, "maximum": LARGEST_ID, "pattern": "^[0-9]+$"})
_TIME = WithJsonSchema({"type": ["string", "integer"], "examples": ["90m", "2h", "1d12h", 3600]})
_SHARE = WithJsonSchema({"type": "string", "examples": ["50%", "10GB", "8Gi"]})

Cpu = Annotated[Quantity, PlainValidator(parse_cpu), _TEXT, _amount(8, "500m")]
CpuLimit = Annotated[Quantity | Unlimited, PlainValidator(or_unlimited(parse_cpu)), _TEXT, _amount(12, "unlimited")]
Bytes = Annotated[Quantity, PlainValidator(parse_bytes), _TEXT, _amount("32Gi", "500M")]
BytesLimit = Annotated[
    Quantity | Unlimited, PlainValidator(or_unlimited(parse_bytes)), _TEXT, _amount("64Gi", "unlimited")
]
Size = Annotated[Quantity, PlainValidator(positive(parse_bytes, "write a size such as 10Gi")), _TEXT, _amount("10Gi")]
Count = Annotated[Quantity, PlainValidator(parse_count), _TEXT, _amount(2)]
DeviceMemory = Annotated[Percent | GpuMemory, PlainValidator(parse_gpu_memory), _TEXT, _SHARE]
Id = Annotated[int, PlainValidator(parse_id), _WHOLE]
Whole = Annotated[int, PlainValidator(parse_whole), _WHOLE]
Seconds = Annotated[Duration, PlainValidator(parse_duration), PlainSerializer(int), _TIME]
Factor = Annotated[Fraction, PlainValidator(parse_factor), PlainSerializer(float), _amount(1.1)]
