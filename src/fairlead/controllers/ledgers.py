"""What is kept of runs: each change with its history, and claims within what quotas leave."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fairlead.controllers.fleets import load_clusters
from fairlead.controllers.turns import has_room, load_bounds
from fairlead.core import lifecycle
from fairlead.core.fitting.admission import Verdict
from fairlead.core.lifecycle import Act, Decision
from fairlead.core.quotas import Short
from fairlead.core.turns import QUOTA, Bounds
from fairlead.errors import Changed
from fairlead.model.observations import Observation
from fairlead.model.records import EventRecord, OutcomeRecord, RunRecord
from fairlead.model.scopes import Cluster
from fairlead.model.states import FINAL, State
from fairlead.ports import Clock, MakeId, Store, Tell, Transaction

AUTHOR = "fairlead"


class Known(NamedTuple):
    """What is known of the organisation, as of one generation of it."""

    generation: int
    clusters: dict[str, Cluster]  # by their scopes
    bounds: Bounds


@dataclass
class Ledger:
    """Keeps what becomes of runs for the server that looks after them.

    `tell` hears of each change, `wake` of a run that has changed meanwhile, `free` of a scope at which a quota may have
    more left, or others may be next.
    """

    store: Store
    server_id: str
    clock: Clock
    make_id: MakeId
    tell: Tell
    wake: Tell
    free: Tell
    known: Known = field(default_factory=lambda: Known(-1, {}, Bounds()))  # replaced whole: readers need no lock

    def know(self, tx: Transaction) -> Known:
        """The clusters and the quotas, read once for as long as the organisation stays the same."""
        known, generation = self.known, tx.generation.organisation
        if known.generation != generation:
            clusters = {cluster.scope: cluster for _, cluster in load_clusters(tx)}
            known = self.known = Known(generation, clusters, load_bounds(tx))
        return known

    def claim(self, run: RunRecord) -> RunRecord | None:
        """Take a run; None where another server was quicker, it was stopped, or a quota has no room for it."""
        decision = Decision(State.PENDING, Act.NONE, "Claimed", lifecycle.CLAIMED)
        taken = self.save(run, decision, None, claims=True, held_by=self.server_id)
        if taken is None or run.reason == QUOTA:
            self.free(run.scope)  # for those behind it
        return taken

    def note(self, run: RunRecord, verdict: Verdict) -> None:
        """Keep why a run waits, once. Several servers may say it, each of its own machine."""
        hopeless_only_here = (run.reason, verdict.reason) == ("Unschedulable", "NeverFits")
        if verdict.reason != run.reason and not hopeless_only_here:
            self.save(run, Decision(State.QUEUED, Act.NONE, verdict.reason, verdict.message), None)

    def note_turn(self, run: RunRecord, lacking: Sequence[Short]) -> None:
        """Keep that a run waits for a quota, and for which; once, for as long as it waits for that one."""
        told = [short.tell_turn() for short in lacking]
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
        if all(getattr(run, name) == value for name, value in changed.items()):
            return run
        now = self.clock()
        final = decision.state in FINAL
        if final:
            ended_at = None if seen is None else seen.finished_at
            code = None if seen is None else seen.exit_code
            changed |= {"live": False, "finished_at": ended_at or now, "exit_code": code}
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
        except Changed:  # by its user, or by another server: look again
            self.wake(run.id)
            return None
        self.tell(run.id)
        if final:
            self.free(run.scope)
        return after

    def _may_claim(self, tx: Transaction, run: RunRecord, *, alone: bool) -> bool:
        """Whether quotas have room. One that is there since a moment ago is counted with the next look, alone."""
        bounds = self.know(tx).bounds
        return not bounds.on(run.scope) or (alone and has_room(tx, bounds, run))
