"""Callback probe: a pod checks whether pods can reach the server, and is always removed."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes.clients import ApiError
from fairlead.adapters.kubernetes.cluster_checks import check_callbacks
from fairlead.errors import Unavailable
from fairlead.model.runs import Check
from fairlead.model.scopes import Cluster
from tests.adapters.kubernetes.apis import OnePod, ScriptedApi
from tests.adapters.kubernetes.apis import make_pod as pod

CLUSTER = Cluster(name="main", server_url="https://fairlead.example", python_image="registry.example/python:3")
PODS = "/api/v1/namespaces/forest/pods"


def run_probe(api: ScriptedApi, cluster: Cluster = CLUSTER, *namespaces: str) -> Check:
    (check,) = check_callbacks(
        api.api, cluster, namespaces or ["gone", "forest"], patience=2.0, sleep=lambda _seconds: None
    )
    assert check.state == "ok" or check.hint
    return check


def test_missing_server_url_is_a_warning_with_the_remaining_limits() -> None:
    api = ScriptedApi()
    check = run_probe(api, Cluster(name="main"))
    assert (check.state, api.created) == ("warning", [])
    assert "1 MB" in check.message
    assert "4000 bytes" in check.message
    assert "fairlead clusters edit main --server-url" in (check.hint or "")


def test_successful_probe_reports_ok_and_removes_its_pod() -> None:
    api = OnePod("forest", pod("Pending"), pod("Running"), pod("Succeeded", terminated={"message": "reached"}))
    assert run_probe(api) == Check("callbacks", "ok", "pods can reach the server at https://fairlead.example")
    ((path, body),) = api.created
    assert path == PODS
    assert api.deleted == [f"{PODS}/{body['metadata']['name']}"]


def test_probe_pod_has_the_restrictions_of_run_pods() -> None:
    api = OnePod("forest", pod("Succeeded", terminated={"message": "reached"}))
    run_probe(api)
    spec = api.created[0][1]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["activeDeadlineSeconds"] <= 60
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["image"] == "registry.example/python:3"
    assert container["command"][-1] == "https://fairlead.example/healthz"


@pytest.mark.parametrize(
    ("last_pod", "state", "message"),
    [
        (pod("Succeeded", terminated={"message": "URLError: refused"}), "problem", "URLError: refused"),
        (
            pod("Failed", terminated={"reason": "StartError", "message": "no python3"}),
            "problem",
            "StartError: no python3",
        ),
        (pod("Succeeded", terminated={}), "problem", "it is Succeeded"),
        ({"metadata": {}, "status": {"phase": "Failed", "message": "deadline"}}, "problem", "deadline"),
        (
            pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "denied"}),
            "warning",
            "ImagePullBackOff: denied",
        ),
        (pod("Pending"), "warning", "it is Pending"),
    ],
)
def test_failed_probe_reports_the_cause(last_pod: dict[str, Any], state: str, message: str) -> None:
    api = OnePod("forest", last_pod)
    check = run_probe(api)
    assert (check.state, message in check.message) == (state, True), check
    assert len(api.deleted) == 1


def test_unschedulable_probe_pod_reports_why() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    check = run_probe(OnePod("forest", {"metadata": {}, "status": {"phase": "Pending", "conditions": [condition]}}))
    assert (check.state, "Unschedulable: 0/2 nodes" in check.message) == ("warning", True)


def test_rejected_probe_pod_is_a_problem() -> None:
    api = OnePod("forest", pod("Pending"), **{f"create {PODS}": ApiError(403, "Forbidden", "exceeded quota")})
    check = run_probe(api)
    assert (check.state, "exceeded quota" in check.message, api.deleted) == ("problem", True, [])


@pytest.mark.parametrize("error", [Unavailable("gone"), KeyboardInterrupt()])
def test_probe_pod_is_removed_after_an_api_error(error: BaseException) -> None:
    api = OnePod("forest", error)
    with pytest.raises(type(error)):
        run_probe(api)
    assert len(api.deleted) == 1


def test_failed_removal_of_the_probe_pod_does_not_change_the_result() -> None:
    api = OnePod("forest", pod("Succeeded", terminated={"message": "reached"}), delete=Unavailable("gone"))
    assert run_probe(api).state == "ok"


def test_pod_of_an_interrupted_probe_is_removed() -> None:
    existing = [
        {"metadata": {"name": "fairlead-probe-old", "uid": "o"}, "status": {"phase": "Failed"}},
        {"metadata": {"name": "fairlead-probe-other", "uid": "p"}, "status": {"phase": "Running"}},
    ]
    api = OnePod("forest", pod("Succeeded", terminated={"message": "reached"}), **{f"list {PODS}": existing})
    run_probe(api)
    assert f"{PODS}/fairlead-probe-old" in api.deleted
    assert f"{PODS}/fairlead-probe-other" not in api.deleted


def test_probe_is_skipped_without_a_namespace() -> None:
    terminating = {"metadata": {"deletionTimestamp": "2026-11-15T08:30:00Z"}}
    api = ScriptedApi({"/api/v1/namespaces/going": terminating})
    check = run_probe(api, CLUSTER, "gone", "going")
    assert (check.state, "cannot check" in check.message, api.created) == ("warning", True, [])
