"""Compute resources: what administrators offer, and who may see it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairlead.core import linting
from fairlead.core.linting import LintResult
from fairlead.errors import Conflict
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, SETTINGS, ComputeResourceRecord, PolicyRecord, SettingsRecord, TemplateRecord
from fairlead.model.scopes import PLATFORM
from fairlead.services.assets import Assets, keep_revision
from fairlead.services.calls import Call
from fairlead.services.name_references import rewrite_policies
from fairlead.services.unit_of_work import UnitOfWork


class ComputeResources(Assets[ComputeResourceRecord]):
    """The use cases of compute resources."""

    noun, code, used_as = "compute resource", "compute_resource", "compute_resource"
    kind, model = ComputeResourceRecord, ComputeResource

    def templates(self, call: Call, name: str) -> list[TemplateRecord]:
        """The templates that name it and that the caller sees."""
        with self.units.reading(call) as unit:
            record = self.find(unit, name)
            named = Condition("compute_resource", "=", record.name)
            return unit.tx.find(TemplateRecord, named, *unit.in_sight())

    def try_out(self, unit: UnitOfWork, asset: Any) -> LintResult:
        policies, near = unit.organization.policies_of(asset.scope), unit.clusters_near(asset.scope)
        return linting.lint_compute_resource(asset, policies, near, platform=unit.organization.defaults, firm=True)

    def to_fields(self, unit: UnitOfWork, asset: Any) -> JSON:
        types = None if asset.workload_types is None else list(asset.workload_types)
        return {**super().to_fields(unit, asset), "workload_types": types}

    def to_written(self, record: ComputeResourceRecord) -> JSON:
        return {**super().to_written(record), "workload_types": record.workload_types}

    def users(self, unit: UnitOfWork, record: ComputeResourceRecord) -> list[JSON]:
        return [*super().users(unit, record), *(_told(noun, user) for noun, user in self._namers(unit, record.name))]

    def follow(self, unit: UnitOfWork, before: ComputeResourceRecord, after: ComputeResourceRecord) -> None:
        """Whatever names it keeps naming it, and none may lose sight of it."""
        namers = list(self._namers(unit, before.name))
        path = unit.organization.tree.path
        lost = [(noun, user) for noun, user in namers if after.scope not in path(user.scope)]
        if lost:
            noun, user = lost[0]
            message = f"{noun} {_name_of(user)} of {user.scope} names it and would not see it at {after.scope}"
            hint = "choose a scope above all that name it, or change them first"
            raise Conflict(message, hint, [_told(noun, user) for noun, user in lost])
        if after.name != before.name:
            self._rename_in_assets(unit, [user for _, user in namers], after.name)
            rewrite_policies(unit, "profile", before.name, after.name)

    def _namers(self, unit: UnitOfWork, name: str) -> Iterator[tuple[str, Any]]:
        """What names a compute resource: templates, policies, the platform's defaults, and what it succeeds."""
        yield from (
            ("template", item) for item in unit.tx.find(TemplateRecord, Condition("compute_resource", "=", name))
        )
        for policy in unit.tx.find(PolicyRecord):
            if policy.content.get("defaults", {}).get("profile") == name:
                yield "policy", policy
        settings = unit.tx.get(SettingsRecord, id=SETTINGS)
        if settings is not None and settings.defaults.get("profile") == name:
            yield "settings", unit.organization.scopes[PLATFORM]
        successor = Condition("successor", "=", name)
        yield from (("archived compute resource", item) for item in unit.tx.find(ComputeResourceRecord, successor))

    def _rename_in_assets(self, unit: UnitOfWork, users: list[Any], name: str) -> None:
        for user in users:
            if isinstance(user, TemplateRecord):
                requirements = user.requirements | {"profile": name}
                after = replace(user, requirements=requirements, compute_resource=name, **unit.next(user))
                keep_revision(unit, unit.save(user, after, "template.edit", user.name, user.scope))
            elif isinstance(user, ComputeResourceRecord):
                archived = replace(user, successor=name, **unit.next(user))
                keep_revision(unit, unit.save(user, archived, "compute_resource.edit", user.name, user.scope))


def _told(noun: str, user: Any) -> JSON:
    return {"kind": noun, "name": _name_of(user), "scope": user.scope}


def _name_of(user: Any) -> str:
    return str(getattr(user, "name", user.scope))
