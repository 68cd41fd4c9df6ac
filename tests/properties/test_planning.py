"""Properties of plans for random requests and snapshots."""

import copy
import json
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fairlead.model import explanations
from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.parsing import StrictModel, violations_of
from fairlead.model.plans import Layer, Plan, Source
from fairlead.model.quantities import Quantity
from fairlead.model.requests import RunRequest
from fairlead.model.resources import Amount, Requirements
from fairlead.model.scopes import Cluster
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot
from tests.making import CONTAINER, make_snapshot, values
from tests.manifests.demands import check_demand
from tests.properties.strategies import (
    GARBAGE,
    POLICIES,
    REQUESTS,
    REQUIREMENTS,
    malformed_requests,
    optional,
    snapshots,
)
from tests.validity import check_manifests
from tests.validity.parts import parse_quantity
from tests.validity.pods import container_of, pod_of

# Snapshots are slow to generate, and many of them are discarded.
slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])

KUBERNETES_NAMES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage"}


ALL_SWITCHES = {"existing_volumes": "allow", "allow_root": True, "gpu_memory_limits": True}
ALL_ALLOWED = Policy.model_validate({"switches": ALL_SWITCHES})


def with_all_switches(policy: dict[str, Any]) -> dict[str, Any]:
    """The policy with all switches on, so that fewer plans are rejected."""
    return policy | {"switches": ALL_SWITCHES}


def make_plan(requested: Any, snapshot: Snapshot) -> Plan:
    return plan_run(RunRequest.model_validate(requested), snapshot, "r7")


@slow
@given(REQUESTS, snapshots())
def test_a_plan_has_violations_or_valid_manifests(requested: Any, snapshot: Snapshot) -> None:
    planned = make_plan(requested, snapshot)
    assert bool(planned.violations) != bool(planned.manifests)
    assert all(violation.message and violation.rule for violation in planned.violations)
    existing = ["theirs", "data", "out", "v" * 63]
    assert check_manifests(planned.manifests, claims=existing, config_maps=["settings"]) == []


@slow
@given(REQUESTS, snapshots(POLICIES.map(with_all_switches)))
def test_the_demand_contains_what_the_manifests_contain(requested: Any, snapshot: Snapshot) -> None:
    planned = make_plan(requested, snapshot)
    assert (planned.demand is not None) == bool(planned.manifests)
    if planned.demand is not None:
        check_demand(planned.manifests, planned.demand)


@slow
@given(REQUESTS, snapshots())
def test_planning_is_deterministic_and_does_not_change_its_input(requested: Any, snapshot: Snapshot) -> None:
    before = copy.deepcopy(requested)
    first, second = make_plan(requested, snapshot), make_plan(requested, snapshot)
    assert first == second
    assert requested == before
    data = explanations.to_data(first)
    assert json.loads(json.dumps(data)) == data
    assert explanations.explain(first, "title") == explanations.explain(second, "title")


def request_resolved_values(requested: Any, planned: Plan) -> dict[str, Any]:
    """A request that contains the resolved values of a plan, without a profile or template."""
    fields: dict[str, Any] = {"resources": {}, "node_selector": {}, "envs": {}, "volumes": {}, "tolerations": []}
    fields |= {"secrets": [], "affinity": {}}
    for item in planned.settings:
        section, _, rest = item.path.partition(".")
        value = explanations.to_json(item.value)
        if value is None or section in ("function", "labels", "security", "profile", "template", "action"):
            continue
        if section == "resources":
            _put(fields["resources"], rest, value)
        elif section in ("node_selector", "envs"):
            fields[section][rest] = value
        elif section == "volumes":
            name, _, part = rest.partition(".")
            _put(fields["volumes"].setdefault(name, {}), part, value)
        elif section == "secrets":
            fields["secrets"].append(rest)
        elif section == "tolerations":
            fields["tolerations"].append(value)
        elif section == "affinity":
            kind, _, part = rest.partition(".")
            terms = {"nodeSelectorTerms": value} if rest.startswith("nodeAffinity.required") else value
            fields["affinity"].setdefault(kind, {})[part] = terms
        elif section != "deadline" or "deadline" in requested:
            fields[section] = value
    unchanged = {
        name: requested[name] for name in ("function", "action", "inputs", "args", "deadline") if name in requested
    }
    return {**fields, **unchanged}


