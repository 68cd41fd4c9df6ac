"""`fairlead functions`, `secrets`, `volumes` and `schedules`: objects of a project."""

import getpass
import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.clusters import PROJECTS
from fairlead.cli.objects import Json, ObjectCommands, Project, WithListOptions, connect_to_server, gather
from fairlead.cli.output import Columns, Item, print_done
from fairlead.errors import Unreadable
from fairlead.sdk.functions import Schedule

DEFAULT = "default"  # the project that every new server has

Word = Annotated[str | None, Parameter(show_default=False)]


@dataclass(frozen=True)
class ProjectObject:
    """Commands for a kind of object inside projects."""

    one: str
    columns: Columns

    def of(self, project: str) -> ObjectCommands:
        """The commands for one project."""
        # Treat an empty variable as not set.
        return ObjectCommands(self.one, PROJECTS.at(project or DEFAULT, f"{self.one}s"), self.columns)

    def ls(self, *, project: Project = DEFAULT, list_options: WithListOptions = None, as_json: Json = False) -> int:
        """List a project's objects."""
        return self.of(project).ls(list_options=list_options, as_json=as_json)

    def show(self, name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
        """Show an object."""
        return self.of(project).show(name, as_json=as_json)

    def rm(self, name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
        """Delete an object."""
        return self.of(project).rm(name, as_json=as_json)


FUNCTIONS = ProjectObject(
    "function",
    {"NAME": "name", "KIND": "kind", "RUNS": "runs", "LAST RUN": "last_run_at", "BY": "updated_by"},
)
SECRETS = ProjectObject("secret", {"NAME": "name", "REVISION": "revision", "BY": "updated_by", "AGE": "updated_at"})
VOLUMES = ProjectObject(
    "volume",
    {
        "NAME": "name",
        "SIZE": "size",
        "STORAGE CLASS": "storage_class",
        "DESCRIPTION": "description",
        "AGE": "created_at",
    },
)


def set_secret(
    name: str,
    /,
    *,
    value: Annotated[str | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    as_json: Json = False,
) -> int:
    """Create or replace a secret. Its value cannot be shown again.

    Parameters
    ----------
    value
        The value. Other users of this machine can see it in the process list. Default: read from stdin, or
        prompt on a terminal.
    """
    path = SECRETS.of(project).at(name)
    answer = connect_to_server().put(path, {"value": _ask(name) if value is None else value})
    return print_done(f"set secret {name} in project {project or DEFAULT}", answer, as_json)


def create_volume(
    name: str,
    /,
    *,
    size: str,
    storage_class: str | None = None,
    description: str = "",
    project: Project = DEFAULT,
    as_json: Json = False,
) -> int:
    """Create a shared volume in a project.

    Parameters
    ----------
    size
        The size, such as 10Gi.
    storage_class
        The storage class. Default: the cluster's default class.
    description
        A description.
    """
    fields = {"name": name, "size": size, "storage_class": storage_class, "description": description}
    answer = connect_to_server().post(VOLUMES.of(project).path, fields)
    return print_done(f"created volume {name} in project {project or DEFAULT}", answer, as_json)


def _ask(name: str) -> str:
    """Prompt for a value without echo on a terminal, or read it from stdin without the trailing newline."""
    try:
        if sys.stdin.isatty():
            return getpass.getpass(f"value of {name}: ")
        # `echo` adds a newline, which is not part of the value.
        value = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise Unreadable("the value is not valid UTF-8", "encode it, for example with base64") from error
    except EOFError:  # Ctrl-D
        value = ""
    if not value:
        raise Unreadable("stdin contains no value", "pipe the value in, or use --value")
    return value


functions = gather("functions", FUNCTIONS.ls, FUNCTIONS.show, FUNCTIONS.rm)
secrets = gather("secrets", SECRETS.ls, SECRETS.rm, set=set_secret)
volumes = gather("volumes", VOLUMES.ls, VOLUMES.rm, create=create_volume)


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


def pause_schedule(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Pause a schedule."""
    answer = connect_to_server().post(SCHEDULES.of(project).at(name, "pause"), None)
    return print_done(f"paused schedule {name}", answer, as_json)


def resume_schedule(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Resume a schedule from its next due time. Runs that were due during the pause are skipped."""
    answer = connect_to_server().post(SCHEDULES.of(project).at(name, "resume"), None)
    return print_done(f"resumed schedule {name}, {describe_times(answer)}", answer, as_json)


def run_schedule(name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
    """Submit a schedule's run now, and print the run's ID."""
    answer = connect_to_server().post(SCHEDULES.of(project).at(name, "run"), None)
    return print_done(answer["id"], answer, as_json)


def change_schedule(
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
    answer = connect_to_server().patch(SCHEDULES.of(project).at(name), body)
    return print_done(f"changed schedule {name}, {describe_times(answer)}", answer, as_json)


def describe_times(data: Item) -> str:
    """Describe when a schedule's next run is due."""
    return f"next run at {_show_moment(data['next_at'])}" if data["next_at"] else "paused"


def describe_created(schedule: Schedule) -> str:
    """The confirmation after creating a schedule."""
    name = schedule.name
    return f"created schedule {name}, {describe_times(schedule.data)}\n  -> fairlead schedules show {name}"


schedules = gather(
    "schedules",
    SCHEDULES.ls,
    SCHEDULES.show,
    SCHEDULES.rm,
    change=change_schedule,
    pause=pause_schedule,
    resume=resume_schedule,
    run=run_schedule,
)
