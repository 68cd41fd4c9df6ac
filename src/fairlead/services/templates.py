"""Templates: starting points that users may change."""

from dataclasses import replace
from typing import Any

from fairlead.core import linting
from fairlead.core.linting import LintResult
from fairlead.errors import Conflict
from fairlead.model.compute_resources import Template
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, TemplateRecord
from fairlead.model.requests import RunRequest
from fairlead.services.assets import MOST_TOLD, Assets, keep_revision
from fairlead.services.name_references import rewrite_policies
from fairlead.services.snapshots import build_planning_context, look_up
from fairlead.services.unit_of_work import UnitOfWork


class Templates(Assets[TemplateRecord]):
    """The use cases of templates."""

    noun, code, used_as = "template", "template", "template"
    kind, model = TemplateRecord, Template

    def try_out(self, unit: UnitOfWork, asset: Any) -> LintResult:
        context = build_planning_context(unit.tx, unit.organization, asset.scope, None)
        asked = {"function": "template", "profile": asset.requirements.profile}
        look_up(unit.tx, context, RunRequest.model_validate(asked))
        return linting.lint_template(asset, context.snapshot, unit.clusters_near(asset.scope))

    def to_fields(self, unit: UnitOfWork, asset: Any) -> JSON:
        return {**super().to_fields(unit, asset), "compute_resource": asset.requirements.profile}

    def follow(self, unit: UnitOfWork, before: TemplateRecord, after: TemplateRecord) -> None:
        """Rules of policies that name it, and what it succeeds, keep naming it."""
        predecessors = unit.tx.find(TemplateRecord, Condition("successor", "=", before.name))
        path = unit.organization.tree.path
        lost = [item for item in predecessors if after.scope not in path(item.scope)]
        if lost:
            users = [{"kind": "archived template", "name": item.name, "scope": item.scope} for item in lost]
            message = f"archived template {lost[0].name} of {lost[0].scope} leads to it and would not see it there"
            raise Conflict(message, "choose a scope above it, or give it another successor", users)
        if after.name != before.name:
            rewrite_policies(unit, "template", before.name, after.name)
            for archived in predecessors:
                changed = replace(archived, successor=after.name, **unit.next(archived))
                keep_revision(unit, unit.save(archived, changed, "template.edit", archived.name, archived.scope))

    def users(self, unit: UnitOfWork, record: TemplateRecord) -> list[JSON]:
        archived = unit.tx.find(TemplateRecord, Condition("successor", "=", record.name), limit=MOST_TOLD)
        users = [{"kind": "archived template", "name": item.name, "scope": item.scope} for item in archived]
        return [*super().users(unit, record), *users]
