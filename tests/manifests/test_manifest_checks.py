"""The tests' manifest checker finds invalid manifests."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.making import PYTHON, plan
from tests.validity import check_manifests
from tests.validity.parts import parse_quantity

CLAIM = {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": {"size": "1Gi"}}
FULL_REQUEST = {
    "function": {**PYTHON, "pull_policy": "Always", "pull_secrets": ["A"]},
    "action": "serve",
    "secrets": ["A"],
    "envs": {"E": "1"},
    "volumes": {"d": CLAIM},
    "resources": {"cpu": {"requests": 1, "limits": 2}, "gpu": 1},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "node_selector": {"a": "b"},
}


class Parts(NamedTuple):
    """All manifests, the specification of their pods, and its container."""

    all: list[dict[str, Any]]
    pod: dict[str, Any]
    container: dict[str, Any]


Change = Callable[[Parts], Any]

# Part of the expected error, and a change that makes the manifests invalid.
CHANGES: list[tuple[str, Change]] = [
    ("Additional properties", lambda parts: parts.container.update(resurces={})),
    ("replicas", lambda parts: parts.all[0]["spec"].update(replicas="many")),
    ("selector", lambda parts: parts.all[0]["spec"].pop("selector")),
    ("metadata.name", lambda parts: parts.all[0]["metadata"].update(name="A_b")),
    ("metadata.namespace", lambda parts: [item["metadata"].update(namespace="a.b") for item in parts.all]),
    ("several namespaces", lambda parts: parts.all[1]["metadata"].update(namespace="other")),
    ("labels", lambda parts: parts.all[0]["metadata"]["labels"].update({"a b": "c"})),
    ("labels.a", lambda parts: parts.all[0]["metadata"]["labels"].update(a="b c")),
    ("does not select", lambda parts: parts.all[0]["spec"]["selector"]["matchLabels"].update(other="x")),
    ("restartPolicy", lambda parts: parts.pod.update(restartPolicy="Never")),
    ("occurs 2 times", lambda parts: parts.pod["volumes"].append(copy.deepcopy(parts.pod["volumes"][0]))),
    ("is mounted nowhere", lambda parts: parts.pod["volumes"].append({"name": "x", "emptyDir": {}})),
    ("does not exist", lambda parts: parts.container["volumeMounts"].append({"name": "x", "mountPath": "/x"})),
    ("/d occurs 2 times", lambda parts: parts.container["volumeMounts"].append({"name": "d", "mountPath": "/d"})),
    ("mount path", lambda parts: parts.container["volumeMounts"][0].update(mountPath="d")),
    ("sub path", lambda parts: parts.container["volumeMounts"][0].update(subPath="../d")),
    ("one known source", lambda parts: parts.pod["volumes"][0].update(emptyDir={})),
    ("volumes:", lambda parts: parts.pod["volumes"][0].update(name="A_b")),
    ("neither rendered", lambda parts: parts.pod["volumes"][0]["persistentVolumeClaim"].update(claimName="x")),
    ("neither rendered", lambda parts: parts.all.pop(2)),
    ("rendered and not used", lambda parts: parts.container["env"].pop()),
    ("has no A", lambda parts: parts.all[2]["data"].pop("A")),
    ("not valid base64", lambda parts: parts.all[2]["data"].update(A="?")),
    ("data", lambda parts: parts.all[2]["data"].update({"..": ""})),
    ("over 1048576", lambda parts: parts.all[4]["data"].update(x="x" * 1_100_000)),
    ("env", lambda parts: parts.container["env"].append({"name": "1", "value": ""})),
    ("env", lambda parts: parts.container["env"].append({"name": "..", "value": ""})),
    ("not both", lambda parts: parts.container["env"][0].pop("value")),
    ("occurs 2 times", lambda parts: parts.container["env"].append(parts.container["env"][0])),
    ("under the request", lambda parts: parts.container["resources"]["limits"].update(cpu="1m")),
    ("not a valid quantity", lambda parts: parts.container["resources"]["limits"].update(cpu="1K")),
    ("out of range", lambda parts: parts.container["resources"]["limits"].update(cpu="8Ei")),
    ("out of range", lambda parts: parts.container["resources"]["requests"].update(cpu="-1")),
    ("finer than", lambda parts: parts.container["resources"]["requests"].update(cpu="1u")),
    ("fraction of a byte", lambda parts: parts.container["resources"]["requests"].update(memory="1m")),
    ("overcommitted", lambda parts: parts.container["resources"]["limits"].update({"nvidia.com/gpu": "2"})),
    (
        "whole number",
        lambda parts: [parts.container["resources"][x].update({"v.e/x": "0.5"}) for x in ("requests", "limits")],
    ),
    (
        "extended resource",
        lambda parts: [parts.container["resources"][x].update(nic="1") for x in ("requests", "limits")],
    ),
    ("not a valid image", lambda parts: parts.container.update(image="")),
    ("imagePullPolicy", lambda parts: parts.container.update(imagePullPolicy="Sometimes")),
    ("terminationMessagePolicy", lambda parts: parts.container.update(terminationMessagePolicy="Logs")),
    ("neither rendered", lambda parts: parts.pod["imagePullSecrets"].append({"name": "x"})),
    ("rendered and not used", lambda parts: parts.pod["imagePullSecrets"].pop()),
    ("dockerconfigjson", lambda parts: parts.all[3]["data"].clear()),
    ("not a valid port", lambda parts: parts.container["ports"][0].update(containerPort=70000)),
    ("nothing listens", lambda parts: parts.container["ports"][0].update(name="other")),
    ("runAsNonRoot", lambda parts: parts.pod["securityContext"].update(runAsNonRoot=False)),
    ("runAsNonRoot", lambda parts: parts.pod["securityContext"].update(runAsUser=0)),
    ("seccompProfile", lambda parts: parts.pod["securityContext"].pop("seccompProfile")),
    ("is not a valid id", lambda parts: parts.pod["securityContext"].update(fsGroup=2**31)),
    ("automountServiceAccountToken", lambda parts: parts.pod.pop("automountServiceAccountToken")),
    ("allowPrivilegeEscalation", lambda parts: parts.container["securityContext"].pop("allowPrivilegeEscalation")),
    ("capabilities", lambda parts: parts.container["securityContext"]["capabilities"].update(add=["NET_ADMIN"])),
    ("nodeSelector", lambda parts: parts.pod["nodeSelector"].update({"a b": "c"})),
    ("must be Exists", lambda parts: parts.pod["tolerations"].append({})),
    ("does not go with", lambda parts: parts.pod["tolerations"][0].update(value="b")),
    ("NoExecute", lambda parts: parts.pod["tolerations"][0].update(tolerationSeconds=5)),
    ("priorityClassName", lambda parts: parts.pod.update(priorityClassName="A B")),
    ("not more than 0", lambda parts: parts.all[1]["spec"]["resources"]["requests"].update(storage="0")),
    ("accessModes", lambda parts: parts.all[1]["spec"].update(accessModes=[])),
    ("occurs 2 times", lambda parts: parts.all.append(copy.deepcopy(parts.all[1]))),
    ("plain JSON", lambda parts: parts.container.update(command=("a",))),
    ("not JSON", lambda parts: parts.container.update(command=object())),
    ("apiVersion", lambda parts: parts.all[1].pop("kind")),
]


def make_manifests() -> list[dict[str, Any]]:
    return copy.deepcopy(list(plan(FULL_REQUEST).manifests))


def test_valid_manifests_have_no_errors() -> None:
    manifests = make_manifests()
    assert [item["kind"] for item in manifests] == [
        "Deployment",
        "PersistentVolumeClaim",
        "Secret",
        "Secret",
        "ConfigMap",
        "Service",
    ]
    assert check_manifests(manifests) == []


@pytest.mark.parametrize(("error", "change"), CHANGES, ids=range(len(CHANGES)))
def test_each_invalid_manifest_is_reported(error: str, change: Change) -> None:
    manifests = make_manifests()
    template = manifests[0]["spec"]["template"]["spec"]
    change(Parts(manifests, template, template["containers"][0]))
    errors = check_manifests(manifests)
    assert any(error in line for line in errors), errors


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}, "does not go with"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}, "affinity"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}, "whole number"),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A b"]}]}, "matchFields"),
    ],
)
def test_invalid_affinity_is_reported(terms: dict[str, Any], error: str) -> None:
    manifests = make_manifests()
    required = {"nodeSelectorTerms": [terms]}
    manifests[0]["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    assert any(error in line for line in check_manifests(manifests))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda job: job["template"]["spec"].update(restartPolicy="OnFailure"), "restartPolicy Never"),
        (lambda job: job["podFailurePolicy"]["rules"][0].update(action="Retry"), "not a valid action"),
        (lambda job: job["podFailurePolicy"]["rules"][0].pop("onPodConditions"), "conditions or"),
        (lambda job: job["podFailurePolicy"]["rules"][0]["onPodConditions"][0].pop("type"), "type"),
    ],
)
def test_an_invalid_pod_failure_policy_is_reported(change: Callable[[dict[str, Any]], Any], error: str) -> None:
    manifests = copy.deepcopy(list(plan().manifests))
    assert check_manifests(manifests) == []
    change(manifests[0]["spec"])
    assert any(error in line for line in check_manifests(manifests))


def test_the_name_of_an_indexed_job_must_leave_room_for_the_index() -> None:
    manifests = copy.deepcopy(list(plan({"replicas": 3}).manifests))
    manifests[0]["metadata"]["name"] = "a" * 62
    assert any("last index" in line for line in check_manifests(manifests))


@pytest.mark.parametrize(("text", "value"), [("1.5Gi", 3 * 2**29), ("2e3", 2000), (".5k", 500), ("+5", 5), ("-1", -1)])
def test_the_checker_parses_quantities_itself(text: str, value: int) -> None:
    assert parse_quantity(text) == value
