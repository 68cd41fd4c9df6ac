"""Violations and warnings for local clusters, and whether runs fit on their node."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fairlead.model.nodes import Node, NodeTable
from fairlead.model.plans import Layer, Plan
from fairlead.planning.plan import plan_run
from tests.making import (
    CONTAINER,
    PYTHON,
    RUN_ID,
    SERVED,
    make_cluster,
    make_request,
    make_snapshot,
    violated_rules,
    warning_rules,
)
from tests.scheduling.nodes import make_node, make_scheduled_pod

LOCAL = make_cluster(name="here", executor="local")
COMMAND = {"name": "train", "command": ["nvidia-smi"]}


def plan_locally(nodes: Sequence[Node] | None = None, **requested: Any) -> Plan:
    """The plan for a run on a local cluster."""
    table = None if nodes is None else NodeTable(nodes)
    return plan_run(make_request(**{"function": PYTHON, **requested}), make_snapshot(LOCAL), RUN_ID, nodes=table)


@pytest.mark.parametrize("requested", [{}, {"function": COMMAND}, {"replicas": 1, "action": "job"}, {"deadline": 60}])
def test_a_job_of_a_python_function_is_accepted(requested: dict[str, Any]) -> None:
    planned = plan_locally(**requested)
    assert (violated_rules(planned), warning_rules(planned)) == ([], [])
    assert planned.manifests[0]["kind"] == "Job"


REJECTED: Mapping[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a container": ({"function": CONTAINER}, ("function.kind", "local")),
    "more than one replica": ({"replicas": 2}, ("replicas", "local")),
    "several replicas that serve": ({"action": "serve", "replicas": 2}, ("replicas", "local")),
    "nothing to run": ({"function": {"name": "train"}}, ("function.source", "required")),
    "a handler without a source": ({"function": {"name": "t", "handler": "main"}}, ("function.source", "required")),
    "nothing to serve": ({"function": {"name": "t"}, "action": "serve"}, ("function.source", "required")),
}


@pytest.mark.parametrize("case", REJECTED)
def test_unsupported_requests_are_rejected_with_a_hint(case: str) -> None:
    requested, expected = REJECTED[case]
    planned = plan_locally(**requested)
    assert expected in violated_rules(planned)
    assert planned.manifests == ()
    (violation,) = [item for item in planned.violations if (item.path, item.rule) == expected]
    assert violation.message
    assert violation.hint


def find_container(planned: Plan) -> dict[str, Any]:
    container: dict[str, Any] = planned.manifests[0]["spec"]["template"]["spec"]["containers"][0]
    return container


def find_envs(planned: Plan) -> dict[str, str]:
    return {env["name"]: env["value"] for env in find_container(planned)["env"]}


@pytest.mark.parametrize("action", ["serve", "workspace"])
@pytest.mark.parametrize("function", [PYTHON, COMMAND])
def test_long_running_actions_are_accepted_without_a_port(action: str, function: dict[str, Any]) -> None:
    planned = plan_locally(action=action, function=function)
    assert (violated_rules(planned), warning_rules(planned)) == ([], [])
    assert [manifest["kind"] for manifest in planned.manifests] == ["Deployment", "ConfigMap"]
    assert "PORT" not in find_envs(planned)
    assert "ports" not in find_container(planned)


def test_a_workspace_needs_no_source() -> None:
    assert violated_rules(plan_locally(action="workspace", function={"name": "lab"})) == []


def test_a_served_command_receives_its_port() -> None:
    planned = plan_locally(action="serve", function={**COMMAND, "port": 9000})
    assert (violated_rules(planned), warning_rules(planned)) == ([], [])
    assert find_envs(planned)["PORT"] == "9000"
    assert find_container(planned)["ports"] == [{"name": "http", "containerPort": 9000}]


@pytest.mark.parametrize(
    ("action", "function", "port"),
    [("serve", PYTHON, "8080"), ("workspace", PYTHON, "8888"), ("serve", SERVED, "8000"), ("job", PYTHON, None)],
)
def test_served_runs_on_kubernetes_receive_their_port(action: str, function: dict[str, Any], port: str | None) -> None:
    planned = plan_run(make_request(action=action, function=function), make_snapshot(), RUN_ID)
    assert find_envs(planned).get("PORT") == port
    sources = [setting.source.layer for setting in planned.settings if setting.path == "envs.PORT"]
    assert sources == ([] if port is None else [Layer.ENFORCED])


def test_a_port_variable_is_overridden_with_a_warning() -> None:
    planned = plan_run(make_request(action="serve", function=PYTHON, envs={"PORT": "1"}), make_snapshot(), RUN_ID)
    assert find_envs(planned)["PORT"] == "8080"
    assert ("envs.PORT", "overridden") in warning_rules(planned)


@pytest.mark.parametrize("requested", [{"envs": {"PORT": "1"}}, {"secrets": ["PORT"]}])
def test_the_port_variable_is_rejected_if_the_machine_chooses_the_port(requested: dict[str, Any]) -> None:
    planned = plan_locally(action="serve", function=COMMAND, **requested)
    assert (f"{next(iter(requested))}.PORT", "local") in violated_rules(planned)
    assert violated_rules(plan_locally(action="job", function=COMMAND, envs={"PORT": "1"})) == []
    assert violated_rules(plan_locally(action="serve", envs={"PORT": "1"})) == []


def test_all_violations_of_a_local_cluster_are_reported_together() -> None:
    planned = plan_locally(function=SERVED, action="serve", replicas=3)
    assert violated_rules(planned) == [("function.kind", "local"), ("replicas", "local")]
    assert all("cluster/here" in violation.message for violation in planned.violations)


@pytest.mark.parametrize("case", [name for name in REJECTED if "nothing" not in name and "handler" not in name])
def test_a_kubernetes_cluster_accepts_what_a_local_cluster_rejects(case: str) -> None:
    requested, violation = REJECTED[case]
    planned = plan_run(make_request(**{"function": PYTHON, **requested}), make_snapshot(make_cluster()), RUN_ID)
    assert violation not in violated_rules(planned)


POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    ]
}


@pytest.mark.parametrize(
    ("requested", "path"),
    [
        ({"function": {**PYTHON, "image": "registry.example/lab/torch:1"}}, "function.image"),
        ({"function": {**PYTHON, "pull_policy": "Always"}}, "function.pull_policy"),
        ({"function": {**PYTHON, "pull_secrets": ["REGISTRY"]}}, "function.pull_secrets.REGISTRY"),
        ({"function": {**PYTHON, "port": 9000}, "action": "serve"}, "function.port"),
        ({"runtime_class": "nvidia"}, "runtime_class"),
        ({"priority_class": "high"}, "priority_class"),
        ({"affinity": {"podAffinity": POD_AFFINITY}}, "affinity"),
        ({"affinity": {"podAntiAffinity": POD_AFFINITY}}, "affinity"),
    ],
)
def test_settings_without_effect_on_a_local_cluster_are_warned_about(requested: dict[str, Any], path: str) -> None:
    planned = plan_locally(**requested)
    assert (violated_rules(planned), warning_rules(planned)) == ([], [(path, "no_effect")])
    (warning,) = planned.warnings
    assert "cluster/here" in warning.message
    on_kubernetes = plan_run(make_request(**{"function": PYTHON, **requested}), make_snapshot(), RUN_ID)
    assert (path, "no_effect") not in warning_rules(on_kubernetes)


def test_a_local_python_function_has_no_image() -> None:
    container = plan_locally().manifests[0]["spec"]["template"]["spec"]["containers"][0]
    assert "image" not in container


def test_a_local_run_has_no_pull_settings() -> None:
    planned = plan_locally(function={**PYTHON, "pull_policy": "Always", "pull_secrets": ["REGISTRY"]})
    assert [manifest["kind"] for manifest in planned.manifests] == ["Job", "ConfigMap"]
    pod = planned.manifests[0]["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in pod
    assert "imagePullPolicy" not in pod["containers"][0]


def test_the_verdict_is_unknown_without_nodes() -> None:
    assert plan_locally(resources={"cpu": 99}).fit.verdict == "unknown"


def test_a_fitting_run_has_the_verdict_now() -> None:
    planned = plan_locally([make_node()], resources={"cpu": 8})
    assert (planned.fit.verdict, planned.fit.reasons) == ("now", ())
    assert planned.manifests


def test_a_run_that_must_wait_is_accepted_with_the_reason() -> None:
    planned = plan_locally([make_node(make_scheduled_pod("a", cpu=8))], resources={"cpu": 1})
    assert (planned.fit.verdict, violated_rules(planned)) == ("later", [])
    assert planned.fit.reasons == ("needs 1 CPU core; 0 of 8 free on box. In use by a",)
    assert planned.manifests


def test_a_run_that_never_fits_is_rejected_with_all_paths() -> None:
    requested = {"cpu": 9, "mem": "64Gi", "gpu": 3, "extended": {"example.com/fpga": 1}}
    planned = plan_locally([make_node()], resources=requested, node_selector={"zone": "a"})
    assert violated_rules(planned) == [
        ("node_selector.zone", "never_fits"),
        ("resources.cpu", "never_fits"),
        ("resources.extended.example.com/fpga", "never_fits"),
        ("resources.gpu", "never_fits"),
        ("resources.mem", "never_fits"),
    ]
    assert (planned.manifests, planned.fit.verdict) == ((), "never")


def test_a_gpu_type_that_no_node_has_never_fits() -> None:
    labeled = make_node(labels={"nvidia.com/gpu.product": "NVIDIA-H200"})
    assert violated_rules(plan_locally([labeled], resources={"gpu": {"devices": 1, "type": "NVIDIA-H200"}})) == []
    planned = plan_locally([labeled], resources={"gpu": {"devices": 1, "type": "NVIDIA-A100"}})
    (violation,) = planned.violations
    assert violation.rule == "never_fits"
    assert "NVIDIA-A100" in violation.message  # without an affinity in the request


def test_invalid_requests_are_not_matched_against_nodes() -> None:
    planned = plan_locally([make_node()], function=CONTAINER, resources={"cpu": 99})
    assert violated_rules(planned) == [("function.kind", "local")]
    assert planned.fit.verdict == "unknown"
