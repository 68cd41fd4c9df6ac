"""`fairlead templates`, and the commands that templates and compute resources share: copy, archive, revisions."""

from collections.abc import Callable
from dataclasses import dataclass

from fairlead.cli.object_commands import (
    Force,
    Json,
    ObjectCommands,
    WithListOptions,
    connect,
    forced,
    gather,
    print_item,
    print_items,
    print_list,
)
from fairlead.cli.printing import print_done, print_sentences
from fairlead.model.plans import Sentence

WRITTEN = ("name", "description", "scope", "workload_types", "requirements")  # the fields that users set
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
class Asset(ObjectCommands):
    """Commands for objects with revisions: compute resources and templates."""

    def copy(self, name: str, new: str, /, *, scope: str | None = None, as_json: Json = False) -> int:
        """Create a copy.

        Parameters
        ----------
        scope
            The scope of the copy. Default: the original's scope.
        """
        change = {"name": new} if scope is None else {"name": new, "scope": scope}
        answer = connect().post(self.at(name, "copy"), change)
        return print_done(f"copied {self.one} {name} to {new}", answer, as_json)

    def archive(
        self, name: str, /, *, successor: str | None = None, force: Force = False, as_json: Json = False
    ) -> int:
        """Archive an object: users can no longer choose it, but runs that use it continue.

        Parameters
        ----------
        successor
            The replacement for requests that still refer to the archived object.
        """
        answer = connect().post(self.at(name, "archive"), {"successor": successor}, **forced(force))
        after = f"; {successor} replaces it" if successor else ""
        return print_done(f"archived {self.one} {name}{after}", answer, as_json)

    def restore(self, name: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Restore an archived object."""
        answer = connect().post(self.at(name, "restore"), {}, **forced(force))
        return print_done(f"restored {self.one} {name}", answer, as_json)

    def explain(self, name: str, /, *, as_json: Json = False) -> int:
        """Explain what a pod gets, and what may kill it."""
        record = connect().get(self.at(name))
        fields = {field: record[field] for field in WRITTEN if record.get(field) is not None}
        # The server explains only drafts, which forms need before saving, so the stored object is sent as a draft.
        answer = connect().post(f"{self.path}/check", fields)
        if as_json:
            return print_item(answer, as_json)
        print_sentences(Sentence(**sentence) for sentence in answer["sentences"])
        return 0

    def revisions(self, name: str, /, *, as_json: Json = False) -> int:
        """List revisions, newest first."""
        return print_items(connect().get(self.at(name, "revisions")), REVISIONS, "revisions", as_json)

    def workloads(self, name: str, /, *, list_options: WithListOptions = None, as_json: Json = False) -> int:
        """List active runs that use an object."""
        return print_list(self.at(name, "workloads"), RUNS, "runs", list_options, as_json)

    @property
    def changes(self) -> tuple[Callable[..., int], ...]:
        """The commands other than ls and show, in the order shown in the help."""
        common = self.copy, self.rename, self.archive, self.restore, self.rm
        return self.explain, *common, self.revisions, self.workloads


TEMPLATES = Asset(
    "template",
    "/templates",
    {"NAME": "name", "SCOPE": "scope", "COMPUTE": "compute_resource", **SHARED_COLUMNS},
)

templates = gather("templates", TEMPLATES.ls, TEMPLATES.show, *TEMPLATES.changes)
