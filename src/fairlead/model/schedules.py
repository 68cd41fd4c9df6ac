"""When a run is submitted again and again: a line of cron, in a time zone, and what becomes of what was missed."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from fairlead.model.names import Name
from fairlead.model.parsing import Strict

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip"]
LONGEST_LINE = 200


class Schedule(Strict):
    """A schedule as a user says it. Its name is that of the function, where none is said.

    `missed`: what becomes of times at which no server was there. `overlap`: whether a time is left out at which the run
    before has not ended.
    """

    SHORT_FORM: ClassVar[Any] = {"type": "string"}
    EXAMPLE: ClassVar[Any] = {"cron": "0 6 * * *", "timezone": "Europe/Rome"}

    cron: str = Field(max_length=LONGEST_LINE)
    timezone: str = Field("UTC", max_length=LONGEST_LINE)
    missed: Missed = "once"
    overlap: Overlap = "allow"
    name: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_line(cls, data: Any) -> Any:
        return {"cron": data} if isinstance(data, str) else data
