"""Schedules: requests that are submitted at the times given by a cron expression."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.runs import Run, Runs

MAX_LISTED = 50


class ScheduleChanges(TypedDict, total=False):
    """The fields of a schedule that can be changed."""

    cron: str
    timezone: str
    missed: str
    overlap: str


class Schedule:
    """A schedule in a project, as of the server's last response."""

    def __init__(self, api: ApiClient, data: Mapping[str, Any]) -> None:
        self._api, self.data = api, dict(data)

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return str(self.data["name"])

    @property
    def project(self) -> str:
        """The name of the project."""
        return str(self.data["scope"]).partition("/")[2]

    @property
    def paused(self) -> bool:
        """Whether the schedule is paused."""
        return bool(self.data["paused"])

    @property
    def next_at(self) -> datetime | None:
        """The time of the next run; None while paused."""
        return _moment(self.data["next_at"])

    @property
    def last_at(self) -> datetime | None:
        """The time at which the schedule was last due."""
        return _moment(self.data["last_at"])

    @property
    def last_run(self) -> Run | None:
        """The run that was submitted at `last_at`; None if the submission failed (see `last_problem`)."""
        run_id = self.data["last_run_id"]
        return None if run_id is None else Run(self._api, self._api.get(path_of("runs", run_id)))

    @property
    def last_problem(self) -> str | None:
        """Why no run was submitted at `last_at`."""
        problem: str | None = self.data["last_problem"]
        return problem

    def refresh(self) -> "Schedule":
        """Load the schedule from the server."""
        self.data = self._api.get(self._path())
        return self

    def change(self, **times: Unpack[ScheduleChanges]) -> "Schedule":
        """Change cron, timezone, missed or overlap."""
        self.data = self._api.patch(self._path(), dict(times))
        return self

    def pause(self) -> "Schedule":
        """Pause the schedule."""
        self.data = self._api.post(self._path("pause"), None)
        return self

    def resume(self) -> "Schedule":
        """Resume the schedule from its next due time."""
        self.data = self._api.post(self._path("resume"), None)
        return self

    def run(self) -> Run:
        """Submit a run now, without changing the schedule."""
        return Run(self._api, self._api.post(self._path("run"), None))

    def runs(self, *, limit: int = MAX_LISTED) -> Runs:
        """The runs of this schedule, newest first."""
        path = path_of("projects", self.project, "runs")
        records = self._api.list(path, schedule=self.name, limit=min(limit, 500))
        return Runs([Run(self._api, data) for _, data in zip(range(limit), records, strict=False)])

    def delete(self) -> None:
        """Delete the schedule, but not its runs."""
        self._api.delete(self._path())

    def _path(self, *further: str) -> str:
        return path_of("projects", self.project, "schedules", self.name, *further)

    def __repr__(self) -> str:
        when = "paused" if self.paused else f"next run at {self.data['next_at']}"
        return f"<schedule {self.name} of project {self.project}: {self.data['cron']}, {when}>"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
