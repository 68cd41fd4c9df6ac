"""What time does to runs: claim, observe, decide, act, save. Nothing is decided here."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from fairlead.controllers.fleets import load_clusters
from fairlead.controllers.hands import Hands
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
from fairlead.model.records import EventRecord, OutcomeRecord, PlanRecord, RunRecord, ServerRecord
from fairlead.model.scopes import Cluster
from fairlead.model.states import FINAL, State
from fairlead.ports import Clock, Executor, Executors, MakeId, Safe, Store, Tell, Transaction

log = structlog.get_logger()

LOOK_EVERY_SECONDS = 5.0
LOOKS_AT_WATCHED = 6  # each so many of those looks, also at runs that are watched
LEASE = timedelta(seconds=60)  # after so long without a word, another server looks after a server's runs
MOST_WAITING, FEW_WAITING = 1000, 50
AUTHOR = "fairlead"
DELAYED = "StartDelayed"


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
        executors: Executors,
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
        self._clusters: tuple[int, dict[str, Cluster]] = -1, {}
        self._looked_at: datetime | None = None
        self._looks = 0
        self._watched: dict[str, Executor] = {}  # by run, what takes several of them at once
        self._fresh: dict[str, RunRecord] = {}  # those that were read a moment ago, to be handed on
        self._failed: set[str] = set()  # the runs that could not be looked after, for the next thorough look
        self._hands: dict[Executor, Hands] = {}  # of each executor that takes several runs at once

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
        for hands in list(self._hands.values()):
            hands.end()

    def look(self, woken: set[str]) -> None:
        """One round: the runs that something happened to, now and then all of them, then those that wait."""
        now = self.clock()
        thorough = self._looked_at is None or now - self._looked_at > timedelta(seconds=LOOK_EVERY_SECONDS)
        if thorough:
            self._looked_at, self._looks = now, self._looks + 1
            failed, self._failed = self._failed, set()
            woken |= failed
            self._attempt("following clusters", self._follow_clusters)
            self._attempt("saying that it lives", lambda: self._say_alive(now))
            self._attempt("taking over runs", lambda: woken.update(self._take_over(now)))
            self._attempt("listing runs", lambda: woken.update(self._list_mine()))
        here: list[str] = []
        for run_id in sorted(woken):
            self._attempt(f"looking after run {run_id}", partial(self._see_to, run_id, here))
        # Between thorough looks only the first in the queue, and only where there may be a place: each of many runs
        # that are submitted at once wakes this three times.
        if thorough or ((here or not woken) and self._has_room()):
            self._attempt("giving places to runs", lambda: self.admit(now, MOST_WAITING if thorough else FEW_WAITING))

    def _follow_clusters(self) -> None:
        self.executors.refresh()
        there = self.executors.all()
        self._watched = {run_id: on for run_id, on in self._watched.copy().items() if on in there}
        for gone in [executor for executor in self._hands if executor not in there]:
            self._hands.pop(gone).end(wait=False)

    def _has_room(self) -> bool:
        local = [executor for executor in self.executors.all() if not executor.schedules]
        return any(node.free(PODS) > 0 for executor in local for node in executor.nodes())

    def _see_to(self, run_id: str, here: list[str]) -> None:
        """Tend a run: beside others where its executor takes several at once, else here and now."""
        executor = self._watched.get(run_id)
        if executor is None:
            run, executor = self._load(run_id)
            if run is None or executor is None or not executor.schedules:
                here.append(run_id)
                self.tend(run_id)
                return
            self._watched[run_id], self._fresh[run_id] = executor, run
        self._hands_of(executor).take(run_id)

    def _hands_of(self, executor: Executor) -> Hands:
        if executor not in self._hands:
            self._hands[executor] = Hands(self._tend_beside)
        return self._hands[executor]

    def _tend_beside(self, run_id: str) -> None:
        if not self._attempt(f"looking after run {run_id}", partial(self.tend, run_id)):
            self._failed.add(run_id)

    def _attempt(self, doing: str, step: Callable[[], None]) -> bool:
        """Do something that may fail without keeping anything else from being done. It is tried again in a while."""
        try:
            step()
            return True
        except Exception as error:
            if isinstance(error, Unavailable):
                log.info(f"{doing} failed", problem=str(error))
            else:
                expected = isinstance(error, FairleadError)
                log.error(f"{doing} failed", problem=str(error), exc_info=None if expected else error)
            return False

    def tend(self, run_id: str) -> None:
        """See what has become of a run, decide what comes next, do it, and keep it."""
        run, executor = self._fresh.pop(run_id, None), self._watched.get(run_id)
        if run is None or executor is None:
            run, executor = self._load(run_id)
        if run is None or not run.live:
            self._watched.pop(run_id, None)
        if run is None:
            for each in self.executors.all():
                forget_ended(each, run_id)
            return
        if executor is not None and executor.schedules and run.held_by is None and run.state == State.QUEUED:
            run = self._claim(run)
        if run is None or executor is None or not run.live or run.held_by != self.keeper.id:
            return
        try:
            seen = executor.observe(run_id)
        except Unavailable as error:
            # Or it would be told to be about to start for as long as its cluster does not answer.
            if executor.schedules and run.reason == "Claimed":
                self._save(run, _delay(error), None)
            raise
        decision = lifecycle.decide(run, seen)
        if decision.act is Act.START:
            decision = self._start(executor, run, decision)
        elif decision.act is Act.STOP:
            decision = self._stop(executor, run_id, decision)
        self._save(run, decision, seen)
        if decision.state in FINAL:
            executor.tidy(run_id)

    def _load(self, run_id: str) -> tuple[RunRecord | None, Executor | None]:
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
            return run, self._executor_of(tx, run)

    def admit(self, now: datetime, most: int = MOST_WAITING) -> None:
        """Give a place to those that wait, as far as there is one; of so many of them, the oldest first."""
        with self.store.reading() as tx:
            executors = {
                scope: executor
                for scope, cluster in self._clusters_of(tx).items()
                if (executor := self.executors.find(cluster)) is not None
            }
            waiting = tx.find(
                RunRecord,
                Condition("live", "=", True),
                Condition("held_by", "=", None),
                Condition("state", "=", str(State.QUEUED)),
                Condition("cluster", "in", tuple(executors)),
                limit=most,
            )
            local = [run for run in waiting if not executors[run.cluster or ""].schedules]
            asks = {
                run.id: Waiting(run.id, name, ask, (now - run.created_at).total_seconds())
                for run, name, ask in self._read_asks(tx, local)
            }
        runs = {run.id: run for run in local}
        self._asks = {run_id: ask for run_id, ask in self._asks.items() if run_id in runs}
        for run in waiting:
            if run.id not in runs:
                self._hands_of(executors[run.cluster or ""]).take(run.id)
        for executor in {id(found): found for found in executors.values() if not found.schedules}.values():
            (node,) = executor.nodes()
            here = [asks[run.id] for run in local if executors[run.cluster or ""] is executor and run.id in asks]
            for verdict in admission.admit(here, node):
                if not verdict.admitted:
                    self._note(runs[verdict.run_id], verdict)
                elif self._claim(runs[verdict.run_id]) is not None:
                    self._attempt(f"starting run {verdict.run_id}", partial(self.tend, verdict.run_id))

    def _start(self, executor: Executor, run: RunRecord, decision: Decision) -> Decision:
        try:
            with self.store.reading() as tx:
                work = load_work(tx, self.safe, run)
        except Incomplete as error:
            return Decision(State.FAILED, Act.NONE, error.reason, str(error))
        except Unavailable as error:  # a key that is not there, say
            return _delay(error)
        try:
            executor.start(work)
        except Unavailable as error:
            return _delay(error)
        return decision

    def _stop(self, executor: Executor, run_id: str, decision: Decision) -> Decision:
        try:
            executor.stop(run_id)
        except FairleadError as error:
            return Decision(State.STOPPING, Act.NONE, "StopDelayed", f"{error}; it is tried again")
        return decision

    def _claim(self, run: RunRecord) -> RunRecord | None:
        """Take a run; None where another server was quicker, or it was stopped."""
        decision = Decision(State.PENDING, Act.NONE, "Claimed", lifecycle.CLAIMED)
        return self._save(run, decision, None, held_by=self.keeper.id)

    def _note(self, run: RunRecord, verdict: Verdict) -> None:
        """Keep why a run waits, once. Several servers may say it, each of its own machine."""
        hopeless_only_here = (run.reason, verdict.reason) == ("Unschedulable", "NeverFits")
        if verdict.reason != run.reason and not hopeless_only_here:
            self._save(run, Decision(State.QUEUED, Act.NONE, verdict.reason, verdict.message), None)

    def _save(self, run: RunRecord, decision: Decision, seen: Observation | None, **more: Any) -> RunRecord | None:
        """Keep what was decided; None where the run has changed meanwhile."""
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
        try:
            with self.store.recording() as tx:
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
        return after

    def _list_mine(self) -> list[str]:
        """The runs that this server looks after. What is watched tells by itself when something happens to it."""
        with self.store.reading() as tx:
            mine = tx.find(RunRecord, Condition("live", "=", True), Condition("held_by", "=", self.keeper.id))
            watched = {run.id for run in mine if (on := self._executor_of(tx, run)) is not None and on.schedules}
        all_of_them = self._looks % LOOKS_AT_WATCHED == 1
        # Who stops a run may have said so to another server; and what could not be started is tried again.
        due = [run for run in mine if run.state == State.STOPPING or run.reason == DELAYED]
        return [run.id for run in mine if all_of_them or run.id not in watched or run in due]

    def _take_over(self, now: datetime) -> list[str]:
        """Look after runs of servers that have not been heard of for long, where any server can."""
        with self.store.reading() as tx:
            silent = [
                server.id
                for server in tx.find(ServerRecord, Condition("seen_at", "<", now - LEASE))
                if server.id != self.keeper.id
            ]
            left = (
                tx.find(RunRecord, Condition("live", "=", True), Condition("held_by", "in", silent)) if silent else []
            )
            watched = [run for run in left if (on := self._executor_of(tx, run)) is not None and on.schedules]
        taken = []
        for run in watched:
            decision = Decision(State(run.state), Act.NONE, run.reason, run.message)
            if self._save(run, decision, None, held_by=self.keeper.id) is not None:
                log.info("run taken over", run=run.id, of=run.held_by)
                taken.append(run.id)
        return taken

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
        return (
            None if run is None or run.cluster is None else self.executors.find(self._clusters_of(tx).get(run.cluster))
        )

    def _clusters_of(self, tx: Transaction) -> dict[str, Cluster]:
        """The clusters by their scopes, read once for as long as the organisation stays the same."""
        if self._clusters[0] != tx.generation.organisation:
            self._clusters = tx.generation.organisation, {cluster.scope: cluster for _, cluster in load_clusters(tx)}
        return self._clusters[1]

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


def _delay(error: Unavailable) -> Decision:
    return Decision(State.PENDING, Act.NONE, DELAYED, f"{error}; it is tried again")
