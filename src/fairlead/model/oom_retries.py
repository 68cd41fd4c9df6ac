"""Retries of failed runs: which failures are retried, and how memory grows after an out-of-memory kill."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from fairlead.model.numbers import Size, parse_factor, parse_integer
from fairlead.model.parsing import StrictModel, field_error, short_repr

MAX_RETRIES = 20
MAX_GROWTH = 10

# The failures that can be retried: program failures, and loss of the node, pod or supervisor.
RetryReason = Literal["ExitCode", "OOMKilled", "Evicted", "NodeLost", "PodRemoved", "SupervisorLost"]


def parse_growth(value: Any) -> Fraction:
    """Parse the factor by which memory grows with each retry."""
    factor = value if isinstance(value, Fraction) else parse_factor(value)
    if not 1 < factor <= MAX_GROWTH:
        message = f"must be more than 1 and at most {MAX_GROWTH}, found {short_repr(value)}"
        raise field_error("range", message, "use a factor such as 1.5")
    return factor


Retries = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, maximum=MAX_RETRIES)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 0, "maximum": MAX_RETRIES}),
]
Growth = Annotated[
    Fraction,
    PlainValidator(parse_growth),
    PlainSerializer(float),
    WithJsonSchema({"type": ["number", "string"], "examples": [1.5]}),
]


class OnOom(StrictModel):
    """Retry with more memory after an out-of-memory kill, up to `max`."""

    EXAMPLE: ClassVar[Mapping[str, Any]] = {"grow": 1.5, "max": "64Gi"}

    grow: Growth = Fraction(3, 2)
    max: Size | None = None  # None: limited only by policies and quotas
