"""Kueue: why a Job is suspended, which workloads are ahead of it or use the quota, and missing permissions."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes.clients import ApiError
from fairlead.adapters.kubernetes.kueue import (
    KueueQueues,
    describe_queued,
    find_path,
    read_cluster_queue,
    read_local_queue,
    read_workload,
)
from fairlead.adapters.kubernetes.objects import MainObject
from fairlead.model.nodes import QueueWorkload, QuotaUsage
from fairlead.model.quantities import NANOS
from fairlead.model.runs import Phase
from tests.adapters.kubernetes.apis import ScriptedApi
from tests.adapters.kubernetes.making import JSON, NAMESPACE, condition, make_main, make_meta, read_main
from tests.adapters.kubernetes.test_observing import observe

GPU = "nvidia.com/gpu"
LATER = "2026-11-15T09:00:00Z"
RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")
PENDING = condition("QuotaReserved", "False", "Pending", "4 more needed")


def make_job(name: str = "train-1", project_id: str = "id-forest") -> MainObject:
    """A suspended Job in a queue."""
    main = make_main(suspend=True)
    labels = {**main["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpus", "fairlead.dev/project-id": project_id}
    main["metadata"] = {**main["metadata"], "name": name, "uid": f"uid-{name}", "labels": labels}
    return read_main(main)


def make_workload(
    job: str = "train-1", *conditions: JSON, requested: str = "4", admitted: str = "", at: str = "", **spec: Any
) -> JSON:
    """A Job's Workload, with its requested and admitted GPUs."""
    meta = {**make_meta(f"job-{job}"), "ownerReferences": [{"uid": f"uid-{job}", "controller": True}]}
    meta["creationTimestamp"] = at or meta["creationTimestamp"]
    status: JSON = {
        "conditions": list(conditions),
        "resourceRequests": [{"name": "main", "resources": {GPU: requested}}],
    }
    if admitted:
        part = {"name": "main", "flavors": {GPU: "large"}, "resourceUsage": {GPU: admitted}}
        status["admission"] = {"clusterQueue": "shared", "podSetAssignments": [part]}
    return {"metadata": meta, "spec": {"queueName": "gpus", **spec}, "status": status}


def make_local_queue(**spec: Any) -> JSON:
    """A LocalQueue in the run's namespace."""
    return {"metadata": make_meta("gpus"), "spec": {"clusterQueue": "shared", **spec}}


def make_cluster_queue(*conditions: JSON, quota: str = "8", **spec: Any) -> JSON:
    """The ClusterQueue of a LocalQueue."""
    flavors = [{"name": "large", "resources": [{"name": GPU, "nominalQuota": quota}]}]
    group = {"coveredResources": [GPU], "flavors": flavors}
    return {
        "metadata": make_meta("shared"),
        "spec": {"resourceGroups": [group], **spec},
        "status": {"conditions": list(conditions)},
    }


class WatchedQueues:
    """Watched queues, and the notifications about changes."""

    def __init__(self, *workloads: JSON, local: JSON | None = None, pool: JSON | None = None) -> None:
        self.notified: list[str] = []
        self.jobs: dict[str, MainObject] = {}
        self.queues = KueueQueues(ScriptedApi().api, self.notified.append, self.jobs.get)
        self.workloads, self.locals, self.pools = self.queues.reflectors
        for reflector, objects in ((self.workloads, workloads), (self.locals, [local]), (self.pools, [pool])):
            for raw in objects:
                if raw is not None:
                    reflector.put(raw)
            reflector.ready.set()

    def describe(self) -> tuple[str, str]:
        """The queued Job's reason and message."""
        return describe_queued(make_job(), self.queues.find(make_job()))


@pytest.mark.parametrize(
    ("workload", "local", "pool", "expected"),
    [
        (make_workload(), None, None, "waiting for queue gpus: LocalQueue gpus does not exist in namespace forest"),
        (
            make_workload(),
            make_local_queue(),
            None,
            "waiting in queue gpus: its ClusterQueue shared does not exist",
        ),
        (None, make_local_queue(), make_cluster_queue(), "waiting in queue gpus of ClusterQueue shared"),
        (
            make_workload("train-1", PENDING),
            make_local_queue(),
            make_cluster_queue(),
            "waiting in queue gpus of ClusterQ",
        ),
        (
            make_workload(),
            make_local_queue(stopPolicy="Hold"),
            make_cluster_queue(),
            "waiting in queue gpus, which is stopped: no run",
        ),
        (
            make_workload(),
            make_local_queue(),
            make_cluster_queue(stopPolicy="Hold"),
            "waiting in queue gpus: ClusterQueue shared is st",
        ),
        (
            make_workload(active=False),
            make_local_queue(),
            make_cluster_queue(),
            "waiting in queue gpus: Workload job-train-1 was deact",
        ),
        (
            make_workload(),
            make_local_queue(),
            make_cluster_queue(condition("Active", "False", "FlavorNotFound", "no flavor")),
            "waiting in queue gpus: ClusterQueue shared is inactive: no flavor",
        ),
        (
            make_workload(requested="16"),
            make_local_queue(),
            make_cluster_queue(),
            "needs 16 GPUs, but the quota of ClusterQueue shared is 8: it cannot start unless the quota is increased",
        ),
        (
            make_workload(requested="16"),
            make_local_queue(),
            make_cluster_queue(cohort="all"),
            "waiting in queue gpus of",
        ),
        (
            make_workload(requested="16"),
            make_local_queue(),
            make_cluster_queue(cohortName="all"),
            "waiting in queue gpus of",
        ),
        (
            make_workload(),
            make_local_queue(),
            {**make_cluster_queue(), "spec": {}},
            "needs GPUs, but ClusterQueue shared has no quota for GPUs: it cannot start",
        ),
        (
            make_workload("train-1", RESERVED),
            make_local_queue(),
            make_cluster_queue(),
            "quota reserved in ClusterQueue shared, ",
        ),
    ],
)
def test_queued_message_explains_why_the_job_is_suspended(
    workload: JSON | None, local: JSON | None, pool: JSON | None, expected: str
) -> None:
    watched = WatchedQueues(*([workload] if workload else []), local=local, pool=pool)
    reason, message = watched.describe()
    assert (reason, message[: len(expected)]) == ("Queued", expected)


