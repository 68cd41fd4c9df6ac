"""Properties of plans for random requests and snapshots."""

import copy
import json
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fairlead.core import explanations
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.parsing import StrictModel, violations_of
from fairlead.model.plans import Layer, Plan, Source
from fairlead.model.policies import Policy
from fairlead.model.quantities import Quantity
from fairlead.model.requests import RunRequest
from fairlead.model.requirements import Requirements
from fairlead.model.resources import Amount
from fairlead.model.scopes import Cluster
from tests.core.properties.strategies import (
    GARBAGE,
    POLICIES,
    REQUESTS,
    REQUIREMENTS,
    optional,
    snapshots,
    spoiled_requests,
)
from tests.making import CONTAINER, make_snapshot, values
from tests.validity import check_manifests
from tests.validity.parts import parse_quantity
from tests.validity.pods import container_of, pod_of

# Building a whole organization takes Hypothesis longer than it likes.
whole = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])

KUBERNETES_NAMES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage"}


EVERYTHING = {"existing_volumes": "allow", "allow_root": True, "gpu_memory_limits": True}
ALL_ALLOWED = Policy.model_validate({"switches": EVERYTHING})


def generous(policy: dict[str, Any]) -> dict[str, Any]:
    """The policy with all switches on, so that fewer plans are rejected."""
    return policy | {"switches": EVERYTHING}


def make_plan(asked: Any, snapshot: Snapshot) -> Plan:
    return plan_run(RunRequest.model_validate(asked), snapshot, "r7")


@whole
@given(REQUESTS, snapshots())
def test_the_answer_is_violations_or_manifests_that_a_cluster_accepts(asked: Any, snapshot: Snapshot) -> None:
    planned = make_plan(asked, snapshot)
    assert bool(planned.violations) != bool(planned.manifests)
    assert all(violation.message and violation.rule for violation in planned.violations)
    existing = ["theirs", "data", "out", "v" * 63]
    assert check_manifests(planned.manifests, claims=existing, config_maps=["settings"]) == []


@whole
@given(REQUESTS, snapshots())
def test_planning_is_deterministic_and_changes_nothing(asked: Any, snapshot: Snapshot) -> None:
    before = copy.deepcopy(asked)
    first, second = make_plan(asked, snapshot), make_plan(asked, snapshot)
    assert first == second
    assert asked == before
    data = explanations.to_data(first)
    assert json.loads(json.dumps(data)) == data
    assert explanations.explain(first, "title") == explanations.explain(second, "title")


def ask_for_what_was_resolved(asked: Any, planned: Plan) -> dict[str, Any]:
    """A request that says itself, without profile and template, what another one was given."""
    said: dict[str, Any] = {"resources": {}, "node_selector": {}, "envs": {}, "volumes": {}, "tolerations": []}
    said |= {"secrets": [], "affinity": {}}
    for item in planned.settings:
        section, _, rest = item.path.partition(".")
        value = explanations.to_json(item.value)
        if value is None or section in ("function", "labels", "security", "profile", "template", "action"):
            continue
        if section == "resources":
            _put(said["resources"], rest, value)
        elif section in ("node_selector", "envs"):
            said[section][rest] = value
        elif section == "volumes":
            name, _, part = rest.partition(".")
            _put(said["volumes"].setdefault(name, {}), part, value)
        elif section == "secrets":
            said["secrets"].append(rest)
        elif section == "tolerations":
            said["tolerations"].append(value)
        elif section == "affinity":
            kind, _, part = rest.partition(".")
            terms = {"nodeSelectorTerms": value} if rest.startswith("nodeAffinity.required") else value
            said["affinity"].setdefault(kind, {})[part] = terms
        elif section != "deadline" or "deadline" in asked:
            said[section] = value
    kept = {name: asked[name] for name in ("function", "action", "inputs", "args", "deadline") if name in asked}
    return {**said, **kept}


