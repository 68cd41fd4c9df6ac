"""Starting a run: objects are created in an order that can be resumed, and no existing object is overwritten."""

import base64
import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.starting import PLURALS, Starter
from fairlead.errors import StartFailed, Unavailable
from fairlead.model.runs import JSON, LaunchSpec
from fairlead.model.scopes import Cluster
from tests.adapters.local.making import make_launch_spec
from tests.making import SERVED

PROJECT, RELEASED = "fairlead.dev/project", "fairlead.dev/released"
DATA = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
SHARED = {"volume_type": "shared_volume", "name": "sets", "mount_path": "/sets", "spec": {"claim_name": "sets"}}
SETTINGS = {"volume_type": "config_map", "name": "settings", "mount_path": "/s", "spec": {"name": "settings"}}
CALLBACK_FIELDS = {"server_url": "https://fairlead.example"}


class Killed(BaseException):
    """The client was killed."""


class FakeApi:
    """An API server that stores objects. `errors` are raised once each, keyed by a prefix of `VERB path`."""

    def __init__(self) -> None:
        self.objects: dict[str, JSON] = {}
        self.requests: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.max_requests: int | None = None  # the number of requests after which the client is killed

    def get(self, path: str) -> JSON:
        self._record("GET", path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    def create(self, path: str, body: JSON) -> JSON:
        object_path = f"{path}/{body['metadata']['name']}"
        self._record("POST", object_path)
        if object_path in self.objects:
            raise ApiError(409, "AlreadyExists", f"{object_path} already exists")
        created = copy.deepcopy(body)
        created["metadata"] |= {"uid": f"uid-{len(self.objects)}"}
        self.objects[object_path] = created
        return copy.deepcopy(created)

    def patch(self, path: str, body: JSON) -> JSON:
        self._record("PATCH", path)
        _merge(self.objects[path], body)
        return copy.deepcopy(self.objects[path])

    def add(self, kind: str, name: str, namespace: str = "forest", **labels: str) -> JSON:
        """Add an object that exists before the run."""
        path = path_of("v1", PLURALS[kind], namespace, name)
        self.objects[path] = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}}
        return self.objects[path]

    def find(self, kind: str) -> JSON:
        """The one object of a kind."""
        (match,) = [item for item in self.objects.values() if item.get("kind") == kind]
        return match

    def _record(self, verb: str, path: str) -> None:
        if len(self.requests) == self.max_requests:
            raise Killed
        self.requests.append(f"{verb} {path}")
        for prefix, error in list(self.errors.items()):
            if f"{verb} {path}".startswith(prefix):
                del self.errors[prefix]
                raise error


def _merge(target: JSON, patch: JSON) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def cluster(**fields: Any) -> Cluster:
    return Cluster(name="main", **fields)


def start(api: FakeApi, launch: LaunchSpec, target_cluster: Cluster | None = None) -> list[JSON]:
    starter = Starter(cast(KubernetesClient, api), target_cluster or cluster(), "home", timedelta(hours=1))
    return list(starter.start(launch))


def verbs(api: FakeApi, namespace: str = "forest") -> list[str]:
    """The requests in the namespace: verbs and kinds."""
    requests = [request.split() for request in api.requests if f"/namespaces/{namespace}/" in request]
    return [f"{verb} {path.split('/')[-2]}" for verb, path in requests]


def make_full_launch(**fields: Any) -> LaunchSpec:
    """A run with a volume, a secret, code and a token."""
    request: dict[str, Any] = {"volumes": [DATA], "secrets": {"TOKEN": "hunter2"}, **fields}
    return replace(make_launch_spec("r1", cluster=cluster(**CALLBACK_FIELDS), **request), run_token="fl_run")


def test_main_object_is_created_first_and_released_last() -> None:
    api = FakeApi()
    created, released = start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    assert verbs(api) == [
        "POST jobs",
        "POST persistentvolumeclaims",
        "POST secrets",
        "POST configmaps",
        "PATCH jobs",
    ]
    assert (created["spec"]["suspend"], RELEASED in created["metadata"].get("annotations", {})) == (True, False)
    assert (released["spec"]["suspend"], released["metadata"]["annotations"][RELEASED]) == (False, "true")
    for kind in ("PersistentVolumeClaim", "Secret", "ConfigMap"):
        (owner,) = api.find(kind)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Job", created["metadata"]["uid"])


def test_deployment_has_no_replicas_until_it_is_released() -> None:
    api = FakeApi()
    created, released = start(
        api, make_launch_spec("r1", cluster=cluster(), function=SERVED, action="serve", replicas=3)
    )
    assert (created["kind"], created["spec"]["replicas"], released["spec"]["replicas"]) == ("Deployment", 0, 3)


