"""The fake kubelet behaves like a real one, as observed through the API server."""

import contextlib
import itertools
import os
import time
from datetime import datetime
from typing import Any

import httpx2
import psutil
import pytest

from tests.cluster.clients import Client, Object, until
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.making import (
    make_claim,
    make_job,
    make_map,
    make_pod,
    state_of,
    wait_for_phase,
    wait_for_reason,
)

IMAGE = "python:3.12-slim"
pytestmark = pytest.mark.usefixtures("kubelet")


def test_job_is_scheduled_and_completes(admin: Client, namespace: str) -> None:
    code = "import os, sys; print(os.environ['GREETING'], open('/etc/words/word').read(), os.getcwd() == sys.argv[1])"
    admin.create(make_map(namespace, "words", {"word": "world"}))
    pod = make_pod(
        namespace,
        "greets",
        IMAGE,
        ["python3", "-c", code.replace("'/etc/words/word'", "os.environ['WORDS']"), "/home/me"],
        volumes=[{"name": "words", "configMap": {"name": "words"}}, {"name": "home", "emptyDir": {}}],
        main_env=[{"name": "GREETING", "value": "hello"}, {"name": "WORDS", "value": "/etc/words/word"}],
        main_workingDir="/home/me",
        main_volumeMounts=[
            {"name": "words", "mountPath": "/etc/words"},
            {"name": "home", "mountPath": "/home/me"},
        ],
    )
    admin.create(make_job(pod))

    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/greets"
    until(lambda: admin.get(path)["status"].get("succeeded") == 1)
    (pod,) = admin.items(f"/api/v1/namespaces/{namespace}/pods")
    assert pod["spec"]["nodeName"] in ("plain", "gpus")
    assert state_of(pod)["terminated"]["exitCode"] == 0
    assert state_of(pod)["terminated"]["reason"] == "Completed"
    assert read_log(admin, pod) == "hello world True\n"


def test_scheduler_respects_gpu_limits(admin: Client, namespace: str) -> None:
    for name, count in (("fits", "8"), ("never", "9")):
        gpus = {"limits": {"nvidia.com/gpu": count}}
        admin.create(make_pod(namespace, name, "example.test/succeed", main_resources=gpus))

    assert wait_for_phase(admin, namespace, "fits", "Succeeded")["spec"]["nodeName"] == "gpus"
    never = admin.get(f"/api/v1/namespaces/{namespace}/pods/never")["status"]
    assert never["phase"] == "Pending"
    assert "2 Insufficient nvidia.com/gpu" in never["conditions"][0]["message"]


def test_log_is_followed_while_it_is_written(admin: Client, namespace: str) -> None:
    admin.create(make_pod(namespace, "talks", IMAGE, ["sh", "-c", "echo one; sleep 1; echo two >&2; printf three"]))
    wait_for_phase(admin, namespace, "talks", "Running")

    path = f"/api/v1/namespaces/{namespace}/pods/talks/log"
    lines = [(line.split(" ", 1), time.monotonic()) for line in admin.lines(path, follow="true", timestamps="true")]

    (first, first_time), (second, second_time), (third, _) = lines
    assert [text for (_, text), _ in lines] == ["one", "two", "three"]
    assert second_time - first_time > 0.5
    assert [len(stamp) for stamp in (first[0], second[0], third[0])] == [30, 30, 30]
    assert (datetime.fromisoformat(second[0]) - datetime.fromisoformat(first[0])).total_seconds() > 0.5
    assert admin.text(path, sinceTime=second[0]) == "two\nthree"
    assert admin.text(path, tailLines="2") == "two\nthree"
    assert admin.text(path, limitBytes="5") == "one\nt"
    assert admin.text(path, sinceSeconds="3600") == "one\ntwo\nthree"


def test_long_log_line_is_not_split(admin: Client, namespace: str) -> None:
    admin.create(make_pod(namespace, "long", IMAGE, ["python3", "-c", "print('x' * 50000); print('end')"]))

    pod = wait_for_phase(admin, namespace, "long", "Succeeded")
    stamped = read_log(admin, pod, timestamps="true").splitlines()
    assert [len(line.split(" ", 1)[1]) for line in stamped] == [50000, 3]


