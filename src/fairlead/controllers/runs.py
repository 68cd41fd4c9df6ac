"""What time does to runs: claim, observe, decide, act, save. Nothing is decided here."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from fairlead.controllers.retention import forget_ended
from fairlead.controllers.works import Incomplete, load_work
from fairlead.core import lifecycle
from fairlead.core.fitting import admission
from fairlead.core.fitting.admission import Verdict, Waiting
from fairlead.core.fitting.asking import PODS, Ask, read_ask
from fairlead.core.lifecycle import Act, Decision
from fairlead.errors import Changed, FairleadError, Unavailable
from fairlead.model.observations import Observation
from fairlead.model.queries import Condition
from fairlead.model.records import EventRecord, OutcomeRecord, PlaceRecord, PlanRecord, RunRecord, ServerRecord
from fairlead.model.states import FINAL, State
from fairlead.ports import Clock, Executor, MakeId, Safe, Store, Tell, Transaction

log = structlog.get_logger()

LOOK_EVERY_SECONDS = 5.0
MOST_WAITING, FEW_WAITING = 1000, 50
AUTHOR = "fairlead"


@dataclass(frozen=True)
class Keeper:
    """The server that looks after runs: an id that stays with its data folder, and where it is reached."""

    id: str
    name: str
    url: str


class RunController:
    """Looks after the runs of one server, each time that something happens to one, and every few seconds."""

    def __init__(
        self,
        store: Store,
        safe: Safe,
        executors: Mapping[str, Executor],
        *,
        keeper: Keeper,
        clock: Clock,
        make_id: MakeId,
        tell: Tell,
    ) -> None:
        self.store, self.safe, self.executors = store, safe, executors
        self.keeper, self.clock, self.make_id, self.tell = keeper, clock, make_id, tell
        self._woken = threading.Condition()
        self._dirty: set[str] = set()
        self._ended = False
        self._asks: dict[str, tuple[str, Ask]] = {}
        self._kinds: tuple[int, dict[str | None, str]] = -1, {}
        self._looked_at: datetime | None = None

    def wake(self, run_id: str) -> None:
        """Say that something happened to a run."""
        with self._woken:
            self._dirty.add(run_id)
            self._woken.notify()

    def live(self) -> None:
        """Look after runs until told to end."""
        while not self._ended:
            with self._woken:
                woken, self._dirty = self._dirty, set()
            self.look(woken)
            with self._woken:
                self._woken.wait_for(lambda: self._dirty or self._ended, LOOK_EVERY_SECONDS)

    def end(self) -> None:
        """Look after nothing any more. Runs go on."""
        with self._woken:
            self._ended = True
            self._woken.notify()

    def look(self, woken: set[str]) -> None:
        """One round: the runs that something happened to, now and then all of them, then those that wait."""
        now = self.clock()
        thorough = self._looked_at is None or now - self._looked_at > timedelta(seconds=LOOK_EVERY_SECONDS)
        if thorough:
            self._looked_at = now
            self._attempt("saying that it lives", lambda: self._say_alive(now))
            self._attempt("listing runs", lambda: woken.update(self._list_mine()))
        for run_id in sorted(woken):
            self._attempt(f"looking after run {run_id}", partial(self.tend, run_id))
        # Between thorough looks only the first in the queue, and only where there may be a place: each of many runs
        # that are submitted at once wakes this three times.
        most = MOST_WAITING if thorough else FEW_WAITING
        self._attempt("giving places to runs", lambda: self.admit(now, most) if thorough or self._has_room() else None)

    def _has_room(self) -> bool:
        return any(node.free(PODS) > 0 for executor in self.executors.values() for node in executor.nodes())

    def _attempt(self, doing: str, step: Callable[[], None]) -> None:
        """Do something that may fail without keeping anything else from being done. It is tried again in a while."""
        try:
            step()
        except Exception as error:
            expected = isinstance(error, FairleadError)
            log.error(f"{doing} failed", problem=str(error), exc_info=None if expected else error)

    def tend(self, run_id: str) -> None:
        """See what has become of a run, decide what comes next, do it, and keep it."""
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
            executor = self._executor_of(tx, run)
        if run is None:
            for each in self.executors.values():
                forget_ended(each, run_id)
            return
        if executor is None or not run.live or run.held_by != self.keeper.id:
            return
        seen = executor.observe(run_id)
        decision = lifecycle.decide(run, seen)
        if decision.act is Act.START:
            decision = self._start(executor, run, decision)
        elif decision.act is Act.STOP:
            executor.stop(run_id)
        self._save(run, decision, seen)
        if decision.state in FINAL:
            executor.tidy(run_id)

    def admit(self, now: datetime, most: int = MOST_WAITING) -> None:
        """Give a place to those that wait, as far as there is one; of so many of them, the oldest first."""
        with self.store.reading() as tx:
            kinds = {scope: kind for scope, kind in self._kinds_of(tx).items() if kind in self.executors}
            waiting = tx.find(
                RunRecord,
                Condition("live", "=", True),
                Condition("held_by", "=", None),
                Condition("state", "=", str(State.QUEUED)),
                Condition("cluster", "in", tuple(kinds)),
                limit=most,
            )
            asks = {
                run.id: Waiting(run.id, name, ask, (now - run.created_at).total_seconds())
                for run, name, ask in self._read_asks(tx, waiting)
            }
        runs = {run.id: run for run in waiting}
        self._asks = {run_id: ask for run_id, ask in self._asks.items() if run_id in runs}
        for kind, executor in self.executors.items():
            of_kind = [asks[run.id] for run in waiting if kinds[run.cluster] == kind and run.id in asks]
            if not of_kind:
                continue
            (node,) = executor.nodes()
            for verdict in admission.admit(of_kind, node):
                if not verdict.admitted:
                    self._note(runs[verdict.run_id], verdict)
                elif self._claim(runs[verdict.run_id]):
                    self._attempt(f"starting run {verdict.run_id}", partial(self.tend, verdict.run_id))

    def _start(self, executor: Executor, run: RunRecord, decision: Decision) -> Decision:
        try:
            with self.store.reading() as tx:
                work = load_work(tx, self.safe, run)
        except Incomplete as error:
            return Decision(State.FAILED, Act.NONE, error.reason, str(error))
        except Unavailable as error:  # a key that is not there, say
            return Decision(State.PENDING, Act.NONE, "StartDelayed", f"{error}; it is tried again")
        try:
            executor.start(work)
        except Unavailable as error:
            return Decision(State.PENDING, Act.NONE, "StartDelayed", f"{error}; it is tried again")
        return decision

    def _claim(self, run: RunRecord) -> bool:
        """Take a run; False where another server was quicker, or it was stopped."""
        decision = Decision(State.PENDING, Act.NONE, "Claimed", lifecycle.CLAIMED)
        return self._save(run, decision, None, held_by=self.keeper.id)

    def _note(self, run: RunRecord, verdict: Verdict) -> None:
        """Keep why a run waits, once. Several servers may say it, each of its own machine."""
        hopeless_only_here = (run.reason, verdict.reason) == ("Unschedulable", "NeverFits")
        if verdict.reason != run.reason and not hopeless_only_here:
            self._save(run, Decision(State.QUEUED, Act.NONE, verdict.reason, verdict.message), None)

    def _save(self, run: RunRecord, decision: Decision, seen: Observation | None, **more: Any) -> bool:
        changed: dict[str, Any] = {"state": str(decision.state), "reason": decision.reason, "message": decision.message}
        if seen is not None and seen.started_at is not None and run.started_at is None:
            changed["started_at"] = seen.started_at
        changed |= more
        if all(getattr(run, name) == value for name, value in changed.items()):
            return True
        now = self.clock()
        final = decision.state in FINAL
        if final:
            ended_at = None if seen is None else seen.finished_at
            code = None if seen is None else seen.exit_code
            changed |= {"live": False, "finished_at": ended_at or now, "exit_code": code}
        after = replace(run, **changed, revision=run.revision + 1, updated_by=AUTHOR, updated_at=now)
        try:
            with self.store.recording() as tx:
                tx.save(after)
                tx.add(EventRecord.of(after, self.make_id(), now))
                if final and seen is not None:
                    outcome = OutcomeRecord(id=run.id, result=seen.result, error=seen.error, usage=seen.usage)
                    tx.add(outcome)
        except Changed:  # by its user, or by another server: look again
            self.wake(run.id)
            return False
        self.tell(run.id)
        return True

    def _list_mine(self) -> list[str]:
        with self.store.reading() as tx:
            mine = tx.find(RunRecord, Condition("live", "=", True), Condition("held_by", "=", self.keeper.id))
        return [run.id for run in mine]

    def _read_asks(self, tx: Transaction, runs: list[RunRecord]) -> Iterator[tuple[RunRecord, str, Ask]]:
        for run in runs:
            if run.id not in self._asks:
                kept = tx.get(PlanRecord, id=run.id)
                if kept is None:
                    continue
                manifests = kept.plan["manifests"]
                self._asks[run.id] = manifests[0]["metadata"]["name"], read_ask(manifests)
            yield (run, *self._asks[run.id])

    def _executor_of(self, tx: Transaction, run: RunRecord | None) -> Executor | None:
        if run is None or run.cluster is None:
            return None
        return self.executors.get(self._kinds_of(tx).get(run.cluster, ""))

    def _kinds_of(self, tx: Transaction) -> dict[str | None, str]:
        """What executes the runs of each cluster, worked out once for as long as the organisation stays the same."""
        generation, kinds = self._kinds
        if generation != tx.generation.organisation:
            clusters = tx.find(PlaceRecord, Condition("kind", "=", "cluster"))
            kinds = {place.scope: place.details.get("executor", "kubernetes") for place in clusters}
            self._kinds = tx.generation.organisation, kinds
        return kinds

    def _say_alive(self, now: datetime) -> None:
        """Keep where this server is, and that it is there: others point to it for what only it can tell."""
        with self.store.recording() as tx:
            kept = tx.get(ServerRecord, id=self.keeper.id)
            stamps = {"updated_by": AUTHOR, "updated_at": now, "seen_at": now}
            said: dict[str, Any] = {"name": self.keeper.name, "url": self.keeper.url, **stamps}
            if kept is None:
                tx.add(ServerRecord(id=self.keeper.id, created_by=AUTHOR, created_at=now, **said))
            else:
                tx.save(replace(kept, revision=kept.revision + 1, **said))
