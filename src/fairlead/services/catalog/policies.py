"""Policies of scopes, effective policies, the impact of a draft, and platform-wide settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.errors import NotFound, RequestRejected
from fairlead.model import explanations
from fairlead.model.assets import Defaults, EffectivePolicy, Policy, ScopeUsage
from fairlead.model.columns import Condition, Page, Query
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import RunResources, Violation
from fairlead.model.records import (
    JSON,
    SETTINGS,
    ComputeResourceRecord,
    PlanRecord,
    PolicyRecord,
    RunRecord,
    SettingsRecord,
    TemplateRecord,
)
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import PLATFORM, Permission
from fairlead.planning import effective_policies, linting
from fairlead.planning.plan import plan_run
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY
from fairlead.services.catalog.snapshots import build_planning_context, compute_resource_of, template_of
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, Organization, UnitOfWork, UnitOfWorkFactory

# Each object is planned twice while the caller waits. The response says how many objects were skipped.
MAX_CHECKED = 500
RECENT_RUNS = 100

FindViolations = Callable[[UnitOfWork, Any, str, tuple[Policy, ...]], list[Violation]]


@dataclass(frozen=True)
class RejectedItem:
    """A stored object that a draft would reject. `already` means that the current policies reject it too."""

    kind: str
    name: str
    scope: str
    already: bool
    violations: list[JSON]


@dataclass(frozen=True)
class PolicyImpact:
    """The stored objects that a draft would reject, and how many were checked and skipped, by kind."""

    rejected: list[RejectedItem]
    checked: dict[str, int]
    skipped: dict[str, int]


class Policies:
    """Manages policies."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, query: ListQuery) -> Page[PolicyRecord]:
        """List the policies of all visible scopes."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, PolicyRecord, query, sort="scope", within=unit.visible_scopes())

    def get(self, call: Call, scope: str) -> PolicyRecord:
        """Return the policy of a scope."""
        with self.units.reading(call) as unit:
            return self.find(unit, scope)

    def put(self, call: Call, scope: str, policy: Policy, *, force: bool = False) -> PolicyRecord:
        """Create or replace the policy of a scope. Replacing it requires If-Match."""
        with self.units.changing(call, "organization") as unit:
            unit.require(Permission.SHARE, scope, scope)
            record = unit.tx.get(PolicyRecord, scope=scope)
            if record is not None:
                unit.check_writable(record, "policy", force=force, required=True)
            else:
                unit.check_absent(f"policy of {scope}")
            check_profile(unit, policy.defaults.profile, policy.scope)
            return self.store(unit, policy, record)

    def delete(self, call: Call, scope: str, *, force: bool = False) -> None:
        """Delete the policy of a scope."""
        with self.units.changing(call, "organization") as unit:
            record = self.find(unit, scope, Permission.SHARE)
            unit.check_writable(record, "policy", force=force)
            self.remove(unit, record)

    def effective(self, call: Call, scope: str) -> EffectivePolicy:
        """Return the effective policy of a scope, with the source of each part."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            policies = unit.organization.policies_of(scope)
            # A scope's path starts at the platform, so the first scope with a quota contains all the others.
            with_quota = [policy.scope for policy in policies if policy.quota.model_fields_set]
            return effective_policies.merge_policies(policies, scope, _load_usage(unit, [*with_quota, scope]))

    def validate(self, call: Call, scope: str, draft: Policy) -> PolicyImpact:
        """Return the compute resources, templates and recent runs that a draft would reject. Stores nothing."""
        with self.units.reading(call) as unit:
            unit.require(Permission.SHARE, scope, scope)
            check_profile(unit, draft.defaults.profile, draft.scope)
            check_weight(unit, unit.organization.policies.get(scope), draft.to_data())
            return _evaluate_draft(unit, draft)

    def find(self, unit: UnitOfWork, scope: str, permission: Permission = Permission.VIEW) -> PolicyRecord:
        """Return a scope's policy. Raises `NotFound` if it has none, `Forbidden` if the caller lacks the permission."""
        unit.require(permission, scope, scope)
        record = unit.tx.get(PolicyRecord, scope=scope)
        if record is None:
            hint = "create one, or read the effective policy, which includes the rules of parent scopes"
            raise NotFound(f"policy of {scope} does not exist", hint)
        return record

    def store(
        self, unit: UnitOfWork, policy: Policy, record: PolicyRecord | None, managed_by: str | None = None
    ) -> PolicyRecord:
        """Create or replace a policy in a unit of work."""
        content = policy.to_data()
        check_weight(unit, record, content)
        if record is None:
            created = PolicyRecord(**unit.creation_fields(), scope=policy.scope, content=content, managed_by=managed_by)
            return unit.add(created, "policy", policy.scope, policy.scope)
        if record.content == content and managed_by in (None, record.managed_by):
            return record
        managed_by = managed_by or record.managed_by
        after = replace(record, content=content, managed_by=managed_by, **unit.update_fields(record))
        return unit.save(record, after, "policy.edit", policy.scope, policy.scope)

    def remove(self, unit: UnitOfWork, record: PolicyRecord) -> None:
        """Delete a policy in a unit of work."""
        check_weight(unit, record, {})
        unit.remove(record, "policy", record.scope, record.scope)