@pytest.mark.parametrize(
    ("image", "code", "reason"),
    [("succeed", 0, "Completed"), ("exit-3", 3, "Error"), ("oom", 137, "OOMKilled"), ("evicted", 137, "Error")],
)
def test_image_name_determines_the_outcome_of_a_pod(
    admin: Client, namespace: str, image: str, code: int, reason: str
) -> None:
    admin.create(make_pod(namespace, "ends", f"example.test/{image}:1.0"))

    pod = wait_for_phase(admin, namespace, "ends", "Succeeded", "Failed")
    ended = state_of(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    assert pod["status"].get("reason") == ("Evicted" if image == "evicted" else None)


def test_outcome_of_an_image_can_be_configured(admin: Client, kubelet: FakeKubelet, namespace: str) -> None:
    kubelet.outcomes["own:1"] = Outcome("exit", 5, seconds=0, log="so long\n", message='{"error": 1}')
    admin.create(make_pod(namespace, "own", "own:1", ["never", "executed"]))

    pod = wait_for_phase(admin, namespace, "own", "Failed")
    assert state_of(pod)["terminated"]["message"] == '{"error": 1}'
    assert read_log(admin, pod) == "so long\n"


def test_annotation_determines_the_outcome_of_a_pod(admin: Client, namespace: str) -> None:
    pod = make_pod(namespace, "annotated", IMAGE, ["never", "executed"])
    pod["metadata"]["annotations"] = {"fairlead.test/outcome": "exit-9"}
    admin.create(pod)

    assert state_of(wait_for_phase(admin, namespace, "annotated", "Failed"))["terminated"]["exitCode"] == 9


def test_process_over_its_memory_limit_is_killed(admin: Client, namespace: str) -> None:
    code = "import time; print('up', flush=True); data = b'x' * 2**28; time.sleep(60)"
    limits = {"limits": {"memory": "128Mi"}}
    admin.create(make_pod(namespace, "hungry", IMAGE, ["python3", "-c", code], main_resources=limits))

    ended = state_of(wait_for_phase(admin, namespace, "hungry", "Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_pod_waits_for_a_missing_image(admin: Client, namespace: str) -> None:
    admin.create(make_pod(namespace, "pulls", "example.test/no-such-image"))

    waiting = wait_for_reason(admin, namespace, "pulls", "ImagePullBackOff")
    assert 'Back-off pulling image "example.test/no-such-image"' in waiting["message"]
    assert admin.get(f"/api/v1/namespaces/{namespace}/pods/pulls")["status"]["phase"] == "Pending"
    assert {"Failed", "BackOff"} <= {event["reason"] for event in events_of(admin, namespace, "pulls")}
    admin.delete(f"/api/v1/namespaces/{namespace}/pods/pulls")
    until(lambda: admin.find(f"/api/v1/namespaces/{namespace}/pods/pulls") is None)


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_pod_waits_for_a_missing_config_map_or_secret(admin: Client, namespace: str, kind: str) -> None:
    reference = {f"{kind[0].lower()}{kind[1:]}KeyRef": {"name": "values", "key": "word"}}
    env = [{"name": "WORD", "valueFrom": reference}]
    admin.create(make_pod(namespace, "asks", IMAGE, ["sh", "-c", "echo $WORD"], main_env=env))

    waiting = wait_for_reason(admin, namespace, "asks", "CreateContainerConfigError")
    assert waiting["message"] == f'{kind.lower()} "values" not found'
    body = {**make_map(namespace, "values", {"wrong": "d29yZA=="}), "kind": kind}
    admin.create(body)
    message = f"couldn't find key word in {kind} {namespace}/values"
    until(lambda: wait_for_reason(admin, namespace, "asks", "CreateContainerConfigError")["message"] == message)
    admin.patch(f"/api/v1/namespaces/{namespace}/{kind.lower()}s/values", {"data": {"word": "d29yZA=="}})

    pod = wait_for_phase(admin, namespace, "asks", "Succeeded")
    assert read_log(admin, pod) == ("word\n" if kind == "Secret" else "d29yZA==\n")


def test_pod_waits_for_a_missing_volume(admin: Client, namespace: str) -> None:
    volumes = [{"name": "words", "configMap": {"name": "words", "items": [{"key": "a", "path": "deep/b"}]}}]
    mounted = [{"name": "words", "mountPath": "/etc/words"}]
    command = ["cat", "/etc/words/deep/b"]
    admin.create(make_pod(namespace, "mounts", IMAGE, command, volumes=volumes, main_volumeMounts=mounted))

    wait_for_reason(admin, namespace, "mounts", "ContainerCreating")
    until(lambda: "FailedMount" in [event["reason"] for event in events_of(admin, namespace, "mounts")])
    admin.create(make_map(namespace, "words", {"a": "mounted", "c": "not mounted"}))

    assert read_log(admin, wait_for_phase(admin, namespace, "mounts", "Succeeded")) == "mounted"


def test_missing_program_is_a_start_error(admin: Client, namespace: str) -> None:
    admin.create(make_pod(namespace, "odd", IMAGE, ["no-such-program"]))

    ended = state_of(wait_for_phase(admin, namespace, "odd", "Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert '"no-such-program": executable file not found' in ended["message"]


def test_termination_message_is_the_file_or_the_end_of_the_log(admin: Client, namespace: str) -> None:
    commands = {
        "file": "echo chatter; printf word > $FAIRLEAD_TERMINATION; exit 1",
        "path": "echo chatter; printf word > /dev/termination-log; exit 1",
        "log": "for at in $(seq 200); do echo line $at; done; exit 1",
        "fine": "echo chatter",
    }
    messages = {}
    for name, text in commands.items():
        fallback = "FallbackToLogsOnError"
        admin.create(make_pod(namespace, name, IMAGE, ["sh", "-c", text], main_terminationMessagePolicy=fallback))
        pod = wait_for_phase(admin, namespace, name, "Succeeded", "Failed")
        messages[name] = state_of(pod)["terminated"].get("message")

    tail = "".join(f"line {at}\n" for at in range(121, 201))
    assert messages == {"file": "word", "path": "word", "log": tail, "fine": None}


def test_deleted_pod_can_finish_within_its_grace_period(admin: Client, kubelet: FakeKubelet, namespace: str) -> None:
    text = "trap 'sleep 0.3; echo bye; exit 7' TERM; echo up; while true; do sleep 0.05; done"
    admin.create(make_pod(namespace, "polite", IMAGE, ["bash", "-c", text]))
    path = f"/api/v1/namespaces/{namespace}/pods/polite"
    pod = wait_for_phase(admin, namespace, "polite", "Running")
    until(lambda: read_log(admin, pod) == "up\n")
    (pid,) = kubelet.pids(namespace, "polite")
    changes = admin.lines(
        f"/api/v1/namespaces/{namespace}/pods",
        watch="true",
        resourceVersion=admin.get(path)["metadata"]["resourceVersion"],
    )

    admin.delete(path)

    events = list(itertools.takewhile(lambda line: '"DELETED"' not in line[:20], changes))
    assert '"exitCode":7' in events[-1]
    assert not os.path.exists(f"/proc/{pid}")
    with pytest.raises(AssertionError, match="404"):
        read_log(admin, pod)


def test_pod_that_ignores_sigterm_is_killed(admin: Client, kubelet: FakeKubelet, namespace: str) -> None:
    text = "trap '' TERM; echo up; sleep 60 & while true; do sleep 0.05; done"
    admin.create(make_pod(namespace, "stubborn", IMAGE, ["bash", "-c", text], terminationGracePeriodSeconds=1))
    pod = wait_for_phase(admin, namespace, "stubborn", "Running")
    until(lambda: read_log(admin, pod) == "up\n")
    (pid,) = kubelet.pids(namespace, "stubborn")

    admin.delete(f"/api/v1/namespaces/{namespace}/pods/stubborn")

    until(lambda: admin.find(f"/api/v1/namespaces/{namespace}/pods/stubborn") is None)
    assert not os.path.exists(f"/proc/{pid}")
    assert list_group(pid) == []


def test_container_is_restarted_according_to_its_policy(admin: Client, namespace: str) -> None:
    admin.create(make_pod(namespace, "again", IMAGE, ["sh", "-c", "echo try; exit 2"], restartPolicy="Always"))

    waiting = wait_for_reason(admin, namespace, "again", "CrashLoopBackOff")
    assert "back-off 1s restarting failed container" in waiting["message"]

    def find_restarted() -> Object | None:
        status: Any = admin.get(f"/api/v1/namespaces/{namespace}/pods/again")["status"]["containerStatuses"][0]
        return status if status["restartCount"] >= 1 else None

    assert until(find_restarted)["lastState"]["terminated"]["exitCode"] == 2


def test_pod_is_ready_when_its_port_accepts_connections(admin: Client, namespace: str) -> None:
    code = "import http.server, time; time.sleep(1); http.server.test(http.server.SimpleHTTPRequestHandler, port=18765)"
    probe = {"tcpSocket": {"port": "http"}}
    ports = [{"name": "http", "containerPort": 18765}]
    command = ["python3", "-c", code]
    admin.create(make_pod(namespace, "serves", IMAGE, command, main_ports=ports, main_readinessProbe=probe))

    pod = wait_for_phase(admin, namespace, "serves", "Running")
    assert not pod["status"]["containerStatuses"][0]["ready"]
    path = f"/api/v1/namespaces/{namespace}/pods/serves"
    until(lambda: admin.get(path)["status"]["containerStatuses"][0]["ready"])
    address = admin.get(path)["status"]["podIP"]
    assert httpx2.get(f"http://{address}:18765/", trust_env=False).status_code == 200


@pytest.mark.parametrize("storage_class", [None, "fast"])
def test_files_on_a_persistent_volume_claim_persist(admin: Client, namespace: str, storage_class: str | None) -> None:
    admin.create(make_claim(namespace, "kept", storage_class))
    volumes = [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]
    mounted = [{"name": "kept", "mountPath": "/kept", "subPath": "part"}]
    for name, command in (("writes", "echo word > /kept/file"), ("reads", "cat /kept/file")):
        arguments = ["sh", "-c", command]
        admin.create(make_pod(namespace, name, IMAGE, arguments, volumes=volumes, main_volumeMounts=mounted))
        pod = wait_for_phase(admin, namespace, name, "Succeeded")

    assert read_log(admin, pod) == "word\n"
    claim = admin.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/kept")
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", storage_class or "standard")
    volume = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
    folder = admin.get(volume)["spec"]["hostPath"]["path"]
    for name in ("writes", "reads"):
        admin.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    admin.delete(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/kept")
    until(lambda: admin.find(volume) is None)
    assert not os.path.exists(folder)


@pytest.mark.usefixtures("metrics")
def test_usage_of_pods_is_measured(admin: Client, namespace: str) -> None:
    code = "data = b'x' * 2**27\nwhile True: pass"
    admin.create(make_pod(namespace, "busy", IMAGE, ["python3", "-c", code]))

    def is_measured() -> Any:
        metrics = admin.find(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/busy")
        usage = (
            metrics["containers"][0]["usage"] if metrics and metrics["containers"] else {"cpu": "0n", "memory": "0Ki"}
        )
        assert usage["cpu"].endswith("n")
        assert usage["memory"].endswith("Ki")
        return int(usage["cpu"][:-1]) > 2e8 and int(usage["memory"][:-2]) > 2**17

    until(is_measured)
    admin.delete(f"/api/v1/namespaces/{namespace}/pods/busy", gracePeriodSeconds="0")
    until(lambda: not admin.items(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"))


def test_pods_of_a_lost_node_are_removed(admin: Client, kubelet: FakeKubelet, namespace: str) -> None:
    kubelet.add_node("shaky", labels={"own": namespace})
    selector = {"own": namespace}
    admin.create(make_pod(namespace, "lost", IMAGE, ["sleep", "60"], nodeSelector=selector))
    wait_for_phase(admin, namespace, "lost", "Running")
    (pid,) = kubelet.pids(namespace, "lost")

    kubelet.lose_node("shaky")

    assert not os.path.exists(f"/proc/{pid}")
    path = f"/api/v1/namespaces/{namespace}/pods/lost"
    until(lambda: "deletionTimestamp" in admin.get(path)["metadata"])
    kubelet.restore_node("shaky")
    until(lambda: admin.find(path) is None)
    admin.create(make_pod(namespace, "next", "example.test/succeed", nodeSelector=selector))
    wait_for_phase(admin, namespace, "next", "Succeeded")
    kubelet.delete_node("shaky")
    assert admin.find("/api/v1/nodes/shaky") is None


def read_log(admin: Client, pod: Object, **params: str) -> str:
    meta = pod["metadata"]
    response = admin.http.get(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log", params=params)
    assert response.status_code == 200, f"{response.status_code} {response.text}"
    return response.text


def list_group(pid: int) -> list[str]:
    """The live processes in a process group, excluding zombies."""
    processes = [other.info for other in psutil.process_iter(["pid", "name", "status"])]
    alive = [process for process in processes if process["pid"] and process["status"] != psutil.STATUS_ZOMBIE]
    return [process["name"] for process in alive if _group_of(process["pid"]) == pid]


def _group_of(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(pid)
    return None


def events_of(admin: Client, namespace: str, name: str) -> list[Object]:
    return admin.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.name={name}")
