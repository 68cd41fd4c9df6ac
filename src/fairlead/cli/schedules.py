"""`fairlead schedules`: what a project submits again and again."""

from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.holdings import DEFAULT, Held
from fairlead.cli.nouns import Json, Project, connect, gather
from fairlead.cli.printing import print_done
from fairlead.cli.tables import Item
from fairlead.sdk.schedules import Schedule

Word = Annotated[str | None, Parameter(show_default=False)]


def _describe_next(item: Item) -> str:
    return "paused" if item["paused"] else _show_moment(item["next_at"])


def _describe_last(item: Item) -> str:
    told = _show_moment(item["last_at"])
    return f"{told}: {item['last_problem']}" if item["last_problem"] else told


def _show_moment(text: str | None) -> str:
    return "" if text is None else f"{text[:16].replace('T', ' ')} UTC"


SCHEDULES = Held(
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
    """Submit nothing until it is resumed."""
    answer = connect().post(SCHEDULES.of(project).at(name, "pause"), None)
    return print_done(f"paused schedule {name}", answer, as_json)


def resume(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Go on with the next time; those that went by meanwhile were not missed."""
    answer = connect().post(SCHEDULES.of(project).at(name, "resume"), None)
    return print_done(f"resumed schedule {name}, {describe_times(answer)}", answer, as_json)


def run(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Submit a run of it now, and print the id of the run."""
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
    """Change when it is due. From then on its runs are submitted as you.

    Parameters
    ----------
    cron
        When: minute, hour, day, month and weekday, such as "0 6 * * *".
    timezone
        In which time zone, such as Europe/Rome.
    missed
        What becomes of times at which no server was there: skip, once or all.
    overlap
        Whether a time is left out while the run before goes on: allow or skip.
    """
    said = {"cron": cron, "timezone": timezone, "missed": missed, "overlap": overlap}
    body = {part: value for part, value in said.items() if value is not None}
    answer = connect().patch(SCHEDULES.of(project).at(name), body)
    return print_done(f"changed schedule {name}, {describe_times(answer)}", answer, as_json)


def describe_times(data: Item) -> str:
    """When a schedule is due next."""
    return f"next at {_show_moment(data['next_at'])}" if data["next_at"] else "paused"


def describe_kept(schedule: Schedule) -> str:
    """What is said of a schedule that was just kept."""
    name = schedule.name
    return f"kept schedule {name}, {describe_times(schedule.data)}\n  -> fairlead schedules show {name}"


schedules = gather("schedules", SCHEDULES.ls, SCHEDULES.show, change, pause, resume, run, SCHEDULES.rm)
