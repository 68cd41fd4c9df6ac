"""Cluster checks: results and hints."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes.clients import ApiError
from fairlead.adapters.kubernetes.cluster_checks import check_cluster
from fairlead.errors import Unavailable
from fairlead.manifests.kubernetes_rbac import list_permissions
from fairlead.model.runs import Check
from fairlead.model.scopes import Cluster
from tests.adapters.kubernetes.apis import ScriptedApi, make_groups, make_named, make_node
from tests.adapters.kubernetes.making import condition, make_meta

STORAGE, RUNTIMES, NODES = (
    "list /apis/storage.k8s.io/v1/storageclasses",
    "list /apis/node.k8s.io/v1/runtimeclasses",
    "list /api/v1/nodes",
)
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
FOREST = {"metadata": {"name": "forest", "labels": {"fairlead.dev/project": "forest"}}}
PRODUCT = "nvidia.com/gpu.product"
COMPLETE = {
    STORAGE: [make_named("standard", **DEFAULT), make_named("fast")],
    RUNTIMES: [make_named("nvidia")],
    NODES: [make_node("a", {PRODUCT: "A100"}, nvidia_gpu="8"), make_node("b")],
    "/api/v1/namespaces/forest": FOREST,
}


def run_checks(api: ScriptedApi, *projects: str, **settings: Any) -> dict[str, list[Check]]:
    """The results by name. Every problem has a hint."""
    results: dict[str, list[Check]] = {}
    for check in check_cluster(api.api, Cluster(name="main", **settings), projects or ["forest"]):
        assert check.state == "ok" or check.hint, check
        results.setdefault(check.name, []).append(check)
    return results


def run_check(api: ScriptedApi, name: str, **settings: Any) -> Check:
    (check,) = run_checks(api, **settings)[name]
    return check


def test_complete_cluster_passes_all_checks() -> None:
    results = run_checks(ScriptedApi(COMPLETE))
    states = {name: {check.state for check in checks} for name, checks in results.items()}
    assert states.pop("callbacks") == {"warning"}  # server_url is not set
    assert set().union(*states.values()) == {"ok"}, results
    assert results["connection"][0].message == "connected to Kubernetes v1.35.8"
    assert results["storage"][0].message == "storage classes fast, standard; standard is the default"
    assert results["gpus"][0].message == "8 nvidia.com/gpu on 1 of 2 nodes"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (Unavailable("the cluster does not answer: refused"), "does not answer"),
        (ApiError(401, "Unauthorized", "Unauthorized"), "rejects the credentials"),
    ],
)
def test_unreachable_cluster_reports_only_the_connection(error: Exception, message: str) -> None:
    results = run_checks(ScriptedApi({"/version": error}))
    assert list(results) == ["connection"]
    assert (results["connection"][0].state, message in results["connection"][0].message) == ("problem", True)


@pytest.mark.parametrize(
    ("version", "state"),
    [("v1.26.9", "problem"), ("v1.27.0", "ok"), ("v1.31.2+k3s1", "ok"), ("v2.0.0", "ok"), ("v0.0.0-master", "problem")],
)
def test_old_kubernetes_version_is_reported(version: str, state: str) -> None:
    check = run_check(ScriptedApi({**COMPLETE, "/version": {"gitVersion": version}}), "connection")
    assert (check.state, version in check.message) == (state, True)


# Permissions


def test_permissions_are_checked_cluster_wide_if_namespaces_are_created() -> None:
    api = ScriptedApi(COMPLETE)
    run_checks(api)
    expected = {
        (permission.group, permission.resource, verb)
        for permission in list_permissions(Cluster(name="main"))
        for verb in permission.verbs
    }
    review = {
        (review["group"], "/".join(filter(None, (review["resource"], review.get("subresource")))), review["verb"])
        for review in api.reviews
    }
    assert review == expected
    assert {review["namespace"] for review in api.reviews} == {""}


def test_permissions_are_checked_per_project_namespace_if_namespaces_are_not_created() -> None:
    api = ScriptedApi(COMPLETE)
    run_checks(api, "forest", "lake", create_namespaces=False, namespace="ai-{project}")
    assert {review["namespace"] for review in api.reviews if review["resource"] == "secrets"} == {
        "ai-forest",
        "ai-lake",
    }
    assert {review["namespace"] for review in api.reviews if review["resource"] == "nodes"} == {""}


@pytest.mark.parametrize(
    ("denied", "message"),
    [
        ("create secrets *", "create secrets"),
        ("get pods/log *", "get pods/log"),
        ("watch jobs *", "watch jobs.batch"),
        ("create namespaces *", "create namespaces"),
    ],
)
def test_missing_permission_is_reported_with_the_command_that_grants_it(denied: str, message: str) -> None:
    api = ScriptedApi(COMPLETE)
    api.denied = {denied}
    check = run_check(api, "permissions")
    assert (check.state, check.message) == ("problem", f"missing: {message}")
    assert check.hint == "fairlead clusters rbac main | kubectl apply -f -"


def test_missing_permissions_are_reported_in_one_message_of_limited_length() -> None:
    api = ScriptedApi(COMPLETE)
    api.denied = {"create secrets ai-lake", "delete jobs ai-lake"}
    check = run_checks(api, "forest", "lake", create_namespaces=False, namespace="ai-{project}")["permissions"][0]
    assert check.message == "missing: delete jobs.batch in ai-lake, create secrets in ai-lake"
    api.denied = {f"{verb} {item.resource} *" for item in list_permissions(Cluster(name="main")) for verb in item.verbs}
    check = run_check(api, "permissions")
    assert "more" in check.message
    assert len(check.message) < 600


def test_failed_check_does_not_hide_other_checks() -> None:
    api = ScriptedApi({**COMPLETE, STORAGE: ApiError(403, "Forbidden", "no"), NODES: Unavailable("gone for a moment")})
    results = run_checks(api)
    assert [results[name][0].state for name in ("storage", "gpus", "usage")] == ["warning", "problem", "ok"]


# Namespaces


def test_missing_namespaces_are_a_problem_only_if_they_are_not_created() -> None:
    check = run_checks(ScriptedApi(COMPLETE), "forest", "lake")["namespaces"][0]
    assert (check.state, "1 of 2 projects" in check.message, "are created" in check.message) == ("ok", True, True)
    problem, rest = run_checks(ScriptedApi(COMPLETE), "forest", "lake", create_namespaces=False)["namespaces"]
    assert "namespace lake of project lake does not exist" in problem.message
    assert "kubectl create namespace lake" in (problem.hint or "")
    assert rest.state == "ok"


def test_namespace_of_another_project_is_reported() -> None:
    other = {"metadata": {"name": "forest", "labels": {"fairlead.dev/project": "meadow"}}}
    problem = run_checks(ScriptedApi({**COMPLETE, "/api/v1/namespaces/forest": other}))["namespaces"][0]
    assert (problem.state, "not labeled for project forest" in problem.message) == ("problem", True)
    assert "kubectl label namespace forest fairlead.dev/project=forest" in (problem.hint or "")


def test_only_first_projects_are_checked_and_the_rest_is_counted() -> None:
    api = ScriptedApi(COMPLETE)
    results = run_checks(api, *(f"p{number}" for number in range(50)), create_namespaces=False)
    assert "30 were not checked" in results["namespaces"][-1].message
    assert len({review["namespace"] for review in api.reviews}) == 21


# Storage and runtimes


@pytest.mark.parametrize(
    ("classes", "settings", "state", "message"),
    [
        ([], {}, "warning", "the cluster has no storage class"),
        ([make_named("fast")], {}, "warning", "the cluster has no default storage class"),
        ([make_named("fast", **DEFAULT)], {"storage_classes": ("fast",)}, "ok", "fast is the default"),
        (
            [make_named("fast", **DEFAULT)],
            {"storage_classes": ("slow",)},
            "problem",
            "allows slow, but the cluster has",
        ),
    ],
)
def test_storage_classes_must_exist(classes: Any, settings: dict[str, Any], state: str, message: str) -> None:
    check = run_checks(ScriptedApi({**COMPLETE, STORAGE: classes}), **settings)["storage"][0]
    assert (check.state, message in check.message) == (state, True), check


def test_allowed_runtime_classes_must_exist() -> None:
    assert run_checks(ScriptedApi(COMPLETE), runtime_classes=("nvidia",))["runtime classes"][0].state == "ok"
    check = run_checks(ScriptedApi(COMPLETE), runtime_classes=("kata", "nvidia"))["runtime classes"][0]
    assert (check.state, check.message) == ("problem", "runtime_classes allows kata, but the cluster has nvidia")


# GPUs

AMD = [make_node("a", amd_gpu="4")]


@pytest.mark.parametrize(
    ("nodes", "settings", "state", "message"),
    [
        ([make_node("a")], {}, "warning", "none of 1 nodes has nvidia.com/gpu"),
        ([], {}, "warning", "none of 0 nodes"),
        ([make_node("a")], {"autoscaled": True}, "ok", "the autoscaler may add nodes that do"),
        (AMD, {}, "warning", "none of 1 nodes has nvidia.com/gpu"),
        (AMD, {"gpu_resource": "amd.com/gpu"}, "ok", "4 amd.com/gpu on 1 of 1 nodes"),
        ([make_node("a", **{"nvidia_mig-1g.5gb": "7"})], {}, "ok", "slices: nvidia.com/mig-1g.5gb"),
        ([make_node("a", nvidia_gpu="0")], {}, "warning", "none of 1"),
    ],
)
def test_gpus_are_counted(nodes: Any, settings: dict[str, Any], state: str, message: str) -> None:
    check = run_checks(ScriptedApi({**COMPLETE, NODES: nodes}), **settings)["gpus"][0]
    assert (check.state, message in check.message) == (state, True), check


def test_gpu_resource_of_another_vendor_is_suggested() -> None:
    assert "set gpu_resource to amd.com/gpu" in (run_check(ScriptedApi({**COMPLETE, NODES: AMD}), "gpus").hint or "")


def test_nodes_without_gpu_product_label_are_reported() -> None:
    nodes = [make_node("a", {PRODUCT: "A100"}, nvidia_gpu="8"), make_node("b", nvidia_gpu="8")]
    check = run_check(ScriptedApi({**COMPLETE, NODES: nodes}), "gpu types")
    assert check.message.startswith("1 of 2 nodes with GPUs have no label nvidia.com/gpu.product")
    check = run_check(ScriptedApi(COMPLETE), "gpu types", gpu_types={"big": ["H100"], "small": ["A100"]})
    assert check.message == "no node has a product listed for big in gpu_types; available products: A100"


def test_hami_requires_registered_nodes() -> None:
    check = run_check(ScriptedApi(COMPLETE), "gpu sharing", gpu_sharing="hami")
    assert (check.state, "no node is registered with HAMi" in check.message) == ("problem", True)
    nodes = [make_node("a", annotations={"hami.io/node-nvidia-register": "GPU-1"}, nvidia_gpu="8")]
    assert run_check(ScriptedApi({**COMPLETE, NODES: nodes}), "gpu sharing", gpu_sharing="hami").state == "ok"


# Queues and usage


@pytest.mark.parametrize(("field", "name"), [("gpu_sharing", "gpu sharing"), ("queueing", "queueing")])
def test_kai_and_its_queue_must_exist(field: str, name: str) -> None:
    api = ScriptedApi(COMPLETE)
    assert run_check(api, name, **{field: "kai"}).message == f"{field} is kai, but KAI is not installed"
    api.responses["/apis"] = make_groups("scheduling.run.ai")
    assert "no queue team" in run_check(api, name, **{field: "kai"}, kai_queue="team").message
    api.responses["/apis/scheduling.run.ai/v2/queues/team"] = make_named("team")
    assert run_check(api, name, **{field: "kai"}, kai_queue="team").state == "ok"


def test_kueue_and_its_queues_must_exist() -> None:
    api, kueue = ScriptedApi(COMPLETE), {"queueing": "kueue", "kueue_queue": "team"}
    assert run_check(api, "queueing", **kueue).message == "queueing is kueue, but Kueue is not installed"
    api.responses["/apis"] = make_groups("kueue.x-k8s.io")
    local_queue = "/apis/kueue.x-k8s.io/v1/namespaces/forest/localqueues/team"
    api.responses[local_queue] = {"metadata": make_meta("team"), "spec": {"clusterQueue": "shared"}}
    assert (
        "ClusterQueue shared, which the LocalQueues use, does not exist" in run_check(api, "queueing", **kueue).message
    )
    cluster_queue = {"metadata": make_meta("shared"), "spec": {}, "status": {}}
    api.responses["/apis/kueue.x-k8s.io/v1/clusterqueues/shared"] = cluster_queue
    assert run_check(api, "queueing", **kueue).state == "ok"
    check = run_checks(api, "forest", "lake", **kueue)["queueing"][0]
    assert (check.state, "LocalQueue team does not exist in lake" in check.message) == ("problem", True)
    cluster_queue["status"]["conditions"] = [condition("Active", "False", message="no flavor large")]
    assert run_check(api, "queueing", **kueue).message == "ClusterQueue shared is inactive: no flavor large"
    cluster_queue["spec"]["stopPolicy"] = "Hold"
    assert run_check(api, "queueing", **kueue).message == "ClusterQueue shared is stopped: runs there must wait"
    del cluster_queue["spec"]["stopPolicy"], cluster_queue["status"]["conditions"]
    api.responses[local_queue]["spec"]["stopPolicy"] = "Hold"
    check = run_check(api, "queueing", **kueue)
    assert (check.state, check.message) == ("warning", "LocalQueue team is stopped in forest: runs there must wait")


def test_missing_metrics_server_is_reported() -> None:
    api = ScriptedApi({**COMPLETE, "/apis": {"groups": []}})
    check = run_check(api, "usage")
    assert (check.state, check.hint) == ("warning", "install metrics-server")
