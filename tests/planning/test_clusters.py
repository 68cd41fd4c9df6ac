"""Cluster settings for runs: namespaces, queues, storage classes and runtime classes."""

from typing import Any

import pytest

from fairlead.manifests.rendering import MAX_CONFIG_MAP_BYTES
from fairlead.resolution.drafts import Code
from tests.making import (
    CODE,
    CONTAINER,
    PYTHON,
    SERVED,
    container,
    make_cluster,
    make_compute_resource,
    plan,
    pod,
    value,
    violated_rules,
)
from tests.validity import check_manifests

URL = "https://fairlead.example.org"
WITH_SERVER_URL = make_cluster(server_url=URL)
LARGE_CODE = Code("print()\n", b"x" * MAX_CONFIG_MAP_BYTES, "sha256:1234")
WITH_PULL_SETTINGS = {**CONTAINER, "pull_policy": "Never", "pull_secrets": ["B", "A", "B"]}


def volumes_with_claim(kind: str, **spec: Any) -> dict[str, Any]:
    """The volumes of a request: one volume with a size."""
    return {"data": {"volume_type": kind, "mount_path": "/data", "spec": {"size": "1Gi", **spec}}}


def labels(planned: Any) -> dict[str, str]:
    """The labels of the pods."""
    pod_labels: dict[str, str] = planned.manifests[0]["spec"]["template"]["metadata"]["labels"]
    return pod_labels


def test_all_objects_of_a_run_are_in_the_namespace_of_the_cluster() -> None:
    requested = {
        "function": PYTHON,
        "action": "serve",
        "secrets": ["A"],
        "volumes": volumes_with_claim("persistent_volume_claim"),
    }
    planned = plan(requested, make_cluster(namespace="ai-{project}"), project="Forest")
    (namespace,) = {manifest["metadata"]["namespace"] for manifest in planned.manifests}
    assert namespace.startswith("ai-forest-")  # with a hash, because another project may be called forest
    assert len(planned.manifests) == 5


