"""The checker of manifests itself: it finds what is broken on purpose."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.making import PYTHON, plan
from tests.validity import check_manifests
from tests.validity.parts import parse_quantity

CLAIM = {"volume_type": "persistent_volume_claim", "mount_path": "/d", "spec": {"size": "1Gi"}}
EVERYTHING = {
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
    box: dict[str, Any]


Break = Callable[[Parts], Any]

# Each breaks the manifests, the pod or the container in one way, for which a word of the complaint is known.
BREAKS: list[tuple[str, Break]] = [
    ("Additional properties", lambda it: it.box.update(resurces={})),
    ("replicas", lambda it: it.all[0]["spec"].update(replicas="many")),
    ("selector", lambda it: it.all[0]["spec"].pop("selector")),
    ("metadata.name", lambda it: it.all[0]["metadata"].update(name="A_b")),
    ("metadata.namespace", lambda it: [item["metadata"].update(namespace="a.b") for item in it.all]),
    ("several namespaces", lambda it: it.all[1]["metadata"].update(namespace="other")),
    ("labels", lambda it: it.all[0]["metadata"]["labels"].update({"a b": "c"})),
    ("labels.a", lambda it: it.all[0]["metadata"]["labels"].update(a="b c")),
    ("does not select", lambda it: it.all[0]["spec"]["selector"]["matchLabels"].update(other="x")),
    ("restartPolicy", lambda it: it.pod.update(restartPolicy="Never")),
    ("is there 2 times", lambda it: it.pod["volumes"].append(copy.deepcopy(it.pod["volumes"][0]))),
    ("is mounted nowhere", lambda it: it.pod["volumes"].append({"name": "x", "emptyDir": {}})),
    ("does not exist", lambda it: it.box["volumeMounts"].append({"name": "x", "mountPath": "/x"})),
    ("/d is there 2 times", lambda it: it.box["volumeMounts"].append({"name": "d", "mountPath": "/d"})),
    ("mount path", lambda it: it.box["volumeMounts"][0].update(mountPath="d")),
    ("sub path", lambda it: it.box["volumeMounts"][0].update(subPath="../d")),
    ("one known source", lambda it: it.pod["volumes"][0].update(emptyDir={})),
    ("volumes:", lambda it: it.pod["volumes"][0].update(name="A_b")),
    ("neither rendered", lambda it: it.pod["volumes"][0]["persistentVolumeClaim"].update(claimName="x")),
    ("neither rendered", lambda it: it.all.pop(2)),
    ("rendered and not used", lambda it: it.box["env"].pop()),
    ("has no A", lambda it: it.all[2]["data"].pop("A")),
    ("not valid base64", lambda it: it.all[2]["data"].update(A="?")),
    ("data", lambda it: it.all[2]["data"].update({"..": ""})),
    ("over 1048576", lambda it: it.all[4]["data"].update(x="x" * 1_100_000)),
    ("env", lambda it: it.box["env"].append({"name": "1", "value": ""})),
    ("env", lambda it: it.box["env"].append({"name": "..", "value": ""})),
    ("not both", lambda it: it.box["env"][0].pop("value")),
    ("is there 2 times", lambda it: it.box["env"].append(it.box["env"][0])),
    ("under the request", lambda it: it.box["resources"]["limits"].update(cpu="1m")),
    ("not a valid quantity", lambda it: it.box["resources"]["limits"].update(cpu="1K")),
    ("out of range", lambda it: it.box["resources"]["limits"].update(cpu="8Ei")),
    ("out of range", lambda it: it.box["resources"]["requests"].update(cpu="-1")),
    ("finer than", lambda it: it.box["resources"]["requests"].update(cpu="1u")),
    ("fraction of a byte", lambda it: it.box["resources"]["requests"].update(memory="1m")),
    ("overcommitted", lambda it: it.box["resources"]["limits"].update({"nvidia.com/gpu": "2"})),
    (
        "whole number",
        lambda it: [it.box["resources"][x].update({"v.e/x": "0.5"}) for x in ("requests", "limits")],
    ),
    ("extended resource", lambda it: [it.box["resources"][x].update(nic="1") for x in ("requests", "limits")]),
    ("not a valid image", lambda it: it.box.update(image="")),
    ("imagePullPolicy", lambda it: it.box.update(imagePullPolicy="Sometimes")),
    ("terminationMessagePolicy", lambda it: it.box.update(terminationMessagePolicy="Logs")),
    ("neither rendered", lambda it: it.pod["imagePullSecrets"].append({"name": "x"})),
    ("rendered and not used", lambda it: it.pod["imagePullSecrets"].pop()),
    ("dockerconfigjson", lambda it: it.all[3]["data"].clear()),
    ("not a valid port", lambda it: it.box["ports"][0].update(containerPort=70000)),
    ("nothing listens", lambda it: it.box["ports"][0].update(name="other")),
    ("runAsNonRoot", lambda it: it.pod["securityContext"].update(runAsNonRoot=False)),
    ("runAsNonRoot", lambda it: it.pod["securityContext"].update(runAsUser=0)),
    ("seccompProfile", lambda it: it.pod["securityContext"].pop("seccompProfile")),
    ("is not a valid id", lambda it: it.pod["securityContext"].update(fsGroup=2**31)),
    ("automountServiceAccountToken", lambda it: it.pod.pop("automountServiceAccountToken")),
    ("allowPrivilegeEscalation", lambda it: it.box["securityContext"].pop("allowPrivilegeEscalation")),
    ("capabilities", lambda it: it.box["securityContext"]["capabilities"].update(add=["NET_ADMIN"])),
    ("nodeSelector", lambda it: it.pod["nodeSelector"].update({"a b": "c"})),
    ("must be Exists", lambda it: it.pod["tolerations"].append({})),
    ("does not go with", lambda it: it.pod["tolerations"][0].update(value="b")),
    ("NoExecute", lambda it: it.pod["tolerations"][0].update(tolerationSeconds=5)),
    ("priorityClassName", lambda it: it.pod.update(priorityClassName="A B")),
    ("not more than 0", lambda it: it.all[1]["spec"]["resources"]["requests"].update(storage="0")),
    ("accessModes", lambda it: it.all[1]["spec"].update(accessModes=[])),
    ("there 2 times", lambda it: it.all.append(copy.deepcopy(it.all[1]))),
    ("plain JSON", lambda it: it.box.update(command=("a",))),
    ("not JSON", lambda it: it.box.update(command=object())),
    ("apiVersion", lambda it: it.all[1].pop("kind")),
]


def make_manifests() -> list[dict[str, Any]]:
    return copy.deepcopy(list(plan(EVERYTHING).manifests))


def test_good_manifests_are_passed_without_a_word() -> None:
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


@pytest.mark.parametrize(("complaint", "spoil"), BREAKS, ids=range(len(BREAKS)))
def test_what_is_broken_on_purpose_is_found(complaint: str, spoil: Break) -> None:
    manifests = make_manifests()
    template = manifests[0]["spec"]["template"]["spec"]
    spoil(Parts(manifests, template, template["containers"][0]))
    found = check_manifests(manifests)
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}, "does not go with"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}, "affinity"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}, "whole number"),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["A b"]}]}, "matchFields"),
    ],
)
def test_a_broken_affinity_is_found(terms: dict[str, Any], complaint: str) -> None:
    manifests = make_manifests()
    required = {"nodeSelectorTerms": [terms]}
    manifests[0]["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    assert any(complaint in line for line in check_manifests(manifests))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda job: job["template"]["spec"].update(restartPolicy="OnFailure"), "restartPolicy Never"),
        (lambda job: job["podFailurePolicy"]["rules"][0].update(action="Retry"), "not a valid action"),
        (lambda job: job["podFailurePolicy"]["rules"][0].pop("onPodConditions"), "conditions or"),
        (lambda job: job["podFailurePolicy"]["rules"][0]["onPodConditions"][0].pop("type"), "type"),
    ],
)
def test_a_broken_policy_of_failures_is_found(spoil: Callable[[dict[str, Any]], Any], complaint: str) -> None:
    manifests = copy.deepcopy(list(plan().manifests))
    assert check_manifests(manifests) == []
    spoil(manifests[0]["spec"])
    assert any(complaint in line for line in check_manifests(manifests))


def test_an_indexed_job_leaves_room_for_its_index() -> None:
    manifests = copy.deepcopy(list(plan({"replicas": 3}).manifests))
    manifests[0]["metadata"]["name"] = "a" * 62
    assert any("last index" in line for line in check_manifests(manifests))


@pytest.mark.parametrize(("text", "value"), [("1.5Gi", 3 * 2**29), ("2e3", 2000), (".5k", 500), ("+5", 5), ("-1", -1)])
def test_quantities_are_read_a_second_time(text: str, value: int) -> None:
    assert parse_quantity(text) == value
