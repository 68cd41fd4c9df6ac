"""Compute resources (named hardware presets) and templates (default values) for runs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairlead.errors import Conflict
from fairlead.model.assets import ComputeResource, Template
from fairlead.model.columns import Condition
from fairlead.model.records import JSON, SETTINGS, ComputeResourceRecord, PolicyRecord, SettingsRecord, TemplateRecord
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import PLATFORM
from fairlead.planning import linting
from fairlead.planning.linting import LintResult
from fairlead.services.catalog.assets import MAX_LISTED, Assets, rewrite_policies, store_revision
from fairlead.services.catalog.snapshots import build_planning_context
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork


class ComputeResources(Assets[ComputeResourceRecord]):
    """Manages compute resources."""

    noun, code, used_as = "compute resource", "compute_resource", "compute_resource"
    kind, model = ComputeResourceRecord, ComputeResource

    def templates(self, call: Call, name: str) -> list[TemplateRecord]:
        """Return the visible templates that use a compute resource."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            uses_it = Condition("compute_resource", "=", record.name)
            return unit.tx.find(TemplateRecord, uses_it, *unit.visible_scopes())

    def lint(self, unit: UnitOfWork, asset: Any) -> LintResult:
        organization, clusters = unit.organization, unit.clusters_near(asset.scope)
        policies = organization.policies_of(asset.scope)
        # Strict: the server knows every policy, so a feature that none of them allows is a violation, not a warning.
        return linting.lint_compute_resource(asset, policies, clusters, platform=organization.defaults, strict=True)

    def to_fields(self, unit: UnitOfWork, asset: Any) -> JSON:
        types = None if asset.workload_types is None else list(asset.workload_types)
        return {**super().to_fields(unit, asset), "workload_types": types}

    def to_model_data(self, record: ComputeResourceRecord) -> JSON:
        return {**super().to_model_data(record), "workload_types": record.workload_types}

    def find_usages(self, unit: UnitOfWork, record: ComputeResourceRecord) -> list[JSON]:
        references = (_to_reference(noun, item) for noun, item in self._find_references(unit, record.name))
        return [*super().find_usages(unit, record), *references]

    def update_references(self, unit: UnitOfWork, before: ComputeResourceRecord, after: ComputeResourceRecord) -> None:
        """Update references to a renamed compute resource. Raises `Conflict` if one is outside its new scope."""
        references = list(self._find_references(unit, before.name))
        path = unit.organization.tree.path
        lost = [(noun, item) for noun, item in references if after.scope not in path(item.scope)]
        if lost:
            noun, item = lost[0]
            message = f"{noun} {_name_of(item)} in {item.scope} uses it, but it would no longer be available there"
            hint = "use a scope that contains all objects that use it, or change those objects first"
            raise Conflict(message, hint, [_to_reference(noun, item) for noun, item in lost])
        if after.name != before.name:
            self._rename_in_assets(unit, [item for _, item in references], after.name)
            rewrite_policies(unit, "profile", before.name, after.name)

    def _find_references(self, unit: UnitOfWork, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the objects that reference a compute resource: templates, policies, settings and predecessors."""
        yield from (
            ("template", item) for item in unit.tx.find(TemplateRecord, Condition("compute_resource", "=", name))
        )
        # There are few policies, and conditions cannot search their JSON content.
        for policy in unit.tx.find(PolicyRecord):
            if policy.content.get("defaults", {}).get("profile") == name:
                yield "policy", policy
        settings = unit.tx.get(SettingsRecord, id=SETTINGS)
        if settings is not None and settings.defaults.get("profile") == name:
            # Settings have no scope, so checks and messages use the platform.
            yield "settings", unit.organization.scopes[PLATFORM]
        successor = Condition("successor", "=", name)
        yield from (("archived compute resource", item) for item in unit.tx.find(ComputeResourceRecord, successor))

    def _rename_in_assets(self, unit: UnitOfWork, items: list[Any], name: str) -> None:
        # Each save creates a new revision number, which needs an entry in the history.
        for item in items:
            if isinstance(item, TemplateRecord):
                requirements = item.requirements | {"profile": name}
                after = replace(item, requirements=requirements, compute_resource=name, **unit.update_fields(item))
                store_revision(unit, unit.save(item, after, "template.edit", item.name, item.scope))
            elif isinstance(item, ComputeResourceRecord):
                archived = replace(item, successor=name, **unit.update_fields(item))
                store_revision(unit, unit.save(item, archived, "compute_resource.edit", item.name, item.scope))


def _to_reference(noun: str, item: Any) -> JSON:
    return {"kind": noun, "name": _name_of(item), "scope": item.scope}


def _name_of(item: Any) -> str:
    return str(getattr(item, "name", item.scope))


class Templates(Assets[TemplateRecord]):
    """Manages templates."""

    noun, code, used_as = "template", "template", "template"
    kind, model = TemplateRecord, Template

    def lint(self, unit: UnitOfWork, asset: Any) -> LintResult:
        # The snapshot cache is not used: this transaction may have changed the configuration, and may be rolled back.
        request = RunRequest.model_validate({"function": "template", "profile": asset.requirements.profile})
        context = build_planning_context(unit.tx, unit.organization, asset.scope, None, request)
        return linting.lint_template(asset, context.snapshot, unit.clusters_near(asset.scope))

    def to_fields(self, unit: UnitOfWork, asset: Any) -> JSON:
        return {**super().to_fields(unit, asset), "compute_resource": asset.requirements.profile}

    def update_references(self, unit: UnitOfWork, before: TemplateRecord, after: TemplateRecord) -> None:
        """Update references to a renamed template. Raises `Conflict` if one is outside its new scope."""
        predecessors = unit.tx.find(TemplateRecord, Condition("successor", "=", before.name))
        path = unit.organization.tree.path
        lost = [item for item in predecessors if after.scope not in path(item.scope)]
        if lost:
            references = [{"kind": "archived template", "name": item.name, "scope": item.scope} for item in lost]
            first = lost[0]
            message = f"it is the successor of template {first.name} in {first.scope}, but would not be available there"
            hint = f"use a scope that contains {first.scope}, or choose a different successor for {first.name}"
            raise Conflict(message, hint, references)
        if after.name != before.name:
            rewrite_policies(unit, "template", before.name, after.name)
            for archived in predecessors:
                changed = replace(archived, successor=after.name, **unit.update_fields(archived))
                store_revision(unit, unit.save(archived, changed, "template.edit", archived.name, archived.scope))

    def find_usages(self, unit: UnitOfWork, record: TemplateRecord) -> list[JSON]:
        archived = unit.tx.find(TemplateRecord, Condition("successor", "=", record.name), limit=MAX_LISTED)
        references = [{"kind": "archived template", "name": item.name, "scope": item.scope} for item in archived]
        return [*super().find_usages(unit, record), *references]
