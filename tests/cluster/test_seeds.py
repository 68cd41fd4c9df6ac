"""Every field of the seed stories reaches the live objects of the cluster."""

import base64
import json
from functools import partial

import pytest
import yaml

from fairlead.sdk.runs import Run
from tests.cluster.clients import Client, Object, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.making import make_claim, make_map
from tests.cluster.platforms import Platform
from tests.golden import stories
from tests.golden.test_seeds import EXPECTED_PARTS
from tests.processes.machines import Machine

STORIES = list(dict.fromkeys(story for story, _, _ in EXPECTED_PARTS))
ALLOWED = {"existing_volumes": "allow", "allow_root": True}
GPU_TYPES = {"A100": ["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"]}
CREDENTIALS = json.dumps({"auths": {"registry.example": {"auth": "dTpw"}}})
PROJECT = "fairlead.dev/project"
EXISTING = {
    "PersistentVolumeClaim": ("team-data", "persistentvolumeclaims", "shared_volume", "claim_name"),
    "ConfigMap": ("team-settings", "configmaps", "config_map", "name"),
}


@pytest.fixture(scope="module")
def platform(shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client) -> Platform:
    """A platform with autoscaled clusters, one per kind of GPU sharing."""
    platform = Platform(shared_machine, control_plane, admin, autoscaled=True, gpu_types=GPU_TYPES)
    for sharing in ("kai", "hami"):
        options = {"namespace": f"{platform.name}-{{project}}", "gpu_sharing": sharing, "autoscaled": True}
        platform.api("POST", "/clusters", {"name": sharing, **options})
        # Exit code 1: the GPU sharing system is not installed, and the check reports it.
        platform.terminal("clusters", "connect", sharing, "--kubeconfig", str(control_plane.kubeconfig), code=1)
        platform.api("POST", "/projects", {"name": sharing, "parent": f"cluster/{sharing}"})
    for secret in stories.SECRETS:
        platform.project.set_secret(secret, f"the value of {secret}")
    platform.project.set_secret("REGISTRY", CREDENTIALS)
    labels = {PROJECT: "forest"}
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": platform.namespace, "labels": labels}})
    settings = make_map(platform.namespace, "train-settings", {"a": "b"})
    admin.create({**settings, "metadata": {**settings["metadata"], "labels": labels}})
    return platform


@pytest.fixture(scope="module")
def runs(platform: Platform) -> dict[str, Run]:
    """A submitted run for every seed story."""
    return {story: submit_story(platform, story) for story in STORIES}


def submit_story(platform: Platform, story: str) -> Run:
    """Configure the platform as a story requires, and submit its run."""
    folder, documents = stories.FOLDER / story, list[Object]()
    if (folder / "platform.yaml").exists():
        documents = list(yaml.safe_load_all((folder / "platform.yaml").read_text("utf-8")))
    sharing = [document["gpu_sharing"] for document in documents if "gpu_sharing" in document]
    policy: Object = next((document for document in documents if document.get("kind") == "Policy"), {})
    policy = {"kind": "Policy", "scope": "platform", **policy, "switches": {**ALLOWED, **policy.get("switches", {})}}
    resources = [document for document in documents if document.get("kind", "ComputeResource") == "ComputeResource"]
    apply(platform, policy, *resources)
    request = yaml.safe_load((folder / "request.yaml").read_text("utf-8")) or {}
    serves = request.get("action") == "serve"
    image = "example.test/sleep" if serves else "example.test/succeed"
    function = {"name": "train", "kind": "container", "image": image, **({"port": 8000} if serves else {})}
    request |= {"function": function, "inputs": {}}  # a container has no inputs
    project = sharing[0] if sharing else "forest"
    created = platform.api("POST", f"/projects/{project}/runs", request)
    return Run(platform.project.api, created)


def apply(platform: Platform, *documents: Object) -> None:
    documents_with_kind = [{"kind": "ComputeResource", **document} for document in documents]
    platform.api("POST", "/apply", {"documents": documents_with_kind, "force": True})


