"""Violations and warnings of local clusters, and the fit on their node."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.planning import plan_run
from fairlead.model.nodes import Node
from fairlead.model.plans import Layer, Plan
from tests.core.nodes import make_holding, make_node
from tests.making import CONTAINER, PYTHON, RUN_ID, SERVED, broken, make_cluster, make_request, make_snapshot, warned

LOCAL = make_cluster(name="here", executor="local")
COMMANDED = {"name": "train", "command": ["nvidia-smi"]}


def plan_here(nodes: Sequence[Node] | None = None, **asked: Any) -> Plan:
    """The plan of a run on a local cluster."""
    table = None if nodes is None else NodeTable(nodes)
    return plan_run(make_request(**{"function": PYTHON, **asked}), make_snapshot(LOCAL), RUN_ID, nodes=table)


@pytest.mark.parametrize("asked", [{}, {"function": COMMANDED}, {"replicas": 1, "action": "job"}, {"deadline": 60}])
def test_a_job_of_a_python_function_is_taken(asked: dict[str, Any]) -> None:
    planned = plan_here(**asked)
    assert (broken(planned), warned(planned)) == ([], [])
    assert planned.manifests[0]["kind"] == "Job"


REFUSED: Mapping[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a container": ({"function": CONTAINER}, ("function.kind", "local")),
    "more than one replica": ({"replicas": 2}, ("replicas", "local")),
    "several replicas that serve": ({"action": "serve", "replicas": 2}, ("replicas", "local")),
    "nothing to run": ({"function": {"name": "train"}}, ("function.source", "required")),
    "a handler without a source": ({"function": {"name": "t", "handler": "main"}}, ("function.source", "required")),
    "nothing to serve": ({"function": {"name": "t"}, "action": "serve"}, ("function.source", "required")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_one_machine_cannot_do_is_refused_with_a_suggestion(what: str) -> None:
    asked, refused = REFUSED[what]
    planned = plan_here(**asked)
    assert refused in broken(planned)
    assert planned.manifests == ()
    (violation,) = [item for item in planned.violations if (item.path, item.rule) == refused]
    assert violation.message
    assert violation.hint


def find_container(planned: Plan) -> dict[str, Any]:
    container: dict[str, Any] = planned.manifests[0]["spec"]["template"]["spec"]["containers"][0]
    return container


def find_envs(planned: Plan) -> dict[str, str]:
    return {env["name"]: env["value"] for env in find_container(planned)["env"]}


@pytest.mark.parametrize("action", ["serve", "workspace"])
@pytest.mark.parametrize("function", [PYTHON, COMMANDED])
def test_what_goes_on_until_it_is_stopped_is_taken_without_a_port(action: str, function: dict[str, Any]) -> None:
    planned = plan_here(action=action, function=function)
    assert (broken(planned), warned(planned)) == ([], [])
    assert [manifest["kind"] for manifest in planned.manifests] == ["Deployment", "ConfigMap"]
    assert "PORT" not in find_envs(planned)
    assert "ports" not in find_container(planned)


def test_a_workspace_needs_no_source() -> None:
    assert broken(plan_here(action="workspace", function={"name": "lab"})) == []


def test_a_command_is_told_the_port_that_it_is_to_listen_on() -> None:
    planned = plan_here(action="serve", function={**COMMANDED, "port": 9000})
    assert (broken(planned), warned(planned)) == ([], [])
    assert find_envs(planned)["PORT"] == "9000"
    assert find_container(planned)["ports"] == [{"name": "http", "containerPort": 9000}]


@pytest.mark.parametrize(
    ("action", "function", "port"),
    [("serve", PYTHON, "8080"), ("workspace", PYTHON, "8888"), ("serve", SERVED, "8000"), ("job", PYTHON, None)],
)
def test_on_a_cluster_whatever_serves_is_told_its_port(action: str, function: dict[str, Any], port: str | None) -> None:
    planned = plan_run(make_request(action=action, function=function), make_snapshot(), RUN_ID)
    assert find_envs(planned).get("PORT") == port
    sources = [setting.source.layer for setting in planned.settings if setting.path == "envs.PORT"]
    assert sources == ([] if port is None else [Layer.ENFORCED])


def test_a_port_in_the_variables_that_is_not_the_one_of_the_function_loses_and_that_is_told() -> None:
    planned = plan_run(make_request(action="serve", function=PYTHON, envs={"PORT": "1"}), make_snapshot(), RUN_ID)
    assert find_envs(planned)["PORT"] == "8080"
    assert ("envs.PORT", "overridden") in warned(planned)


@pytest.mark.parametrize("said", [{"envs": {"PORT": "1"}}, {"secrets": ["PORT"]}])
def test_where_the_port_is_chosen_here_a_variable_cannot_say_another(said: dict[str, Any]) -> None:
    planned = plan_here(action="serve", function=COMMANDED, **said)
    assert (f"{next(iter(said))}.PORT", "local") in broken(planned)
    assert broken(plan_here(action="job", function=COMMANDED, envs={"PORT": "1"})) == []
    assert broken(plan_here(action="serve", envs={"PORT": "1"})) == []


def test_all_that_is_refused_is_told_at_once() -> None:
    planned = plan_here(function=SERVED, action="serve", replicas=3)
    assert broken(planned) == [("function.kind", "local"), ("replicas", "local")]
    assert all("cluster/here" in violation.message for violation in planned.violations)


@pytest.mark.parametrize("what", [name for name in REFUSED if "nothing" not in name and "handler" not in name])
def test_a_kubernetes_cluster_takes_what_one_machine_cannot(what: str) -> None:
    asked, refused = REFUSED[what]
    planned = plan_run(make_request(**{"function": PYTHON, **asked}), make_snapshot(make_cluster()), RUN_ID)
    assert refused not in broken(planned)


POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    ]
}


@pytest.mark.parametrize(
    ("asked", "path"),
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
def test_what_has_no_effect_on_one_machine_is_warned_of(asked: dict[str, Any], path: str) -> None:
    planned = plan_here(**asked)
    assert (broken(planned), warned(planned)) == ([], [(path, "no_effect")])
    (warning,) = planned.warnings
    assert "cluster/here" in warning.message
    on_kubernetes = plan_run(make_request(**{"function": PYTHON, **asked}), make_snapshot(), RUN_ID)
    assert (path, "no_effect") not in warned(on_kubernetes)


def test_a_python_function_has_no_image_on_one_machine() -> None:
    container = plan_here().manifests[0]["spec"]["template"]["spec"]["containers"][0]
    assert "image" not in container


def test_nothing_is_pulled_on_one_machine() -> None:
    planned = plan_here(function={**PYTHON, "pull_policy": "Always", "pull_secrets": ["REGISTRY"]})
    assert [manifest["kind"] for manifest in planned.manifests] == ["Job", "ConfigMap"]
    pod = planned.manifests[0]["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in pod
    assert "imagePullPolicy" not in pod["containers"][0]


def test_without_nodes_nobody_knows_whether_it_fits() -> None:
    assert plan_here(resources={"cpu": 99}).fit.verdict == "unknown"


def test_what_fits_now_says_so() -> None:
    planned = plan_here([make_node()], resources={"cpu": 8})
    assert (planned.fit.verdict, planned.fit.reasons) == ("now", ())
    assert planned.manifests


def test_what_fits_later_may_be_submitted_and_says_why_it_would_wait() -> None:
    planned = plan_here([make_node(make_holding("a", cpu=8))], resources={"cpu": 1})
    assert (planned.fit.verdict, broken(planned)) == ("later", [])
    assert planned.fit.reasons == ("needs 1 CPU core; 0 of 8 free on box. In use by a",)
    assert planned.manifests


def test_what_never_fits_is_refused_with_every_path() -> None:
    asked = {"cpu": 9, "mem": "64Gi", "gpu": 3, "extended": {"example.com/fpga": 1}}
    planned = plan_here([make_node()], resources=asked, node_selector={"zone": "a"})
    assert broken(planned) == [
        ("node_selector.zone", "never_fits"),
        ("resources.cpu", "never_fits"),
        ("resources.extended.example.com/fpga", "never_fits"),
        ("resources.gpu", "never_fits"),
        ("resources.mem", "never_fits"),
    ]
    assert (planned.manifests, planned.fit.verdict) == ((), "never")


def test_a_type_of_gpu_that_the_node_does_not_have_never_fits() -> None:
    labeled = make_node(labels={"nvidia.com/gpu.product": "NVIDIA-H200"})
    assert broken(plan_here([labeled], resources={"gpu": {"devices": 1, "type": "NVIDIA-H200"}})) == []
    refused = plan_here([labeled], resources={"gpu": {"devices": 1, "type": "NVIDIA-A100"}})
    (violation,) = refused.violations
    assert violation.rule == "never_fits"
    assert "NVIDIA-A100" in violation.message  # without an affinity in the request


def test_what_is_refused_anyway_is_not_held_against_nodes() -> None:
    planned = plan_here([make_node()], function=CONTAINER, resources={"cpu": 99})
    assert broken(planned) == [("function.kind", "local")]
    assert planned.fit.verdict == "unknown"
