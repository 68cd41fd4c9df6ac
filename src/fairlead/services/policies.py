"""Policies: what is allowed at a scope, what that makes of all scopes together, and what a draft would refuse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairlead.core import explanations, linting, quotas
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.core.policies import effective
from fairlead.core.policies.effective import EffectivePolicy
from fairlead.core.queue_order import COUNTED_BY, HOLDING
from fairlead.core.quotas import RunResources, ScopeUsage
from fairlead.errors import NotFound, RequestRejected
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.policies import Policy
from fairlead.model.queries import Condition, Page, Query
from fairlead.model.records import JSON, ComputeResourceRecord, PlanRecord, PolicyRecord, RunRecord, TemplateRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Permission
from fairlead.model.scopes import PLATFORM
from fairlead.services.calls import Call
from fairlead.services.organization import Organization
from fairlead.services.pages import Listing, load_page
from fairlead.services.snapshots import build_planning_context, compute_resource_of, look_up, template_of
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MOST_CHECKED = 500
RECENT_RUNS = 100


@dataclass(frozen=True)
class RejectedItem:
    """Something kept that a draft of a policy would refuse, and whether the present policies refuse it already."""

    kind: str
    name: str
    scope: str
    already: bool
    violations: list[JSON]


@dataclass(frozen=True)
class PolicyImpact:
    """What a draft of a policy would mean for what is kept."""

    rejected: list[RejectedItem]
    checked: dict[str, int]
    skipped: dict[str, int]


class Policies:
    """The use cases of policies."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, asked: Listing) -> Page[PolicyRecord]:
        """The policies of the scopes that the caller sees."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, PolicyRecord, asked, sort="scope", within=unit.in_sight())

    def get(self, call: Call, scope: str) -> PolicyRecord:
        """The policy of a scope."""
        with self.units.reading(call) as unit:
            return self.find(unit, scope)

    def put(self, call: Call, scope: str, policy: Policy, *, force: bool = False) -> PolicyRecord:
        """Say all that is allowed at a scope; replacing what was said needs the revision that was read."""
        with self.units.changing(call, "organization") as unit:
            unit.require(Permission.SHARE, scope, scope)
            record = unit.tx.get(PolicyRecord, scope=scope)
            if record is not None:
                unit.check_free(record, "policy", force=force, required=True)
            else:
                unit.check_absent(f"policy of {scope}")
            check_profile(unit, policy.defaults.profile, policy.scope)
            return self.keep(unit, policy, record)

    def delete(self, call: Call, scope: str, *, force: bool = False) -> None:
        """Say nothing more at a scope."""
        with self.units.changing(call, "organization") as unit:
            record = self.find(unit, scope, Permission.SHARE)
            unit.check_free(record, "policy", force=force)
            unit.remove(record, "policy", scope, scope)

    def effective(self, call: Call, scope: str) -> EffectivePolicy:
        """What holds at a scope, each part with the scope that it comes from."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            policies = unit.organization.policies_of(scope)
            bounded = [policy.scope for policy in policies if policy.quota.model_fields_set]
            return effective.describe(policies, scope, _load_used(unit, [*bounded, scope]))

    def validate(self, call: Call, scope: str, draft: Policy) -> PolicyImpact:
        """Which compute resources, templates and recent runs a draft would refuse. Nothing is kept."""
        with self.units.reading(call) as unit:
            unit.require(Permission.SHARE, scope, scope)
            check_profile(unit, draft.defaults.profile, draft.scope)
            return _judge(unit, draft)

    def find(self, unit: UnitOfWork, scope: str, permission: Permission = Permission.VIEW) -> PolicyRecord:
        """The policy of a scope, for a caller who may do the permission."""
        unit.require(permission, scope, scope)
        record = unit.tx.get(PolicyRecord, scope=scope)
        if record is None:
            raise NotFound(f"there is no policy of {scope}", "nothing is said there: what holds above holds here")
        return record

    def keep(
        self, unit: UnitOfWork, policy: Policy, record: PolicyRecord | None, managed_by: str | None = None
    ) -> PolicyRecord:
        """Make or replace a policy, within a use case."""
        content = policy.to_data()
        if record is None:
            made = PolicyRecord(**unit.stamps(), scope=policy.scope, content=content, managed_by=managed_by)
            return unit.add(made, "policy", policy.scope, policy.scope)
        if record.content == content and managed_by in (None, record.managed_by):
            return record
        managed_by = managed_by or record.managed_by
        after = replace(record, content=content, managed_by=managed_by, **unit.next(record))
        return unit.save(record, after, "policy.edit", policy.scope, policy.scope)


def _load_used(unit: UnitOfWork, scopes: Sequence[str]) -> Callable[[str], ScopeUsage]:
    """What runs that have a place hold at and below each of some scopes, of which each stands below the one before.

    Also what the caller does not see: whoever may not have more must know that others have it.
    """
    below = unit.organization.tree.below
    where = [] if scopes[0] == PLATFORM else [Condition("scope", "in", (scopes[0], *below(scopes[0])))]
    found = unit.tx.tally(RunRecord, COUNTED_BY, *HOLDING, *where)

    def add_up(scope: str) -> ScopeUsage:
        inside = {scope, *below(scope)}
        return quotas.sum_usage(
            (RunResources(*held), number) for (place, *held), number in found.items() if place in inside
        )

    return add_up