def test_pending_admission_checks_are_named() -> None:
    workload = make_workload("train-1", RESERVED, admitted="4")
    workload["status"]["admissionChecks"] = [{"name": "paid", "state": "Ready"}, {"name": "nodes", "state": "Pending"}]
    assert WatchedQueues(workload, local=make_local_queue(), pool=make_cluster_queue()).describe() == (
        "Queued",
        "quota reserved in ClusterQueue shared, waiting for nodes",
    )


@pytest.mark.parametrize(
    ("reason", "conditions", "expected"),
    [
        (
            "Preempted",
            [condition("Preempted", reason="InClusterQueue")],
            ("Preempted", "preempted by a run with higher"),
        ),
        ("Preempted", [], ("Preempted", "preempted by another run; waiting in queue gpus")),
        ("ClusterQueueStopped", [], ("Evicted", "its queue was stopped; waiting in queue gpus")),
        ("SomethingNew", [], ("Evicted", "evicted by Kueue (in its words); waiting in queue gpus")),
    ],
)
def test_evicted_workload_is_queued_with_the_cause(
    reason: str, conditions: list[JSON], expected: tuple[str, str]
) -> None:
    evicted = condition("Evicted", reason=reason, message="in its words")
    for reserved in ([RESERVED], []):  # Kueue removes the reservation a moment later
        described = WatchedQueues(
            make_workload("train-1", evicted, *conditions, *reserved),
            local=make_local_queue(),
            pool=make_cluster_queue(),
        ).describe()
        assert (described[0], described[1][: len(expected[1])]) == expected


def test_readmitted_workload_does_not_mention_the_eviction() -> None:
    workload = make_workload("train-1", condition("Evicted", "False", "QuotaReserved"), RESERVED, ADMITTED)
    watched = WatchedQueues(workload, local=make_local_queue(), pool=make_cluster_queue())
    assert watched.describe() == ("Queued", "quota reserved in ClusterQueue shared")


# Queue positions


def test_workloads_ahead_are_ordered_by_priority_and_then_by_age() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout", at=LATER)
    watched = WatchedQueues(
        make_workload("train-1", PENDING, at="2026-11-15T08:31:00Z"),
        make_workload("older", PENDING, at="2026-11-15T08:30:00Z"),
        make_workload("younger", PENDING, at="2026-11-15T08:32:00Z"),
        make_workload("urgent", PENDING, at="2026-11-15T08:33:00Z", priority=5),
        make_workload("tired", PENDING, evicted, at="2026-11-15T08:00:00Z"),
        make_workload("asleep", at="2026-11-15T08:00:00Z", active=False),
        make_workload("elsewhere", PENDING, at="2026-11-15T08:00:00Z", queueName="other"),
        make_workload("over", condition("Finished"), at="2026-11-15T08:00:00Z"),
        local=make_local_queue(),
        pool=make_cluster_queue(),
    )
    for name in ("older", "urgent"):
        watched.jobs[f"uid-{name}"] = make_job(name)
    queue_position = watched.queues.queue_position(make_job())
    assert [workload.name for workload in queue_position.ahead] == ["urgent", "older"]
    assert (queue_position.pending, queue_position.message, queue_position.unavailable) == (True, "4 more needed", "")


