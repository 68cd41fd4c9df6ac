"""`fairlead functions`, `fairlead secrets` and `fairlead volumes`: what a project holds."""

import getpass
import sys
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.nouns import Asking, Json, Noun, Project, connect, gather
from fairlead.cli.printing import print_done
from fairlead.cli.scopes import PROJECTS
from fairlead.cli.tables import Columns
from fairlead.errors import Unreadable

DEFAULT = "default"


@dataclass(frozen=True)
class Held:
    """A kind of thing that projects hold. Its methods are the commands."""

    one: str
    columns: Columns

    def of(self, project: str) -> Noun:
        """Those of one project."""
        # A variable that is set to nothing is not set.
        return Noun(self.one, PROJECTS.at(project or DEFAULT, f"{self.one}s"), self.columns)

    def ls(self, *, project: Project = DEFAULT, asked: Asking = None, as_json: Json = False) -> int:
        """List those of a project."""
        return self.of(project).ls(asked=asked, as_json=as_json)

    def show(self, name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
        """Show all of one."""
        return self.of(project).show(name, as_json=as_json)

    def rm(self, name: str, /, *, project: Project = DEFAULT, as_json: Json = False) -> int:
        """Delete one."""
        return self.of(project).rm(name, as_json=as_json)


FUNCTIONS = Held(
    "function",
    {"NAME": "name", "KIND": "kind", "RUNS": "runs", "LAST RUN": "last_run_at", "BY": "updated_by"},
)
SECRETS = Held("secret", {"NAME": "name", "REVISION": "revision", "BY": "updated_by", "AGE": "updated_at"})
VOLUMES = Held(
    "volume",
    {
        "NAME": "name",
        "SIZE": "size",
        "STORAGE CLASS": "storage_class",
        "DESCRIPTION": "description",
        "AGE": "created_at",
    },
)


def set_(
    name: str,
    /,
    *,
    value: Annotated[str | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    as_json: Json = False,
) -> int:
    """Set a secret, new or not. It is never shown again.

    Parameters
    ----------
    value
        Its value, which others on this machine may see while the command runs. Left out, it is read from stdin, or
        asked for on a terminal.
    """
    path = SECRETS.of(project).at(name)
    answer = connect().put(path, {"value": _ask(name) if value is None else value})
    return print_done(f"set secret {name} of project {project or DEFAULT}", answer, as_json)


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
    """Create a volume that the runs of a project may share.

    Parameters
    ----------
    size
        How much it holds, such as 10Gi.
    storage_class
        The kind of storage. Left out, the cluster's own choice.
    description
        What is in it.
    """
    said = {"name": name, "size": size, "storage_class": storage_class, "description": description}
    answer = connect().post(VOLUMES.of(project).path, said)
    return print_done(f"created volume {name} of project {project or DEFAULT}", answer, as_json)


def _ask(name: str) -> str:
    """A value that nobody sees: typed without an echo, or from a pipe without the newline at its end."""
    try:
        if sys.stdin.isatty():
            return getpass.getpass(f"value of {name}: ")
        value = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise Unreadable("the value is no UTF-8 text", "encode it, for example with base64") from error
    except EOFError:  # Ctrl-D
        value = ""
    if not value:
        raise Unreadable("there is no value on stdin", "pipe it in, or say --value")
    return value


functions = gather("functions", FUNCTIONS.ls, FUNCTIONS.show, FUNCTIONS.rm)
secrets = gather("secrets", SECRETS.ls, set_, SECRETS.rm)
volumes = gather("volumes", VOLUMES.ls, create, VOLUMES.rm)