def check_profile(unit: UnitOfWork, profile: str | None, scope: str) -> None:
    """Raise `RequestRejected` if the default compute resource is not available in the scope."""
    if profile is None:
        return
    record = unit.tx.get(ComputeResourceRecord, name=profile)
    if record is None or record.archived or record.scope not in unit.organization.tree.path(scope):
        message = f"compute resource {short_repr(profile)} is not available in {scope}"
        hint = suggest_names(
            profile, (item.name for item in unit.tx.find(ComputeResourceRecord, *unit.visible_scopes(), limit=1000))
        )
        raise RequestRejected([Violation("defaults.profile", "unknown_profile", message, hint)])


def check_weight(unit: UnitOfWork, record: PolicyRecord | None, content: JSON) -> None:
    """Raise `RequestRejected` if the new content changes a weight and the caller is not an editor of the platform.

    Projects of all scopes can compete for the same machines and quotas. If a permission for a lower scope were enough,
    its administrators could give their own projects a larger share at the expense of all others.
    """
    before = None if record is None else record.content.get("queue", {}).get("weight")
    after = content.get("queue", {}).get("weight")
    if before == after or unit.permissions.may(Permission.SHARE, PLATFORM):
        return
    changed = f"is {_format_weight(after)} instead of {_format_weight(before)}"
    message = f"{changed}; only editors and administrators of the platform can change a weight"
    hint = "keep the current weight, or ask an editor or administrator of the platform"
    raise RequestRejected([Violation("queue.weight", "weight", message, hint)])


def _format_weight(weight: float | None) -> str:
    return "not set" if weight is None else f"{weight:g}"


def _load_usage(unit: UnitOfWork, scopes: Sequence[str]) -> Callable[[str], ScopeUsage]:
    """Return a function that sums the usage of runs in a scope. Each of `scopes` is inside the previous one.

    Runs that the caller cannot see are included, because they explain why a quota is exhausted.
    """
    descendants = unit.organization.tree.descendants
    inside_first = [] if scopes[0] == PLATFORM else [Condition("scope", "in", (scopes[0], *descendants(scopes[0])))]
    tallies = unit.tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *inside_first)

    def sum_usage(scope: str) -> ScopeUsage:
        inside = {scope, *descendants(scope)}
        return quotas.sum_usage(
            (RunResources(*resources), number)
            for (run_scope, *resources), number in tallies.items()
            if run_scope in inside
        )

    return sum_usage


def _evaluate_draft(unit: UnitOfWork, draft: Policy) -> PolicyImpact:
    """Plan all stored objects to which the draft applies, with and without the draft."""
    organization = unit.organization
    tree, scope = organization.tree, draft.scope
    inside = {scope, *tree.descendants(scope)}
    # Callers with a role in a scope see all scopes above and below it, so visibility is not checked separately.
    related = Condition("scope", "in", tuple({*tree.path(scope), *inside}))
    rejected: list[RejectedItem] = []
    checked: dict[str, int] = {}
    skipped: dict[str, int] = {}
    checks: tuple[tuple[str, type[Any], FindViolations], ...] = (
        ("compute resource", ComputeResourceRecord, _check_compute_resource),
        ("template", TemplateRecord, _check_template),
    )
    for noun, kind, check in checks:
        records = unit.tx.find(kind, related, Condition("archived", "=", False), limit=MAX_CHECKED)
        for record in records:
            # Objects in parent scopes are also available in this scope, so they are checked as if they were in it.
            at = record.scope if record.scope in inside else scope
            current, with_draft = _policies_with_draft(organization, at, draft)
            before, after = check(unit, record, at, current), check(unit, record, at, with_draft)
            rejected += _compare(noun, record.name, record.scope, before, after)
        checked[noun] = len(records)
        skipped[noun] = unit.tx.count(kind, related, Condition("archived", "=", False)) - len(records)
    in_scope = Condition("scope", "in", tuple(inside))
    runs = unit.tx.page(RunRecord, Query((in_scope,), sort="created_at", descending=True, limit=RECENT_RUNS)).items
    for run in runs:
        current, with_draft = _policies_with_draft(organization, run.scope, draft)
        before, after = _check_run(unit, run, current), _check_run(unit, run, with_draft)
        rejected += _compare("run", run.id, run.scope, before, after)
    checked["run"], skipped["run"] = len(runs), unit.tx.count(RunRecord, in_scope) - len(runs)
    return PolicyImpact(rejected, checked, skipped)


def _policies_with_draft(
    organization: Organization, scope: str, draft: Policy
) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """Return the policies that apply to a scope: the current ones, and those with the draft."""
    policies = {**organization.parsed_policies, draft.scope: draft}
    path = organization.tree.path(scope)
    return organization.policies_of(scope), tuple(policies[ancestor] for ancestor in path if ancestor in policies)


