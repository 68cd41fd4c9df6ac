"""`fairlead projects`, `fairlead departments` and `fairlead clusters`: the organisation tree."""

from dataclasses import dataclass

from fairlead.cli.nouns import Force, Json, Noun, connect, forced, gather
from fairlead.cli.printing import print_done

COLUMNS = {"NAME": "name", "PARENT": "parent", "MANAGED BY": "managed_by", "AGE": "created_at"}


@dataclass(frozen=True)
class Places(Noun):
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


PROJECTS = Places("project", "/projects", COLUMNS)
DEPARTMENTS = Places("department", "/departments", COLUMNS)
CLUSTERS = Noun(
    "cluster",
    "/clusters",
    {
        "NAME": "name",
        "PARENT": "parent",
        # What a cluster leaves out is as shipped.
        "EXECUTOR": lambda cluster: cluster["details"].get("executor", "kubernetes"),
        "GPU SHARING": lambda cluster: cluster["details"].get("gpu_sharing", "none"),
        "AGE": "created_at",
    },
)

projects, departments = (
    gather(f"{kind.one}s", kind.ls, kind.show, kind.create, kind.rename, kind.move, kind.rm)
    for kind in (PROJECTS, DEPARTMENTS)
)
clusters = gather("clusters", CLUSTERS.ls, CLUSTERS.show)
