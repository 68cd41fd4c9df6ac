"""Checking compute resources before an administrator ships them: each is planned as if somebody used it."""

from collections.abc import Iterator, Sequence

from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.plans import Layer, Violation, Warning
from fairlead.model.policies import Policy
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest
from fairlead.model.scopes import Cluster

# A program in name only: a plan needs one, and nothing about it is looked at.
PROGRAM = {"name": "lint", "kind": "container", "image": "lint", "port": 80}
# Where no cluster is described, one that can do anything: what it lacks is not the compute resource's mistake.
ABLE_CLUSTER = Cluster(name="any", gpu_sharing="kai")
ABOUT_CLUSTERS = ("not_enforced", "unlisted_gpu_type")


def lint(
    resource: ComputeResource, policies: Sequence[Policy], clusters: Sequence[Cluster]
) -> tuple[Violation | Warning, ...]:
    """What keeps a compute resource from being used, and what may surprise its users."""
    found: dict[Violation | Warning, None] = {}
    for cluster in clusters or (ABLE_CLUSTER,):
        snapshot = Snapshot("lint", cluster, policies=tuple(policies), compute_resources={resource.name: resource})
        for action, kind in WORKLOAD_TYPES.items():
            if resource.workload_types is None or kind in resource.workload_types:
                request = RunRequest.model_validate({"action": action, "function": PROGRAM, "profile": resource.name})
                found |= dict.fromkeys(_look(request, snapshot, known_cluster=bool(clusters)))
    return tuple(found)


def _look(request: RunRequest, snapshot: Snapshot, *, known_cluster: bool) -> Iterator[Violation | Warning]:
    plan = plan_run(request, snapshot, "lint", render=False)
    for found in plan.violations:
        if found.source is not None and found.source.layer is Layer.PLATFORM:
            # A switch that no policy here sets: the policies that will hold may allow it.
            yield Warning(found.path, found.rule, found.message, found.hint, found.source)
        else:
            yield found
    yield from (found for found in plan.warnings if known_cluster or found.rule not in ABOUT_CLUSTERS)
