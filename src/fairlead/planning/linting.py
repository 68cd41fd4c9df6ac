"""Lints compute resources and templates by planning each as part of a minimal request."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.plans import Finding, Layer, Plan, PlanWarning, Sentence, Violation
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest
from fairlead.model.resources import Requirements
from fairlead.model.scopes import Cluster
from fairlead.planning import descriptions
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot

# A plan needs a function, but findings about this placeholder are ignored.
PLACEHOLDER_FUNCTION = {"name": "lint", "kind": "container", "image": "lint", "port": 80}
# Used if no cluster is known. It supports everything, so that no finding is about the cluster.
PERMISSIVE_CLUSTER = Cluster(name="any", gpu_sharing="kai")
NO_DEFAULTS = Requirements()
# Findings at these paths are about the placeholder.
FUNCTION_PATHS = ("function", "action", "replicas", "deadline")
CLUSTER_RULES = ("not_enforced", "unlisted_gpu_type")  # findings that depend on the cluster


@dataclass(frozen=True)
class LintResult:
    """The plans of a compute resource or template: for each cluster, one plan per allowed action.

    `strict`: the policies are complete, so a feature that they do not allow is a violation.
    """

    snapshot: Snapshot
    layer: Layer
    plans: Sequence[tuple[Cluster | None, tuple[Plan, ...]]]  # None: no cluster is known
    strict: bool

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Violations and warnings that apply to all clusters."""
        by_cluster = [tuple(self._find(plans)) for _, plans in self.plans]
        # A finding on only some clusters is not an error in the definition: users can choose another cluster.
        # Findings are compared by path and rule, because messages contain the cluster name.
        common = set.intersection(*({(finding.path, finding.rule) for finding in findings} for findings in by_cluster))
        findings = [finding for finding in by_cluster[0] if (finding.path, finding.rule) in common]
        known = self.plans[0][0] is not None
        return tuple(dict.fromkeys(finding for finding in findings if known or finding.rule not in CLUSTER_RULES))

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """A description of what each pod gets and what may stop it."""
        # A pod's resources do not depend on the action, so one plan per cluster is enough.
        first = [(cluster, plans[0]) for cluster, plans in self.plans]
        return descriptions.describe_plans(first, self.layer, self.snapshot.rules)

    def _find(self, plans: Sequence[Plan]) -> Iterator[Finding]:
        for plan in plans:
            violations = (item for item in plan.violations if not item.path.startswith(FUNCTION_PATHS))
            yield from (_weaken(violation, self.strict) for violation in violations)
            yield from plan.warnings


def lint_compute_resource(
    resource: ComputeResource,
    policies: Sequence[Policy],
    clusters: Sequence[Cluster],
    *,
    platform: Requirements = NO_DEFAULTS,
    strict: bool = False,
) -> LintResult:
    """Lint a compute resource with policies, platform defaults and clusters."""
    known = {resource.name: resource}
    snapshot = Snapshot("lint", PERMISSIVE_CLUSTER, platform, policies=tuple(policies), compute_resources=known)
    plans = _plan_all(snapshot, clusters, {"profile": resource.name}, resource.workload_types)
    return LintResult(snapshot, Layer.COMPUTE_RESOURCE, plans, strict)


def lint_template(template: Template, snapshot: Snapshot, clusters: Sequence[Cluster]) -> LintResult:
    """Lint a template. The snapshot contains the policies and the compute resource that the template uses."""
    known = replace(snapshot, templates={template.name: template})
    named = known.compute_resources.get(template.requirements.profile or "")
    types = None if named is None else named.workload_types
    return LintResult(
        known, Layer.TEMPLATE, _plan_all(known, clusters, {"template": template.name}, types), strict=True
    )


def _plan_all(
    snapshot: Snapshot, clusters: Sequence[Cluster], fields: Mapping[str, str], types: Sequence[str] | None
) -> list[tuple[Cluster | None, tuple[Plan, ...]]]:
    actions = [action for action, kind in WORKLOAD_TYPES.items() if types is None or kind in types]
    requests = [
        RunRequest.model_validate({"action": action, "function": PLACEHOLDER_FUNCTION, **fields}) for action in actions
    ]
    return [
        (
            cluster,
            tuple(_plan(request, replace(snapshot, cluster=cluster or PERMISSIVE_CLUSTER)) for request in requests),
        )
        for cluster in (clusters or (None,))
    ]


def _plan(request: RunRequest, snapshot: Snapshot) -> Plan:
    return plan_run(request, snapshot, "lint", render=False)


def _weaken(violation: Violation, strict: bool) -> Finding:
    """The violation, or a warning if other policies may allow the feature or users can set the missing value."""
    source = violation.source
    # Files may not contain every policy, so a missing policy may allow what a switch denies by default.
    open_switch = source is not None and source.layer is Layer.PLATFORM and not strict
    users_decide = source is not None and violation.rule == "required"
    if not open_switch and not users_decide:
        return violation
    return PlanWarning(violation.path, violation.rule, violation.message, violation.hint, source)
