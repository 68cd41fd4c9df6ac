"""Templates: default values for runs, which users can override."""

from dataclasses import replace
from typing import Any

from fairlead.errors import Conflict
from fairlead.model.assets import Template
from fairlead.model.columns import Condition
from fairlead.model.records import JSON, TemplateRecord
from fairlead.model.requests import RunRequest
from fairlead.planning import linting
from fairlead.planning.linting import LintResult
from fairlead.services.assets import MAX_LISTED, Assets, store_revision
from fairlead.services.name_references import rewrite_policies
from fairlead.services.snapshots import build_planning_context, resolve_names
from fairlead.services.unit_of_work import UnitOfWork


class Templates(Assets[TemplateRecord]):
    """Manages templates."""

    noun, code, used_as = "template", "template", "template"
    kind, model = TemplateRecord, Template

    def lint(self, unit: UnitOfWork, asset: Any) -> LintResult:
        # The snapshot cache is not used: this transaction may have changed the configuration, and may be rolled back.
        context = build_planning_context(unit.tx, unit.organization, asset.scope, None)
        request = {"function": "template", "profile": asset.requirements.profile}
        resolve_names(unit.tx, context, RunRequest.model_validate(request))
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
