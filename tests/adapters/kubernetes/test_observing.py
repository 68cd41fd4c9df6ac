"""Observations of runs from cluster objects: phase, reason and message."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes import observing
from fairlead.adapters.kubernetes.observing import ObservationContext
from fairlead.adapters.kubernetes.views import ClusterView
from fairlead.model.runs import Observation, Phase
from fairlead.run_events import RunEvents
from tests.adapters.kubernetes.making import (
    JSON,
    RUN,
    condition,
    make_main,
    make_pod,
    make_warning,
    read_main,
    read_pod,
    read_warning,
    terminated,
)

RUNNING: JSON = {"running": {"startedAt": "2026-11-15T08:30:00Z"}}
UNSCHEDULED = condition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available: 2 Insufficient cpu.")
FAILED, DONE = condition("Failed", reason="BackoffLimitExceeded", message="reached the limit"), condition("Complete")
LATER = "2026-11-15T09:00:00Z"
LOW = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 900Mi. "


def observe(main: JSON, *pods: JSON, warnings: tuple[JSON, ...] = (), **context: Any) -> Observation | None:
    """The observation after applying these objects in order."""
    view = ClusterView(RunEvents())
    view.on_main_change(None, read_main(main))
    for raw in pods:
        before = (known := view.find_run(RUN)) and known.pods.get(raw["metadata"]["uid"])
        deleted = raw["metadata"].get("deleted", False)
        view.on_pod_change(before or None, None if deleted else read_pod(raw))
    for raw in warnings:
        view.on_warning_change(None, read_warning(raw))
    run_view = view.find_run(RUN)
    assert run_view is not None
    return observing.observe(run_view, ObservationContext(view.warnings_about(run_view), **context))


def state_of(main: JSON, *pods: JSON, **context: Any) -> tuple[Phase, str, str]:
    observation = observe(main, *pods, **context)
    assert observation is not None
    return observation.phase, observation.reason, observation.message


def deleted(pod: JSON) -> JSON:
    """Mark a pod as deleted."""
    return {**pod, "metadata": {**pod["metadata"], "deleted": True}}


def disrupted(reason: str, **fields: Any) -> JSON:
    return make_pod("train-1-old", condition("DisruptionTarget", reason=reason), phase="Failed", **fields)


def test_unreleased_run_has_no_observation() -> None:
    assert observe(make_main(released=False, suspend=True)) is None


# Active runs


@pytest.mark.parametrize(
    ("main", "pods", "expected"),
    [
        (make_main(), [], (Phase.PENDING, "", "")),
        (make_main(), [make_pod(phase="Pending", node="")], (Phase.PENDING, "", "")),
        (make_main(), [make_pod(phase="Pending", waiting={})], (Phase.STARTING, "", "")),
        (
            make_main(),
            [make_pod(phase="Pending", waiting={"reason": "ContainerCreating"})],
            (Phase.STARTING, "", ""),
        ),
        (make_main(), [make_pod(**RUNNING)], (Phase.RUNNING, "", "")),
        (
            make_main(completions=2),
            [make_pod("a", **RUNNING), make_pod("b", phase="Pending", index=1, waiting={})],
            (Phase.RUNNING, "", "1 of 2 pods are running; the others are starting"),
        ),
        (
            make_main(completions=2),
            [make_pod("a", **RUNNING), make_pod("b", UNSCHEDULED, phase="Pending", index=1, node="")],
            (Phase.RUNNING, "Unschedulable", f"1 of 2 pods are running; {UNSCHEDULED['message']}"),
        ),
        # The Job decides the outcome.
        (make_main(), [make_pod(phase="Succeeded", terminated=terminated(0))], (Phase.RUNNING, "", "")),
        (make_main("Job", condition("FailureTarget", reason="DeadlineExceeded")), [], (Phase.RUNNING, "", "")),
        (make_main("Job", condition("SuccessCriteriaMet")), [], (Phase.RUNNING, "", "")),
        (
            make_main(suspend=True),
            [],
            (Phase.PENDING, "Suspended", "Job train-1 was suspended; the run will continue when it is resumed"),
        ),
    ],
)
def test_phase_follows_from_job_and_pods(main: JSON, pods: list[JSON], expected: tuple[Phase, str, str]) -> None:
    assert state_of(main, *pods) == expected


def test_suspended_job_names_its_kueue_queue() -> None:
    main = make_main(suspend=True)
    main["metadata"]["labels"] = {**main["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpus"}
    assert state_of(main) == (Phase.PENDING, "Queued", "waiting in queue gpus of the cluster")


def test_job_that_is_being_deleted_is_stopping() -> None:
    main = make_main("Job", FAILED)
    main["metadata"]["deletionTimestamp"] = LATER
    assert state_of(main, make_pod(**RUNNING)) == (Phase.RUNNING, "Ending", "stopping")
    assert state_of(main) == (Phase.STARTING, "Ending", "stopping")


# Reasons for waiting


def test_unschedulable_pod_shows_our_explanation_and_the_scheduler_message() -> None:
    pod = make_pod("a", UNSCHEDULED, phase="Pending", node="")
    state = state_of(make_main(), pod, explain=lambda _pod: "needs 9 cores; 8 of 8 free on box")
    message = f"needs 9 cores; 8 of 8 free on box; the scheduler says: {UNSCHEDULED['message']}"
    assert state == (Phase.PENDING, "Unschedulable", message)
    assert state_of(make_main(), pod) == (Phase.PENDING, "Unschedulable", UNSCHEDULED["message"])


@pytest.mark.parametrize(
    "tail", [" preemption: 0/2 nodes are available: 2 x.", " no new claims to deallocate, preemption: 0/2."]
)
def test_preemption_part_of_the_scheduler_message_is_removed(tail: str) -> None:
    unscheduled = condition("PodScheduled", "False", "Unschedulable", UNSCHEDULED["message"] + tail)
    assert state_of(make_main(), make_pod("a", unscheduled, phase="Pending", node=""))[2] == UNSCHEDULED["message"]


def test_failed_volume_provisioning_explains_an_unscheduled_pod() -> None:
    message = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    unbound = condition("PodScheduled", "False", "Unschedulable", message)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "train-1-data"}}
    pod = make_pod("a", unbound, phase="Pending", node="", volumes=(volume,))
    claim = {"metadata": {"uid": "c", "name": "train-1-data", "namespace": "forest"}}
    warning = make_warning(claim, "ProvisioningFailed", 'storageclass.storage.k8s.io "nope" not found')
    explanation = 'its volume train-1-data cannot be provisioned: storageclass.storage.k8s.io "nope" not found'
    assert state_of(make_main(), pod, warnings=(warning,)) == (
        Phase.PENDING,
        "ProvisioningFailed",
        f"{explanation}; the scheduler says: {message}",
    )
    unschedulable_pod = make_pod("a", UNSCHEDULED, phase="Pending", node="", volumes=(volume,))
    assert state_of(make_main(), unschedulable_pod, warnings=(warning,))[1:] == (
        "Unschedulable",
        UNSCHEDULED["message"],
    )


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        (
            "ErrImagePull",
            'pull "x": not found',
            ("ImagePullBackOff", 'its image cannot be pulled: pull "x": not found'),
        ),
        (
            "ImagePullBackOff",
            'Back-off pulling image "x": ErrImagePull: pull "x": not found',
            ("ImagePullBackOff", 'its image cannot be pulled: pull "x": not found'),
        ),
        (
            "ImagePullBackOff",
            'Back-off pulling image "x"',
            ("ImagePullBackOff", 'its image cannot be pulled: Back-off pulling image "x"'),
        ),
        ("InvalidImageName", "", ("ImagePullBackOff", "its image cannot be pulled: InvalidImageName")),
        (
            "CreateContainerConfigError",
            'secret "x" not found',
            ("CreateContainerConfigError", 'its container cannot be created: secret "x" not found'),
        ),
        ("CreateContainerError", "", ("CreateContainerError", "its container cannot be created: CreateContainerError")),
    ],
)
def test_container_start_error_is_reported(reason: str, message: str, expected: tuple[str, str]) -> None:
    pod = make_pod(phase="Pending", waiting={"reason": reason, "message": message})
    assert state_of(make_main(), pod) == (Phase.STARTING, *expected)


def test_alternating_image_pull_errors_give_one_message() -> None:
    """The kubelet alternates between the two errors, and each change to the message would be an event."""
    pods = [
        make_pod(phase="Pending", waiting={"reason": "ErrImagePull", "message": "no route"}),
        make_pod(
            phase="Pending",
            waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x": ErrImagePull: no route'},
        ),
    ]
    assert len({state_of(make_main(), pod) for pod in pods}) == 1


def test_failed_volume_mount_is_reported() -> None:
    pod = make_pod(phase="Pending", waiting={"reason": "ContainerCreating"})
    warning = make_warning(pod, "FailedMount", 'configmap "x" not found')
    assert state_of(make_main(), pod, warnings=(warning,)) == (Phase.STARTING, "FailedMount", 'configmap "x" not found')
    other = {**warning, "involvedObject": {**warning["involvedObject"], "uid": "another"}}
    assert state_of(make_main(), pod, warnings=(other,)) == (Phase.STARTING, "", "")


def test_failed_pod_creation_is_reported_without_the_generated_pod_name() -> None:
    """Each retry has a different pod name, and each change to the message would be an event."""
    main = make_main()
    warning_text = (
        'Error creating: pods "train-1-{}" is forbidden: exceeded quota: few, requested: pods=1, limited: pods=0'
    )
    message = "its pod cannot be created: exceeded quota: few, requested: pods=1, limited: pods=0; retrying"
    for suffix in ("2m2zg", "xk9f4"):
        warning = make_warning(main, "FailedCreate", warning_text.format(suffix))
        assert state_of(main, warnings=(warning,)) == (Phase.PENDING, "FailedCreate", message)
    warning = make_warning(main, "FailedCreate", "something else")
    assert state_of(main, warnings=(warning,))[2] == "its pod cannot be created: something else; retrying"


def test_lost_node_leaves_the_run_in_running_phase() -> None:
    observation = observe(make_main(), make_pod(**RUNNING), describe_node_loss=lambda pod: f"{pod.node} is not ready")
    assert observation is not None
    assert (observation.phase, observation.reason) == (Phase.RUNNING, "NodeLost")
    message = "its node box is not ready; the pod's state is unknown until the node comes back or is removed"
    assert observation.message == message


@pytest.mark.parametrize(
    ("reason", "fields", "cause"),
    [
        (
            "PreemptionByScheduler",
            {},
            ("Preempted", "preempted by a pod with higher priority, waiting for another node"),
        ),
        ("DeletionByTaintManager", {}, ("NodeLost", "its node was lost, waiting for another node")),
        ("DeletionByPodGC", {}, ("NodeLost", "its node was lost, waiting for another node")),
        ("EvictionByEvictionAPI", {}, ("Evicted", "evicted from its node, waiting for another node")),
        (
            "TerminationByKubelet",
            {"status_fields": {"reason": "Evicted", "message": LOW}},
            ("Evicted", f"terminated by its node, waiting for another node: {LOW.strip()}"),
        ),
        ("TerminationByKubelet", {}, ("Evicted", "terminated by its node, waiting for another node")),
        ("SomethingNew", {}, ("", "")),
    ],
)
def test_disrupted_run_is_pending_with_the_cause(reason: str, fields: JSON, cause: tuple[str, str]) -> None:
    old = disrupted(reason, **fields)
    assert state_of(make_main(), old) == (Phase.PENDING, *cause)
    assert state_of(make_main(), old, deleted(old)) == (Phase.PENDING, *cause)
    new = make_pod("train-1-new", UNSCHEDULED, phase="Pending", node="")
    expected = (cause[0], f"{cause[1]}; the scheduler says: {UNSCHEDULED['message']}") if cause[0] else None
    assert state_of(make_main(), old, new)[1:] == (expected or ("Unschedulable", UNSCHEDULED["message"]))
    assert state_of(make_main(), old, new, make_pod("train-1-new", **RUNNING)) == (Phase.RUNNING, "", "")


def test_later_of_two_causes_is_reported() -> None:
    main, old = make_main(), disrupted("PreemptionByScheduler")
    before = make_warning(main, "FailedCreate", "exceeded quota", at="2026-11-15T08:00:00Z")
    after = make_warning(main, "FailedCreate", "exceeded quota", at=LATER)
    assert state_of(main, old, deleted(old), warnings=(before,))[1] == "Preempted"
    assert state_of(main, old, deleted(old), warnings=(after,))[1] == "FailedCreate"
