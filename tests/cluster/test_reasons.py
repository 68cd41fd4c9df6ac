"""Reasons and messages of runs on the real control plane."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sdk.runs import Run
from tests.cluster.clients import ApiError, Client, until
from tests.cluster.kubelet.outcomes import Outcome
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform

LOW, HIGH = "low-of-tests", "high-of-tests"
ENFORCE = "pod-security.kubernetes.io/enforce"
ALLOCATE = """
def main():
    data = []
    while True:
        data.append("x" * 1_000_000)
"""


def image(name: str) -> dict[str, str]:
    """A function with a simulated image."""
    return {"name": name, "kind": "container", "image": f"example.test/{name}"}


def history_of(platform: Platform, run: Run) -> list[str]:
    """The states and reasons of a run in order, without those that depend on timing."""
    events = [(event["state"], event["reason"]) for event in platform.api("GET", f"/runs/{run.id}/events")]
    states = [f"{state} {reason}" for state, reason in events if reason not in ("Starting", "Claimed")]
    return [line for line, _ in itertools.groupby(states)]


@contextlib.contextmanager
def temporary_node(platform: Platform, kubelet: FakeKubelet, name: str, **node: Any) -> Iterator[dict[str, Any]]:
    """Add a node in its own pool during the block, and yield the node selector of runs for it."""
    kubelet.add_node(name, labels={"pool": name}, **node)
    try:
        until(
            lambda: any(
                node_data["name"] == name and node_data["capacity"] for node_data in platform.api("GET", "/nodes")
            )
        )
        yield {"node_selector": {"pool": name}}
    finally:
        kubelet.delete_node(name)


@pytest.fixture(scope="module")
def lost(platform: Platform, kubelet: FakeKubelet) -> Run:
    """A run whose node was removed. Kubernetes takes a minute to notice. Other tests run during that time."""
    with temporary_node(platform, kubelet, "weak") as selector:
        run = platform.run("lost", **selector)
        platform.until(run, "running")
    return run


# Reasons for waiting


def test_missing_image(lost: Run, platform: Platform) -> None:
    status = platform.until(platform.run(function=image("no-such-image")), "ImagePullBackOff")
    message = 'its image cannot be pulled: failed to pull and unpack image "example.test/no-such-image": not found'
    assert (status["state"], status["message"]) == ("starting", message)


def test_container_config_error(platform: Platform) -> None:
    status = platform.until(platform.run(function=image("config-error")), "CreateContainerConfigError")
    message = "its container cannot be created: container has runAsNonRoot and image will run as root"
    assert (status["state"], status["message"]) == ("starting", message)


def test_volume_with_a_missing_storage_class(platform: Platform) -> None:
    volume = {"volume_type": "persistent_volume_claim", "name": "data", "mount_path": "/data"}
    run = platform.run(volumes=[{**volume, "spec": {"size": "1Gi", "storage_class": "missing"}}])
    status = platform.until(run, "ProvisioningFailed")
    assert status["state"] == "pending"
    ours, _, theirs = status["message"].partition("; the scheduler says: ")
    assert 'cannot be provisioned: storageclass.storage.k8s.io "missing" not found; mounts claim ' in ours
    assert ours.endswith("which has no volume, and its storage class missing does not exist")
    assert theirs.startswith("0/")
    run.stop()


def test_run_waits_for_a_resource_quota_of_the_namespace(platform: Platform, admin: Client) -> None:
    platform.until(platform.run(function=image("succeed")), "completed")  # creates the namespace
    path = f"/api/v1/namespaces/{platform.namespace}/resourcequotas/few"
    meta = {"name": "few", "namespace": platform.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "0"}}}
    admin.create(quota)
    until(lambda: "used" in admin.get(path).get("status", {}))
    run = platform.run(function=image("succeed"))
    status = platform.until(run, "FailedCreate")
    assert status["state"] == "pending"
    assert status["message"].startswith(
        "its pod cannot be created: exceeded quota: few, requested: pods=1, used: pods="
    )
    assert status["message"].endswith(", limited: pods=0; retrying")
    admin.patch(path, {"spec": {"hard": {"pods": "50", "count/jobs.batch": "0"}}})
    platform.until(run, "completed")
    assert history_of(platform, run) == [
        "queued Queued",
        "pending FailedCreate",
        "running Running",
        "completed Completed",
    ]
    until(lambda: "count/jobs.batch" in admin.get(path).get("status", {}).get("used", {}))
    run = platform.run(function=image("succeed"))
    status = platform.until(run, "StartDelayed")
    assert (status["state"], "exceeded quota: few, requested: count/jobs.batch=1" in status["message"]) == (
        "pending",
        True,
    )
    admin.delete(path)
    platform.until(run, "completed")


def test_run_waits_while_pod_security_forbids_its_pod(platform: Platform, admin: Client) -> None:
    namespace = f"/api/v1/namespaces/{platform.namespace}"
    admin.patch(namespace, {"metadata": {"labels": {ENFORCE: "restricted"}}})
    run = platform.run(run_as_user=0)
    status = platform.until(run, "FailedCreate")
    admin.patch(namespace, {"metadata": {"labels": {ENFORCE: None}}})
    assert status["state"] == "pending"
    assert status["message"].startswith('its pod cannot be created: violates PodSecurity "restricted:latest": ')
    platform.until(run, "running")
    run.stop()


def test_manifest_rejected_by_an_admission_policy_fails_immediately(platform: Platform, admin: Client) -> None:
    """A cluster admission policy rejects the Job permanently."""
    match = {"resourceRules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}]}
    match["resourceRules"][0]["resources"] = ["jobs"]
    rule = {"expression": "!object.metadata.name.startsWith('unwanted')", "message": "no unwanted runs here"}
    group = "admissionregistration.k8s.io/v1"
    spec = {"matchConstraints": match, "validations": [{**rule, "reason": "Invalid"}]}
    kind = {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "wanted"}, "spec": spec}
    binding_spec = {"policyName": "wanted", "validationActions": ["Deny"]}
    binding = {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding_spec}
    policies = f"/apis/{group}/validatingadmissionpolic"
    admin.post(f"{policies}ies", kind)
    admin.post(f"{policies}ybindings", binding)
    until(lambda: _is_rejected(admin, platform.namespace))
    status = platform.until(platform.run("unwanted"), "failed")
    admin.delete(f"{policies}ybindings/wanted")
    admin.delete(f"{policies}ies/wanted")
    assert status["reason"] == "StartFailed"
    assert status["message"].startswith("the cluster rejected the run: ")
    assert status["message"].endswith("no unwanted runs here")


def _is_rejected(admin: Client, namespace: str) -> bool:
    """Whether the policy is already in effect."""
    pod = {"containers": [{"name": "main", "image": "example.test/sleep"}], "restartPolicy": "Never"}
    meta = {"name": "unwanted", "namespace": namespace}
    try:
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}
        admin.create(body, dryRun="All")
    except ApiError as error:
        return "no unwanted" in error.body
    return False


# How a run ends


def test_run_over_its_memory_limit(platform: Platform) -> None:
    limits = {"mem": {"requests": "64Mi", "limits": "128Mi"}}
    limited = platform.python(ALLOCATE, resources=limits)
    unlimited = platform.run(function=image("oom"))
    status = platform.until(limited, "failed")
    assert (status["reason"], status["message"]) == ("OOMKilled", "exceeded its memory limit of 128Mi")
    assert status["exit_code"] == 137
    assert platform.until(unlimited, "failed")["message"] == "exceeded the memory of its node"


def test_exit_code_with_the_last_lines(platform: Platform, kubelet: FakeKubelet) -> None:
    lines = "".join(f"line {number}\n" for number in range(9))
    kubelet.outcomes["example.test/verbose"] = Outcome("exit", 4, log=lines)
    status = platform.until(platform.run(function=image("verbose")), "failed")
    message = "exited with code 4: line 6 | line 7 | line 8"
    assert (status["reason"], status["message"], status["exit_code"]) == ("ExitCode", message, 4)


def test_missing_program(platform: Platform) -> None:
    function = {"name": "invalid", "kind": "container", "image": "registry.example/x", "command": "no-such-program"}
    status = platform.until(platform.run(function=function), "failed")
    assert status["reason"] == "StartFailed"
    assert status["message"].startswith("its container could not be started: ")
    assert 'exec: "no-such-program": executable file not found' in status["message"]


def test_exception_of_a_function(platform: Platform) -> None:
    run = platform.python("def main():\n    raise ValueError('bad')\n")
    status = platform.until(run, "failed")
    assert (status["reason"], status["message"], status["exit_code"]) == ("ExitCode", "ValueError: bad", 1)
    error = platform.api("GET", f"/runs/{run.id}/result")["error"]
    assert (error["type"], error["message"]) == ("ValueError", "bad")
    assert "raise ValueError('bad')" in error["traceback"]


def test_run_killed_by_a_signal(platform: Platform) -> None:
    run = platform.python("import os\ndef main():\n    print('bye', flush=True)\n    os.kill(os.getpid(), 11)\n")
    status = platform.until(run, "failed")
    assert (status["reason"], status["message"]) == ("ExitCode", "killed by SIGSEGV (exit code 139): bye")


def test_run_over_its_deadline(platform: Platform) -> None:
    run = platform.run(deadline=2)
    status = platform.until(run, "failed")
    message = "exceeded its deadline of 2 s"
    assert (status["reason"], status["message"]) == ("DeadlineExceeded", message)
    assert history_of(platform, run) == ["queued Queued", "running Running", "failed DeadlineExceeded"]
    events = platform.api("GET", f"/runs/{run.id}/events")
    assert [event["state"] for event in events].index("running") == len(
        events
    ) - 2  # the state never returns to pending


def test_failure_of_one_of_several_pods(platform: Platform) -> None:
    source = "import os, time\ndef main():\n    if os.environ['JOB_COMPLETION_INDEX'] == '1':\n"
    run = platform.python(f"{source}        raise ValueError('one')\n    time.sleep(60)\n", replicas=3)
    status = platform.until(run, "failed")
    assert (status["reason"], status["message"], status["exit_code"]) == ("ExitCode", "pod 1: ValueError: one", 1)


def test_failed_served_run_is_degraded_and_continues(platform: Platform) -> None:
    function = {**image("exit-3"), "port": 8000}
    run = platform.run(function=function, action="serve")
    status = platform.until(run, "degraded")
    assert status["reason"] == "CrashLoopBackOff"
    assert "exited with code 3: going to exit with 3" in status["message"]
    run.stop()
    platform.until(run, "stopped")


# Interruptions


def test_preempted_run_waits_and_runs_again(platform: Platform, kubelet: FakeKubelet, admin: Client) -> None:
    for name, value in {LOW: 10, HIGH: 1000}.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        admin.create({**kind, "value": value})
    with temporary_node(platform, kubelet, "narrow", capacity={"cpu": "2"}) as selector:
        options = {"resources": {"cpu": 2}, **selector}
        low = platform.run("low", priority_class=LOW, **options)
        platform.until(low, "running")
        high = platform.run("high", priority_class=HIGH, **options)
        status = platform.until(low, "Preempted")
        message = "preempted by a pod with higher priority, waiting for another node"
        assert (status["state"], status["message"].startswith(message)) == ("pending", True)
        platform.until(high, "running")
        high.stop()
        platform.until(low, "running")
        history = history_of(platform, low)
        assert history[:3] == ["queued Queued", "running Running", "pending Preempted"]
        assert history[-1] == "running Running"
        low.stop()
        platform.until(low, "stopped")


def test_evicted_run_waits_for_another_node(platform: Platform) -> None:
    run = platform.run(function=image("evicted"))
    status = platform.until(run, "Evicted")
    message = "terminated by its node, waiting for another node: The node was low on resource: ephemeral-storage."
    assert (status["state"], status["message"].startswith(message)) == ("pending", True)
    run.stop()


def test_run_on_an_unreachable_node_stays_running(platform: Platform, kubelet: FakeKubelet) -> None:
    with temporary_node(platform, kubelet, "quiet") as selector:
        run = platform.run(**selector)
        platform.until(run, "running")
        kubelet.lose_node("quiet")
        status = platform.until(run, "NodeLost")
        assert (status["state"], status["message"].startswith("its node quiet is not ready (since ")) == (
            "running",
            True,
        )
        (pod,) = platform.pods_of(run)
        until(lambda: "deletionTimestamp" in platform.pods_of(run)[0]["metadata"])  # it receives SIGTERM
        assert platform.get_run(run)["reason"] == "NodeLost"
        kubelet.restore_node("quiet")
        until(
            lambda: [
                replacement
                for replacement in platform.pods_of(run)
                if replacement["metadata"]["uid"] != pod["metadata"]["uid"]
            ]
        )
        platform.until(run, "Running")
        run.stop()
        platform.until(run, "stopped")


def test_run_on_a_rebooted_node_fails(platform: Platform, kubelet: FakeKubelet) -> None:
    with temporary_node(platform, kubelet, "rebooted") as selector:
        run = platform.run(**selector)
        platform.until(run, "running")
        kubelet.lose_node("rebooted")
        kubelet.restore_node("rebooted")
        status = platform.until(run, "failed")
        message = "its node rebooted restarted while the pod was running"
        assert (status["reason"], status["message"]) == ("NodeLost", message)


# Manual changes


def test_suspended_job_continues_when_resumed(platform: Platform, admin: Client) -> None:
    run = platform.run()
    platform.until(run, "running")
    name = platform.job_of(run)["metadata"]["name"]
    path = f"/apis/batch/v1/namespaces/{platform.namespace}/jobs/{name}"
    admin.patch(path, {"spec": {"suspend": True}})
    status = platform.until(run, "Suspended")
    message = f"Job {name} was suspended; the run will continue when it is resumed"
    assert (status["state"], status["message"]) == ("pending", message)
    admin.patch(path, {"spec": {"suspend": False}})
    platform.until(run, "running")
    run.stop()


def test_run_with_a_removed_job_is_lost(platform: Platform, admin: Client) -> None:
    run = platform.run()
    platform.until(run, "running")
    name = platform.job_of(run)["metadata"]["name"]
    admin.delete(f"/apis/batch/v1/namespaces/{platform.namespace}/jobs/{name}", propagationPolicy="Background")
    status = platform.until(run, "failed")
    message = "disappeared: it was removed by something other than Fairlead"
    assert (status["reason"], status["message"]) == ("Lost", message)


def test_run_with_a_removed_pod_fails(platform: Platform, admin: Client) -> None:
    run = platform.run()
    platform.until(run, "running")
    (pod,) = platform.pods_of(run)
    admin.delete(f"/api/v1/namespaces/{platform.namespace}/pods/{pod['metadata']['name']}")
    status = platform.until(run, "failed")
    assert status["reason"] == "PodRemoved"
    assert status["message"].startswith("its pod was removed: ")


def test_run_on_a_removed_node_moves_to_another(platform: Platform, kubelet: FakeKubelet, lost: Run) -> None:
    status = platform.until(lost, "pending", seconds=120)
    message = "its node was lost, waiting for another node"
    assert (status["reason"], status["message"].startswith(message)) == ("NodeLost", True)
    assert "running NodeLost" in history_of(platform, lost)
    with temporary_node(platform, kubelet, "weak"):
        platform.until(lost, "running")
        history = history_of(platform, lost)
        assert len(history) == len(set(history)) + 1, history  # each is reported once, and running twice
        lost.stop()
        platform.until(lost, "stopped")
