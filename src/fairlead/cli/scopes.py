"""`fairlead projects` and `fairlead departments`: the scope tree."""

from dataclasses import dataclass

from fairlead.cli.object_commands import Force, Json, ObjectCommands, connect, forced, gather
from fairlead.cli.printing import print_done

COLUMNS = {"NAME": "name", "PARENT": "parent", "MANAGED BY": "managed_by", "AGE": "created_at"}


@dataclass(frozen=True)
class ScopeCommands(ObjectCommands):
    """Commands for a kind of scope."""

    def create(self, name: str, /, *, parent: str | None = None, as_json: Json = False) -> int:
        """Create a scope.

        Parameters
        ----------
        parent
            The parent scope, such as cluster/local. Default: platform.
        """
        answer = connect().post(self.path, {"name": name} if parent is None else {"name": name, "parent": parent})
        return print_done(f"created {self.one} {name} in {answer['parent']}", answer, as_json)

    def move(self, name: str, parent: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Move a scope and everything in it to another parent."""
        answer = connect().patch(self.at(name), {"parent": parent}, **forced(force))
        return print_done(f"moved {self.one} {name} to {parent}", answer, as_json)


PROJECTS = ScopeCommands("project", "/projects", COLUMNS)
DEPARTMENTS = ScopeCommands("department", "/departments", COLUMNS)
projects, departments = (
    gather(f"{kind.one}s", kind.ls, kind.show, kind.create, kind.rename, kind.move, kind.rm)
    for kind in (PROJECTS, DEPARTMENTS)
)
