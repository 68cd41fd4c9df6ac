"""Manifests of later attempts: they are valid, and have their own names and memory."""

import json
from typing import Any

import pytest

from fairlead.manifests.attempts import demand_of, manifests_of, name_of, render_attempt
from fairlead.model.names import MAX_RUN_LENGTH, RUN_LABEL
from fairlead.model.plans import Manifest
from fairlead.model.records import RunRecord
from fairlead.scheduling.pod_requests import read_pod_request
from tests.contracts.samples import make
from tests.lifecycle.test_attempts import make_plan_record
from tests.making import CONTAINER, PYTHON, make_cluster, make_request, plan
from tests.manifests.demands import check_demand
from tests.manifests.test_manifests import ALLOW_ALL, REQUESTS
from tests.validity import check_manifests

GI = 2**30
RUN = "0198c0de" * 4
FULL_REQUEST: dict[str, Any] = {
    "function": {**PYTHON, "pull_secrets": ["A"]},
    "secrets": ["A", "B"],
    "volumes": {
        "own": {"volume_type": "persistent_volume_claim", "mount_path": "/own", "spec": {"size": "1Gi"}},
        "all": {"volume_type": "shared_volume", "mount_path": "/all", "spec": {"claim_name": "data"}},
        "token": {"volume_type": "secret", "mount_path": "/token", "spec": {"name": "B"}},
        "set": {"volume_type": "config_map", "mount_path": "/set", "spec": {"name": "set"}},
    },
    "resources": {"mem": {"requests": "4Gi", "limits": "8Gi"}, "shm": True},
}


def render(requested: dict[str, Any], attempt: int = 2, memory: int | None = None, **more: Any) -> tuple[Manifest, ...]:
    """The manifests for one of a run's attempts."""
    function = make_request(**requested).function.name
    run = make(RunRecord, RUN, function=function, attempt=attempt)
    return render_attempt(plan(requested, ALLOW_ALL, run_id=RUN, **more).manifests, run, memory)


def names_of(manifests: tuple[Manifest, ...]) -> list[tuple[str, str]]:
    """Kinds and names of objects."""
    return [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]


