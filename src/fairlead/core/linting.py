"""Checking compute resources before an administrator ships them: each is planned as if somebody used it."""

from collections.abc import Iterator, Sequence

from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.compute_resources import ComputeResource
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


def lint(resource: ComputeResource, policies: Sequence[Policy], clusters: Sequence[Cluster]) -> tuple[Finding, ...]:
    """What keeps a compute resource from being used, and what may surprise its users."""
    looks = [tuple(_look(resource, policies, cluster)) for cluster in clusters or (ABLE_CLUSTER,)]
    # What only some clusters refuse is for those who choose the cluster to know, not a mistake of the definition.
    everywhere = set.intersection(*({(found.path, found.rule) for found in look} for look in looks))
    told = [found for found in looks[0] if (found.path, found.rule) in everywhere]
    return tuple(dict.fromkeys(found for found in told if clusters or found.rule not in ABOUT_CLUSTERS))


def _look(resource: ComputeResource, policies: Sequence[Policy], cluster: Cluster) -> Iterator[Finding]:
    """What a plan says of the compute resource, for each action that it is for."""
    snapshot = Snapshot("lint", cluster, policies=tuple(policies), compute_resources={resource.name: resource})
    for action, kind in WORKLOAD_TYPES.items():
        if resource.workload_types is None or kind in resource.workload_types:
            request = RunRequest.model_validate({"action": action, "function": PROGRAM, "profile": resource.name})
            plan = plan_run(request, snapshot, "lint", render=False)
            yield from (_soften(found) for found in plan.violations if not found.path.startswith(ABOUT_PROGRAMS))
            yield from plan.warnings


def _soften(found: Violation) -> Finding:
    """What others may still settle is only a warning: switches by the policies that will hold, the rest by users."""
    settled = found.source is None or (found.source.layer is not Layer.PLATFORM and found.rule != "required")
    if settled:
        return found
    return Warning(found.path, found.rule, found.message, found.hint, found.source)