def check_profile(unit: UnitOfWork, profile: str | None, scope: str) -> None:
    """A default names a compute resource that reaches its scope."""
    if profile is None:
        return
    named = unit.tx.get(ComputeResourceRecord, name=profile)
    if named is None or named.archived or named.scope not in unit.organization.tree.path(scope):
        message = f"there is no compute resource {short_repr(profile)} that reaches {scope}"
        hint = suggest_names(
            profile, (item.name for item in unit.tx.find(ComputeResourceRecord, *unit.in_sight(), limit=1000))
        )
        raise RequestRejected([Violation("defaults.profile", "unknown_profile", message, hint)])


Judge = Callable[[UnitOfWork, Any, str, tuple[Policy, ...]], list[Violation]]


def _judge(unit: UnitOfWork, draft: Policy) -> PolicyImpact:
    """Plan everything kept that the draft reaches, with it and without it."""
    organization = unit.organization
    tree, scope = organization.tree, draft.scope
    below = {scope, *tree.below(scope)}
    reached = Condition("scope", "in", tuple({*tree.path(scope), *below}))
    rejected: list[RejectedItem] = []
    checked: dict[str, int] = {}
    skipped: dict[str, int] = {}
    judges: tuple[tuple[str, type[Any], Judge], ...] = (
        ("compute resource", ComputeResourceRecord, _judge_compute_resource),
        ("template", TemplateRecord, _judge_template),
    )
    for noun, kind, judge in judges:
        kept = unit.tx.find(kind, reached, Condition("archived", "=", False), limit=MOST_CHECKED)
        for record in kept:
            # What is offered further up is used down here: it is judged as if it were offered here.
            at = record.scope if record.scope in below else scope
            before, after = (judge(unit, record, at, policies) for policies in _with(organization, at, draft))
            rejected += _compare(noun, record.name, record.scope, before, after)
        checked[noun] = len(kept)
        skipped[noun] = unit.tx.count(kind, reached, Condition("archived", "=", False)) - len(kept)
    here = Condition("scope", "in", tuple(below))
    runs = unit.tx.page(RunRecord, Query((here,), sort="created_at", descending=True, limit=RECENT_RUNS)).items
    for run in runs:
        before, after = (_judge_run(unit, run, policies) for policies in _with(organization, run.scope, draft))
        rejected += _compare("run", run.id, run.scope, before, after)
    checked["run"], skipped["run"] = len(runs), unit.tx.count(RunRecord, here) - len(runs)
    return PolicyImpact(rejected, checked, skipped)


def _with(organization: Organization, scope: str, draft: Policy) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """The policies that reach a scope, as they are and as they would be."""
    known = {**organization.parsed_policies, draft.scope: draft}
    return organization.policies_of(scope), tuple(
        known[place] for place in organization.tree.path(scope) if place in known
    )


def _judge_compute_resource(
    unit: UnitOfWork, record: ComputeResourceRecord, scope: str, policies: tuple[Policy, ...]
) -> list[Violation]:
    near = unit.organization.clusters_near(scope)
    defaults = unit.organization.defaults
    trial = linting.lint_compute_resource(compute_resource_of(record), policies, near, platform=defaults, firm=True)
    return [item for item in trial.findings if isinstance(item, Violation)]


def _judge_template(
    unit: UnitOfWork, record: TemplateRecord, scope: str, policies: tuple[Policy, ...]
) -> list[Violation]:
    template = template_of(record)
    context = build_planning_context(unit.tx, unit.organization, scope, None, policies=policies)
    asked = {"function": "template", "profile": template.requirements.profile}
    look_up(unit.tx, context, RunRequest.model_validate(asked))
    near = unit.organization.clusters_near(scope)
    trial = linting.lint_template(template, context.snapshot, near)
    return [item for item in trial.findings if isinstance(item, Violation)]


def _judge_run(unit: UnitOfWork, run: RunRecord, policies: tuple[Policy, ...]) -> list[Violation]:
    context = build_planning_context(unit.tx, unit.organization, run.scope, None, policies=policies)
    kept = unit.tx.get(PlanRecord, id=run.id)
    request = RunRequest.model_validate(kept.request if kept else {"function": run.function})
    used = unit.tx.get(ComputeResourceRecord, id=run.compute_resource_id)
    if used is not None and request.profile is not None:
        request = request.model_copy(update={"profile": used.name})  # it may be called otherwise today
    started_from = unit.tx.get(TemplateRecord, id=run.template_id)
    if started_from is not None and request.template is not None:
        request = request.model_copy(update={"template": started_from.name})
    snapshot: Snapshot = look_up(unit.tx, context, request).snapshot
    return list(plan_run(request, snapshot, run.id, render=False).violations)


def _compare(
    kind: str, name: str, scope: str, before: Sequence[Violation], after: Sequence[Violation]
) -> list[RejectedItem]:
    if not after:
        return []
    told: list[Any] = [explanations.finding_data(violation) for violation in after]
    return [RejectedItem(kind, name, scope, bool(before), told)]
