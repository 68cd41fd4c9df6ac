"""How often a run is tried: after which failures, and with how much more memory after it ran out of it."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fairlead.model.numbers import Size, parse_factor, parse_whole
from fairlead.model.parsing import Strict, show, wrong

MOST_RETRIES = 20
GREATEST_GROWTH = 10

# The failures after which a run may be tried again: what its program did, and what became of where it ran.
RetryReason = Literal["ExitCode", "OOMKilled", "Evicted", "NodeLost", "PodRemoved", "SupervisorLost"]


def parse_growth(value: Any) -> Fraction:
    """By how much memory grows: more than once, and not beyond all bounds."""
    factor = value if isinstance(value, Fraction) else parse_factor(value)
    if not 1 < factor <= GREATEST_GROWTH:
        message = f"must be more than 1 and at most {GREATEST_GROWTH}, found {show(value)}"
        raise wrong("range", message, "write one such as 1.5")
    return factor


Retries = Annotated[
    int,
    PlainValidator(lambda value: parse_whole(value, most=MOST_RETRIES)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 0, "maximum": MOST_RETRIES}),
]
Growth = Annotated[
    Fraction,
    PlainValidator(parse_growth),
    PlainSerializer(float),
    WithJsonSchema({"type": ["number", "string"], "examples": [1.5]}),
]


class OnOom(Strict):
    """After a run used more memory than it may, it is tried again with more, up to a most."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"grow": 1.5, "max": "64Gi"}

    grow: Growth = Fraction(3, 2)
    max: Size | None = None
