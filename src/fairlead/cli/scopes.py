"""`fairlead projects` and `fairlead departments`: the organization tree."""

from dataclasses import dataclass

from fairlead.cli.nouns import Force, Json, Noun, connect, forced, gather
from fairlead.cli.printing import print_done

COLUMNS = {"NAME": "name", "PARENT": "parent", "MANAGED BY": "managed_by", "AGE": "created_at"}


@dataclass(frozen=True)
class ScopeCommands(Noun):
    """A kind of place in the tree."""

    def create(self, name: str, /, *, parent: str | None = None, as_json: Json = False) -> int:
        """Create one.

        Parameters
        ----------
        parent
            The scope below which it stands, such as cluster/local. Left out, the platform.
        """
        answer = connect().post(self.path, {"name": name} if parent is None else {"name": name, "parent": parent})
        return print_done(f"created {self.one} {name} below {answer['parent']}", answer, as_json)

    def move(self, name: str, parent: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Put one below another scope, with all that is in it."""
        answer = connect().patch(self.at(name), {"parent": parent}, **forced(force))
        return print_done(f"moved {self.one} {name} below {parent}", answer, as_json)


PROJECTS = ScopeCommands("project", "/projects", COLUMNS)
DEPARTMENTS = ScopeCommands("department", "/departments", COLUMNS)
projects, departments = (
    gather(f"{kind.one}s", kind.ls, kind.show, kind.create, kind.rename, kind.move, kind.rm)
    for kind in (PROJECTS, DEPARTMENTS)
)
