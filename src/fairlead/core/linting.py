"""Checking what administrators offer before they ship it: each is planned as if somebody used it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.core.descriptions import sentences
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.plans import Finding, Layer, Plan, PlanWarning, Sentence, Violation
from fairlead.model.policies import Policy
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest
from fairlead.model.requirements import Requirements
from fairlead.model.scopes import Cluster

# A program in name only: a plan needs one, and nothing about it is looked at.
PROGRAM = {"name": "lint", "kind": "container", "image": "lint", "port": 80}
# Where no cluster is described, one that can do anything: what it lacks is not the compute resource's mistake.
PERMISSIVE_CLUSTER = Cluster(name="any", gpu_sharing="kai")
NOTHING = Requirements()
ABOUT_PROGRAMS = ("function", "action", "replicas", "deadline")
ABOUT_CLUSTERS = ("not_enforced", "unlisted_gpu_type")


@dataclass(frozen=True)
class LintResult:
    """What is offered, planned for each cluster as if somebody used it: a plan for each action that it is for.

    Firm: the policies are all there are, so what they leave switched off is refused.
    """

    snapshot: Snapshot
    layer: Layer
    plans: Sequence[tuple[Cluster | None, tuple[Plan, ...]]]  # no cluster: where none is described
    firm: bool

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What keeps it from being used, and what may surprise its users."""
        looks = [tuple(self._look(plans)) for _, plans in self.plans]
        # What only some clusters refuse is for those who choose the cluster to know, not a mistake of the definition.
        everywhere = set.intersection(*({(found.path, found.rule) for found in look} for look in looks))
        told = [found for found in looks[0] if (found.path, found.rule) in everywhere]
        known = self.plans[0][0] is not None
        return tuple(dict.fromkeys(found for found in told if known or found.rule not in ABOUT_CLUSTERS))

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """What a pod that uses it will get, and what may end it."""
        # What a pod is given does not depend on the action.
        first = [(cluster, plans[0]) for cluster, plans in self.plans]
        return sentences.describe_plans(first, self.layer, self.snapshot.rules)

    def _look(self, plans: Sequence[Plan]) -> Iterator[Finding]:
        for plan in plans:
            broken = (found for found in plan.violations if not found.path.startswith(ABOUT_PROGRAMS))
            yield from (_soften(found, self.firm) for found in broken)
            yield from plan.warnings


def lint_compute_resource(
    resource: ComputeResource,
    policies: Sequence[Policy],
    clusters: Sequence[Cluster],
    *,
    platform: Requirements = NOTHING,
    firm: bool = False,
) -> LintResult:
    """A compute resource, as if somebody used it among policies, the platform's defaults, and clusters."""
    known = {resource.name: resource}
    snapshot = Snapshot("lint", PERMISSIVE_CLUSTER, platform, policies=tuple(policies), compute_resources=known)
    plans = _plan_all(snapshot, clusters, {"profile": resource.name}, resource.workload_types)
    return LintResult(snapshot, Layer.COMPUTE_RESOURCE, plans, firm)


def lint_template(template: Template, snapshot: Snapshot, clusters: Sequence[Cluster]) -> LintResult:
    """A template, as if somebody used it where a snapshot knows the policies and what the template names."""
    known = replace(snapshot, templates={template.name: template})
    named = known.compute_resources.get(template.requirements.profile or "")
    types = None if named is None else named.workload_types
    return LintResult(known, Layer.TEMPLATE, _plan_all(known, clusters, {"template": template.name}, types), firm=True)


def _plan_all(
    snapshot: Snapshot, clusters: Sequence[Cluster], asked: Mapping[str, str], types: Sequence[str] | None
) -> list[tuple[Cluster | None, tuple[Plan, ...]]]:
    actions = [action for action, kind in WORKLOAD_TYPES.items() if types is None or kind in types]
    requests = [RunRequest.model_validate({"action": action, "function": PROGRAM, **asked}) for action in actions]
    return [
        (
            cluster,
            tuple(_plan(request, replace(snapshot, cluster=cluster or PERMISSIVE_CLUSTER)) for request in requests),
        )
        for cluster in (clusters or (None,))
    ]


def _plan(request: RunRequest, snapshot: Snapshot) -> Plan:
    return plan_run(request, snapshot, "lint", render=False)


def _soften(found: Violation, firm: bool) -> Finding:
    """What others may still settle is only a warning: switches by the policies that will hold, the rest by users."""
    open_switch = found.source is not None and found.source.layer is Layer.PLATFORM and not firm
    asked_of_users = found.source is not None and found.rule == "required"
    if not open_switch and not asked_of_users:
        return found
    return PlanWarning(found.path, found.rule, found.message, found.hint, found.source)