def workload_of(admin: Client, run: Run) -> Object | None:
    """The Job or Deployment of a run, or None if it has not been released yet."""
    for path in ("/apis/batch/v1/jobs", "/apis/apps/v1/deployments"):
        for item in admin.items(path, labelSelector=f"fairlead.dev/run={run.id}"):
            if item["metadata"].get("annotations", {}).get("fairlead.dev/released") == "true":
                return item
    return None


def objects_of(admin: Client, run: Run, plural: str) -> list[Object]:
    return admin.items(f"/api/v1/{plural}", labelSelector=f"fairlead.dev/run={run.id}")


def pod_of(admin: Client, run: Run) -> Object:
    """Wait until a run has a pod, and return it."""
    return until(lambda: objects_of(admin, run, "pods"))[0]


def read_live(admin: Client, run: Run) -> dict[str, Object]:
    """The parts of the live objects that the seed stories describe."""
    workload, pod = until(lambda: workload_of(admin, run)), pod_of(admin, run)
    container, claims = pod["spec"]["containers"][0], objects_of(admin, run, "persistentvolumeclaims")
    return {
        "job": workload["spec"],
        "pod": pod["spec"],
        "annotations": pod["metadata"].get("annotations", {}),
        "security": pod["spec"]["securityContext"],
        "resources": container["resources"],
        "mounts": {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]},
        "envs": {
            env["name"]: env.get("value") or f"secret {env['valueFrom'].get('secretKeyRef', {}).get('key')}"
            for env in container["env"]
        },
        "claim": claims[0]["spec"] if claims else {},
    }


@pytest.mark.parametrize(("story", "part", "expected"), EXPECTED_PARTS)
def test_live_objects_contain_the_expected_values(
    runs: dict[str, Run], admin: Client, story: str, part: str, expected: Object
) -> None:
    live = read_live(admin, runs[story])[part]
    values = {name: live.get(name) for name in expected}
    if part == "claim" and "resources" in expected:
        assert live["accessModes"] == ["ReadWriteOnce"]
    assert values == expected


def test_no_story_failed_or_stayed_queued(runs: dict[str, Run], platform: Platform) -> None:
    states = {story: platform.get_run(run) for story, run in runs.items()}
    failures = {story: status["message"] for story, status in states.items() if status["state"] in ("failed", "queued")}
    assert failures == {}


# Kubernetes defaults


def test_tolerations_and_affinity_are_unchanged_in_the_pod(platform: Platform, admin: Client) -> None:
    run = submit_story(platform, "seed001-tolerations")
    request = yaml.safe_load((stories.FOLDER / "seed001-tolerations" / "request.yaml").read_text("utf-8"))
    tolerations = pod_of(admin, run)["spec"]["tolerations"]
    own = [toleration for toleration in tolerations if not toleration["key"].startswith("node.kubernetes.io/")]
    assert own == sorted(request["tolerations"], key=lambda toleration: str(toleration["key"]))
    run = submit_story(platform, "seed001-affinity")
    request = yaml.safe_load((stories.FOLDER / "seed001-affinity" / "request.yaml").read_text("utf-8"))
    assert pod_of(admin, run)["spec"]["affinity"] == request["affinity"]


def test_shared_memory_is_a_memory_volume_with_the_limit_as_size(runs: dict[str, Run], admin: Client) -> None:
    for story, limit in (("seed004-shm", None), ("seed004-shm-under-limit", "16G")):
        volumes = {volume["name"]: volume for volume in pod_of(admin, runs[story])["spec"]["volumes"]}
        shared = volumes["fairlead-shm"]["emptyDir"]
        assert (shared["medium"], "sizeLimit" in shared) == ("Memory", limit is not None), story


