"""How a run is started: in an order that leaves nothing behind, by name, and never by force."""

import base64
import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.starting import PLURALS, Starter
from fairlead.errors import StartFailed, Unavailable
from fairlead.model.observations import JSON, LaunchSpec
from fairlead.model.scopes import Cluster
from tests.adapters.local.making import make_work
from tests.making import SERVED

PROJECT, RELEASED = "fairlead.dev/project", "fairlead.dev/released"
DATA = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data", "spec": {"size": "1Gi"}}
SHARED = {"volume_type": "shared_volume", "name": "sets", "mount_path": "/sets", "spec": {"claim_name": "sets"}}
SETTINGS = {"volume_type": "config_map", "name": "settings", "mount_path": "/s", "spec": {"name": "settings"}}
CALLS_BACK = {"server_url": "https://fairlead.example"}


class Killed(BaseException):
    """The client was killed."""


class FakeApi:
    """An API server that keeps what it is given. `said`: what it answers instead, by `VERB path`, once."""

    def __init__(self) -> None:
        self.objects: dict[str, JSON] = {}
        self.asked: list[str] = []
        self.said: dict[str, Exception] = {}
        self.most: int | None = None  # the number of requests after which the client is killed

    def get(self, path: str) -> JSON:
        self._ask("GET", path)
        if path not in self.objects:
            raise ApiError(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    def create(self, path: str, body: JSON) -> JSON:
        where = f"{path}/{body['metadata']['name']}"
        self._ask("POST", where)
        if where in self.objects:
            raise ApiError(409, "AlreadyExists", f"{where} already exists")
        made = copy.deepcopy(body)
        made["metadata"] |= {"uid": f"uid-{len(self.objects)}"}
        self.objects[where] = made
        return copy.deepcopy(made)

    def patch(self, path: str, body: JSON) -> JSON:
        self._ask("PATCH", path)
        _merge(self.objects[path], body)
        return copy.deepcopy(self.objects[path])

    def add(self, kind: str, name: str, namespace: str = "forest", **labels: str) -> JSON:
        """Something that is there already."""
        path = path_of("v1", PLURALS[kind], namespace, name)
        self.objects[path] = {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}}
        return self.objects[path]

    def find(self, kind: str) -> JSON:
        """The one object of a kind."""
        (found,) = [made for made in self.objects.values() if made.get("kind") == kind]
        return found

    def _ask(self, verb: str, path: str) -> None:
        if len(self.asked) == self.most:
            raise Killed
        self.asked.append(f"{verb} {path}")
        for words, error in list(self.said.items()):
            if f"{verb} {path}".startswith(words):
                del self.said[words]
                raise error


def _merge(into: JSON, patch: JSON) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def cluster(**fields: Any) -> Cluster:
    return Cluster(name="main", **fields)


def start(api: FakeApi, work: LaunchSpec, on: Cluster | None = None) -> list[JSON]:
    starter = Starter(cast(KubernetesClient, api), on or cluster(), "home", timedelta(hours=1))
    return list(starter.start(work))


def verbs(api: FakeApi, run: str = "forest") -> list[str]:
    """The requests in the namespace: verbs and kinds."""
    words = [asked.split() for asked in api.asked if f"/namespaces/{run}/" in asked]
    return [f"{verb} {path.split('/')[-2]}" for verb, path in words]


def everything(**more: Any) -> LaunchSpec:
    """A run that has one of everything."""
    asked: dict[str, Any] = {"volumes": [DATA], "secrets": {"TOKEN": "hunter2"}, **more}
    return replace(make_work("r1", cluster=cluster(**CALLS_BACK), **asked), run_token="fl_run")


def test_main_object_is_created_first_and_released_last() -> None:
    api = FakeApi()
    made, released = start(api, everything(), cluster(**CALLS_BACK))
    assert verbs(api) == [
        "POST jobs",
        "POST persistentvolumeclaims",
        "POST secrets",
        "POST configmaps",
        "PATCH jobs",
    ]
    assert (made["spec"]["suspend"], RELEASED in made["metadata"].get("annotations", {})) == (True, False)
    assert (released["spec"]["suspend"], released["metadata"]["annotations"][RELEASED]) == (False, "true")
    for kind in ("PersistentVolumeClaim", "Secret", "ConfigMap"):
        (owner,) = api.find(kind)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Job", made["metadata"]["uid"])


def test_deployment_has_no_replicas_until_it_is_released() -> None:
    api = FakeApi()
    made, released = start(api, make_work("r1", cluster=cluster(), function=SERVED, action="serve", replicas=3))
    assert (made["kind"], made["spec"]["replicas"], released["spec"]["replicas"]) == ("Deployment", 0, 3)


