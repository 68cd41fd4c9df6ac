"""Files as the truth: documents are applied all together or not at all, and written back as they would be applied."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.files.documents import Document, Library, write_document
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import ComputeResourceRecord, PolicyRecord, ScopeRecord, TemplateRecord
from fairlead.model.roles import Permission
from fairlead.services.calls import Call
from fairlead.services.compute_resources import ComputeResources
from fairlead.services.policies import Policies, check_profile
from fairlead.services.scopes import Scopes
from fairlead.services.templates import Templates
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

FOLDER = "folder"  # the manager of the watched folder
# In the order in which they need each other. A policy bounds compute resources and may name one, so it comes before
# them both ways.
ORDER = ("Cluster", "Department", "Project", "Policy", "ComputeResource", "Template")
PRUNED = ("Policy", "Template", "ComputeResource", "Project", "Department", "Cluster")
RECORDS: Mapping[str, type[Any]] = {
    "Cluster": ScopeRecord,
    "Department": ScopeRecord,
    "Project": ScopeRecord,
    "Policy": PolicyRecord,
    "ComputeResource": ComputeResourceRecord,
    "Template": TemplateRecord,
}


@dataclass(frozen=True)
class Change:
    """What applying did to one object: `created`, `changed`, `unchanged` or `removed`."""

    kind: str
    name: str
    action: str


@dataclass(frozen=True)
class Applied:
    """What applying did, or would do."""

    changes: list[Change]
    dry_run: bool = False


@dataclass(frozen=True)
class Apply:
    """How documents are applied: in whose name, whether what is gone from them is removed, and over whom."""

    manager: str = "files"
    prune: bool = False
    dry_run: bool = False
    force: bool = False


class _Undone(Exception):  # not an error: how a dry run leaves its transaction
    def __init__(self, applied: Applied) -> None:
        self.applied = applied


class ConfigFiles:
    """The use cases of files."""

    def __init__(
        self,
        units: UnitOfWorkFactory,
        scopes: Scopes,
        policies: Policies,
        resources: ComputeResources,
        templates: Templates,
    ) -> None:
        self.units, self.scopes, self.policies = units, scopes, policies
        self.assets: Mapping[str, Any] = {"ComputeResource": resources, "Template": templates}

    def apply(self, call: Call, library: Library, how: Apply) -> Applied:
        """Make everything as the documents say, in one transaction. Raises with everything that is wrong."""
        if library.violations:
            raise RequestRejected(library.violations)
        try:
            with self.units.changing(call, "organization", "assets") as unit:
                if (before := unit.recall(Applied)) is not None:
                    return before
                applied = Applied(list(self._apply_all(unit, library, how)), how.dry_run)
                if how.dry_run:
                    raise _Undone(applied)
                return unit.remember(applied)
        except _Undone as undone:
            return undone.applied

    def export(self, call: Call) -> list[dict[str, Any]]:
        """Everything that the caller sees, as documents in the order in which they are applied."""
        with self.units.reading(call) as unit:
            return [document for kind in ORDER for document in self._documents(unit, kind)]

    def _apply_all(self, unit: UnitOfWork, library: Library, how: Apply) -> Iterator[Change]:
        violations: list[Violation] = []
        for kind in ORDER:
            for document in (item for item in library.documents if item.kind == kind):
                try:
                    yield self._apply(unit, document, how)
                except RequestRejected as error:
                    violations += (_at(found, document) for found in error.violations)
                except FairleadError as error:
                    violations.append(_at(Violation("", error.code, str(error), error.hint), document))
            unit = unit.refreshed()
        for document in (item for item in library.documents if item.kind == "Policy"):
            try:
                check_profile(unit, document.object.defaults.profile, document.object.scope)
            except RequestRejected as error:
                violations += (_at(found, document) for found in error.violations)
        if violations:
            raise RequestRejected(violations)
        if how.prune:
            yield from self._prune(unit, library, how.manager)

    def _apply(self, unit: UnitOfWork, document: Document, how: Apply) -> Change:
        asset = document.object
        record = _find(unit, document.kind, document.name)
        if record is not None and not unit.permissions.sees(record.scope):
            record = None  # that the name is taken is all that may be told of it
        if record is not None and record.managed_by not in (None, how.manager) and not how.force:
            message = f"it is managed by {record.managed_by}, not by {how.manager}"
            raise Conflict(message, "apply it where it is managed, or use force")
        after: Any
        if document.kind == "Policy":
            unit.require(Permission.SHARE, asset.scope, asset.scope)
            after = self.policies.keep(unit, asset, record, how.manager)
        elif document.kind in self.assets:
            service = self.assets[document.kind]
            if record is not None:
                unit.require(Permission.SHARE, record.scope, document.name)
                after = service.change(unit, record, asset, how.manager)
            else:
                after = service.add(unit, asset, how.manager)
        elif record is not None:
            unit.require(Permission.ADMINISTER, record.scope, record.scope)
            after = self.scopes.change(unit, record, asset, how.manager)
        else:
            after = self.scopes.add(unit, asset, how.manager)
        action = "created" if record is None else "unchanged" if after == record else "changed"
        return Change(document.kind, document.name, action)

    def _prune(self, unit: UnitOfWork, library: Library, manager: str) -> Iterator[Change]:
        """Remove what this manager made and no document says any more, where the caller may."""
        said = {(document.kind, document.name) for document in library.documents}
        for kind in PRUNED:
            for record in unit.tx.find(RECORDS[kind], Condition("managed_by", "=", manager)):
                if isinstance(record, ScopeRecord) and record.kind != kind.lower():
                    continue
                name = record.scope if kind == "Policy" else record.name
                permission = Permission.SHARE if kind == "Policy" or kind in self.assets else Permission.ADMINISTER
                if (kind, name) in said or not unit.permissions.may(permission, record.scope):
                    continue
                if kind == "Policy":
                    unit.remove(record, "policy", record.scope, record.scope)
                elif kind in self.assets:
                    self.assets[kind].drop(unit, record)
                else:
                    self.scopes.drop(unit, record)
                yield Change(kind, name, "removed")

    def _documents(self, unit: UnitOfWork, kind: str) -> Iterator[dict[str, Any]]:
        conditions = unit.in_sight()
        if kind in self.assets:
            conditions.append(Condition("archived", "=", False))
        elif kind != "Policy":
            conditions.append(Condition("kind", "=", kind.lower()))
        for record in unit.tx.find(RECORDS[kind], *conditions):
            if kind == "Policy":
                yield write_document(kind, {"scope": record.scope, **record.content})
            elif kind in self.assets:
                yield write_document(kind, self.assets[kind].to_written(record))
            else:
                yield write_document(kind, {"name": record.name, "parent": record.parent, **record.details})


def _find(unit: UnitOfWork, kind: str, name: str) -> Any:
    if kind == "Policy":
        return unit.tx.get(PolicyRecord, scope=name)
    if RECORDS[kind] is ScopeRecord:
        return unit.tx.get(ScopeRecord, scope=f"{kind.lower()}/{name}")
    return unit.tx.get(RECORDS[kind], name=name)


def _at(found: Violation, document: Document) -> Violation:
    return replace(found, location=f"{document.location}: {document.kind} {document.name}")
