"""Declarative configuration: applies documents in one transaction, and exports objects as documents."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.files.documents import Document, Library, write_document
from fairlead.model.columns import Condition
from fairlead.model.plans import Violation
from fairlead.model.records import ComputeResourceRecord, PolicyRecord, ScopeRecord, TemplateRecord
from fairlead.model.scopes import Permission
from fairlead.services.catalog.compute_resources import ComputeResources, Templates
from fairlead.services.catalog.policies import Policies, check_profile
from fairlead.services.organization.scopes import Scopes
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

FOLDER = "folder"  # the watched folder's manager name
# Each kind is applied after the kinds it depends on. A policy restricts compute resources and may reference one, so
# policies are applied and pruned first; the references in policies are checked at the end.
APPLY_ORDER = ("Cluster", "Department", "Project", "Policy", "ComputeResource", "Template")
PRUNE_ORDER = ("Policy", "Template", "ComputeResource", "Project", "Department", "Cluster")
RECORD_TYPES: Mapping[str, type[Any]] = {
    "Cluster": ScopeRecord,
    "Department": ScopeRecord,
    "Project": ScopeRecord,
    "Policy": PolicyRecord,
    "ComputeResource": ComputeResourceRecord,
    "Template": TemplateRecord,
}


@dataclass(frozen=True)
class AppliedChange:
    """The result for one object. `action` is `created`, `changed`, `unchanged` or `removed`."""

    kind: str
    name: str
    action: str


@dataclass(frozen=True)
class ApplyResult:
    """The changes that an apply made or that a dry run would make."""

    changes: list[AppliedChange]
    dry_run: bool = False


@dataclass(frozen=True)
class ApplyOptions:
    """Options for applying documents.

    `manager` becomes the manager of the objects. `prune` deletes the manager's objects that are not in the documents.
    `force` takes over objects from other managers.
    """

    manager: str = "files"  # distinguishes sets of files that are applied to the same platform
    prune: bool = False
    dry_run: bool = False
    force: bool = False


class _DryRunRollback(Exception):  # rolls back a dry run's transaction
    def __init__(self, applied: ApplyResult) -> None:
        self.applied = applied


class ConfigFiles:
    """Applies and exports documents."""

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

    def apply(self, call: Call, library: Library, options: ApplyOptions) -> ApplyResult:
        """Apply all documents in one transaction. Raises `RequestRejected` with all violations."""
        if library.violations:
            raise RequestRejected(library.violations)
        try:
            with self.units.changing(call, "organization", "assets") as unit:
                if (before := unit.find_response(ApplyResult)) is not None:
                    return before
                applied = ApplyResult(list(self._apply_all(unit, library, options)), options.dry_run)
                if options.dry_run:
                    raise _DryRunRollback(applied)
                return unit.store_response(applied)
        except _DryRunRollback as rollback:
            return rollback.applied

    def export(self, call: Call) -> list[dict[str, Any]]:
        """Return all visible objects as documents, in apply order."""
        with self.units.reading(call) as unit:
            return [document for kind in APPLY_ORDER for document in self._documents(unit, kind)]

    def _apply_all(self, unit: UnitOfWork, library: Library, options: ApplyOptions) -> Iterator[AppliedChange]:
        violations: list[Violation] = []
        for kind in APPLY_ORDER:
            for document in (item for item in library.documents if item.kind == kind):
                try:
                    yield self._apply(unit, document, options)
                except RequestRejected as error:
                    violations += (_with_location(violation, document) for violation in error.violations)
                except FairleadError as error:
                    violations.append(_with_location(Violation("", error.code, str(error), error.hint), document))
            # Documents of the next kind can refer to scopes and policies of this kind.
            unit = unit.refreshed()
        for document in (item for item in library.documents if item.kind == "Policy"):
            try:
                check_profile(unit, document.object.defaults.profile, document.object.scope)
            except RequestRejected as error:
                violations += (_with_location(violation, document) for violation in error.violations)
        if violations:
            raise RequestRejected(violations)
        if options.prune:
            yield from self._prune(unit, library, options.manager)

    def _apply(self, unit: UnitOfWork, document: Document, options: ApplyOptions) -> AppliedChange:
        asset = document.object
        record = _find(unit, document.kind, document.name)
        if record is not None and not unit.permissions.sees(record.scope):
            record = None  # treated as new, so the caller learns only that the name is taken
        if record is not None and record.managed_by not in (None, options.manager) and not options.force:
            message = f"it is managed by {record.managed_by}, not by {options.manager}"
            raise Conflict(message, f"apply it as {record.managed_by}, or use force")
        after: Any
        if document.kind == "Policy":
            unit.require(Permission.SHARE, asset.scope, asset.scope)
            after = self.policies.store(unit, asset, record, options.manager)
        elif document.kind in self.assets:
            service = self.assets[document.kind]
            if record is not None:
                # `change` checks permission only for a new scope.
                unit.require(Permission.SHARE, record.scope, document.name)
                after = service.change(unit, record, asset, options.manager)
            else:
                after = service.add(unit, asset, options.manager)
        elif record is not None:
            unit.require(Permission.ADMINISTER, record.scope, record.scope)
            after = self.scopes.change(unit, record, asset, options.manager)
        else:
            after = self.scopes.add(unit, asset, options.manager)
        action = "created" if record is None else "unchanged" if after == record else "changed"
        return AppliedChange(document.kind, document.name, action)

    def _prune(self, unit: UnitOfWork, library: Library, manager: str) -> Iterator[AppliedChange]:
        """Delete the manager's objects that are not in the documents, if the caller has permission."""
        defined = {(document.kind, document.name) for document in library.documents}
        for kind in PRUNE_ORDER:
            for record in unit.tx.find(RECORD_TYPES[kind], Condition("managed_by", "=", manager)):
                # Clusters, departments and projects share one record type.
                if isinstance(record, ScopeRecord) and record.kind != kind.lower():
                    continue
                name = record.scope if kind == "Policy" else record.name
                permission = Permission.SHARE if kind == "Policy" or kind in self.assets else Permission.ADMINISTER
                if (kind, name) in defined or not unit.permissions.may(permission, record.scope):
                    continue
                if kind == "Policy":
                    self.policies.remove(unit, record)
                elif kind in self.assets:
                    self.assets[kind].remove(unit, record)
                else:
                    self.scopes.remove(unit, record)
                yield AppliedChange(kind, name, "removed")

    def _documents(self, unit: UnitOfWork, kind: str) -> Iterator[dict[str, Any]]:
        conditions = unit.visible_scopes()
        if kind in self.assets:
            # Documents cannot represent archived assets.
            conditions.append(Condition("archived", "=", False))
        elif kind != "Policy":
            conditions.append(Condition("kind", "=", kind.lower()))
        for record in unit.tx.find(RECORD_TYPES[kind], *conditions):
            if kind == "Policy":
                yield write_document(kind, {"scope": record.scope, **record.content})
            elif kind in self.assets:
                yield write_document(kind, self.assets[kind].to_model_data(record))
            else:
                yield write_document(kind, {"name": record.name, "parent": record.parent, **record.details})


def _find(unit: UnitOfWork, kind: str, name: str) -> Any:
    if kind == "Policy":
        return unit.tx.get(PolicyRecord, scope=name)
    if RECORD_TYPES[kind] is ScopeRecord:
        return unit.tx.get(ScopeRecord, scope=f"{kind.lower()}/{name}")
    return unit.tx.get(RECORD_TYPES[kind], name=name)


def _with_location(violation: Violation, document: Document) -> Violation:
    return replace(violation, location=f"{document.location}: {document.kind} {document.name}")