def test_kueue_job_has_its_queue_label_and_stays_suspended() -> None:
    api, on = FakeApi(), cluster(queueing="kueue", kueue_queue="gpus")
    _, released = start(api, make_work("r1", cluster=on), on)
    assert released["spec"]["suspend"] is True
    assert released["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


def test_secrets_and_code_are_stored_in_objects_of_the_run() -> None:
    api = FakeApi()
    start(api, everything(), cluster(**CALLS_BACK))
    values = {key: base64.b64decode(value).decode() for key, value in api.find("Secret")["data"].items()}
    assert values == {"TOKEN": "hunter2", "FAIRLEAD_RUN_TOKEN": "fl_run"}
    assert base64.b64decode(api.find("ConfigMap")["binaryData"]["code.tar.gz"]) == everything().code


@pytest.mark.parametrize("most", range(7))
def test_interrupted_start_continues_without_duplicates(most: int) -> None:
    api, work, on = FakeApi(), everything(), cluster(**CALLS_BACK)
    api.most = most
    with pytest.raises(Killed):
        start(api, work, on)
    api.most = None
    *_, released = start(api, work, on)
    assert released["metadata"]["annotations"][RELEASED] == "true"
    kinds = sorted(str(made["kind"]) for made in api.objects.values())
    assert kinds == ["ConfigMap", "Job", "Namespace", "PersistentVolumeClaim", "Secret"]


def test_released_run_is_not_changed() -> None:
    api = FakeApi()
    start(api, everything(), cluster(**CALLS_BACK))
    api.asked.clear()
    (found,) = start(api, everything(), cluster(**CALLS_BACK))
    assert found["metadata"]["annotations"][RELEASED] == "true"
    assert verbs(api) == ["POST jobs", "GET jobs"]


def test_existing_secret_is_never_read() -> None:
    api = FakeApi()
    start(api, everything(), cluster(**CALLS_BACK))
    del api.find("Job")["metadata"]["annotations"][RELEASED]
    api.asked.clear()
    start(api, everything(), cluster(**CALLS_BACK))
    assert [asked for asked in verbs(api) if "secrets" in asked] == ["POST secrets"]


def test_object_of_another_run_with_the_same_name_is_not_changed() -> None:
    api, work = FakeApi(), make_work("r1", cluster=cluster())
    api.objects[path_of("batch/v1", "jobs", "forest", work.name)] = {"metadata": {"labels": {}}}
    with pytest.raises(StartFailed, match=f"Job {work.name} already exists in forest and is not of run r1"):
        start(api, work)
    assert verbs(api) == ["POST jobs", "GET jobs"]


def test_start_waits_for_an_object_that_is_being_deleted() -> None:
    api, work = FakeApi(), make_work("r1", cluster=cluster())
    start(api, work)
    api.find("Job")["metadata"]["deletionTimestamp"] = "2026-11-15T08:30:00Z"
    with pytest.raises(Unavailable, match=r"an older Job .* is still being deleted"):
        start(api, work)


def test_start_waits_for_objects_of_an_older_main_object() -> None:
    api, work, on = FakeApi(), everything(), cluster(**CALLS_BACK)
    start(api, work, on)
    (path,) = [path for path, made in api.objects.items() if made["kind"] == "Job"]
    del api.objects[path]
    with pytest.raises(Unavailable, match=r"an older PersistentVolumeClaim .* is still being deleted"):
        start(api, work, on)


# Namespaces


def test_namespace_is_created_with_labels_and_checked_once() -> None:
    api = FakeApi()
    starter = Starter(cast(KubernetesClient, api), cluster(), "home", timedelta(hours=1))
    for run_id in ("r1", "r2"):
        list(starter.start(make_work(run_id, cluster=cluster())))
    labels = api.objects["/api/v1/namespaces/forest"]["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/managed-by": "fairlead", PROJECT: "forest"}
    assert len([asked for asked in api.asked if asked.endswith("/namespaces/forest")]) == 2  # looked for, and made


@pytest.mark.parametrize(
    ("labels", "fields", "message"),
    [
        ({}, {}, "namespace forest exists but is not labeled for project forest: label it with `kubectl label"),
        ({PROJECT: "meadow"}, {}, "not labeled for project forest"),
        (
            None,
            {"create_namespaces": False},
            "namespace forest does not exist, and cluster/main does not create any: create it",
        ),
    ],
)
def test_start_waits_while_the_namespace_is_not_labeled_for_the_project(
    labels: dict[str, str] | None, fields: dict[str, Any], message: str
) -> None:
    api, on = FakeApi(), cluster(**fields)
    path = "/api/v1/namespaces/forest"
    if labels is not None:
        api.objects[path] = {"metadata": {"name": "forest", "labels": labels}}
    starter = Starter(cast(KubernetesClient, api), on, "home", timedelta(hours=1))
    with pytest.raises(Unavailable, match=message):
        list(starter.start(make_work("r1", cluster=on)))
    assert verbs(api) == []
    api.objects[path] = {"metadata": {"name": "forest", "labels": {PROJECT: "forest"}}}
    assert len(list(starter.start(make_work("r1", cluster=on)))) == 2


def test_deleted_namespace_is_created_again() -> None:
    api = FakeApi()
    starter = Starter(cast(KubernetesClient, api), cluster(), "home", timedelta(hours=1))
    list(starter.start(make_work("r1", cluster=cluster())))
    api.objects.clear()
    api.said["POST /apis/batch"] = ApiError(404, "NotFound", 'namespaces "forest" not found')
    with pytest.raises(Unavailable, match='the cluster rejected the request: namespaces "forest" not found'):
        list(starter.start(make_work("r2", cluster=cluster())))
    list(starter.start(make_work("r2", cluster=cluster())))
    assert "/api/v1/namespaces/forest" in api.objects


# Existing objects


@pytest.mark.parametrize(("kind", "volume"), [("PersistentVolumeClaim", SHARED), ("ConfigMap", SETTINGS)])
def test_existing_volume_source_needs_the_project_label(kind: str, volume: dict[str, Any]) -> None:
    api, work = FakeApi(), make_work("r1", cluster=cluster(), volumes=[volume])
    name = next(iter(volume["spec"].values()))
    with pytest.raises(
        StartFailed, match=f"{kind} {name} does not exist in namespace forest: create it, and submit the run again"
    ):
        start(api, work)
    for labels in ({}, {PROJECT: "meadow"}):
        api.add(kind, name, **labels)
        with pytest.raises(StartFailed, match=f"{kind} {name} is not labeled for project forest: its owner can run"):
            start(api, work)
    assert "POST jobs" not in verbs(api)
    api.add(kind, name, **{PROJECT: "forest"})
    assert len(start(api, work)) == 2


def test_missing_claim_of_a_project_volume_is_created() -> None:
    api, work = FakeApi(), make_work("r1", cluster=cluster(), volumes=[SHARED], shared={"sets": "v1"})
    start(api, work)
    claim = api.find("PersistentVolumeClaim")
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    own = {"app.kubernetes.io/managed-by": "fairlead", "fairlead.dev/platform": "home", "fairlead.dev/volume": "v1"}
    assert claim["metadata"]["labels"] == {**own, PROJECT: "forest"}
    assert "ownerReferences" not in claim["metadata"]


def test_claim_of_a_deleted_volume_is_not_used_for_a_new_volume_of_the_same_name() -> None:
    api, work = FakeApi(), make_work("r1", cluster=cluster(), volumes=[SHARED], shared={"sets": "v2"})
    api.add("PersistentVolumeClaim", "sets", **{PROJECT: "forest", "fairlead.dev/volume": "v1"})
    with pytest.raises(StartFailed, match=r"is not the volume .* of forest"):
        start(api, work)


# Rejected requests


@pytest.mark.parametrize("status", [400, 413, 422])
def test_invalid_object_fails_the_start(status: int) -> None:
    api = FakeApi()
    api.said["POST /apis/batch"] = ApiError(status, "Invalid", "spec.template: invalid")
    with pytest.raises(StartFailed, match=r"the cluster rejected it: spec\.template: invalid"):
        start(api, make_work("r1", cluster=cluster()))


@pytest.mark.parametrize(("status", "hint"), [(401, True), (403, True), (404, False), (409, False)])
def test_rejection_that_an_administrator_can_fix_is_retried(status: int, hint: bool) -> None:
    api = FakeApi()
    api.said["POST /apis/batch"] = ApiError(status, "Forbidden", "exceeded quota: few")
    with pytest.raises(Unavailable, match="the cluster rejected the request: exceeded quota: few") as caught:
        start(api, make_work("r1", cluster=cluster()))
    assert ("`fairlead clusters check main`" in str(caught.value)) is hint


def test_large_code_requires_a_server_url() -> None:
    large = replace(make_work("r1", cluster=cluster()), code=b"x" * (1 << 20))
    with pytest.raises(
        StartFailed,
        match=r"its code has 1048576 bytes, and at most [0-9]+ fit into the ConfigMap of a run: remove data",
    ):
        start(FakeApi(), large)
    api = FakeApi()
    start(api, replace(everything(), code=b"x" * (1 << 20)), cluster(**CALLS_BACK))
    assert "binaryData" not in api.find("ConfigMap")