def _put(mapping: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path; names of extended resources contain dots."""
    first, _, rest = path.partition(".")
    if not rest or first == "extended":
        mapping.setdefault("extended", {})[rest] = value if rest else None
        if not rest:
            mapping.pop("extended") if mapping["extended"] == {"": None} else mapping["extended"].pop("")
            mapping[first] = value
    else:
        _put(mapping.setdefault(first, {}), rest, value)


@slow
@given(REQUESTS, snapshots(policies=POLICIES.map(lambda policy: with_all_switches(policy) | {"rules": {}})))
def test_requesting_the_resolved_values_gives_the_same_plan(requested: Any, snapshot: Snapshot) -> None:
    first = make_plan({**requested, "strict": False}, snapshot)
    assume(not first.violations)
    bare = Snapshot(snapshot.project, snapshot.cluster, code=snapshot.code, policies=(ALL_ALLOWED,))
    second = make_plan(request_resolved_values(requested, first), bare)
    assert second.violations == ()
    enforced = ("profile", "template", "labels.fairlead.dev/compute-resource")
    resolved = {
        item.path: item.value for item in first.settings if item.value is not None and item.path not in enforced
    }
    assert {item.path: item.value for item in second.settings if item.value is not None} == resolved
    assert _without_labels(second) == _without_labels(first)


def _without_labels(planned: Plan) -> Any:
    """The manifests without the compute resource label, with parsed amounts."""
    manifests = json.loads(json.dumps(planned.manifests))
    for manifest in manifests:
        for part in (manifest, pod_of(manifest) or {"metadata": {}}):
            part["metadata"].get("labels", {}).pop("fairlead.dev/compute-resource", None)
    return with_amounts(manifests)


def with_amounts(data: Any) -> Any:
    """The manifests with parsed amounts."""
    # A binary amount that is not a multiple of 1024 loses its suffix when it is parsed and printed.
    if isinstance(data, dict):
        return {key: with_amounts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [with_amounts(value) for value in data]
    try:
        return parse_quantity(data) if isinstance(data, str) else data
    except ValueError:
        return data


@slow
@given(REQUESTS, snapshots())
def test_users_never_change_values_of_a_compute_resource(requested: Any, snapshot: Snapshot) -> None:
    minimal = {"function": requested["function"], "action": requested.get("action", "job"), "profile": "big"}
    alone = values(make_plan(minimal, snapshot))
    mixed = values(make_plan({**requested, "profile": "big", "strict": False}, snapshot))
    requirements = snapshot.compute_resources["big"].requirements
    owned = [name for name in ("cpu", "mem", "disk", "gpu", "shm") if _is_set(getattr(requirements.resources, name))]
    owned += [f"extended.{name}" for name in requirements.resources.extended]
    for name in owned:
        prefix = f"resources.{name}"
        owned_values = {path: value for path, value in alone.items() if path == prefix or path.startswith(f"{prefix}.")}
        assert owned_values == {path: mixed[path] for path in owned_values}
    for key, label in requirements.node_selector.items():
        assert mixed[f"node_selector.{key}"] == label


def _is_set(resource: Any) -> bool:
    """Whether the resource has a value: an amount without a request or limit has none."""
    return resource is not None and not (
        isinstance(resource, Amount) and resource.requests is None and resource.limits is None
    )


@slow
@given(REQUESTS, snapshots(policies=POLICIES.map(lambda policy: with_all_switches(policy))))
def test_manifests_satisfy_all_rules(requested: Any, snapshot: Snapshot) -> None:
    planned = make_plan(requested, snapshot)
    assume(planned.manifests)
    amounts = _measure(planned)
    for policy in snapshot.policies:
        for path, rule in policy.rules.items():
            for amount in amounts.get(path, ()):
                if rule.max is not None:
                    assert amount is not None, f"{path} has no limit"
                    assert amount <= _number(rule.max), path
                if rule.min is not None and amount is not None:
                    assert amount >= _number(rule.min), path


def _number(bound: Any) -> Fraction:
    return parse_quantity(str(bound)) if isinstance(bound, Quantity) else Fraction(bound)


def _measure(planned: Plan) -> dict[str, list[Fraction | None]]:
    """The amounts in the manifests by rule path. None means unlimited."""
    main = planned.manifests[0]
    spec, container = main["spec"]["template"]["spec"], container_of(main)
    resources = container.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    amounts: dict[str, list[Fraction | None]] = {}
    for name, resource in KUBERNETES_NAMES.items():
        amounts[f"resources.{name}"] = [parse_quantity(requests[resource])] if resource in requests else []
        amounts[f"resources.{name}.limits"] = [parse_quantity(limits[resource]) if resource in limits else None]
    extended = {name: parse_quantity(text) for name, text in limits.items() if name not in KUBERNETES_NAMES.values()}
    gpus = [amount for name, amount in extended.items() if name in ("nvidia.com/gpu", "amd.com/gpu")]
    amounts["resources.gpu"] = [*gpus]
    others = {name: amount for name, amount in extended.items() if name in ("vendor.example/nic", "a.b/C_d")}
    amounts["resources.extended.*"] = [*others.values()]
    amounts |= {f"resources.extended.{name}": [amount] for name, amount in others.items()}
    shared = [volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "fairlead-shm"]
    amounts["resources.shm"] = [
        parse_quantity(volume["sizeLimit"]) if "sizeLimit" in volume else None for volume in shared
    ]
    claims = [item["spec"] for item in planned.manifests if item["kind"] == "PersistentVolumeClaim"]
    claims += [
        volume["ephemeral"]["volumeClaimTemplate"]["spec"] for volume in spec["volumes"] if "ephemeral" in volume
    ]
    amounts["volumes.*.spec.size"] = [parse_quantity(claim["resources"]["requests"]["storage"]) for claim in claims]
    amounts["run_as_user"] = [Fraction(spec["securityContext"]["runAsUser"])]
    amounts["replicas"] = [Fraction(main["spec"].get("replicas", main["spec"].get("parallelism")))]
    return amounts


@slow
@given(REQUESTS, snapshots())
def test_all_overridden_values_of_users_and_templates_are_warned_about(requested: Any, snapshot: Snapshot) -> None:
    planned = make_plan({**requested, "strict": False}, snapshot)
    warned = {
        (warning.path, str(warning.requested.source)) for warning in planned.warnings if warning.requested is not None
    }
    for item in planned.settings:
        for value in item.overridden:
            if value.source.layer in (Layer.USER, Layer.TEMPLATE) and value.value != item.value:
                assert (item.path, str(value.source)) in warned
    strict = make_plan({**requested, "strict": True}, snapshot)
    # A user who overrides a template on purpose gets no warning.
    others = {
        warning.path for warning in planned.warnings if warning.requested and warning.source != Source(Layer.USER)
    }
    assert others <= {violation.path for violation in strict.violations}


@slow
@given(REQUESTS, snapshots(policies=st.just({})))
def test_every_requested_value_is_a_setting_or_an_overridden_value(requested: Any, snapshot: Snapshot) -> None:
    request = RunRequest.model_validate(requested)
    planned = plan_run(request, snapshot, "r7")
    user_paths = {
        item.path
        for item in planned.settings
        for source in (item.source, *(value.source for value in (*item.overridden, *item.combined)))
        if source.layer is Layer.USER
    }
    for name in ("envs", "node_selector"):
        assert {f"{name}.{key}" for key in getattr(request, name)} <= user_paths
    assert {f"secrets.{name}" for name in request.secrets} <= user_paths
    assert {f"volumes.{name}.mount_path" for name in request.volumes} <= user_paths
    for name in ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template"):
        assert getattr(request, name) is None or name in user_paths
    assert {f"resources.extended.{name}" for name in request.resources.extended} <= user_paths


def parse(model: type[StrictModel], data: Any) -> StrictModel | None:
    """The parsed object, or None if it is rejected with messages."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        violations = violations_of(error, model)
        assert violations
        assert all(violation.message for violation in violations)
        json.dumps([str(violation) for violation in violations])
        return None


@slow
@given(malformed_requests(), snapshots())
def test_a_malformed_request_is_rejected_with_violations_or_planned(requested: Any, snapshot: Snapshot) -> None:
    request = parse(RunRequest, requested)
    if isinstance(request, RunRequest):
        planned = plan_run(request, snapshot, "r7")
        assert bool(planned.violations) != bool(planned.manifests)
        existing = ["theirs", "data", "out", "v" * 63]
        assert check_manifests(planned.manifests, claims=existing, config_maps=["settings"]) == []


@slow
@given(GARBAGE, st.sampled_from([RunRequest, ComputeResource, Template, Policy, Cluster, Requirements]))
def test_garbage_is_rejected_with_violations_or_parsed(data: Any, model: type[StrictModel]) -> None:
    parse(model, data)


@slow
@given(st.dictionaries(st.sampled_from([*Policy.model_fields]), GARBAGE, max_size=3))
def test_a_malformed_policy_is_rejected_with_violations_or_parsed(data: Any) -> None:
    parse(Policy, data)


@slow
@given(st.dictionaries(st.sampled_from([*REQUIREMENTS]), GARBAGE, min_size=1, max_size=3))
def test_malformed_requirements_are_rejected_with_violations_or_parsed(data: Any) -> None:
    parse(Requirements, data)


@slow
@given(optional(**REQUIREMENTS))
def test_requirements_round_trip(data: Any) -> None:
    printed = json.loads(json.dumps(Requirements.model_validate(data).to_data()))
    assert json.loads(json.dumps(Requirements.model_validate(printed).to_data())) == printed
    bare = make_snapshot(ALL_ALLOWED, project="forest")
    function = {"function": CONTAINER}
    assert values(make_plan(function | printed, bare)) == values(make_plan(function | data, bare))


@slow
@given(POLICIES, POLICIES, REQUESTS, snapshots(policies=st.just({})))
def test_a_lower_policy_never_allows_what_a_higher_one_rejects(
    higher: Any, lower: Any, requested: Any, snapshot: Snapshot
) -> None:
    higher_limits = {name: higher[name] for name in ("rules", "switches") if name in higher}
    lower_limits = {name: lower[name] for name in ("rules", "switches") if name in lower}
    one = Policy.model_validate(higher_limits)
    both = (one, Policy.model_validate({"scope": "project/forest", **lower_limits}))
    fields = {
        name: getattr(snapshot, name) for name in ("project", "cluster", "compute_resources", "templates", "code")
    }
    alone = make_plan(requested, Snapshot(**fields, policies=(one,)))
    together = make_plan(requested, Snapshot(**fields, policies=both))
    unset_switches = _unset_switches(one)
    rejected = {(item.path, item.rule) for item in alone.violations if item.rule not in unset_switches}
    assert rejected <= {(item.path, item.rule) for item in together.violations}


def _unset_switches(policy: Policy) -> set[str]:
    """For switches that a policy does not set, the default applies until a lower scope sets them."""
    return {name for name in type(policy.switches).model_fields if getattr(policy.switches, name) is None}
