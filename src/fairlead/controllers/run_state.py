"""What is kept of runs: each change with its history, and claims within what quotas leave."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fairlead.controllers.executor_registry import load_clusters
from fairlead.controllers.queue_order import fits_quotas, load_quota_limits
from fairlead.core import lifecycle
from fairlead.core.attempts import ONCE, Terms, Tried, execution_of
from fairlead.core.fitting.admission import AdmissionDecision
from fairlead.core.lifecycle import Act, Decision, Failure
from fairlead.core.queue_order import QUOTA, QuotaLimits
from fairlead.core.quotas import Short
from fairlead.errors import Changed
from fairlead.model.observations import Observation
from fairlead.model.queries import Condition
from fairlead.model.records import AttemptRecord, EventRecord, OutcomeRecord, PlanRecord, RunRecord
from fairlead.model.scopes import Cluster
from fairlead.model.states import FINAL, State
from fairlead.ports import Clock, MakeId, Notify, Store, Transaction

AUTHOR = "fairlead"


class OrganizationCache(NamedTuple):
    """What is known of the organization, as of one generation of it."""

    generation: int
    clusters: dict[str, Cluster]  # by their scopes
    bounds: QuotaLimits


@dataclass
class RunStateWriter:
    """Keeps what becomes of runs for the server that looks after them.

    `tell` hears of each change, `wake` of a run that has changed meanwhile, `free` of a scope at which a quota may have
    more left, or others may be next.
    """

    store: Store
    server_id: str
    clock: Clock
    make_id: MakeId
    tell: Notify
    enqueue: Notify
    quota_freed: Notify
    known: OrganizationCache = field(
        default_factory=lambda: OrganizationCache(-1, {}, QuotaLimits())
    )  # replaced whole: readers need no lock

    def know(self, tx: Transaction) -> OrganizationCache:
        """The clusters and the quotas, read once for as long as the organization stays the same."""
        known, generation = self.known, tx.generation.organization
        if known.generation != generation:
            clusters = {cluster.scope: cluster for _, cluster in load_clusters(tx)}
            known = self.known = OrganizationCache(generation, clusters, load_quota_limits(tx))
        return known

    def claim(self, run: RunRecord) -> RunRecord | None:
        """Take a run; None where another server was quicker, it was stopped, or a quota has no room for it."""
        decision = Decision(State.PENDING, Act.NONE, "Claimed", lifecycle.CLAIMED)
        taken = self.save(run, decision, None, claims=True, server_id=self.server_id, retry_at=None)
        if taken is None or run.reason == QUOTA:
            self.quota_freed(run.scope)  # for those behind it
        return taken

    def note(self, run: RunRecord, verdict: AdmissionDecision) -> None:
        """Keep why a run waits, once. Several servers may say it, each of its own machine."""
        hopeless_only_here = (run.reason, verdict.reason) == ("Unschedulable", "NeverFits")
        if verdict.reason != run.reason and not hopeless_only_here:
            self.save(run, Decision(State.QUEUED, Act.NONE, verdict.reason, verdict.message), None)

    def note_turn(self, run: RunRecord, lacking: Sequence[Short]) -> None:
        """Keep that a run waits for a quota, and for which; once, for as long as it waits for that one."""
        told = [short.describe_turn() for short in lacking]
        if run.reason != QUOTA or run.message not in told:
            self.save(run, Decision(State.QUEUED, Act.NONE, QUOTA, told[0]), None)

    def save(
        self, run: RunRecord, decision: Decision, seen: Observation | None, *, claims: bool = False, **more: Any
    ) -> RunRecord | None:
        """Keep what was decided; None where the run has changed meanwhile, or claims what a quota does not leave it."""
        changed: dict[str, Any] = {"state": str(decision.state), "reason": decision.reason, "message": decision.message}
        if seen is not None and seen.started_at is not None and run.started_at is None:
            changed["started_at"] = seen.started_at
        changed |= more
        if decision.failure is not None:
            changed |= self._begin_anew(run, decision.failure)
        if all(getattr(run, name) == value for name, value in changed.items()):
            return run
        now = self.clock()
        final = decision.state in FINAL
        if final:
            ended_at = None if seen is None else seen.finished_at
            code = None if seen is None else seen.exit_code
            finished_at = _after(changed.get("started_at", run.started_at), ended_at or now)
            changed |= {"active": False, "finished_at": finished_at, "exit_code": code}
        after = replace(run, **changed, revision=run.revision + 1, updated_by=AUTHOR, updated_at=now)
        # What quotas bound is counted and claimed alone: no other claim, of whichever server, comes in between.
        alone = claims and bool(self.known.bounds.on(run.scope))
        try:
            with self.store.recording(alone=alone) as tx:
                if claims and not self._may_claim(tx, run, alone=alone):
                    return None
                tx.save(after)
                if (after.state, after.reason) != (run.state, run.reason):  # words alone may change very often
                    tx.add(EventRecord.of(after, self.make_id(), now))
                if final and seen is not None:
                    outcome = OutcomeRecord(id=run.id, result=seen.result, error=seen.error, usage=seen.usage)
                    tx.add(outcome)
                if decision.failure is not None and seen is not None:
                    tx.add(_record_attempt(run, decision.failure, seen, now))
        except Changed:  # by its user, or by another server: look again
            self.enqueue(run.id)
            return None
        self.tell(run.id)
        if final or decision.failure is not None:
            self.quota_freed(run.scope)
        if decision.failure is not None and not decision.failure.retry.pause_seconds:
            self.enqueue(run.id)
        return after

    def load_tried(self, run: RunRecord) -> Tried:
        """On which terms a run is tried again, and what its tries so far held of memory."""
        with self.store.reading() as tx:
            kept = tx.get(PlanRecord, id=run.id)
            past = tx.find(AttemptRecord, Condition("run_id", "=", run.id)) if run.attempt > 1 else []
        held = {attempt.number: attempt.mem_bytes for attempt in past}
        return ONCE if kept is None else Tried(Terms.of(kept), [held[number] for number in sorted(held)])

    def _begin_anew(self, run: RunRecord, failure: Failure) -> dict[str, Any]:
        """What is different of a run that waits to be tried again: it has no place, and nothing of it has begun."""
        retry_at = self.clock() + timedelta(seconds=failure.retry.pause_seconds)
        fresh = {"attempt": run.attempt + 1, "mem_bytes": failure.retry.mem_bytes, "retry_at": retry_at}
        return {**fresh, "server_id": None, "started_at": None}

    def _may_claim(self, tx: Transaction, run: RunRecord, *, alone: bool) -> bool:
        """Whether quotas have room. One that is there since a moment ago is counted with the next look, alone."""
        bounds = self.know(tx).bounds
        return not bounds.on(run.scope) or (alone and fits_quotas(tx, bounds, run))


def _after(start: datetime | None, end: datetime) -> datetime:
    """The end, which is not before the start, also where the clock was set back in between."""
    return end if start is None else max(start, end)


def _record_attempt(run: RunRecord, failure: Failure, seen: Observation, now: datetime) -> AttemptRecord:
    """What is kept of a try that another one follows."""
    started_at = run.started_at or seen.started_at
    return AttemptRecord(
        id=execution_of(run.id, run.attempt),
        run_id=run.id,
        number=run.attempt,
        state=str(State.FAILED),
        reason=failure.reason,
        message=failure.message,
        exit_code=seen.exit_code,
        started_at=started_at,
        finished_at=_after(started_at, seen.finished_at or now),
        mem_bytes=run.mem_bytes,
        server_id=run.server_id,
        error=seen.error,
        usage=seen.usage,
    )