def test_quota_holders_are_named_and_unknown_workloads_show_only_usage() -> None:
    watched = WatchedQueues(
        make_workload("train-1", PENDING),
        make_workload("ours", RESERVED, ADMITTED, admitted="5"),
        make_workload("theirs", RESERVED, admitted="3"),
        make_workload("done", RESERVED, condition("Finished"), admitted="8"),
        local=make_local_queue(),
        pool=make_cluster_queue(queueingStrategy="StrictFIFO", cohortName="all"),
    )
    watched.jobs["uid-ours"] = make_job("ours", "lake")
    queue_position = watched.queues.queue_position(make_job())
    assert queue_position.admitted == (
        QueueWorkload("ours", "lake", {GPU: 5 * NANOS}),
        QueueWorkload(usage={GPU: 3 * NANOS}),
    )
    assert queue_position.quotas == (QuotaUsage(GPU, "large", 8 * NANOS, 8 * NANOS),)
    assert (queue_position.pool, queue_position.cohort, queue_position.strict) == ("ClusterQueue shared", "all", True)
    assert queue_position.requests == {GPU: 4 * NANOS}


def test_observed_queue_position_is_computed_on_demand() -> None:
    watched = WatchedQueues(make_workload("train-1", PENDING), local=make_local_queue(), pool=make_cluster_queue())
    main = make_main(suspend=True)
    main["metadata"]["labels"] = {**main["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpus"}
    observation = observe(main, queues=watched.queues)
    assert observation is not None
    assert (observation.phase, observation.reason) == (Phase.PENDING, "Queued")
    assert observation.queue_position is not None
    assert observation.queue_position().ahead == ()
    watched.workloads.put(make_workload("first", PENDING, priority=1))
    assert len(observation.queue_position().ahead) == 1


# Watching


def test_missing_queue_is_reported_only_after_all_queues_were_listed() -> None:
    watched = WatchedQueues(make_workload())
    watched.locals.ready.clear()
    assert watched.describe() == ("Queued", "waiting in queue gpus of the cluster")
    watched.notified.clear()
    watched.locals.on_list()
    assert watched.notified == ["uid-train-1"]  # to check it again


def test_missing_kueue_is_reported() -> None:
    watched = WatchedQueues()
    with pytest.raises(ApiError, match="Kueue is not installed") as caught:
        find_path(ScriptedApi().api, "workloads")
    watched.workloads.error = str(caught.value)
    assert watched.describe()[1] == "waiting in queue gpus, but Kueue is not installed on the cluster"
    assert watched.queues.queue_position(make_job()).unavailable == "Kueue is not installed"


def test_forbidden_workloads_are_reported_as_unavailable() -> None:
    watched = WatchedQueues()
    for reflector in watched.queues.reflectors:
        reflector.ready.clear()
        reflector.error = "workloads is forbidden"
    assert watched.describe() == ("Queued", "waiting in queue gpus of the cluster")
    assert watched.queues.queue_position(make_job()).unavailable == "workloads is forbidden"
    with pytest.raises(ApiError, match="no"):
        find_path(ScriptedApi({"/apis/kueue.x-k8s.io": ApiError(403, "Forbidden", "no")}).api, "workloads")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_preferred_api_version_is_used(version: str) -> None:
    group = {"preferredVersion": {"groupVersion": f"kueue.x-k8s.io/{version}", "version": version}}
    api = ScriptedApi({"/apis/kueue.x-k8s.io": group}).api
    assert find_path(api, "localqueues") == f"/apis/kueue.x-k8s.io/{version}/localqueues"


def test_suspended_job_is_notified_about_its_queue_and_its_workload() -> None:
    watched = WatchedQueues(make_workload("train-1", PENDING), make_workload("other", RESERVED, ADMITTED))
    watched.notified.clear()
    watched.pools.put(make_cluster_queue())
    watched.locals.put(make_local_queue())
    assert watched.notified == ["uid-train-1", "uid-train-1"]
    watched.workloads.put(make_workload("other", RESERVED))
    assert watched.notified[2:] == ["uid-other"]


def test_recreated_object_survives_the_late_delete_event_of_the_old_one() -> None:
    watched = WatchedQueues(make_workload("train-1", PENDING), local=make_local_queue(), pool=make_cluster_queue())
    new_workload = make_workload("train-1", RESERVED)
    new_workload["metadata"]["uid"] = "another"
    watched.workloads.put(new_workload)
    for reflector, make in ((watched.locals, make_local_queue), (watched.pools, make_cluster_queue)):
        new_object = make()
        new_object["metadata"]["uid"] = "another"
        reflector.put(new_object)
    for reflector in watched.queues.reflectors:
        reflector._delete(next(iter(reflector._objects)))
    found = watched.queues.find(make_job())
    assert found.workload is not None
    assert [
        found.workload.uid,
        found.local_queue and found.local_queue.uid,
        found.cluster_queue and found.cluster_queue.uid,
    ] == ["another"] * 3
    watched.workloads._delete("another")
    assert watched.queues.find(make_job()).workload is None


def test_objects_with_minimal_fields_are_read() -> None:
    meta = make_meta("bare")
    workload = read_workload({"metadata": meta, "spec": {}})
    assert (workload.job, workload.queue, workload.priority, workload.is_pending) == ("", "", 0, True)
    assert (
        read_local_queue({"metadata": meta, "spec": {}}).key,
        read_cluster_queue({"metadata": meta, "spec": {}}).quotas,
    ) == (
        (NAMESPACE, "bare"),
        {},
    )
