"""`fairlead templates`, and what compute resources have in common with them: revisions, and runs that use them."""

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.cli.nouns import Asking, Force, Json, Noun, connect, forced, gather, print_item, print_items, print_list
from fairlead.cli.printing import print_done, print_sentences
from fairlead.model.plans import Sentence

WRITTEN = ("name", "description", "scope", "workload_types", "requirements")  # what people say of one
SHARED_COLUMNS = {"RUNS": "workloads", "DESCRIPTION": "description", "AGE": "created_at"}
REVISIONS = {"REVISION": "number", "NAME": "name", "BY": "created_by", "AGE": "created_at"}
RUNS = {
    "RUN": "id",
    "FUNCTION": "function",
    "ACTION": "action",
    "STATE": "state",
    "SCOPE": "scope",
    "BY": "created_by",
    "AGE": "created_at",
}


@dataclass(frozen=True)
class Asset(Noun):
    """A kind of thing with revisions, which runs use."""

    def copy(self, name: str, new: str, /, *, scope: str | None = None, as_json: Json = False) -> int:
        """Create one like another.

        Parameters
        ----------
        scope
            Where the copy is offered. Left out, where the other one is.
        """
        change = {"name": new} if scope is None else {"name": new, "scope": scope}
        answer = connect().post(self.at(name, "copy"), change)
        return print_done(f"copied {self.one} {name} to {new}", answer, as_json)

    def archive(
        self, name: str, /, *, successor: str | None = None, force: Force = False, as_json: Json = False
    ) -> int:
        """Hide one from those who choose, and keep it for those who use it.

        Parameters
        ----------
        successor
            What is used in its place from now on.
        """
        answer = connect().post(self.at(name, "archive"), {"successor": successor}, **forced(force))
        after = f"; {successor} is used in its place" if successor else ""
        return print_done(f"archived {self.one} {name}{after}", answer, as_json)

    def restore(self, name: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Show an archived one again to those who choose."""
        answer = connect().post(self.at(name, "restore"), {}, **forced(force))
        return print_done(f"restored {self.one} {name}", answer, as_json)

    def explain(self, name: str, /, *, as_json: Json = False) -> int:
        """Say what a pod that uses one gets, and what may end it."""
        record = connect().get(self.at(name))
        said = {field: record[field] for field in WRITTEN if record.get(field) is not None}
        answer = connect().post(f"{self.path}/check", said)
        if as_json:
            return print_item(answer, as_json)
        print_sentences(Sentence(**told) for told in answer["sentences"])
        return 0

    def revisions(self, name: str, /, *, as_json: Json = False) -> int:
        """List how one was changed, the newest first."""
        return print_items(connect().get(self.at(name, "revisions")), REVISIONS, "revisions", as_json)

    def workloads(self, name: str, /, *, asked: Asking = None, as_json: Json = False) -> int:
        """List the unfinished runs that use one."""
        return print_list(self.at(name, "workloads"), RUNS, "runs", asked, as_json)

    @property
    def changes(self) -> tuple[Callable[..., int], ...]:
        """The commands beside listing and showing, in the order in which help shows them."""
        kept = self.copy, self.rename, self.archive, self.restore, self.rm
        return self.explain, *kept, self.revisions, self.workloads


TEMPLATES = Asset(
    "template",
    "/templates",
    {"NAME": "name", "SCOPE": "scope", "COMPUTE": "compute_resource", **SHARED_COLUMNS},
)

templates = gather("templates", TEMPLATES.ls, TEMPLATES.show, *TEMPLATES.changes)