def test_kueue_job_has_its_queue_label_and_stays_suspended() -> None:
    api, target_cluster = FakeApi(), cluster(queueing="kueue", kueue_queue="gpus")
    _, released = start(api, make_launch_spec("r1", cluster=target_cluster), target_cluster)
    assert released["spec"]["suspend"] is True
    assert released["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


def test_secrets_and_code_are_stored_in_objects_of_the_run() -> None:
    api = FakeApi()
    start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    values = {key: base64.b64decode(value).decode() for key, value in api.find("Secret")["data"].items()}
    assert values == {"TOKEN": "hunter2", "FAIRLEAD_RUN_TOKEN": "fl_run"}
    assert base64.b64decode(api.find("ConfigMap")["binaryData"]["code.tar.gz"]) == make_full_launch().code


@pytest.mark.parametrize("max_requests", range(7))
def test_interrupted_start_continues_without_duplicates(max_requests: int) -> None:
    api, launch, target_cluster = FakeApi(), make_full_launch(), cluster(**CALLBACK_FIELDS)
    api.max_requests = max_requests
    with pytest.raises(Killed):
        start(api, launch, target_cluster)
    api.max_requests = None
    *_, released = start(api, launch, target_cluster)
    assert released["metadata"]["annotations"][RELEASED] == "true"
    kinds = sorted(str(item["kind"]) for item in api.objects.values())
    assert kinds == ["ConfigMap", "Job", "Namespace", "PersistentVolumeClaim", "Secret"]


def test_released_run_is_not_changed() -> None:
    api = FakeApi()
    start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    api.requests.clear()
    (existing,) = start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    assert existing["metadata"]["annotations"][RELEASED] == "true"
    assert verbs(api) == ["POST jobs", "GET jobs"]


def test_existing_secret_is_never_read() -> None:
    api = FakeApi()
    start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    del api.find("Job")["metadata"]["annotations"][RELEASED]
    api.requests.clear()
    start(api, make_full_launch(), cluster(**CALLBACK_FIELDS))
    assert [verb for verb in verbs(api) if "secrets" in verb] == ["POST secrets"]


def test_object_of_another_run_with_the_same_name_is_not_changed() -> None:
    api, launch = FakeApi(), make_launch_spec("r1", cluster=cluster())
    api.objects[path_of("batch/v1", "jobs", "forest", launch.name)] = {"metadata": {"labels": {}}}
    with pytest.raises(StartFailed, match=f"Job {launch.name} already exists in forest and does not belong to run r1"):
        start(api, launch)
    assert verbs(api) == ["POST jobs", "GET jobs"]


def test_start_waits_for_an_object_that_is_being_deleted() -> None:
    api, launch = FakeApi(), make_launch_spec("r1", cluster=cluster())
    start(api, launch)
    api.find("Job")["metadata"]["deletionTimestamp"] = "2026-11-15T08:30:00Z"
    with pytest.raises(Unavailable, match=r"an older Job .* is still being deleted"):
        start(api, launch)


def test_start_waits_for_objects_of_an_older_main_object() -> None:
    api, launch, target_cluster = FakeApi(), make_full_launch(), cluster(**CALLBACK_FIELDS)
    start(api, launch, target_cluster)
    (path,) = [path for path, item in api.objects.items() if item["kind"] == "Job"]
    del api.objects[path]
    with pytest.raises(Unavailable, match=r"an older PersistentVolumeClaim .* is still being deleted"):
        start(api, launch, target_cluster)


# Namespaces


def test_namespace_is_created_with_labels_and_checked_once() -> None:
    api = FakeApi()
    starter = Starter(cast(KubernetesClient, api), cluster(), "home", timedelta(hours=1))
    for run_id in ("r1", "r2"):
        list(starter.start(make_launch_spec(run_id, cluster=cluster())))
    labels = api.objects["/api/v1/namespaces/forest"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/managed-by": "fairlead", PROJECT: "forest"}
    assert (
        len([request for request in api.requests if request.endswith("/namespaces/forest")]) == 2
    )  # read, then created


@pytest.mark.parametrize(
    ("labels", "fields", "message"),
    [
        ({}, {}, "namespace forest exists but is not labeled for project forest: label it with `kubectl label"),
        ({PROJECT: "meadow"}, {}, "not labeled for project forest"),
        (
            None,
            {"create_namespaces": False},
            "namespace forest does not exist, and cluster/main does not create namespaces: create it",
        ),
    ],
)
def test_start_waits_while_the_namespace_is_not_labeled_for_the_project(
    labels: dict[str, str] | None, fields: dict[str, Any], message: str
) -> None:
    api, target_cluster = FakeApi(), cluster(**fields)
    path = "/api/v1/namespaces/forest"
    if labels is not None:
        api.objects[path] = {"metadata": {"name": "forest", "labels": labels}}
    starter = Starter(cast(KubernetesClient, api), target_cluster, "home", timedelta(hours=1))
    with pytest.raises(Unavailable, match=message):
        list(starter.start(make_launch_spec("r1", cluster=target_cluster)))
    assert verbs(api) == []
    api.objects[path] = {"metadata": {"name": "forest", "labels": {PROJECT: "forest"}}}
    assert len(list(starter.start(make_launch_spec("r1", cluster=target_cluster)))) == 2


def test_deleted_namespace_is_created_again() -> None:
    api = FakeApi()
    starter = Starter(cast(KubernetesClient, api), cluster(), "home", timedelta(hours=1))
    list(starter.start(make_launch_spec("r1", cluster=cluster())))
    api.objects.clear()
    api.errors["POST /apis/batch"] = ApiError(404, "NotFound", 'namespaces "forest" not found')
    with pytest.raises(Unavailable, match='the cluster rejected the request: namespaces "forest" not found'):
        list(starter.start(make_launch_spec("r2", cluster=cluster())))
    list(starter.start(make_launch_spec("r2", cluster=cluster())))
    assert "/api/v1/namespaces/forest" in api.objects


# Existing objects


@pytest.mark.parametrize(("kind", "volume"), [("PersistentVolumeClaim", SHARED), ("ConfigMap", SETTINGS)])
def test_existing_volume_source_needs_the_project_label(kind: str, volume: dict[str, Any]) -> None:
    api, launch = FakeApi(), make_launch_spec("r1", cluster=cluster(), volumes=[volume])
    name = next(iter(volume["spec"].values()))
    with pytest.raises(
        StartFailed, match=f"{kind} {name} does not exist in namespace forest: create it and submit the run again"
    ):
        start(api, launch)
    for labels in ({}, {PROJECT: "meadow"}):
        api.add(kind, name, **labels)
        with pytest.raises(StartFailed, match=f"{kind} {name} is not labeled for project forest: its owner can run"):
            start(api, launch)
    assert "POST jobs" not in verbs(api)
    api.add(kind, name, **{PROJECT: "forest"})
    assert len(start(api, launch)) == 2


def test_missing_claim_of_a_project_volume_is_created() -> None:
    api, launch = FakeApi(), make_launch_spec("r1", cluster=cluster(), volumes=[SHARED], shared={"sets": "v1"})
    start(api, launch)
    claim = api.find("PersistentVolumeClaim")
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    own_labels = {
        "app.kubernetes.io/managed-by": "fairlead",
        "fairlead.dev/platform": "home",
        "fairlead.dev/volume": "v1",
    }
    assert claim["metadata"]["labels"] == {**own_labels, PROJECT: "forest"}
    assert "ownerReferences" not in claim["metadata"]


def test_claim_of_a_deleted_volume_is_not_used_for_a_new_volume_of_the_same_name() -> None:
    api, launch = FakeApi(), make_launch_spec("r1", cluster=cluster(), volumes=[SHARED], shared={"sets": "v2"})
    api.add("PersistentVolumeClaim", "sets", **{PROJECT: "forest", "fairlead.dev/volume": "v1"})
    with pytest.raises(StartFailed, match=r"does not belong to volume .* of forest"):
        start(api, launch)


# Rejected requests


@pytest.mark.parametrize("status", [400, 413, 422])
def test_invalid_object_fails_the_start(status: int) -> None:
    api = FakeApi()
    api.errors["POST /apis/batch"] = ApiError(status, "Invalid", "spec.template: invalid")
    with pytest.raises(StartFailed, match=r"the cluster rejected the run: spec\.template: invalid"):
        start(api, make_launch_spec("r1", cluster=cluster()))


@pytest.mark.parametrize(("status", "hint"), [(401, True), (403, True), (404, False), (409, False)])
def test_rejection_that_an_administrator_can_fix_is_retried(status: int, hint: bool) -> None:
    api = FakeApi()
    api.errors["POST /apis/batch"] = ApiError(status, "Forbidden", "exceeded quota: few")
    with pytest.raises(Unavailable, match="the cluster rejected the request: exceeded quota: few") as caught:
        start(api, make_launch_spec("r1", cluster=cluster()))
    assert ("`fairlead clusters check main`" in str(caught.value)) is hint


def test_large_code_requires_a_server_url() -> None:
    large = replace(make_launch_spec("r1", cluster=cluster()), code=b"x" * (1 << 20))
    with pytest.raises(
        StartFailed,
        match=r"its code is 1048576 bytes long, but a run's ConfigMap holds at most [0-9]+: move data",
    ):
        start(FakeApi(), large)
    api = FakeApi()
    start(api, replace(make_full_launch(), code=b"x" * (1 << 20)), cluster(**CALLBACK_FIELDS))
    assert "binaryData" not in api.find("ConfigMap")
