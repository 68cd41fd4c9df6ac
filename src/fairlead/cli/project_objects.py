"""`fairlead functions`, `fairlead secrets` and `fairlead volumes`: objects of a project."""

import getpass
import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.object_commands import Json, ObjectCommands, Project, WithListOptions, connect, gather
from fairlead.cli.printing import print_done
from fairlead.cli.scopes import PROJECTS
from fairlead.cli.tables import Columns
from fairlead.errors import Unreadable

DEFAULT = "default"  # the project that every new server has


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
        """Show one object."""
        return self.of(project).show(name, as_json=as_json)

    def rm(self, name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
        """Delete one object."""
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


# The name has an underscore, because `set` is a builtin. The command is called `set`.
def set_(
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
    answer = connect().put(path, {"value": _ask(name) if value is None else value})
    return print_done(f"set secret {name} in project {project or DEFAULT}", answer, as_json)


def create(
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
    answer = connect().post(VOLUMES.of(project).path, fields)
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
secrets = gather("secrets", SECRETS.ls, set_, SECRETS.rm)
volumes = gather("volumes", VOLUMES.ls, create, VOLUMES.rm)
