"""Base class for compute resources and templates: named objects in a scope, with revisions and renaming."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from fairlead.errors import Conflict, NotFound, RequestRejected, name_taken
from fairlead.model.assets import Difference, NamedRequirements
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr, violations_of
from fairlead.model.plans import Finding, Sentence, Violation
from fairlead.model.records import JSON, SETTINGS, AssetRecord, PolicyRecord, RevisionRecord, RunRecord, SettingsRecord
from fairlead.model.scopes import PLATFORM, Permission
from fairlead.planning.effective_policies import find_differences
from fairlead.planning.linting import LintResult
from fairlead.ports import ConfigPart
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MAX_LISTED = 50  # usages in an error; enough to see what blocks a deletion
# Asset fields that are stored in each revision.
REVISION_FIELDS = (
    "name",
    "description",
    "scope",
    "requirements",
    "workload_types",
    "archived",
    "successor",
    "managed_by",
)

AssetT = TypeVar("AssetT", bound=AssetRecord)


@dataclass(frozen=True)
class AssetCheck:
    """The violations and warnings found in an asset, and a description of the pods that use it."""

    findings: tuple[Finding, ...]
    sentences: tuple[Sentence, ...]


class Assets(Generic[AssetT]):
    """Lists, creates, changes, archives and deletes assets of one kind."""

    noun: ClassVar[str]  # used in messages
    code: ClassVar[str]  # prefix of its actions in the audit log
    kind: type[AssetT]
    model: ClassVar[type[NamedRequirements]]
    used_as: ClassVar[str]  # the run field that holds the asset's name

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, query: ListQuery) -> Page[AssetT]:
        """List the visible assets. Archived ones are included only if the query filters by `archived`."""
        with self.units.reading(call) as unit:
            within = unit.visible_scopes()
            if not any(name == "archived" for name, _ in query.filters):
                within.append(Condition("archived", "=", False))
            return load_page(unit.tx, self.kind, query, sort="name", within=within)

    def get(self, call: Call, name: str) -> AssetT:
        """Return one asset."""
        with self.units.reading(call) as unit:
            return self.find(unit, name)

    def check(self, call: Call, asset: NamedRequirements) -> AssetCheck:
        """Check an asset without storing it."""
        with self.units.reading(call) as unit:
            self._authorize(unit, asset, Permission.VIEW)
            result = self.lint(unit, asset)
            return AssetCheck(_prefix_paths(result), result.sentences)

    def create(self, call: Call, asset: NamedRequirements) -> AssetT:
        """Create an asset."""
        with self.units.changing(call, "assets") as unit:
            return unit.find_response(self.kind) or unit.store_response(self.add(unit, asset))

    def edit(self, call: Call, name: str, change: Mapping[str, Any], *, force: bool = False) -> AssetT:
        """Replace the given fields of an asset. A new name renames it."""
        change = self.normalize_names(change)
        # Renaming an asset also changes the policies that reference it.
        more: tuple[ConfigPart, ...] = ("organization",) if "name" in change else ()
        with self.units.changing(call, "assets", *more) as unit:
            record = self.find(unit, name, Permission.SHARE)
            unit.check_writable(record, self.noun, force=force)
            return self.change(unit, record, self.merge(record, change))

    def copy(self, call: Call, name: str, change: Mapping[str, Any]) -> AssetT:
        """Create a copy of an asset with the given fields changed."""
        with self.units.changing(call, "assets") as unit:
            if (before := unit.find_response(self.kind)) is not None:
                return before
            record = self.find(unit, name)
            change = self.normalize_names(change)
            if "name" not in change:
                violation = Violation("name", "required", "is missing", "set the name of the copy")
                raise RequestRejected([violation])
            return unit.store_response(self.add(unit, self.merge(record, change)))

    def archive(self, call: Call, name: str, successor: str | None, *, force: bool = False) -> AssetT:
        """Archive an asset: it is no longer offered, and runs that reference it use its successor."""
        return self._set_archived(call, name, "archive", archived=True, successor=successor, force=force)

    def restore(self, call: Call, name: str, *, force: bool = False) -> AssetT:
        """Restore an archived asset."""
        return self._set_archived(call, name, "restore", archived=False, successor=None, force=force)

    def delete(self, call: Call, name: str, *, force: bool = False) -> None:
        """Delete an asset. Its revisions remain. Raises `Conflict` if it is in use."""
        with self.units.changing(call, "assets") as unit:
            record = self.find(unit, name, Permission.SHARE)
            unit.check_writable(record, self.noun, force=force)
            self.remove(unit, record)

    def revisions(self, call: Call, name: str) -> list[RevisionRecord]:
        """Return all revisions of an asset, newest first."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            # Records are sorted by ID, which begins with the creation time.
            return unit.tx.find(RevisionRecord, Condition("object_id", "=", record.id))[::-1]

    def compare(self, call: Call, name: str, old: int, new: int) -> list[Difference]:
        """Return the differences between two revisions."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            revisions = [unit.tx.get(RevisionRecord, object_id=record.id, number=number) for number in (old, new)]
            for number, revision in zip((old, new), revisions, strict=True):
                if revision is None:
                    message = f"revision {number} of {self.noun} {name} does not exist"
                    raise NotFound(message, f"use a revision from 1 to {record.revision}")
            before, after = (revision.content for revision in revisions if revision is not None)
            return find_differences(before, after)

    def workloads(self, call: Call, name: str, query: ListQuery) -> Page[RunRecord]:
        """List the runs that use an asset: only active ones, unless the query filters by `active` or `state`."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            within = [*unit.visible_scopes(), Condition(f"{self.used_as}_id", "=", record.id)]
            if not any(column in ("active", "state") for column, _ in query.filters):
                within.append(Condition("active", "=", True))
            return load_page(unit.tx, RunRecord, query, sort="-created_at", within=within)

    def find(self, unit: UnitOfWork, name: str, permission: Permission = Permission.VIEW) -> AssetT:
        """Return an asset by name or ID. Raises `NotFound` if not visible, `Forbidden` if permission is missing."""
        # An ID stays valid when the asset is renamed.
        record = unit.tx.get(self.kind, name=name) or unit.tx.get(self.kind, id=name)
        if record is None or not unit.permissions.sees(record.scope):
            raise NotFound(f"{self.noun} {short_repr(name)} does not exist", self._find_new_name(unit, name))
        if permission is not Permission.VIEW:
            unit.require(permission, record.scope, f"{self.noun} {short_repr(name)}")
        return record

    def add(self, unit: UnitOfWork, asset: NamedRequirements, managed_by: str | None = None) -> AssetT:
        """Create an asset in a unit of work."""
        self._authorize(unit, asset)
        self._reject_violations(unit, asset)
        if unit.tx.get(self.kind, name=asset.name) is not None:
            raise name_taken(self.noun, asset.name)
        record = self.kind(**unit.creation_fields(), **self.to_fields(unit, asset), managed_by=managed_by)
        return store_revision(unit, unit.add(record, self.code, record.name, record.scope))

    def change(
        self, unit: UnitOfWork, record: AssetT, asset: NamedRequirements, managed_by: str | None = None
    ) -> AssetT:
        """Change an asset in a unit of work. Creates a new revision only if a field changes."""
        _reject_revision(asset)
        # An edit does not change the manager, even with `force`, so the manager's next apply overwrites the edit.
        values = self.to_fields(unit, asset) | {"managed_by": managed_by or record.managed_by}
        if all(getattr(record, name) == value for name, value in values.items()):
            return record
        # Permission for the current scope was checked when the record was loaded.
        if asset.scope != record.scope:
            self._authorize(unit, asset)
        self._reject_violations(unit, asset)
        other = unit.tx.get(self.kind, name=asset.name)
        if other is not None and other.id != record.id:
            raise name_taken(self.noun, asset.name)
        action = f"{self.code}.{'rename' if asset.name != record.name else 'edit'}"
        changed = replace(record, **values, **unit.update_fields(record))
        after = unit.save(record, changed, action, asset.name, asset.scope)
        self.update_references(unit, record, after)
        return store_revision(unit, after)

    def remove(self, unit: UnitOfWork, record: AssetT) -> None:
        """Delete an asset in a unit of work. Raises `Conflict` if it is in use."""
        usages = self.find_usages(unit, record)
        if usages:
            hint = "remove these usages first, or archive it instead"
            raise Conflict(f"{self.noun} {record.name} is used by {format_objects(usages)}", hint, usages)
        unit.remove(record, self.code, record.name, record.scope)

    def merge(self, record: AssetT, change: Mapping[str, Any]) -> Any:
        """Return a record's asset with some fields replaced."""
        return self.parse({**self.to_model_data(record), **change})

    def normalize_names(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Replace field aliases with the field names. Raises `RequestRejected` if a field is given twice."""
        normalized = {self.model.canonical_name(name): value for name, value in change.items()}
        if len(normalized) < len(change):
            violation = Violation("", "duplicate", "sets the same field under two names", "keep one of them")
            raise RequestRejected([violation])
        return normalized

    def parse(self, data: Mapping[str, Any]) -> Any:
        """Parse an asset. Raises `RequestRejected` with all violations."""
        try:
            return self.model.model_validate(data)
        except ValidationError as error:
            raise RequestRejected(violations_of(error, self.model)) from error

    def to_fields(self, unit: UnitOfWork, asset: NamedRequirements) -> JSON:
        """Convert an asset to the fields of its record."""
        return {
            "name": asset.name,
            "description": asset.description,
            "scope": asset.scope,
            "cluster": unit.organization.tree.cluster_of(asset.scope),
            "requirements": asset.requirements.to_data(),
        }

    def to_model_data(self, record: AssetT) -> JSON:
        """Convert a record to the fields of its model."""
        data = {"name": record.name, "description": record.description, "scope": record.scope}
        return {**data, "requirements": record.requirements}

    def lint(self, unit: UnitOfWork, asset: Any) -> LintResult:
        """Plan example runs that use the asset, under the policies of its scope."""
        raise NotImplementedError

    def find_usages(self, unit: UnitOfWork, record: AssetT) -> list[JSON]:
        """Return the objects that use an asset and prevent its deletion."""
        conditions = (Condition(f"{self.used_as}_id", "=", record.id), Condition("active", "=", True))
        runs = unit.tx.find(RunRecord, *conditions, limit=MAX_LISTED)
        return [{"kind": "run", "name": run.id, "scope": run.scope, "state": run.state} for run in runs]

    def update_references(self, unit: UnitOfWork, before: AssetT, after: AssetT) -> None:
        """Update or check the objects that reference an asset after it has changed."""

    def _set_archived(
        self, call: Call, name: str, verb: str, *, archived: bool, successor: str | None, force: bool
    ) -> AssetT:
        with self.units.changing(call, "assets") as unit:
            if (before := unit.find_response(self.kind)) is not None:
                return before
            record = self.find(unit, name, Permission.SHARE)
            unit.check_writable(record, self.noun, force=force)
            if successor is not None:
                self._check_successor(unit, record, successor)
            after = replace(record, archived=archived, successor=successor, **unit.update_fields(record))
            unit.save(record, after, f"{self.code}.{verb}", record.name, record.scope)
            return unit.store_response(store_revision(unit, after))

    def _authorize(self, unit: UnitOfWork, asset: NamedRequirements, permission: Permission = Permission.SHARE) -> None:
        if asset.scope not in unit.organization.scopes or not unit.permissions.sees(asset.scope):
            violation = Violation("scope", "scope", f"{asset.scope} does not exist", "use a scope that you can see")
            raise RequestRejected([violation])
        unit.require(permission, asset.scope, asset.scope)

    def _reject_violations(self, unit: UnitOfWork, asset: NamedRequirements) -> None:
        _reject_revision(asset)
        violations = [finding for finding in _prefix_paths(self.lint(unit, asset)) if isinstance(finding, Violation)]
        if violations:
            raise RequestRejected(violations)

    def _check_successor(self, unit: UnitOfWork, record: AssetT, successor: str) -> None:
        other = unit.tx.get(self.kind, name=successor)
        reason = None
        if other is None or not unit.permissions.sees(other.scope):
            reason = f"{self.noun} {short_repr(successor)} does not exist"
        elif other.id == record.id:
            reason = f"{successor} cannot be its own successor"
        elif other.archived:
            reason = f"{successor} is archived"
        elif other.scope not in unit.organization.tree.path(record.scope):
            reason = f"{successor} is in {other.scope}, so it is not available everywhere in {record.scope}"
        if reason is not None:
            hint = f"use one in {record.scope} or in a scope that contains it, or omit successor"
            raise RequestRejected([Violation("successor", "successor", reason, hint)])

    def _find_new_name(self, unit: UnitOfWork, name: str) -> str | None:
        """Return a hint with a renamed asset's new name, if the caller can see it."""
        # Several assets may have had this name, so newer revisions are tried first.
        for revision in reversed(unit.tx.find(RevisionRecord, Condition("name", "=", name), limit=MAX_LISTED)):
            record = unit.tx.get(self.kind, id=revision.object_id)
            if record is not None and unit.permissions.sees(record.scope):
                return f"use its new name: {record.name}"
        return None


def format_objects(objects: list[JSON]) -> str:
    """Format the first five objects in a list, and the number of remaining ones."""
    names = ", ".join(f"{item['kind']} {item['name']}" for item in objects[:5])
    return names + (f" and {len(objects) - 5} more" if len(objects) > 5 else "")


def store_revision(unit: UnitOfWork, record: AssetT) -> AssetT:
    """Store the content of an asset as its newest revision."""
    existing = {field.name for field in fields(record)}  # templates have no `workload_types`
    content = {name: getattr(record, name) for name in REVISION_FIELDS if name in existing}
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


def _prefix_paths(result: LintResult) -> tuple[Finding, ...]:
    """Return the findings with paths relative to the asset: paths in a plan lack the `requirements` level."""
    findings = result.findings
    return tuple(replace(item, path=".".join(filter(None, ("requirements", item.path)))) for item in findings)


def _reject_revision(asset: NamedRequirements) -> None:
    if asset.revision is not None:
        violation = Violation("revision", "read_only", "is set by the server", "remove it")
        raise RequestRejected([violation])


def rewrite_policies(unit: UnitOfWork, field: str, old: str, new: str) -> None:
    """Replace a name in one field of all policies and of the platform defaults."""
    # No permission for these policies is required, because a rename must never leave a reference to a missing object.
    for policy in unit.tx.find(PolicyRecord):
        content = _rewrite(policy.content, field, old, new)
        if content != policy.content:
            after = replace(policy, content=content, **unit.update_fields(policy))
            unit.save(policy, after, "policy.edit", policy.scope, policy.scope)
    settings = unit.tx.get(SettingsRecord, id=SETTINGS)
    if settings is not None and settings.defaults.get(field) == old:
        changed = replace(settings, defaults=settings.defaults | {field: new}, **unit.update_fields(settings))
        unit.save(settings, changed, "settings.edit", SETTINGS, PLATFORM)


def _rewrite(content: JSON, field: str, old: str, new: str) -> JSON:
    defaults, rules = content.get("defaults", {}), content.get("rules", {})
    if defaults.get(field) == old:
        content = content | {"defaults": defaults | {field: new}}
    options = rules.get(field, {}).get("options", ())
    if old in options:
        renamed = [new if option == old else option for option in options]
        content = content | {"rules": rules | {field: rules[field] | {"options": renamed}}}
    return content
