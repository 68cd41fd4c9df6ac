"""Schedules: requests that a project submits again and again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.runs import Run, Runs

MOST_LISTED = 50


class Times(TypedDict, total=False):
    """What can be changed about a schedule."""

    cron: str
    timezone: str
    missed: str
    overlap: str


class Schedule:
    """A schedule of a project, as it was when it was last read."""

    def __init__(self, api: ApiClient, data: Mapping[str, Any]) -> None:
        self._api, self.data = api, dict(data)

    @property
    def name(self) -> str:
        """Its name, by which the project knows it."""
        return str(self.data["name"])

    @property
    def project(self) -> str:
        """The project that it is in."""
        return str(self.data["scope"]).partition("/")[2]

    @property
    def paused(self) -> bool:
        """Whether nothing is submitted until it is resumed."""
        return bool(self.data["paused"])

    @property
    def next_at(self) -> datetime | None:
        """When it is due next; None where it is paused."""
        return _moment(self.data["next_at"])

    @property
    def last_at(self) -> datetime | None:
        """When it was last due."""
        return _moment(self.data["last_at"])

    @property
    def last_run(self) -> Run | None:
        """The run that was submitted then; None where there was none, for which `last_problem` has the reason."""
        run_id = self.data["last_run_id"]
        return None if run_id is None else Run(self._api, self._api.get(path_of("runs", run_id)))

    @property
    def last_problem(self) -> str | None:
        """Why nothing was submitted when it was last due."""
        problem: str | None = self.data["last_problem"]
        return problem

    def refresh(self) -> "Schedule":
        """Read it again."""
        self.data = self._api.get(self._path())
        return self

    def change(self, **times: Unpack[Times]) -> "Schedule":
        """Say other times: cron, timezone, missed, overlap."""
        self.data = self._api.patch(self._path(), dict(times))
        return self

    def pause(self) -> "Schedule":
        """Submit nothing until it is resumed."""
        self.data = self._api.post(self._path("pause"), None)
        return self

    def resume(self) -> "Schedule":
        """Go on with the next time."""
        self.data = self._api.post(self._path("resume"), None)
        return self

    def run(self) -> Run:
        """Submit a run of it now. Its times stay as they are."""
        return Run(self._api, self._api.post(self._path("run"), None))

    def runs(self, *, limit: int = MOST_LISTED) -> Runs:
        """The runs that it has submitted, the newest first."""
        path = path_of("projects", self.project, "runs")
        found = self._api.list(path, schedule=self.name, limit=min(limit, 500))
        return Runs([Run(self._api, data) for _, data in zip(range(limit), found, strict=False)])

    def delete(self) -> None:
        """Forget it. Its runs stay."""
        self._api.delete(self._path())

    def _path(self, *further: str) -> str:
        return path_of("projects", self.project, "schedules", self.name, *further)

    def __repr__(self) -> str:
        when = "paused" if self.paused else f"next at {self.data['next_at']}"
        return f"<schedule {self.name} of project {self.project}: {self.data['cron']}, {when}>"


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
