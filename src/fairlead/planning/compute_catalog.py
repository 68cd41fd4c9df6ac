"""The pod requests of compute resources, each planned as part of a minimal request."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fairlead.model.assets import ComputeResource, Switches
from fairlead.model.nodes import PodRequest
from fairlead.model.plans import Plan, Violation
from fairlead.model.requests import WORKLOAD_TYPES, RunRequest
from fairlead.planning.plan import NO_RUN, plan_run
from fairlead.resolution.drafts import Snapshot

# A plan needs a function, but the function does not affect the result.
PLACEHOLDER_FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "kubernetes": {"name": "placeholder", "kind": "container", "image": "placeholder", "port": 80},
    "local": {"name": "placeholder", "source": "placeholder.py", "handler": "placeholder"},
}
FUNCTION_PATHS = ("function", "replicas", "deadline")


def find_pod_request(resource: ComputeResource, snapshot: Snapshot) -> PodRequest | Violation:
    """The request of one pod with this compute resource, or the violation that prevents its use.

    Tries each allowed action until one can be planned.
    """
    violations: list[Violation] = []
    # A policy may forbid some actions. The pod's resources are the same for all of them.
    for action, kind in WORKLOAD_TYPES.items():
        if resource.workload_types is None or kind in resource.workload_types:
            result = _plan({"profile": resource.name, "action": action}, snapshot)
            if isinstance(result, PodRequest):
                return result
            violations.append(result)
    # Not empty, because a compute resource allows at least one workload type.
    return violations[0]


def _plan(fields: Mapping[str, str], snapshot: Snapshot) -> PodRequest | Violation:
    request = RunRequest.model_validate({**fields, "function": PLACEHOLDER_FUNCTIONS[snapshot.cluster.executor]})
    plan = plan_run(request, snapshot, NO_RUN)
    if violations := [violation for violation in plan.violations if not _is_resolved_by_users(violation)]:
        # A violation about the compute resource is more useful than one about the action.
        return min(violations, key=lambda violation: violation.path == "action")
    if plan.demand is None:  # users must set more values, but these do not change the pod's resources
        plan = _plan_without_rules(request, snapshot)
    return plan.violations[0] if plan.demand is None else plan.demand.pod_request


def _is_resolved_by_users(violation: Violation) -> bool:
    """Whether users can resolve the violation in a request: it concerns the function or a value a policy requires."""
    required = violation.source is not None and violation.rule == "required"
    return violation.path.startswith(FUNCTION_PATHS) or required


def _plan_without_rules(request: RunRequest, snapshot: Snapshot) -> Plan:
    """Plan with policy defaults but without policy rules and switches."""
    without_rules = {"rules": {}, "switches": Switches()}
    policies = tuple(policy.model_copy(update=without_rules) for policy in snapshot.policies)
    return plan_run(request, replace(snapshot, policies=policies), NO_RUN)