def container_of(manifests: tuple[Manifest, ...]) -> Any:
    return manifests[0]["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("requested", REQUESTS, ids=lambda requested: json.dumps(requested)[:60])
def test_manifests_of_later_attempts_are_as_valid_as_the_first(requested: dict[str, Any]) -> None:
    first = plan(requested, ALLOW_ALL, run_id=RUN).manifests
    second, last = render(requested), render(requested, 41)
    for manifests in (second, last):
        assert check_manifests(list(manifests)) == check_manifests(list(first)) == []
    assert len({*names_of(first), *names_of(second), *names_of(last)}) == 3 * len(first)
    assert read_pod_request(second).amounts == read_pod_request(first).amounts


def test_attempts_without_a_memory_request_keep_their_resources() -> None:
    requested = {"function": PYTHON, "resources": {"mem": {"requests": 0, "limits": "1Gi"}}, "retries": 1}
    first = plan(requested, ALLOW_ALL, run_id=RUN).manifests
    assert container_of(render(requested, 2, 0))["resources"] == container_of(first)["resources"]


def test_rendering_an_attempt_does_not_change_the_plan() -> None:
    planned = plan(FULL_REQUEST, ALLOW_ALL, run_id=RUN)
    before = json.dumps(planned.manifests)
    render_attempt(planned.manifests, make(RunRecord, RUN, attempt=2), 6 * GI)
    assert json.dumps(planned.manifests) == before


def test_all_objects_of_an_attempt_carry_its_run_label() -> None:
    for manifest in (*render(FULL_REQUEST), *render({**FULL_REQUEST, "action": "serve"})):
        assert manifest["metadata"]["labels"][RUN_LABEL] == f"{RUN}-2"
    served = render({"function": PYTHON, "action": "serve"})
    deployment, service = served[0], served[-1]
    assert deployment["spec"]["selector"]["matchLabels"] == {RUN_LABEL: f"{RUN}-2"}
    assert deployment["spec"]["template"]["metadata"]["labels"][RUN_LABEL] == f"{RUN}-2"
    assert service["spec"]["selector"] == {RUN_LABEL: f"{RUN}-2"}


def test_a_pod_references_the_objects_of_its_attempt_and_existing_ones() -> None:
    manifests = render(FULL_REQUEST, 3)
    name = manifests[0]["metadata"]["name"]
    assert name == f"train-{RUN}attempt3"
    pod = manifests[0]["spec"]["template"]["spec"]
    sources = {volume["name"]: volume for volume in pod["volumes"]}
    assert sources["own"]["persistentVolumeClaim"]["claimName"] == f"{name}-own"
    assert sources["all"]["persistentVolumeClaim"]["claimName"] == "data"
    assert sources["token"]["secret"]["secretName"] == f"{name}-secrets"
    assert sources["set"]["configMap"]["name"] == "set"
    assert sources["fairlead-code"]["configMap"]["name"] == f"{name}-code"
    assert pod["imagePullSecrets"] == [{"name": f"{name}-pull-1"}]
    secret_names = [
        env["valueFrom"]["secretKeyRef"]["name"] for env in container_of(manifests)["env"] if "valueFrom" in env
    ]
    assert set(secret_names) == {f"{name}-secrets"}


@pytest.mark.parametrize("function", ["a" * 128, "1.2_3+4", "Train"])
def test_long_names_leave_room_for_the_pod_index(function: str) -> None:
    requested = {"function": {**CONTAINER, "name": function}, "replicas": 10_000}
    assert len(render(requested, 41)[0]["metadata"]["name"]) <= MAX_RUN_LENGTH


def test_environment_variables_contain_run_and_attempt() -> None:
    envs = {env["name"]: env.get("value") for env in container_of(render(FULL_REQUEST, 7))["env"]}
    assert (envs["FAIRLEAD_ATTEMPT"], envs["FAIRLEAD_RUN"]) == ("7", RUN)
    first = {
        env["name"]: env.get("value")
        for env in container_of(plan(FULL_REQUEST, ALLOW_ALL, run_id=RUN).manifests)["env"]
    }
    assert (first["FAIRLEAD_ATTEMPT"], list(first)) == ("1", list(envs))


def test_limit_and_shared_memory_grow_with_the_request() -> None:
    manifests = render(FULL_REQUEST, memory=6 * GI)
    resources = container_of(manifests)["resources"]
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == ("6Gi", "12Gi")
    shared = manifests[0]["spec"]["template"]["spec"]["volumes"][-1]
    assert shared == {"name": "fairlead-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "12Gi"}}


def test_an_explicit_shared_memory_size_does_not_grow() -> None:
    requested = {**FULL_REQUEST, "resources": {**FULL_REQUEST["resources"], "shm": "1Gi"}}
    shared = render(requested, memory=6 * GI)[0]["spec"]["template"]["spec"]["volumes"][-1]
    assert shared["emptyDir"]["sizeLimit"] == "1Gi"


@pytest.mark.parametrize("limits", [{}, {"limits": "unlimited"}])
def test_an_unlimited_run_stays_unlimited(limits: dict[str, str]) -> None:
    resources = {"resources": {"mem": {"requests": "4Gi", **limits}, "shm": True}}
    manifests = render(resources, memory=6 * GI)
    assert container_of(manifests)["resources"] == {"requests": {"memory": "6Gi"}}
    shared = manifests[0]["spec"]["template"]["spec"]["volumes"][-1]
    assert shared["emptyDir"] == {"medium": "Memory"}


def test_each_attempt_has_its_own_run_token() -> None:
    cluster = make_cluster(server_url="https://fairlead.example")
    run = make(RunRecord, RUN, attempt=2)
    manifests = render_attempt(plan({"function": PYTHON}, cluster, run_id=RUN).manifests, run)
    secret = next(manifest for manifest in manifests if manifest["kind"] == "Secret")
    reference = next(env for env in container_of(manifests)["env"] if env["name"] == "FAIRLEAD_RUN_TOKEN")
    assert reference["valueFrom"]["secretKeyRef"]["name"] == secret["metadata"]["name"]
    assert check_manifests(list(manifests)) == []


@pytest.mark.parametrize("requested", REQUESTS, ids=lambda requested: json.dumps(requested)[:60])
def test_the_demand_of_an_attempt_contains_what_its_manifests_contain(requested: dict[str, Any]) -> None:
    record = make_plan_record(requested, ALLOW_ALL)
    memory, function = record.demand.resources.mem_bytes, make_request(**requested).function.name
    for attempt, mem_bytes in ((1, memory), (2, memory), (3, 2 * memory)):
        run = make(RunRecord, RUN, function=function, attempt=attempt, mem_bytes=mem_bytes)
        manifests = manifests_of(run, record)
        check_demand(manifests, demand_of(run, record))
        assert name_of(run) == manifests[0]["metadata"]["name"]


def test_manifests_of_a_run_are_those_of_its_current_attempt() -> None:
    record = make_plan_record({"resources": {"mem": "4Gi"}, "replicas": 2})
    assert manifests_of(make(RunRecord, RUN, mem_bytes=8 * GI), record) == tuple(record.plan["manifests"])
    same = manifests_of(make(RunRecord, RUN, attempt=2, mem_bytes=8 * GI), record)
    grown = manifests_of(make(RunRecord, RUN, attempt=3, mem_bytes=12 * GI), record)
    memory = [container_of(manifests)["resources"]["requests"]["memory"] for manifests in (same, grown)]
    assert memory == ["4Gi", "6Gi"]
    assert [manifests[0]["metadata"]["name"][-8:] for manifests in (same, grown)] == ["attempt2", "attempt3"]
