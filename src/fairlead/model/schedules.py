"""Schedules: a cron expression in a time zone, with options for missed and overlapping runs."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from fairlead.model.names import Name
from fairlead.model.parsing import StrictModel

Missed = Literal["skip", "once", "all"]
Overlap = Literal["allow", "skip"]
MAX_TEXT_LENGTH = 200


class Schedule(StrictModel):
    """A schedule for a request. Its name defaults to the function name.

    `missed`: what to do about times that were missed because no server was running. `overlap`: whether to start a run
    before the previous one has ended.
    """

    SHORT_FORM: ClassVar[Any] = {"type": "string"}
    EXAMPLE: ClassVar[Any] = {"cron": "0 6 * * *", "timezone": "Europe/Rome"}

    cron: str = Field(max_length=MAX_TEXT_LENGTH)
    timezone: str = Field("UTC", max_length=MAX_TEXT_LENGTH)
    missed: Missed = "once"
    overlap: Overlap = "allow"
    name: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_line(cls, data: Any) -> Any:
        return {"cron": data} if isinstance(data, str) else data
