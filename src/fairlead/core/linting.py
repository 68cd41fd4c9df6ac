"""Checking compute resources before an administrator ships them: each is planned as if somebody used it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.plans import Finding, Layer, Violation, Warning
from fairlead.model.policies import Policy
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest
from fairlead.model.scopes import Cluster

# A program in name only: a plan needs one, and nothing about it is looked at.
PROGRAM = {"name": "lint", "kind": "container", "image": "lint", "port": 80}
# Where no cluster is described, one that can do anything: what it lacks is not the compute resource's mistake.
ABLE_CLUSTER = Cluster(name="any", gpu_sharing="kai")
ABOUT_PROGRAMS = ("function", "action", "replicas", "deadline")
ABOUT_CLUSTERS = ("not_enforced", "unlisted_gpu_type")


def lint(
    resource: ComputeResource, policies: Sequence[Policy], clusters: Sequence[Cluster], *, firm: bool = False
) -> tuple[Finding, ...]:
    """What keeps a compute resource from being used, and what may surprise its users.

    Firm: the policies are all there are, so what they leave switched off is refused.
    """
    snapshot = Snapshot("lint", ABLE_CLUSTER, policies=tuple(policies), compute_resources={resource.name: resource})
    types = resource.workload_types
    return _lint(snapshot, clusters, {"profile": resource.name}, types, firm)


def lint_template(template: Template, snapshot: Snapshot, clusters: Sequence[Cluster]) -> tuple[Finding, ...]:
    """What keeps a template from being used, where a snapshot knows the policies and what the template names."""
    known = replace(snapshot, templates={template.name: template})
    named = known.compute_resources.get(template.requirements.profile or "")
    types = None if named is None else named.workload_types
    return _lint(known, clusters, {"template": template.name}, types, firm=True)


def _lint(
    snapshot: Snapshot,
    clusters: Sequence[Cluster],
    asked: Mapping[str, str],
    types: Sequence[str] | None,
    firm: bool,
) -> tuple[Finding, ...]:
    actions = [action for action, kind in WORKLOAD_TYPES.items() if types is None or kind in types]
    looks = [
        tuple(_look(replace(snapshot, cluster=cluster), actions, asked, firm))
        for cluster in clusters or (ABLE_CLUSTER,)
    ]
    # What only some clusters refuse is for those who choose the cluster to know, not a mistake of the definition.
    everywhere = set.intersection(*({(found.path, found.rule) for found in look} for look in looks))
    told = [found for found in looks[0] if (found.path, found.rule) in everywhere]
    return tuple(dict.fromkeys(found for found in told if clusters or found.rule not in ABOUT_CLUSTERS))


def _look(snapshot: Snapshot, actions: Sequence[str], asked: Mapping[str, str], firm: bool) -> Iterator[Finding]:
    """What plans say, one for each action."""
    for action in actions:
        request = RunRequest.model_validate({"action": action, "function": PROGRAM, **asked})
        plan = plan_run(request, snapshot, "lint", render=False)
        yield from (_soften(found, firm) for found in plan.violations if not found.path.startswith(ABOUT_PROGRAMS))
        yield from plan.warnings


def _soften(found: Violation, firm: bool) -> Finding:
    """What others may still settle is only a warning: switches by the policies that will hold, the rest by users."""
    open_switch = found.source is not None and found.source.layer is Layer.PLATFORM and not firm
    asked_of_users = found.source is not None and found.rule == "required"
    if not open_switch and not asked_of_users:
        return found
    return Warning(found.path, found.rule, found.message, found.hint, found.source)