def test_volume_has_the_requested_size_and_storage_class(platform: Platform, admin: Client) -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data"}
    run = platform.run(volumes=[{**volume, "spec": {"size": "2Gi", "storage_class": "fast"}}])
    pod = pod_of(admin, run)
    (claim,) = objects_of(admin, run, "persistentvolumeclaims")
    spec = claim["spec"]
    assert (spec["storageClassName"], spec["accessModes"]) == ("fast", ["ReadWriteOnce"])
    assert spec["resources"]["requests"]["storage"] == "2Gi"
    mounted = {volume["name"]: volume for volume in pod["spec"]["volumes"]}["data"]
    assert mounted["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    platform.until(run, "running")
    run.stop()
    until(lambda: not objects_of(admin, run, "persistentvolumeclaims"))


def test_compute_resource_overrides_values_of_the_user(platform: Platform, admin: Client) -> None:
    requirements = {"resources": {"cpu": {"requests": 2, "limits": 3}, "mem": "1Gi"}, "envs": {"WHO": "profile"}}
    requirements |= {"node_selector": {"kubernetes.io/os": "linux"}, "run_as_user": 2000}
    apply(
        platform,
        {"kind": "Policy", "scope": "platform", "switches": ALLOWED},
        {"name": "fixed", "requirements": requirements},
    )
    request: Object = {
        "resources": {"cpu": 1, "disk": "1Gi"},
        "envs": {"WHO": "user", "ALSO": "user"},
        "run_as_user": 3000,
    }
    run = platform.run(profile="fixed", **request)
    live = read_live(admin, run)
    assert live["resources"]["requests"] == {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    assert live["resources"]["limits"] == {"cpu": "3"}
    assert (live["envs"]["WHO"], live["envs"]["ALSO"]) == ("profile", "user")
    assert live["security"]["runAsUser"] == 2000
    assert live["pod"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod_of(admin, run)["metadata"]["labels"]["fairlead.dev/compute-resource"] == "fixed"
    run.stop()


# Secrets


def test_only_named_secrets_reach_the_run_by_reference(
    platform: Platform, admin: Client, control_plane: ControlPlane
) -> None:
    other_secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "other", "namespace": platform.namespace},
    }
    admin.create({**other_secret, "stringData": {"key": "planted"}})
    volume = {"volume_type": "secret", "name": "token", "mount_path": "/token", "spec": {"name": "HF_TOKEN"}}
    run = platform.run(secrets=["my-secret-key"], volumes=[volume])
    pod = pod_of(admin, run)
    values = {
        key: base64.b64decode(value).decode()
        for secret in objects_of(admin, run, "secrets")
        for key, value in secret["data"].items()
    }
    assert values == {"my-secret-key": "the value of my-secret-key", "HF_TOKEN": "the value of HF_TOKEN"}
    assert "the value of" not in json.dumps([pod, workload_of(admin, run), objects_of(admin, run, "configmaps")])
    server_requests = [event for event in control_plane.requests() if event["userAgent"] == "fairlead"]
    secret_requests = [event for event in server_requests if event.get("objectRef", {}).get("resource") == "secrets"]
    assert {event["verb"] for event in secret_requests} == {"create"}
    assert "other" not in {event["objectRef"].get("name") for event in secret_requests}
    run.stop()


def test_image_pull_policy_and_secrets_come_from_the_function(platform: Platform, admin: Client) -> None:
    function = {"name": "pulled", "kind": "container", "image": "example.test/sleep", "pull_policy": "Always"}
    run = platform.run(function={**function, "pull_secrets": ["REGISTRY"]})
    spec = pod_of(admin, run)["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    ((name,),) = [list(reference.values()) for reference in spec["imagePullSecrets"]]
    (secret,) = [item for item in objects_of(admin, run, "secrets") if item["metadata"]["name"] == name]
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert base64.b64decode(secret["data"][".dockerconfigjson"]).decode() == CREDENTIALS
    assert "valueFrom" not in json.dumps(spec["containers"][0]["env"])
    run.stop()


# Existing objects


@pytest.fixture(scope="module")
def existing(platform: Platform, admin: Client) -> None:
    """A claim and a ConfigMap without the project label. The claim is registered as a volume of the project."""
    admin.create(make_claim(platform.namespace, "team-data"))
    admin.create(make_map(platform.namespace, "team-settings", {"a": "b"}))
    platform.api("POST", "/projects/forest/volumes", {"name": "team-data", "size": "1Gi"})


@pytest.mark.parametrize("kind", EXISTING)
def test_existing_objects_are_used_only_with_the_project_label(
    platform: Platform, admin: Client, existing: None, kind: str
) -> None:
    name, plural, volume_type, key = EXISTING[kind]
    volumes = [{"name": "data", "mount_path": "/data", "volume_type": volume_type, "spec": {key: name}}]
    status = platform.until(platform.run(volumes=volumes), "failed")
    command = f"kubectl --namespace {platform.namespace} label {kind.lower()} {name} {PROJECT}=forest"
    message = f"{kind} {name} is not labeled for project forest: its owner can run `{command}`"
    assert (status["reason"], status["message"]) == ("StartFailed", message)
    platform.plane.kubectl(*command.split()[1:])
    run = platform.run(volumes=volumes)
    platform.until(run, "running")
    run.stop()
    platform.until(run, "stopped")
    assert admin.find(f"/api/v1/namespaces/{platform.namespace}/{plural}/{name}") is not None


def test_missing_config_map_is_reported(platform: Platform) -> None:
    volume = {"volume_type": "config_map", "name": "data", "mount_path": "/data", "spec": {"name": "nowhere"}}
    status = platform.until(platform.run(volumes=[volume]), "failed")
    message = f"ConfigMap nowhere does not exist in namespace {platform.namespace}: create it and submit the run again"
    assert (status["reason"], status["message"]) == ("StartFailed", message)


def test_shared_volume_is_created_once_and_persists(platform: Platform, admin: Client) -> None:
    platform.api("POST", "/projects/forest/volumes", {"name": "sets", "size": "3Gi"})
    volume = {"volume_type": "shared_volume", "name": "sets", "mount_path": "/sets", "spec": {"claim_name": "sets"}}
    runs = [platform.run(name, volumes=[volume]) for name in ("one", "two")]
    for run in runs:
        platform.until(run, "running")
        run.stop()
        platform.until(run, "stopped")
    claim = admin.get(f"/api/v1/namespaces/{platform.namespace}/persistentvolumeclaims/sets")
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert claim["metadata"]["labels"][PROJECT] == "forest"
    assert "ownerReferences" not in claim["metadata"]


# Settings for every run


def test_objects_are_owned_by_the_run_and_pods_have_no_cluster_token(platform: Platform, admin: Client) -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
    run = platform.python("import time\ndef main():\n    time.sleep(60)\n", volumes=[volume], secrets=["HF_TOKEN"])
    function = {"name": "served", "kind": "container", "image": "example.test/sleep", "port": 8000}
    served = platform.run(function=function, action="serve", secrets=["HF_TOKEN"])
    kinds = {"persistentvolumeclaims", "secrets", "configmaps"}
    for current, expected in ((run, kinds), (served, {"secrets", "services"})):
        workload, spec = until(partial(workload_of, admin, current)), pod_of(admin, current)["spec"]
        objects = {plural: objects_of(admin, current, plural) for plural in (*kinds, "services")}
        assert {plural for plural, items in objects.items() if items} == expected
        for item in (item for items in objects.values() for item in items):
            assert [owner["uid"] for owner in item["metadata"]["ownerReferences"]] == [workload["metadata"]["uid"]]
            assert item["metadata"]["labels"][PROJECT] == "forest"
        assert spec["automountServiceAccountToken"] is False
        assert not [volume for volume in spec["volumes"] if "projected" in volume]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security_context = spec["containers"][0]["securityContext"]
        assert security_context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        current.stop()
        platform.until(current, "stopped")