def _check_compute_resource(
    unit: UnitOfWork, record: ComputeResourceRecord, scope: str, policies: tuple[Policy, ...]
) -> list[Violation]:
    clusters = unit.organization.clusters_near(scope)
    defaults = unit.organization.defaults
    result = linting.lint_compute_resource(
        compute_resource_of(record), policies, clusters, platform=defaults, strict=True
    )
    return [item for item in result.findings if isinstance(item, Violation)]


def _check_template(
    unit: UnitOfWork, record: TemplateRecord, scope: str, policies: tuple[Policy, ...]
) -> list[Violation]:
    template = template_of(record)
    request = RunRequest.model_validate({"function": "template", "profile": template.requirements.profile})
    # The snapshot cache is not used, because it has only the current policies.
    context = build_planning_context(unit.tx, unit.organization, scope, None, request, policies=policies)
    clusters = unit.organization.clusters_near(scope)
    result = linting.lint_template(template, context.snapshot, clusters)
    return [item for item in result.findings if isinstance(item, Violation)]


def _check_run(unit: UnitOfWork, run: RunRecord, policies: tuple[Policy, ...]) -> list[Violation]:
    plan = unit.tx.get(PlanRecord, id=run.id)
    request = RunRequest.model_validate(plan.request if plan else {"function": run.function})
    # The compute resource and the template may have been renamed since then.
    resource = unit.tx.get(ComputeResourceRecord, id=run.compute_resource_id)
    if resource is not None and request.profile is not None:
        request = request.model_copy(update={"profile": resource.name})
    template = unit.tx.get(TemplateRecord, id=run.template_id)
    if template is not None and request.template is not None:
        request = request.model_copy(update={"template": template.name})
    context = build_planning_context(unit.tx, unit.organization, run.scope, None, request, policies=policies)
    # Only the violations are needed, so no manifests are rendered.
    return list(plan_run(request, context.snapshot, run.id, render=False).violations)


def _compare(
    kind: str, name: str, scope: str, before: Sequence[Violation], after: Sequence[Violation]
) -> list[RejectedItem]:
    if not after:
        return []
    violations: list[Any] = [explanations.finding_data(violation) for violation in after]
    return [RejectedItem(kind, name, scope, bool(before), violations)]


@dataclass(frozen=True)
class SettingsView:
    """The platform defaults, the cluster in which new projects are created, and the server configuration."""

    revision: int
    defaults: JSON
    default_cluster: str | None  # null if the platform has no clusters or the caller cannot see it
    server: JSON


class PlatformSettings:
    """Reads and changes the platform-wide settings."""

    def __init__(self, units: UnitOfWorkFactory, describe: Callable[[], JSON]) -> None:
        self.units, self.describe = units, describe

    def get(self, call: Call) -> SettingsView:
        """Return the settings."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, PLATFORM, PLATFORM)
            return self._view(unit, unit.tx.get(SettingsRecord, id=SETTINGS))

    def put(self, call: Call, defaults: Defaults, default_cluster: str | None = None) -> SettingsView:
        """Replace the platform defaults and, if it is given, the default cluster."""
        with self.units.changing(call, "organization") as unit:
            unit.require(Permission.ADMINISTER, PLATFORM, PLATFORM)
            check_profile(unit, defaults.profile, PLATFORM)
            _check_default_cluster(unit, default_cluster)
            record = self._store(unit, defaults, default_cluster)
            return self._view(unit.refreshed(), record)

    def _store(self, unit: UnitOfWork, defaults: Defaults, default_cluster: str | None) -> SettingsRecord:
        record = unit.tx.get(SettingsRecord, id=SETTINGS)
        if record is None:
            unit.check_absent("settings")
            # The fixed ID ensures that only one record can exist.
            created = SettingsRecord(
                **{**unit.creation_fields(), "id": SETTINGS},
                defaults=defaults.to_data(),
                default_cluster=default_cluster,
            )
            return unit.add(created, "settings", SETTINGS, PLATFORM)
        unit.check_revision(record, required=True)
        cluster = default_cluster or record.default_cluster
        after = replace(record, defaults=defaults.to_data(), default_cluster=cluster, **unit.update_fields(record))
        return unit.save(record, after, "settings.edit", SETTINGS, PLATFORM)

    def _view(self, unit: UnitOfWork, record: SettingsRecord | None) -> SettingsView:
        """Return the settings. Only administrators get the watched folder's status, because it may name any object."""
        server = self.describe()
        if not unit.permissions.may(Permission.ADMINISTER, PLATFORM):
            server.pop("folder", None)
        cluster = unit.organization.default_cluster
        visible = cluster if cluster is not None and unit.permissions.sees(cluster) else None
        return SettingsView(record.revision if record else 0, record.defaults if record else {}, visible, server)


def _check_default_cluster(unit: UnitOfWork, cluster: str | None) -> None:
    """Raise `RequestRejected` unless the scope is a cluster."""
    known = unit.organization.clusters
    if cluster is not None and cluster not in known:
        message = f"{cluster} is not a cluster"
        raise RequestRejected([Violation("default_cluster", "scope", message, suggest_names(cluster, known))])