def test_names_too_long_for_labels_are_in_annotations() -> None:
    planned = plan({"function": {**CONTAINER, "name": "a" * 70}}, project="a+b")
    metadata = planned.manifests[0]["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"fairlead.dev/project-name": "a+b", "fairlead.dev/function-name": "a" * 70}


def test_a_python_pod_receives_server_url_and_run_token() -> None:
    planned = plan({"function": PYTHON}, WITH_SERVER_URL)
    envs = {env["name"]: env for env in container(planned)["env"]}
    assert envs["FAIRLEAD_SERVER"]["value"] == URL
    reference = {"name": "train-r7-secrets", "key": "FAIRLEAD_RUN_TOKEN"}
    assert envs["FAIRLEAD_RUN_TOKEN"]["valueFrom"] == {"secretKeyRef": reference}
    (secret,) = [manifest for manifest in planned.manifests if manifest["kind"] == "Secret"]
    assert (secret["metadata"]["name"], secret["data"]) == ("train-r7-secrets", {"FAIRLEAD_RUN_TOKEN": ""})
    assert value(planned, "envs.FAIRLEAD_SERVER") == URL
    assert check_manifests(planned.manifests) == []


def test_the_run_token_is_in_the_secret_but_not_a_setting() -> None:
    planned = plan({"function": PYTHON, "secrets": ["A"]}, WITH_SERVER_URL, secrets=["A"])
    assert planned.violations == ()
    assert planned.manifests[1]["data"] == {"FAIRLEAD_RUN_TOKEN": "", "A": ""}
    assert [item.path for item in planned.settings if item.path.startswith("secrets.")] == ["secrets.A"]


@pytest.mark.parametrize(
    ("requested", "cluster"),
    [
        ({"function": CONTAINER}, WITH_SERVER_URL),
        ({"function": PYTHON}, make_cluster()),
        ({"function": PYTHON}, make_cluster(executor="local")),
    ],
)
def test_other_pods_receive_no_server_url(requested: dict[str, Any], cluster: Any) -> None:
    planned = plan(requested, cluster)
    assert "FAIRLEAD_SERVER" not in str(planned.manifests)
    assert "FAIRLEAD_RUN_TOKEN" not in str(planned.manifests)


def test_large_code_requires_a_server_url() -> None:
    assert violated_rules(plan({"function": PYTHON}, code=LARGE_CODE)) == [("function.source", "size")]
    planned = plan({"function": PYTHON}, WITH_SERVER_URL, code=LARGE_CODE)
    assert planned.violations == ()
    assert "binaryData" not in planned.manifests[-1]
    assert "binaryData" in plan({"function": PYTHON}, WITH_SERVER_URL, code=CODE).manifests[-1]


def test_large_inputs_are_rejected_even_with_a_server_url() -> None:
    requested = {"function": PYTHON, "inputs": {"text": "x" * MAX_CONFIG_MAP_BYTES}}
    assert violated_rules(plan(requested, WITH_SERVER_URL)) == [("function.source", "size")]


def test_the_sidecar_is_sent_to_pods_only() -> None:
    code = Code("boot", b"archive", "sha256:1234", sidecar="sidecar code")
    assert plan({"function": PYTHON}, code=code).manifests[1]["data"]["sidecar.py"] == "sidecar code"
    local_plan = plan({"function": PYTHON}, make_cluster(executor="local"), code=code)
    assert "sidecar.py" not in local_plan.manifests[1]["data"]


def test_a_kueue_job_is_suspended_with_its_queue_as_annotation() -> None:
    planned = plan({}, make_cluster(queueing="kueue", kueue_queue="research"))
    job = planned.manifests[0]
    assert job["metadata"]["annotations"] == {"fairlead.dev/queue": "research"}
    assert job["spec"]["suspend"] is True
    assert not any("kueue" in key for key in {**job["metadata"]["labels"], **labels(planned)})
    assert "annotations" not in plan().manifests[0]["metadata"]


def test_a_served_run_has_no_kueue_queue() -> None:
    planned = plan({"function": SERVED, "action": "serve"}, make_cluster(queueing="kueue"))
    assert "annotations" not in planned.manifests[0]["metadata"]


@pytest.mark.parametrize("requested", [{}, {"resources": {"gpu": 1}}, {"function": SERVED, "action": "serve"}])
def test_all_pods_use_kai_if_it_is_the_queue(requested: dict[str, Any]) -> None:
    planned = plan(requested, make_cluster(queueing="kai", kai_queue="research"))
    assert pod(planned)["schedulerName"] == "kai-scheduler"
    assert labels(planned)["kai.scheduler/queue"] == "research"
    shared = plan(requested, make_cluster(gpu_sharing="kai"))
    assert ("schedulerName" in pod(shared)) == ("resources" in requested)


def test_pull_policy_and_pull_secrets_come_from_the_function() -> None:
    planned = plan({"function": WITH_PULL_SETTINGS}, secrets=["A", "B"])
    assert container(planned)["imagePullPolicy"] == "Never"
    assert pod(planned)["imagePullSecrets"] == [{"name": "train-r7-pull-1"}, {"name": "train-r7-pull-2"}]
    secrets = [manifest for manifest in planned.manifests if manifest["kind"] == "Secret"]
    assert {secret["type"] for secret in secrets} == {"kubernetes.io/dockerconfigjson"}
    assert [secret["data"] for secret in secrets] == [{".dockerconfigjson": ""}] * 2
    assert [secret["metadata"]["annotations"]["fairlead.dev/secret"] for secret in secrets] == ["A", "B"]
    assert check_manifests(planned.manifests) == []


def test_python_functions_may_have_pull_settings() -> None:
    planned = plan({"function": {**PYTHON, "pull_policy": "Always", "pull_secrets": ["A"]}})
    assert container(planned)["imagePullPolicy"] == "Always"
    assert pod(planned)["imagePullSecrets"] == [{"name": "train-r7-pull-1"}]
    assert check_manifests(planned.manifests) == []


def test_pull_settings_are_omitted_by_default() -> None:
    assert "imagePullPolicy" not in container(plan())
    assert "imagePullSecrets" not in pod(plan())


@pytest.mark.parametrize("kind", ["persistent_volume_claim", "ephemeral"])
def test_a_forbidden_storage_class_is_rejected_with_the_nearest_name_first(kind: str) -> None:
    cluster = make_cluster(storage_classes=["bulk", "fast", "fast-ssd"])
    (violation,) = plan({"volumes": volumes_with_claim(kind, storage_class="fst")}, cluster).violations
    assert (violation.path, violation.rule) == ("volumes.data.spec.storage_class", "storage_classes")
    assert violation.message == "storage class fst requested; cluster main allows fast, fast-ssd, bulk"
    assert violation.hint == "set it to fast"
    assert plan({"volumes": volumes_with_claim(kind, storage_class="bulk")}, cluster).violations == ()
    assert plan({"volumes": volumes_with_claim(kind, storage_class="fst")}).violations == ()


def test_a_claim_without_a_class_uses_the_cluster_default() -> None:
    requested = {"volumes": volumes_with_claim("persistent_volume_claim")}
    assert plan(requested, make_cluster(storage_classes=["fast"])).violations == ()
    assert plan(requested, make_cluster(storage_classes=[])).violations == ()


def test_a_forbidden_runtime_class_is_rejected_from_any_layer() -> None:
    cluster = make_cluster(runtime_classes=["gvisor", "nvidia"])
    planned = plan({"profile": "big"}, cluster, make_compute_resource(runtime_class="nvidea"))
    (violation,) = planned.violations
    assert (violation.path, violation.rule) == ("runtime_class", "runtime_classes")
    assert violation.message == "runtime class nvidea requested; cluster main allows nvidia, gvisor"
    assert str(violation.source) == "compute resource big"
    assert plan({"runtime_class": "nvidia"}, cluster).violations == ()
    assert plan({}, cluster).violations == ()


def test_the_hint_is_to_remove_the_class_if_none_is_allowed() -> None:
    (violation,) = plan({"runtime_class": "nvidia"}, make_cluster(runtime_classes=[])).violations
    assert (violation.message, violation.hint) == (
        "runtime class nvidia requested; cluster main allows none",
        "remove it",
    )