def _put(mapping: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path; the names of extended resources have dots of their own."""
    first, _, rest = path.partition(".")
    if not rest or first == "extended":
        mapping.setdefault("extended", {})[rest] = value if rest else None
        if not rest:
            mapping.pop("extended") if mapping["extended"] == {"": None} else mapping["extended"].pop("")
            mapping[first] = value
    else:
        _put(mapping.setdefault(first, {}), rest, value)


@whole
@given(REQUESTS, snapshots(policies=POLICIES.map(lambda policy: generous(policy) | {"rules": {}})))
def test_asking_for_what_was_resolved_resolves_to_the_same(asked: Any, snapshot: Snapshot) -> None:
    first = make_plan({**asked, "strict": False}, snapshot)
    assume(not first.violations)
    bare = Snapshot(snapshot.project, snapshot.cluster, code=snapshot.code, policies=(ALL_ALLOWED,))
    second = make_plan(ask_for_what_was_resolved(asked, first), bare)
    assert second.violations == ()
    enforced = ("profile", "template", "labels.fairlead.dev/compute-resource")
    resolved = {
        item.path: item.value for item in first.settings if item.value is not None and item.path not in enforced
    }
    assert {item.path: item.value for item in second.settings if item.value is not None} == resolved
    assert _without_labels(second) == _without_labels(first)


def _without_labels(planned: Plan) -> Any:
    """The manifests, without the label of the compute resource, and with amounts in the place of their texts."""
    manifests = json.loads(json.dumps(planned.manifests))
    for manifest in manifests:
        for part in (manifest, pod_of(manifest) or {"metadata": {}}):
            part["metadata"].get("labels", {}).pop("fairlead.dev/compute-resource", None)
    return with_amounts(manifests)


def with_amounts(data: Any) -> Any:
    """Manifests with amounts in the place of their texts."""
    # A binary amount that is not a multiple of 1024 loses its suffix when it is parsed and printed.
    if isinstance(data, dict):
        return {key: with_amounts(value) for key, value in data.items()}
    if isinstance(data, list):
        return [with_amounts(value) for value in data]
    try:
        return parse_quantity(data) if isinstance(data, str) else data
    except ValueError:
        return data


@whole
@given(REQUESTS, snapshots())
def test_a_compute_resource_is_never_changed_by_what_users_ask_for(asked: Any, snapshot: Snapshot) -> None:
    nothing = {"function": asked["function"], "action": asked.get("action", "job"), "profile": "big"}
    alone = values(make_plan(nothing, snapshot))
    mixed = values(make_plan({**asked, "profile": "big", "strict": False}, snapshot))
    offered = snapshot.compute_resources["big"].requirements
    owned = [name for name in ("cpu", "mem", "disk", "gpu", "shm") if _is_said(getattr(offered.resources, name))]
    owned += [f"extended.{name}" for name in offered.resources.extended]
    for name in owned:
        prefix = f"resources.{name}"
        kept = {path: value for path, value in alone.items() if path == prefix or path.startswith(f"{prefix}.")}
        assert kept == {path: mixed[path] for path in kept}
    for key, label in offered.node_selector.items():
        assert mixed[f"node_selector.{key}"] == label


def _is_said(resource: Any) -> bool:
    """Whether there is something to own: an amount without a request and a limit says nothing."""
    return resource is not None and not (
        isinstance(resource, Amount) and resource.requests is None and resource.limits is None
    )


@whole
@given(REQUESTS, snapshots(policies=POLICIES.map(lambda policy: generous(policy))))
def test_no_rule_that_was_passed_is_broken_in_the_manifest(asked: Any, snapshot: Snapshot) -> None:
    planned = make_plan(asked, snapshot)
    assume(planned.manifests)
    found = _measure(planned)
    for policy in snapshot.policies:
        for path, rule in policy.rules.items():
            for amount in found.get(path, ()):
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
    spec, box = main["spec"]["template"]["spec"], container_of(main)
    resources = box.get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    found: dict[str, list[Fraction | None]] = {}
    for name, resource in KUBERNETES_NAMES.items():
        found[f"resources.{name}"] = [parse_quantity(requests[resource])] if resource in requests else []
        found[f"resources.{name}.limits"] = [parse_quantity(limits[resource]) if resource in limits else None]
    extended = {name: parse_quantity(text) for name, text in limits.items() if name not in KUBERNETES_NAMES.values()}
    gpus = [amount for name, amount in extended.items() if name in ("nvidia.com/gpu", "amd.com/gpu")]
    found["resources.gpu"] = [*gpus]
    others = {name: amount for name, amount in extended.items() if name in ("vendor.example/nic", "a.b/C_d")}
    found["resources.extended.*"] = [*others.values()]
    found |= {f"resources.extended.{name}": [amount] for name, amount in others.items()}
    shared = [volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "fairlead-shm"]
    found["resources.shm"] = [
        parse_quantity(volume["sizeLimit"]) if "sizeLimit" in volume else None for volume in shared
    ]
    claims = [item["spec"] for item in planned.manifests if item["kind"] == "PersistentVolumeClaim"]
    claims += [
        volume["ephemeral"]["volumeClaimTemplate"]["spec"] for volume in spec["volumes"] if "ephemeral" in volume
    ]
    found["volumes.*.spec.size"] = [parse_quantity(claim["resources"]["requests"]["storage"]) for claim in claims]
    found["run_as_user"] = [Fraction(spec["securityContext"]["runAsUser"])]
    found["replicas"] = [Fraction(main["spec"].get("replicas", main["spec"].get("parallelism")))]
    return found


@whole
@given(REQUESTS, snapshots())
def test_whatever_a_user_or_template_lost_is_told(asked: Any, snapshot: Snapshot) -> None:
    planned = make_plan({**asked, "strict": False}, snapshot)
    told = {
        (warning.path, str(warning.requested.source)) for warning in planned.warnings if warning.requested is not None
    }
    for item in planned.settings:
        for said in item.overridden:
            if said.source.layer in (Layer.USER, Layer.TEMPLATE) and said.value != item.value:
                assert (item.path, str(said.source)) in told
    strict = make_plan({**asked, "strict": True}, snapshot)
    # A user who overrides a template on purpose gets no warning.
    others = {
        warning.path for warning in planned.warnings if warning.requested and warning.source != Source(Layer.USER)
    }
    assert others <= {violation.path for violation in strict.violations}


@whole
@given(REQUESTS, snapshots(policies=st.just({})))
def test_every_value_that_is_asked_for_is_a_setting_or_among_what_a_setting_overrode(
    asked: Any, snapshot: Snapshot
) -> None:
    request = RunRequest.model_validate(asked)
    planned = plan_run(request, snapshot, "r7")
    said = {
        item.path
        for item in planned.settings
        for source in (item.source, *(lost.source for lost in (*item.overridden, *item.combined)))
        if source.layer is Layer.USER
    }
    for name in ("envs", "node_selector"):
        assert {f"{name}.{key}" for key in getattr(request, name)} <= said
    assert {f"secrets.{name}" for name in request.secrets} <= said
    assert {f"volumes.{name}.mount_path" for name in request.volumes} <= said
    for name in ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class", "profile", "template"):
        assert getattr(request, name) is None or name in said
    assert {f"resources.extended.{name}" for name in request.resources.extended} <= said


def read(model: type[StrictModel], data: Any) -> StrictModel | None:
    """The object, or None and violations that say something."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        violations = violations_of(error, model)
        assert violations
        assert all(violation.message for violation in violations)
        json.dumps([str(violation) for violation in violations])
        return None


@whole
@given(spoiled_requests(), snapshots())
def test_a_spoiled_request_is_refused_with_violations_or_planned(asked: Any, snapshot: Snapshot) -> None:
    request = read(RunRequest, asked)
    if isinstance(request, RunRequest):
        planned = plan_run(request, snapshot, "r7")
        assert bool(planned.violations) != bool(planned.manifests)
        existing = ["theirs", "data", "out", "v" * 63]
        assert check_manifests(planned.manifests, claims=existing, config_maps=["settings"]) == []


@whole
@given(GARBAGE, st.sampled_from([RunRequest, ComputeResource, Template, Policy, Cluster, Requirements]))
def test_garbage_is_refused_with_violations_or_read(data: Any, model: type[StrictModel]) -> None:
    read(model, data)


@whole
@given(st.dictionaries(st.sampled_from([*Policy.model_fields]), GARBAGE, max_size=3))
def test_a_garbled_policy_is_refused_with_violations_or_read(data: Any) -> None:
    read(Policy, data)


@whole
@given(st.dictionaries(st.sampled_from([*REQUIREMENTS]), GARBAGE, min_size=1, max_size=3))
def test_garbled_requirements_are_refused_with_violations_or_read(data: Any) -> None:
    read(Requirements, data)


@whole
@given(optional(**REQUIREMENTS))
def test_what_is_printed_reads_back_as_the_same_requirements(data: Any) -> None:
    printed = json.loads(json.dumps(Requirements.model_validate(data).to_data()))
    assert json.loads(json.dumps(Requirements.model_validate(printed).to_data())) == printed
    bare = make_snapshot(ALL_ALLOWED, project="forest")
    function = {"function": CONTAINER}
    assert values(make_plan(function | printed, bare)) == values(make_plan(function | data, bare))


@whole
@given(POLICIES, POLICIES, REQUESTS, snapshots(policies=st.just({})))
def test_a_policy_below_never_allows_what_one_above_refuses(
    above: Any, below: Any, asked: Any, snapshot: Snapshot
) -> None:
    limits = {name: above[name] for name in ("rules", "switches") if name in above}
    more = {name: below[name] for name in ("rules", "switches") if name in below}
    one = Policy.model_validate(limits)
    both = (one, Policy.model_validate({"scope": "project/forest", **more}))
    fields = {
        name: getattr(snapshot, name) for name in ("project", "cluster", "compute_resources", "templates", "code")
    }
    alone = make_plan(asked, Snapshot(**fields, policies=(one,)))
    together = make_plan(asked, Snapshot(**fields, policies=both))
    shipped = _loosened(one)
    refused = {(item.path, item.rule) for item in alone.violations if item.rule not in shipped}
    assert refused <= {(item.path, item.rule) for item in together.violations}


def _loosened(policy: Policy) -> set[str]:
    """Switches about which a policy says nothing: there the shipped value holds, until a scope says otherwise."""
    return {name for name in type(policy.switches).model_fields if getattr(policy.switches, name) is None}
