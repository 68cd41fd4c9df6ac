"""What is offered by name, as if somebody asked for it and nothing else: what a pod of it needs of a node."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairlead.core.drafts import Snapshot
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.planning import NO_RUN, plan_run
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.plans import Plan, Violation
from fairlead.model.policies import Switches
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest

# Programs in name only: a plan needs one, and nobody looks at it.
PROGRAMS: Mapping[str, Mapping[str, Any]] = {
    "kubernetes": {"name": "offer", "kind": "container", "image": "offer", "port": 80},
    "local": {"name": "offer", "source": "offer.py", "handler": "offer"},
}
ABOUT_PROGRAMS = ("function", "replicas", "deadline")


def find_pod_request(resource: ComputeResource, snapshot: Snapshot) -> PodRequest | Violation:
    """What one pod of a compute resource asks for, which a snapshot knows; or what keeps everybody from using it.

    It is tried with each action that it is for, until one is allowed.
    """
    refused: list[Violation] = []
    for action, kind in WORKLOAD_TYPES.items():
        if resource.workload_types is None or kind in resource.workload_types:
            tried = _try_out({"profile": resource.name, "action": action}, snapshot)
            if isinstance(tried, PodRequest):
                return tried
            refused.append(tried)
    return refused[0]


def _try_out(asked: Mapping[str, str], snapshot: Snapshot) -> PodRequest | Violation:
    request = RunRequest.model_validate({**asked, "function": PROGRAMS[snapshot.cluster.executor]})
    plan = plan_run(request, snapshot, NO_RUN)
    if broken := [found for found in plan.violations if not _is_for_users(found)]:
        return min(broken, key=lambda found: found.path == "action")  # its own mistake before that of the action
    if not plan.manifests:  # somebody must say something more, which changes nothing about what the pod needs
        plan = _plan_unruled(request, snapshot)
    return read_pod_request(plan.manifests) if plan.manifests else plan.violations[0]


def _is_for_users(found: Violation) -> bool:
    """Whether each user settles it: what is executed, and what a policy wants to be said."""
    return found.path.startswith(ABOUT_PROGRAMS) or (found.source is not None and found.rule == "required")


def _plan_unruled(request: RunRequest, snapshot: Snapshot) -> Plan:
    """The plan with all that policies say where nobody else does, and nothing that they forbid."""
    unruled = {"rules": {}, "switches": Switches()}
    policies = tuple(policy.model_copy(update=unruled) for policy in snapshot.policies)
    return plan_run(request, replace(snapshot, policies=policies), NO_RUN)
