"""Admits queued runs if quotas allow it: starts them on local nodes or hands them to clusters."""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import partial

from fairlead.controllers.run_state import AdmissionPass, RunStateWriter, load_admission_pass
from fairlead.controllers.work_queue import log_failures
from fairlead.lifecycle.attempts import execution_of
from fairlead.manifests.attempts import demand_of, name_of
from fairlead.model.nodes import PodRequest
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.ports import Executor, Executors, Store, Transaction
from fairlead.scheduling.queue_order import QUOTA, AdmissionSession, QueuedRun

Start = Callable[[RunRecord, Executor], None]  # starts a run that was just claimed
AddToQueue = Callable[[Executor, str], None]  # adds a run to a cluster's work queue


class Admissions:
    """Hands queued runs to executors: local runs one at a time, cluster runs through each cluster's work queue."""

    def __init__(
        self,
        store: Store,
        state_writer: RunStateWriter,
        executors: Executors,
        start: Start,
        add_to_queue: AddToQueue,
    ) -> None:
        self.store, self.state_writer, self.executors = store, state_writer, executors
        self._start, self._add_to_queue = start, add_to_queue
        # Keyed by attempt, because the next attempt may request more memory.
        self._pod_requests: dict[str, PodRequest] = {}

    def admit(self, now: datetime, limit: int, freed_scopes: Collection[str] | None = None) -> None:
        """Admit up to `limit` queued runs in queue order.

        Runs waiting for a quota are considered only if they share one with `freed_scopes`, or always if that is None.
        """
        with self.store.reading() as tx:
            organization = self.state_writer.load_organization(tx)
            executors = {
                scope: executor
                for scope, cluster in organization.clusters.items()
                if (executor := self.executors.find(cluster)) is not None
            }
            admission_pass = load_admission_pass(
                tx, organization.quota_limits, executors, now=now, limit=limit, freed_scopes=freed_scopes
            )
            local = [run for run in admission_pass.waiting if not executors[run.cluster or ""].has_scheduler]
            # A retried run has been waiting since its retry: the time that earlier attempts ran is not waiting time.
            queued = {
                run.id: QueuedRun(
                    run.id,
                    name_of(run),
                    pod_request,
                    (now - (run.retry_at or run.created_at)).total_seconds(),
                    run.scope,
                )
                for run, pod_request in self._load_pod_requests(tx, local)
            }
        local_ids = {run.id for run in local}
        # Cluster runs without a quota come first: work queues start them while the local runs start one by one.
        for run in admission_pass.waiting:
            if run.id not in local_ids and not admission_pass.has_quota(run):
                self._add_to_queue(executors[run.cluster or ""], run.id)
        # Several local clusters can share this machine. With one session per executor, its capacity is counted once.
        sessions = {
            executor: AdmissionSession(*executor.nodes())  # a local executor has one node: its machine
            for executor in set(executors.values())
            if not executor.has_scheduler
        }
        for run in admission_pass.waiting:
            executor = executors[run.cluster or ""]
            if run.id in queued:
                claimed = self._claim_local(run, admission_pass, queued[run.id], sessions[executor])
                if claimed is not None:
                    self._start(claimed, executor)
            elif run.id not in local_ids and admission_pass.has_quota(run):
                self._admit_to_cluster(run, admission_pass, executor)

    def _claim_local(
        self, run: RunRecord, admission_pass: AdmissionPass, queued: QueuedRun, session: AdmissionSession
    ) -> RunRecord | None:
        """Claim a run if its quotas and the machine's free capacity allow it. Otherwise, save why it waits."""
        lacking = admission_pass.find_shortages(run)
        # A run that would not fit even on the empty machine must not reserve a quota that other runs could use.
        if lacking and session.could_take(queued):
            admission_pass.hold(run, lacking)
            self.state_writer.save_quota_wait(run, lacking)
        elif lacking:
            if run.reason != QUOTA:  # otherwise it fits on another server's machine and waits for its quota there
                self.state_writer.save_wait_reason(run, session.decide(queued))
        elif not admission_pass.has_unread_before(run):
            decision = session.decide(queued)
            if not decision.admitted:
                if admission_pass.count_unplaced(run):
                    self.state_writer.save_wait_reason(run, decision)
            elif (claimed := self.state_writer.claim(run)) is not None:
                admission_pass.count_admitted(run)
                return claimed
        return None

    def _admit_to_cluster(self, run: RunRecord, admission_pass: AdmissionPass, executor: Executor) -> None:
        """Hand a run to its cluster if its quotas allow it. The cluster's scheduler finds a node."""
        if lacking := admission_pass.find_shortages(run):
            admission_pass.hold(run, lacking)
            self.state_writer.save_quota_wait(run, lacking)
        elif not admission_pass.has_unread_before(run):
            # The work queue claims the run later. Until then, the rest of this pass must not use the same quota.
            admission_pass.count_admitted(run)
            self._add_to_queue(executor, run.id)

    def _load_pod_requests(self, tx: Transaction, runs: list[RunRecord]) -> Iterator[tuple[RunRecord, PodRequest]]:
        """Yield runs with their pod requests, which are loaded once per attempt."""
        # Only entries for runs that are still waiting are copied, so the cache does not keep growing.
        cached, self._pod_requests = self._pod_requests, {}
        for run in runs:
            execution = execution_of(run.id, run.attempt)
            if execution in cached:
                self._pod_requests[execution] = cached[execution]
            elif (plan := tx.get(PlanRecord, id=run.id)) is not None:
                # An invalid plan must not block the other runs. Loading it is not part of the
                # step: if the database is down, the pass fails once instead of logging a failure for each run.
                step = partial(self._store_pod_request, run, execution, plan)
                log_failures(f"reading the pod request of run {run.id}", step)
            if execution in self._pod_requests:
                yield run, self._pod_requests[execution]

    def _store_pod_request(self, run: RunRecord, execution: str, plan: PlanRecord) -> None:
        self._pod_requests[execution] = demand_of(run, plan).pod_request
