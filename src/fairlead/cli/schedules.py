"""`fairlead schedules`: a project's schedules."""

from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.object_commands import Json, Project, connect, gather
from fairlead.cli.printing import print_done
from fairlead.cli.project_objects import DEFAULT, ProjectObject
from fairlead.cli.tables import Item
from fairlead.sdk.schedules import Schedule

Word = Annotated[str | None, Parameter(show_default=False)]


def _describe_next(item: Item) -> str:
    return "paused" if item["paused"] else _show_moment(item["next_at"])


def _describe_last(item: Item) -> str:
    time = _show_moment(item["last_at"])
    return f"{time}: {item['last_problem']}" if item["last_problem"] else time


def _show_moment(text: str | None) -> str:
    # API timestamps are in UTC. Seconds do not matter, because cron works in whole minutes.
    return "" if text is None else f"{text[:16].replace('T', ' ')} UTC"


SCHEDULES = ProjectObject(
    "schedule",
    {
        "NAME": "name",
        "FUNCTION": "function",
        "CRON": "cron",
        "TIME ZONE": "timezone",
        "NEXT": _describe_next,
        "LAST": _describe_last,
        "LAST RUN": "last_run_id",
    },
)


def pause(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Pause a schedule."""
    answer = connect().post(SCHEDULES.of(project).at(name, "pause"), None)
    return print_done(f"paused schedule {name}", answer, as_json)


def resume(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Resume a schedule from its next due time. Runs that were due during the pause are skipped."""
    answer = connect().post(SCHEDULES.of(project).at(name, "resume"), None)
    return print_done(f"resumed schedule {name}, {describe_times(answer)}", answer, as_json)


def run(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Submit a run of a schedule now, and print the run's ID."""
    answer = connect().post(SCHEDULES.of(project).at(name, "run"), None)
    return print_done(answer["id"], answer, as_json)


def change(
    name: str,
    /,
    *,
    cron: Word = None,
    timezone: Word = None,
    missed: Word = None,
    overlap: Word = None,
    project: Project = DEFAULT,
    as_json: Json = False,
) -> int:
    """Change a schedule. From now on, its runs are submitted with your permissions.

    Parameters
    ----------
    cron
        A cron expression, such as "0 6 * * *".
    timezone
        The time zone, such as Europe/Rome.
    missed
        How to handle runs missed while the server was down: skip, once or all.
    overlap
        If the previous run is still active, allow or skip the new one.
    """
    fields = {"cron": cron, "timezone": timezone, "missed": missed, "overlap": overlap}
    body = {part: value for part, value in fields.items() if value is not None}
    answer = connect().patch(SCHEDULES.of(project).at(name), body)
    return print_done(f"changed schedule {name}, {describe_times(answer)}", answer, as_json)


def describe_times(data: Item) -> str:
    """Describe when a schedule's next run is due."""
    return f"next run at {_show_moment(data['next_at'])}" if data["next_at"] else "paused"


def describe_created(schedule: Schedule) -> str:
    """The confirmation after creating a schedule."""
    name = schedule.name
    return f"created schedule {name}, {describe_times(schedule.data)}\n  -> fairlead schedules show {name}"


schedules = gather("schedules", SCHEDULES.ls, SCHEDULES.show, change, pause, resume, run, SCHEDULES.rm)
