"""Saves changes to runs, with their events, outcomes and attempts, and claims queued runs within their quotas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fairlead.controllers.executor_registry import load_clusters
from fairlead.errors import Changed
from fairlead.lifecycle import lifecycle
from fairlead.lifecycle.attempts import NO_HISTORY, AttemptHistory, RetryPolicy, execution_of
from fairlead.lifecycle.lifecycle import AttemptFailure, Decision, ExecutorAction
from fairlead.model.assets import QueuePolicy, Quota
from fairlead.model.columns import Condition
from fairlead.model.records import (
    AttemptRecord,
    EventRecord,
    OutcomeRecord,
    PlanRecord,
    PolicyRecord,
    RunRecord,
    ScopeRecord,
)
from fairlead.model.runs import FINAL, Observation, State
from fairlead.model.scopes import Cluster, ScopeTree
from fairlead.ports import Clock, MakeId, Store, Transaction
from fairlead.run_events import RunEvent, RunEvents
from fairlead.scheduling import quotas
from fairlead.scheduling.admission import WAITING_FOR_TURN, AdmissionDecision
from fairlead.scheduling.queue_order import ADMITTED, COUNTED_BY, QUOTA, QuotaLimits
from fairlead.scheduling.queue_policies import QueuePolicies
from fairlead.scheduling.quotas import QuotaShortage

AUTHOR = "fairlead"
LEASE = timedelta(seconds=60)  # a server without a heartbeat for this long loses its runs and reservations
# Several servers explain a waiting run, each with its own machine, so they could replace each other's messages forever.
MESSAGE_INTERVAL = timedelta(seconds=60)


def load_quota_limits(tx: Transaction) -> QuotaLimits:
    """Read the quotas of all scopes."""
    quota_of_scopes = [
        (policy.scope, Quota.model_validate(policy.content["quota"]))
        for policy in tx.find(PolicyRecord)
        if "quota" in policy.content
    ]
    # Most platforms have no quotas, so the tree is not needed.
    return QuotaLimits.of(_load_tree(tx), quota_of_scopes) if quota_of_scopes else QuotaLimits()


def load_queue_policies(tx: Transaction) -> QueuePolicies:
    """Read the queue policies of all scopes."""
    policy_of_scopes = [
        (policy.scope, QueuePolicy.model_validate(policy.content["queue"]))
        for policy in tx.find(PolicyRecord)
        if "queue" in policy.content
    ]
    return QueuePolicies.of(_load_tree(tx), policy_of_scopes) if policy_of_scopes else QueuePolicies()


def fits_quotas(tx: Transaction, quota_limits: QuotaLimits, run: RunRecord) -> bool:
    """Whether a run fits within its quotas. Call it in an exclusive transaction; otherwise, the usage may change."""
    path = quota_limits.limiting_scopes(run.scope)
    if not path:
        return True
    # The first scope of the path contains the others, so its runs are enough to compute the usage in all of them.
    allowances = quota_limits.allowances(tx.tally(RunRecord, COUNTED_BY, *ADMITTED, *quota_limits.within(path[0])))
    return not quotas.find_shortages(quotas.amounts_of(run), [allowances[scope] for scope in path])


class OrganizationCache(NamedTuple):
    """Clusters, quotas and queue policies as of one generation of the organization."""

    generation: int
    clusters: dict[str, Cluster]  # by scope
    quota_limits: QuotaLimits
    queue_policies: QueuePolicies


@dataclass
class RunStateWriter:
    """Saves the state of runs on behalf of one server.

    Publishes each change, and calls `quota_freed` for a scope in which waiting runs might now be admitted.
    """

    store: Store
    server_id: str
    clock: Clock
    make_id: MakeId
    run_events: RunEvents
    quota_freed: Callable[[str], None]
    # Only ever replaced as a whole, so other threads can read it without a lock.
    organization: OrganizationCache = field(
        default_factory=lambda: OrganizationCache(-1, {}, QuotaLimits(), QueuePolicies())
    )

    def load_organization(self, tx: Transaction) -> OrganizationCache:
        """Return the cached organization, which is read again only after it has changed."""
        organization, generation = self.organization, tx.generation.organization
        if organization.generation != generation:
            clusters = {cluster.scope: cluster for _, cluster in load_clusters(tx)}
            limits, policies = load_quota_limits(tx), load_queue_policies(tx)
            organization = self.organization = OrganizationCache(generation, clusters, limits, policies)
        return organization

    def claim(self, run: RunRecord) -> RunRecord | None:
        """Claim a queued run for this server. Returns None if it has changed or does not fit within a quota."""
        decision = Decision(State.PENDING, ExecutorAction.NONE, "Claimed", lifecycle.CLAIMED)
        owner = {"server_id": self.server_id, "reserved_by": None}
        claimed = self.save(run, decision, None, claims=True, **owner, retry_at=None)
        if claimed is None or run.reason == QUOTA:
            self.quota_freed(run.scope)  # runs behind it might now be admitted
        return claimed

    def save_wait_reason(self, run: RunRecord, decision: AdmissionDecision, reserved_by: str | None = None) -> bool:
        """Save why a run is waiting for a node, and which server has its reservation. Returns if that has changed."""
        reason, message = decision.reason, decision.message
        # Several servers check the run, each against its own machine, and some of the machines may be too small.
        fits_elsewhere = reason == "NeverFits" and run.reason in ("Unschedulable", WAITING_FOR_TURN)
        is_recent = reason == run.reason and self.clock() - run.updated_at < MESSAGE_INTERVAL
        if fits_elsewhere or is_recent:
            reason, message = run.reason, run.message
        decided = Decision(State.QUEUED, ExecutorAction.NONE, reason, message)
        return self.save(run, decided, None, reserved_by=reserved_by) is not run

    def save_quota_wait(self, run: RunRecord, lacking: Sequence[QuotaShortage], reserved_by: str | None = None) -> bool:
        """Save that a run is waiting for a quota, unless it already waits for one of these. Returns if that changed."""
        messages = [short.describe_wait() for short in lacking]
        message = run.message if run.reason == QUOTA and run.message in messages else messages[0]
        decided = Decision(State.QUEUED, ExecutorAction.NONE, QUOTA, message)
        return self.save(run, decided, None, reserved_by=reserved_by) is not run

    def save(
        self,
        run: RunRecord,
        decision: Decision,
        observation: Observation | None,
        *,
        claims: bool = False,
        **fields: Any,
    ) -> RunRecord | None:
        """Save a decision. Returns None if the run has changed, or if a quota does not allow the claim."""
        changed: dict[str, Any] = {"state": str(decision.state), "reason": decision.reason, "message": decision.message}
        # Only the first start counts: the cluster may replace a pod during the run, and the new pod starts later.
        if observation is not None and observation.started_at is not None and run.started_at is None:
            changed["started_at"] = observation.started_at
        changed |= fields
        if decision.failure is not None:
            changed |= self._reset_for_retry(run, decision.failure)
        # Most reconciliations change nothing. They must not write to the database or notify subscribers.
        if all(getattr(run, name) == value for name, value in changed.items()):
            return run
        now = self.clock()
        final = decision.state in FINAL
        if final:
            ended_at = None if observation is None else observation.finished_at
            code = None if observation is None else observation.exit_code
            finished_at = _not_before(changed.get("started_at", run.started_at), ended_at or now)
            changed |= {"active": False, "finished_at": finished_at, "exit_code": code}
        after = replace(run, **changed, revision=run.revision + 1, updated_by=AUTHOR, updated_at=now)
        # With a quota, one exclusive transaction counts the usage and claims the run, so that no other server can claim
        # a run between the two steps.
        exclusive = claims and bool(self.organization.quota_limits.limiting_scopes(run.scope))
        try:
            with self.store.recording(exclusive=exclusive) as tx:
                if claims and not self._may_claim(tx, run, exclusive=exclusive):
                    return None
                tx.save(after)
                # A new message alone does not create an event, because messages that contain numbers change often.
                if (after.state, after.reason) != (run.state, run.reason):
                    tx.add(EventRecord.of(after, self.make_id(), now))
                if final and observation is not None:
                    tx.add(
                        OutcomeRecord(
                            id=run.id, result=observation.result, error=observation.error, usage=observation.usage
                        )
                    )
                if decision.failure is not None and observation is not None:
                    tx.add(_record_attempt(run, decision.failure, observation, now))
        except Changed:  # by its user or by another server
            self.run_events.publish(RunEvent.CHANGED, run.id)
            return None
        if final or decision.failure is not None:
            self.quota_freed(run.scope)
        # A retry without a pause can be admitted now. Otherwise, a resync admits it after the pause.
        retries_now = decision.failure is not None and not decision.failure.retry.pause_seconds
        self.run_events.publish(RunEvent.CHANGED if retries_now else RunEvent.SAVED, run.id)
        return after

    def load_attempt_history(self, run: RunRecord) -> AttemptHistory:
        """A run's retry policy, and the memory of its previous attempts."""
        with self.store.reading() as tx:
            plan = tx.get(PlanRecord, id=run.id)
            previous = tx.find(AttemptRecord, Condition("run_id", "=", run.id)) if run.attempt > 1 else []
        memory = {attempt.number: attempt.mem_bytes for attempt in previous}
        return (
            NO_HISTORY
            if plan is None
            else AttemptHistory(RetryPolicy.of(plan), [memory[number] for number in sorted(memory)])
        )

    def _reset_for_retry(self, run: RunRecord, failure: AttemptFailure) -> dict[str, Any]:
        """Return the changed fields of a run that is queued again: it belongs to no server and has not started."""
        retry_at = self.clock() + timedelta(seconds=failure.retry.pause_seconds)
        retry = {"attempt": run.attempt + 1, "mem_bytes": failure.retry.mem_bytes, "retry_at": retry_at}
        return {**retry, "server_id": None, "started_at": None}

    def _may_claim(self, tx: Transaction, run: RunRecord, *, exclusive: bool) -> bool:
        # A quota may have been added since this transaction was opened without exclusive access. The next pass sees it.
        quota_limits = self.load_organization(tx).quota_limits
        return not quota_limits.limiting_scopes(run.scope) or (exclusive and fits_quotas(tx, quota_limits, run))


def _load_tree(tx: Transaction) -> ScopeTree:
    return ScopeTree({record.scope: record.parent for record in tx.find(ScopeRecord) if record.parent})


def _not_before(start: datetime | None, end: datetime) -> datetime:
    """The end, or the start if that is later because the clock was set back."""
    return end if start is None else max(start, end)


def _record_attempt(run: RunRecord, failure: AttemptFailure, observation: Observation, now: datetime) -> AttemptRecord:
    """The record of a failed attempt that is followed by another one."""
    started_at = run.started_at or observation.started_at
    return AttemptRecord(
        id=execution_of(run.id, run.attempt),
        run_id=run.id,
        number=run.attempt,
        state=str(State.FAILED),
        reason=failure.reason,
        message=failure.message,
        exit_code=observation.exit_code,
        started_at=started_at,
        finished_at=_not_before(started_at, observation.finished_at or now),
        mem_bytes=run.mem_bytes,
        server_id=run.server_id,
        error=observation.error,
        usage=observation.usage,
    )
