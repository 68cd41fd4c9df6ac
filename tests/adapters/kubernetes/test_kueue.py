"""Queues of Kueue: why a Job is held, who is before it and who holds the quota, also where little can be seen."""

from typing import Any

import pytest

from fairlead.adapters.kubernetes.clients import ApiError
from fairlead.adapters.kubernetes.kueue import (
    KueueQueues,
    find_path,
    read_cluster_queue,
    read_local_queue,
    read_workload,
)
from fairlead.adapters.kubernetes.kueue_messages import describe_queued
from fairlead.adapters.kubernetes.objects import MainObject
from fairlead.model.observations import Phase
from fairlead.model.quantities import NANOS
from fairlead.model.queues import QueueWorkload, QuotaUsage
from tests.adapters.kubernetes.apis import ScriptedApi
from tests.adapters.kubernetes.making import JSON, NAMESPACE, condition, make_main, make_meta, read_main
from tests.adapters.kubernetes.test_observing import look

GPU = "nvidia.com/gpu"
LATER = "2026-11-15T09:00:00Z"
RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")
PENDING = condition("QuotaReserved", "False", "Pending", "4 more needed")


def make_job(name: str = "train-1", project: str = "forest") -> MainObject:
    """A Job that is held in a queue."""
    main = make_main(suspend=True)
    labels = {**main["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpus", "fairlead.dev/project": project}
    main["metadata"] = {**main["metadata"], "name": name, "uid": f"uid-{name}", "labels": labels}
    return read_main(main)


def make_workload(
    job: str = "train-1", *conditions: JSON, asks: str = "4", holds: str = "", at: str = "", **spec: Any
) -> JSON:
    """The Workload of a Job, which asks for GPUs or holds some."""
    meta = {**make_meta(f"job-{job}"), "ownerReferences": [{"uid": f"uid-{job}", "controller": True}]}
    meta["creationTimestamp"] = at or meta["creationTimestamp"]
    status: JSON = {"conditions": list(conditions), "resourceRequests": [{"name": "main", "resources": {GPU: asks}}]}
    if holds:
        part = {"name": "main", "flavors": {GPU: "large"}, "resourceUsage": {GPU: holds}}
        status["admission"] = {"clusterQueue": "shared", "podSetAssignments": [part]}
    return {"metadata": meta, "spec": {"queueName": "gpus", **spec}, "status": status}


def make_local(**spec: Any) -> JSON:
    """A queue in the namespace."""
    return {"metadata": make_meta("gpus"), "spec": {"clusterQueue": "shared", **spec}}


def make_pool(*conditions: JSON, quota: str = "8", **spec: Any) -> JSON:
    """The ClusterQueue of a LocalQueue."""
    flavors = [{"name": "large", "resources": [{"name": GPU, "nominalQuota": quota}]}]
    group = {"coveredResources": [GPU], "flavors": flavors}
    return {
        "metadata": make_meta("shared"),
        "spec": {"resourceGroups": [group], **spec},
        "status": {"conditions": list(conditions)},
    }


class Seen:
    """Watched queues, and the notifications about changes."""

    def __init__(self, *workloads: JSON, local: JSON | None = None, pool: JSON | None = None) -> None:
        self.told: list[str] = []
        self.jobs: dict[str, MainObject] = {}
        self.queues = KueueQueues(ScriptedApi().api, self.told.append, self.jobs.get)
        self.workloads, self.locals, self.pools = self.queues.reflectors
        for reflector, objects in ((self.workloads, workloads), (self.locals, [local]), (self.pools, [pool])):
            for raw in objects:
                if raw is not None:
                    reflector.put(raw)
            reflector.ready.set()

    def tell(self) -> tuple[str, str]:
        """Why the Job of the tests is held."""
        return describe_queued(make_job(), self.queues.find(make_job()))


@pytest.mark.parametrize(
    ("workload", "local", "pool", "words"),
    [
        (make_workload(), None, None, "waiting for queue gpus: LocalQueue gpus does not exist in namespace forest"),
        (
            make_workload(),
            make_local(),
            None,
            "waiting in queue gpus: its ClusterQueue shared does not exist",
        ),
        (None, make_local(), make_pool(), "waiting in queue gpus of ClusterQueue shared"),
        (make_workload("train-1", PENDING), make_local(), make_pool(), "waiting in queue gpus of ClusterQ"),
        (
            make_workload(),
            make_local(stopPolicy="Hold"),
            make_pool(),
            "waiting in queue gpus, which is stopped: no run",
        ),
        (
            make_workload(),
            make_local(),
            make_pool(stopPolicy="Hold"),
            "waiting in queue gpus: ClusterQueue shared is st",
        ),
        (
            make_workload(active=False),
            make_local(),
            make_pool(),
            "waiting in queue gpus: Workload job-train-1 was deact",
        ),
        (
            make_workload(),
            make_local(),
            make_pool(condition("Active", "False", "FlavorNotFound", "no flavor")),
            "waiting in queue gpus: ClusterQueue shared is inactive: no flavor",
        ),
        (
            make_workload(asks="16"),
            make_local(),
            make_pool(),
            "needs 16 GPUs, but the quota of ClusterQueue shared is 8: it cannot start unless the quota grows",
        ),
        (make_workload(asks="16"), make_local(), make_pool(cohort="all"), "waiting in queue gpus of"),
        (make_workload(asks="16"), make_local(), make_pool(cohortName="all"), "waiting in queue gpus of"),
        (
            make_workload(),
            make_local(),
            {**make_pool(), "spec": {}},
            "needs GPUs, but ClusterQueue shared has no quota for GPUs: it cannot start",
        ),
        (
            make_workload("train-1", RESERVED),
            make_local(),
            make_pool(),
            "quota reserved in ClusterQueue shared, ",
        ),
    ],
)
def test_queued_message_explains_why_the_job_is_held(
    workload: JSON | None, local: JSON | None, pool: JSON | None, words: str
) -> None:
    seen = Seen(*([workload] if workload else []), local=local, pool=pool)
    reason, message = seen.tell()
    assert (reason, message[: len(words)]) == ("Queued", words)


def test_pending_admission_checks_are_named() -> None:
    workload = make_workload("train-1", RESERVED, holds="4")
    workload["status"]["admissionChecks"] = [{"name": "paid", "state": "Ready"}, {"name": "nodes", "state": "Pending"}]
    assert Seen(workload, local=make_local(), pool=make_pool()).tell() == (
        "Queued",
        "quota reserved in ClusterQueue shared, waiting for nodes",
    )


@pytest.mark.parametrize(
    ("reason", "more", "told"),
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
def test_evicted_workload_is_queued_with_the_cause(reason: str, more: list[JSON], told: tuple[str, str]) -> None:
    evicted = condition("Evicted", reason=reason, message="in its words")
    for still in ([RESERVED], []):  # Kueue takes the quota back a moment later
        seen = Seen(make_workload("train-1", evicted, *more, *still), local=make_local(), pool=make_pool()).tell()
        assert (seen[0], seen[1][: len(told[1])]) == told


def test_readmitted_workload_does_not_mention_the_eviction() -> None:
    workload = make_workload("train-1", condition("Evicted", "False", "QuotaReserved"), RESERVED, ADMITTED)
    seen = Seen(workload, local=make_local(), pool=make_pool())
    assert seen.tell() == ("Queued", "quota reserved in ClusterQueue shared")


# Queue positions


def test_workloads_ahead_are_ordered_by_priority_and_then_by_age() -> None:
    evicted = condition("Evicted", reason="PodsReadyTimeout", at=LATER)
    seen = Seen(
        make_workload("train-1", PENDING, at="2026-11-15T08:31:00Z"),
        make_workload("older", PENDING, at="2026-11-15T08:30:00Z"),
        make_workload("younger", PENDING, at="2026-11-15T08:32:00Z"),
        make_workload("urgent", PENDING, at="2026-11-15T08:33:00Z", priority=5),
        make_workload("tired", PENDING, evicted, at="2026-11-15T08:00:00Z"),
        make_workload("asleep", at="2026-11-15T08:00:00Z", active=False),
        make_workload("elsewhere", PENDING, at="2026-11-15T08:00:00Z", queueName="other"),
        make_workload("over", condition("Finished"), at="2026-11-15T08:00:00Z"),
        local=make_local(),
        pool=make_pool(),
    )
    for name in ("older", "urgent"):
        seen.jobs[f"uid-{name}"] = make_job(name)
    queue_position = seen.queues.queue_position(make_job())
    assert [party.name for party in queue_position.ahead] == ["urgent", "older"]
    assert (queue_position.pending, queue_position.message, queue_position.unavailable) == (True, "4 more needed", "")


def test_quota_holders_are_named_and_unknown_workloads_show_only_usage() -> None:
    seen = Seen(
        make_workload("train-1", PENDING),
        make_workload("ours", RESERVED, ADMITTED, holds="5"),
        make_workload("theirs", RESERVED, holds="3"),
        make_workload("done", RESERVED, condition("Finished"), holds="8"),
        local=make_local(),
        pool=make_pool(queueingStrategy="StrictFIFO", cohortName="all"),
    )
    seen.jobs["uid-ours"] = make_job("ours", "lake")
    queue_position = seen.queues.queue_position(make_job())
    assert queue_position.admitted == (
        QueueWorkload("ours", "lake", {GPU: 5 * NANOS}),
        QueueWorkload(usage={GPU: 3 * NANOS}),
    )
    assert queue_position.quotas == (QuotaUsage(GPU, "large", 8 * NANOS, 8 * NANOS),)
    assert (queue_position.pool, queue_position.cohort, queue_position.strict) == ("ClusterQueue shared", "all", True)
    assert queue_position.requests == {GPU: 4 * NANOS}


def test_observed_queue_position_is_computed_on_demand() -> None:
    seen = Seen(make_workload("train-1", PENDING), local=make_local(), pool=make_pool())
    main = make_main(suspend=True)
    main["metadata"]["labels"] = {**main["metadata"]["labels"], "kueue.x-k8s.io/queue-name": "gpus"}
    found = look(main, queues=seen.queues)
    assert found is not None
    assert (found.phase, found.reason) == (Phase.PENDING, "Queued")
    assert found.queue_position is not None
    assert found.queue_position().ahead == ()
    seen.workloads.put(make_workload("first", PENDING, priority=1))
    assert len(found.queue_position().ahead) == 1


# Watching


def test_missing_queue_is_reported_only_after_all_queues_were_listed() -> None:
    seen = Seen(make_workload())
    seen.locals.ready.clear()
    assert seen.tell() == ("Queued", "waiting in queue gpus of the cluster")
    seen.told.clear()
    seen.locals.on_list()
    assert seen.told == ["uid-train-1"]  # to look again


def test_missing_kueue_is_reported() -> None:
    seen = Seen()
    with pytest.raises(ApiError, match="Kueue is not installed") as refused:
        find_path(ScriptedApi().api, "workloads")
    seen.workloads.error = str(refused.value)
    assert seen.tell()[1] == "waiting in queue gpus, but Kueue is not installed on the cluster"
    assert seen.queues.queue_position(make_job()).unavailable == "Kueue is not installed"


def test_forbidden_workloads_are_reported_as_unavailable() -> None:
    seen = Seen()
    for reflector in seen.queues.reflectors:
        reflector.ready.clear()
        reflector.error = "workloads is forbidden"
    assert seen.tell() == ("Queued", "waiting in queue gpus of the cluster")
    assert seen.queues.queue_position(make_job()).unavailable == "workloads is forbidden"
    with pytest.raises(ApiError, match="no"):
        find_path(ScriptedApi({"/apis/kueue.x-k8s.io": ApiError(403, "Forbidden", "no")}).api, "workloads")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1"])
def test_preferred_api_version_is_used(version: str) -> None:
    group = {"preferredVersion": {"groupVersion": f"kueue.x-k8s.io/{version}", "version": version}}
    api = ScriptedApi({"/apis/kueue.x-k8s.io": group}).api
    assert find_path(api, "localqueues") == f"/apis/kueue.x-k8s.io/{version}/localqueues"


def test_held_job_is_notified_about_its_queue_and_its_workload() -> None:
    seen = Seen(make_workload("train-1", PENDING), make_workload("other", RESERVED, ADMITTED))
    seen.told.clear()
    seen.pools.put(make_pool())
    seen.locals.put(make_local())
    assert seen.told == ["uid-train-1", "uid-train-1"]
    seen.workloads.put(make_workload("other", RESERVED))
    assert seen.told[2:] == ["uid-other"]


def test_recreated_object_survives_the_late_delete_event_of_the_old_one() -> None:
    seen = Seen(make_workload("train-1", PENDING), local=make_local(), pool=make_pool())
    renewed = make_workload("train-1", RESERVED)
    renewed["metadata"]["uid"] = "another"
    seen.workloads.put(renewed)
    for reflector, make in ((seen.locals, make_local), (seen.pools, make_pool)):
        again = make()
        again["metadata"]["uid"] = "another"
        reflector.put(again)
    for reflector in seen.queues.reflectors:
        reflector._delete(next(iter(reflector._objects)))
    held = seen.queues.find(make_job())
    assert held.workload is not None
    assert [
        held.workload.uid,
        held.local_queue and held.local_queue.uid,
        held.cluster_queue and held.cluster_queue.uid,
    ] == ["another"] * 3
    seen.workloads._delete("another")
    assert seen.queues.find(make_job()).workload is None


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
