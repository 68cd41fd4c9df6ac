"""What compute resources and templates have in common: kept by name at a scope, with every revision they ever had."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from fairlead.core.diffs import Difference, compare
from fairlead.core.linting import LintResult
from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.model.compute_resources import NamedRequirements
from fairlead.model.parsing import short_repr, violations_of
from fairlead.model.plans import Finding, Sentence, Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, AssetRecord, RevisionRecord, RunRecord
from fairlead.model.roles import Permission
from fairlead.ports import ConfigPart
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MOST_TOLD = 50
# What a revision remembers of an asset.
CONTENT = ("name", "description", "scope", "requirements", "workload_types", "archived", "successor", "managed_by")

AssetT = TypeVar("AssetT", bound=AssetRecord)


@dataclass(frozen=True)
class Checked:
    """What is wrong with something that would be offered, and what a pod that uses it gets."""

    findings: tuple[Finding, ...]
    sentences: tuple[Sentence, ...]


class Assets(Generic[AssetT]):
    """The use cases of one kind of asset."""

    noun: ClassVar[str]
    code: ClassVar[str]
    kind: type[AssetT]
    model: ClassVar[type[NamedRequirements]]
    used_as: ClassVar[str]  # the field of a run that names it

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, asked: Listing) -> Page[AssetT]:
        """Those that the caller sees. Archived ones only where they are asked for."""
        with self.units.reading(call) as unit:
            within = unit.in_sight()
            if not any(name == "archived" for name, _ in asked.filters):
                within.append(Condition("archived", "=", False))
            return load_page(unit.tx, self.kind, asked, sort="name", within=within)

    def get(self, call: Call, name: str) -> AssetT:
        """One of them."""
        with self.units.reading(call) as unit:
            return self.find(unit, name)

    def check(self, call: Call, asset: NamedRequirements) -> Checked:
        """What keeps it from being used, what may surprise its users, and what they get. Nothing is kept."""
        with self.units.reading(call) as unit:
            self._authorize(unit, asset, Permission.VIEW)
            trial = self.try_out(unit, asset)
            return Checked(_placed(trial), trial.sentences)

    def create(self, call: Call, asset: NamedRequirements) -> AssetT:
        """Keep a new one."""
        with self.units.changing(call, "assets") as unit:
            return unit.recall(self.kind) or unit.remember(self.add(unit, asset))

    def edit(self, call: Call, name: str, change: Mapping[str, Any], *, force: bool = False) -> AssetT:
        """Change the fields that are said, each as a whole; a new name renames it."""
        change = self.spell(change)
        # Policies may name it, and follow when it is renamed.
        follows: tuple[ConfigPart, ...] = ("organization",) if "name" in change else ()
        with self.units.changing(call, "assets", *follows) as unit:
            record = self.find(unit, name, Permission.SHARE)
            unit.check_free(record, self.noun, force=force)
            return self.change(unit, record, self.merge(record, change))

    def copy(self, call: Call, name: str, change: Mapping[str, Any]) -> AssetT:
        """Keep a new one that is like another, but for the fields that are said."""
        with self.units.changing(call, "assets") as unit:
            if (before := unit.recall(self.kind)) is not None:
                return before
            record = self.find(unit, name)
            change = self.spell(change)
            if "name" not in change:
                violation = Violation("name", "required", "is missing", "say the name of the copy")
                raise RequestRejected([violation])
            return unit.remember(self.add(unit, self.merge(record, change)))

    def archive(self, call: Call, name: str, successor: str | None, *, force: bool = False) -> AssetT:
        """Hide it from those who choose; where it is named, its successor is used."""
        return self._put_aside(call, name, "archive", archived=True, successor=successor, force=force)

    def restore(self, call: Call, name: str, *, force: bool = False) -> AssetT:
        """Show it again to those who choose."""
        return self._put_aside(call, name, "restore", archived=False, successor=None, force=force)

    def delete(self, call: Call, name: str, *, force: bool = False) -> None:
        """Forget it, unless something uses it. What it was stays in its revisions."""
        with self.units.changing(call, "assets") as unit:
            record = self.find(unit, name, Permission.SHARE)
            unit.check_free(record, self.noun, force=force)
            self.drop(unit, record)

    def revisions(self, call: Call, name: str) -> list[RevisionRecord]:
        """What it was after each save, the newest first."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            return unit.tx.find(RevisionRecord, Condition("object_id", "=", record.id))[::-1]

    def compare(self, call: Call, name: str, old: int, new: int) -> list[Difference]:
        """What is different between two revisions."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            kept = [unit.tx.get(RevisionRecord, object_id=record.id, number=number) for number in (old, new)]
            for number, revision in zip((old, new), kept, strict=True):
                if revision is None:
                    raise NotFound(f"{self.noun} {name} has no revision {number}", f"its newest is {record.revision}")
            before, after = (revision.content for revision in kept if revision is not None)
            return compare(before, after)

    def workloads(self, call: Call, name: str, asked: Listing) -> Page[RunRecord]:
        """The runs that use it; those that are not finished, unless others are asked for."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            within = [*unit.in_sight(), Condition(f"{self.used_as}_id", "=", record.id)]
            if not any(column in ("active", "state") for column, _ in asked.filters):
                within.append(Condition("active", "=", True))
            return load_page(unit.tx, RunRecord, asked, sort="-created_at", within=within)

    def find(self, unit: UnitOfWork, name: str, permission: Permission = Permission.VIEW) -> AssetT:
        """One of them by name or id, for a caller who may do the permission."""
        record = unit.tx.get(self.kind, name=name) or unit.tx.get(self.kind, id=name)
        if record is None or not unit.permissions.sees(record.scope):
            raise NotFound(f"there is no {self.noun} {short_repr(name)}", self._former(unit, name))
        if permission is not Permission.VIEW:
            unit.require(permission, record.scope, f"{self.noun} {short_repr(name)}")
        return record

    def add(self, unit: UnitOfWork, asset: NamedRequirements, managed_by: str | None = None) -> AssetT:
        """Keep a new one, within a use case."""
        self._authorize(unit, asset)
        self._refuse_wrong(unit, asset)
        if unit.tx.get(self.kind, name=asset.name) is not None:
            raise Conflict(f"there is already a {self.noun} {asset.name}", "choose another name")
        record = self.kind(**unit.stamps(), **self.to_fields(unit, asset), managed_by=managed_by)
        return keep_revision(unit, unit.add(record, self.code, record.name, record.scope))

    def change(
        self, unit: UnitOfWork, record: AssetT, asset: NamedRequirements, managed_by: str | None = None
    ) -> AssetT:
        """Keep a changed one, within a use case. What does not change makes no revision."""
        _refuse_revision(asset)
        said = self.to_fields(unit, asset) | {"managed_by": managed_by or record.managed_by}
        if all(getattr(record, name) == value for name, value in said.items()):
            return record
        if asset.scope != record.scope:
            self._authorize(unit, asset)
        self._refuse_wrong(unit, asset)
        other = unit.tx.get(self.kind, name=asset.name)
        if other is not None and other.id != record.id:
            raise Conflict(f"there is already a {self.noun} {asset.name}", "choose another name")
        action = f"{self.code}.{'rename' if asset.name != record.name else 'edit'}"
        after = unit.save(record, replace(record, **said, **unit.next(record)), action, asset.name, asset.scope)
        self.follow(unit, record, after)
        return keep_revision(unit, after)

    def drop(self, unit: UnitOfWork, record: AssetT) -> None:
        """Forget one, within a use case, unless something uses it."""
        users = self.users(unit, record)
        if users:
            hint = "change or end what uses it first, or archive it instead"
            raise Conflict(f"{self.noun} {record.name} is used by {name_some(users)}", hint, users)
        unit.remove(record, self.code, record.name, record.scope)

    def merge(self, record: AssetT, change: Mapping[str, Any]) -> Any:
        """What a record says, with some fields said anew."""
        return self.parse({**self.to_written(record), **change})

    def spell(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Fields under the one name that each has. Raise where one is there under two."""
        spelled = {self.model.canonical_name(name): value for name, value in change.items()}
        if len(spelled) < len(change):
            violation = Violation("", "duplicate", "has a field twice, in two spellings", "keep one")
            raise RequestRejected([violation])
        return spelled

    def parse(self, data: Mapping[str, Any]) -> Any:
        """An asset as somebody wrote it. Raises with every violation."""
        try:
            return self.model.model_validate(data)
        except ValidationError as error:
            raise RequestRejected(violations_of(error, self.model)) from error

    def to_fields(self, unit: UnitOfWork, asset: NamedRequirements) -> JSON:
        """The fields of a record, from what somebody wrote."""
        return {
            "name": asset.name,
            "description": asset.description,
            "scope": asset.scope,
            "cluster": unit.organization.tree.cluster_of(asset.scope),
            "requirements": asset.requirements.to_data(),
        }

    def to_written(self, record: AssetT) -> JSON:
        """What somebody would write to get the record."""
        written = {"name": record.name, "description": record.description, "scope": record.scope}
        return {**written, "requirements": record.requirements}

    def try_out(self, unit: UnitOfWork, asset: Any) -> LintResult:
        """It, as if somebody used it among the policies that reach it."""
        raise NotImplementedError

    def users(self, unit: UnitOfWork, record: AssetT) -> list[JSON]:
        """What uses it, so that it cannot go."""
        conditions = (Condition(f"{self.used_as}_id", "=", record.id), Condition("active", "=", True))
        runs = unit.tx.find(RunRecord, *conditions, limit=MOST_TOLD)
        return [{"kind": "run", "name": run.id, "scope": run.scope, "state": run.state} for run in runs]

    def follow(self, unit: UnitOfWork, before: AssetT, after: AssetT) -> None:
        """What else changes when it does."""

    def _put_aside(
        self, call: Call, name: str, verb: str, *, archived: bool, successor: str | None, force: bool
    ) -> AssetT:
        with self.units.changing(call, "assets") as unit:
            if (before := unit.recall(self.kind)) is not None:
                return before
            record = self.find(unit, name, Permission.SHARE)
            unit.check_free(record, self.noun, force=force)
            if successor is not None:
                self._check_successor(unit, record, successor)
            after = replace(record, archived=archived, successor=successor, **unit.next(record))
            unit.save(record, after, f"{self.code}.{verb}", record.name, record.scope)
            return unit.remember(keep_revision(unit, after))

    def _authorize(self, unit: UnitOfWork, asset: NamedRequirements, permission: Permission = Permission.SHARE) -> None:
        if asset.scope not in unit.organization.scopes or not unit.permissions.sees(asset.scope):
            violation = Violation("scope", "scope", f"there is no {asset.scope}", "choose a scope that you see")
            raise RequestRejected([violation])
        unit.require(permission, asset.scope, asset.scope)

    def _refuse_wrong(self, unit: UnitOfWork, asset: NamedRequirements) -> None:
        _refuse_revision(asset)
        found = [finding for finding in _placed(self.try_out(unit, asset)) if isinstance(finding, Violation)]
        if found:
            raise RequestRejected(found)

    def _check_successor(self, unit: UnitOfWork, record: AssetT, successor: str) -> None:
        other = unit.tx.get(self.kind, name=successor)
        reason = None
        if other is None or not unit.permissions.sees(other.scope):
            reason = f"there is no {self.noun} {short_repr(successor)}"
        elif other.id == record.id or other.archived:
            reason = f"{successor} is {'the same one' if other.id == record.id else 'archived itself'}"
        elif other.scope not in unit.organization.tree.path(record.scope):
            reason = f"{successor} is at {other.scope}, which does not reach all that {record.scope} reaches"
        if reason is not None:
            hint = "choose one that reaches as far, or leave it out"
            raise RequestRejected([Violation("successor", "successor", reason, hint)])

    def _former(self, unit: UnitOfWork, name: str) -> str | None:
        """Where something is that had this name before, for those who may see it."""
        for revision in reversed(unit.tx.find(RevisionRecord, Condition("name", "=", name), limit=MOST_TOLD)):
            record = unit.tx.get(self.kind, id=revision.object_id)
            if record is not None and unit.permissions.sees(record.scope):
                return f"it is called {record.name} now"
        return None


def name_some(users: list[JSON]) -> str:
    """What is in the way, in a sentence: the first few, and how many more."""
    names = ", ".join(f"{user['kind']} {user['name']}" for user in users[:5])
    return names + (f" and {len(users) - 5} more" if len(users) > 5 else "")


def keep_revision(unit: UnitOfWork, record: AssetT) -> AssetT:
    """Remember for ever what an asset is now."""
    known = {field.name for field in fields(record)}
    content = {name: getattr(record, name) for name in CONTENT if name in known}
    unit.tx.add(
        RevisionRecord(
            id=unit.make_id(),
            object_id=record.id,
            number=record.revision,
            name=record.name,
            content=content,
            created_by=record.updated_by,
            created_at=record.updated_at,
        )
    )
    return record


def _placed(trial: LintResult) -> tuple[Finding, ...]:
    """What is wrong with something, where it stands in what was written."""
    found = trial.findings
    return tuple(replace(item, path=".".join(filter(None, ("requirements", item.path)))) for item in found)


def _refuse_revision(asset: NamedRequirements) -> None:
    if asset.revision is not None:
        violation = Violation("revision", "read_only", "is counted by the server", "leave it out")
        raise RequestRejected([violation])
