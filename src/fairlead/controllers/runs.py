"""What time does to runs: claim, observe, decide, act, save. Nothing is decided here."""

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from fairlead.controllers.admissions import Admissions
from fairlead.controllers.idle_culling import IdleCuller
from fairlead.controllers.launch_specs import LaunchInputMissing, load_launch_spec
from fairlead.controllers.retention import forget_tries
from fairlead.controllers.run_state import AUTHOR, RunStateWriter
from fairlead.controllers.steps import log_failures
from fairlead.controllers.work_queue import WorkQueue
from fairlead.core import attempts, lifecycle
from fairlead.core.fitting.pod_resources import PODS
from fairlead.core.lifecycle import Act, Decision
from fairlead.errors import FairleadError, Unavailable
from fairlead.model.observations import Phase
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord, ServerRecord
from fairlead.model.states import FINAL, State
from fairlead.ports import Clock, Executor, Executors, MakeId, Safe, Store, Tell, Transaction

log = structlog.get_logger()

LOOK_EVERY_SECONDS = 5.0
LOOK_EVERY = timedelta(seconds=LOOK_EVERY_SECONDS)
LOOKS_AT_WATCHED = 6  # each so many of those looks, also at runs that are watched
LEASE = timedelta(seconds=60)  # after so long without a word, another server looks after a server's runs
MOST_WAITING, FEW_WAITING = 1000, 50
DELAYED = "StartDelayed"


@dataclass(frozen=True)
class ServerIdentity:
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
        keeper: ServerIdentity,
        clock: Clock,
        make_id: MakeId,
        tell: Tell,
        wary: Clock | None = None,
    ) -> None:
        self.store, self.safe, self.executors = store, safe, executors
        self.keeper, self.clock = keeper, clock
        self.ledger = RunStateWriter(store, keeper.id, clock, make_id, tell, self.wake, self.free)
        self.idlers = IdleCuller(store, self.ledger, self._executor_of, wary or clock)
        self.admissions = Admissions(store, self.ledger, executors, self._start_claimed, self._hand_on)
        self._woken = threading.Condition()
        self._dirty: set[str] = set()
        self._freed: set[str] = set()  # scopes with a quota, at which something ended or arrived
        self._ended = False
        self._looked_at: datetime | None = None
        self._looks = 0
        self._watched: dict[str, Executor] = {}  # by run, what takes several of them at once
        self._fresh: dict[str, RunRecord] = {}  # those that were read a moment ago, to be handed on
        self._failed: set[str] = set()  # the runs that could not be looked after, for the next thorough look
        self._untidy: dict[str, set[str]] = {}  # by run, the attempts that are over and not tidied up yet
        self._hands: dict[Executor, WorkQueue] = {}  # of each executor that takes several runs at once

    def wake(self, run_id: str) -> None:
        """Say that something happened to a run, or to a try of one."""
        with self._woken:
            self._dirty.add(attempts.run_of(run_id))
            self._woken.notify()

    def free(self, scope: str) -> None:
        """Say that quotas which bound a scope may have more left. Where there are none, nobody waits for one."""
        if self.ledger.known.bounds.on(scope):
            with self._woken:
                self._freed.add(scope)
                self._woken.notify()

    def live(self) -> None:
        """Look after runs until told to end."""
        while not self._ended:
            with self._woken:
                woken, self._dirty = self._dirty, set()
            self.look(woken)
            with self._woken:
                self._woken.wait_for(lambda: self._dirty or self._freed or self._ended, LOOK_EVERY_SECONDS)

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
        # Also where the clock was set back.
        thorough = self._looked_at is None or not timedelta(0) <= now - self._looked_at <= LOOK_EVERY
        if thorough:
            self._looked_at, self._looks = now, self._looks + 1
            while self._failed:  # emptied one by one: other threads add to it meanwhile
                woken.add(self._failed.pop())
            woken |= self._untidy.copy().keys()
            log_failures("following clusters", self._follow_clusters)
            log_failures("saying that it lives", lambda: self._say_alive(now))
            log_failures("taking over runs", lambda: woken.update(self._take_over(now)))
            log_failures("listing runs", lambda: woken.update(self._list_mine()))
            log_failures("stopping what is idle", lambda: woken.update(self.idlers.stop()))
            log_failures("shortening pauses", lambda: self._shorten_pauses(now))
        here: list[str] = []
        for run_id in sorted(woken):
            log_failures(f"looking after run {run_id}", partial(self._see_to, run_id, here))
        with self._woken:
            freed, self._freed = self._freed, set()
        # Between thorough looks only the first in the queue, and only where there may be a place: each of many runs
        # that are submitted at once wakes this three times.
        if thorough or freed or ((here or not woken) and self._has_room()):
            asked = (MOST_WAITING, None) if thorough else (FEW_WAITING, freed)
            log_failures("giving places to runs", lambda: self.admissions.admit(now, *asked))

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
            if run is not None and not run.active:
                self.free(run.scope)
            if run is None or executor is None or not executor.schedules:
                here.append(run_id)
                self.tend(run_id)
                return
            if self._waits(run) and self.ledger.known.bounds.on(run.scope):
                self.free(run.scope)  # it is given a place when it is its turn
                return
            self._watched[run_id], self._fresh[run_id] = executor, run
        self._hand_on(executor, run_id)

    def _hand_on(self, executor: Executor, run_id: str) -> None:
        self._hands_of(executor).take(run_id)

    def _hands_of(self, executor: Executor) -> WorkQueue:
        if executor not in self._hands:
            self._hands[executor] = WorkQueue(self._tend_beside)
        return self._hands[executor]

    def _tend_beside(self, run_id: str) -> None:
        if not log_failures(f"looking after run {run_id}", partial(self.tend, run_id)):
            self._failed.add(run_id)

    def tend(self, run_id: str) -> None:
        """See what has become of a run, decide what comes next, do it, and keep it."""
        run, executor = self._fresh.pop(run_id, None), self._watched.get(run_id)
        if run is None or executor is None:
            run, executor = self._load(run_id)
        if run is None or not run.active:
            self._watched.pop(run_id, None)
        if run is None:
            self._untidy.pop(run_id, None)
            for each in self.executors.all():
                if not log_failures(f"forgetting run {run_id}", partial(forget_tries, each, run_id)):
                    self._failed.add(run_id)
            return
        if executor is not None:
            self._tidy_left(executor, run)
        if executor is not None and executor.schedules and self._waits(run):
            run = self.ledger.claim(run)
        if run is None or executor is None or not run.active or run.server_id != self.keeper.id:
            return
        execution = attempts.execution_of(run_id, run.attempt)
        try:
            seen = executor.observe(execution)
        except Unavailable as error:
            # Or it would be told to be about to start for as long as its cluster does not answer.
            if executor.schedules and run.reason == "Claimed":
                self.ledger.save(run, _delay(error), None)
            raise
        failed = seen is not None and seen.phase is Phase.FAILED
        decision = lifecycle.decide(run, seen, self.ledger.load_tried(run) if failed else attempts.ONCE)
        if decision.act is Act.START:
            decision = self._start(executor, run, decision)
        elif decision.act is Act.STOP:
            decision = self._stop(executor, execution, decision)
        if decision.failure is not None:
            self._watched.pop(run_id, None)  # it is given a place when it is its turn, as any that waits
        self.ledger.save(run, decision, seen)
        if decision.state in FINAL or decision.failure is not None:
            self._tidy(executor, run_id, execution)

    def _tidy_left(self, executor: Executor, run: RunRecord) -> None:
        """Tidy up after attempts that are over, and after a run that has ended whenever something happens to it.

        Objects can appear after the end of a run: the answer to their creation was lost, or the watch was late.
        """
        left = self._untidy.get(run.id, set()).copy()
        if not run.active and run.server_id == self.keeper.id:
            left.add(attempts.execution_of(run.id, run.attempt))
        for execution in sorted(left):
            self._tidy(executor, run.id, execution, ended=not run.active)

    def _tidy(self, executor: Executor, run_id: str, execution: str, *, ended: bool = False) -> None:
        """Save the log of an attempt that is over and remove its objects. Repeated every few seconds until it works."""
        left = self._untidy.setdefault(run_id, set())
        left.add(execution)
        step = partial(_end_and_tidy, executor, execution) if ended else partial(executor.tidy, execution)
        if log_failures(f"tidying up after {attempts.tell(execution)}", step):
            left.discard(execution)
            if not left:
                self._untidy.pop(run_id, None)

    def _load(self, run_id: str) -> tuple[RunRecord | None, Executor | None]:
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
            return run, self._executor_of(tx, run)

    def _start_claimed(self, run_id: str) -> None:
        log_failures(f"starting run {run_id}", partial(self.tend, run_id))

    def _start(self, executor: Executor, run: RunRecord, decision: Decision) -> Decision:
        try:
            with self.store.reading() as tx:
                work = load_launch_spec(tx, self.safe, run)
        except LaunchInputMissing as error:
            return Decision(State.FAILED, Act.NONE, error.reason, str(error))
        except Unavailable as error:  # a key that is not there, say
            return _delay(error)
        try:
            executor.start(work)
        except Unavailable as error:
            return _delay(error)
        return decision

    def _stop(self, executor: Executor, execution: str, decision: Decision) -> Decision:
        try:
            executor.stop(execution)
        except FairleadError as error:
            return Decision(State.STOPPING, Act.NONE, "StopDelayed", f"{error}; it is tried again")
        return decision

    def _list_mine(self) -> list[str]:
        """The runs that this server looks after. What is watched tells by itself when something happens to it."""
        with self.store.reading() as tx:
            mine = tx.find(RunRecord, Condition("active", "=", True), Condition("server_id", "=", self.keeper.id))
            watched = {run.id for run in mine if (on := self._executor_of(tx, run)) is not None and on.schedules}
        all_of_them = self._looks % LOOKS_AT_WATCHED == 1
        # Who stops a run may have said so to another server; and what could not be started is tried again.
        due = [run for run in mine if run.state == State.STOPPING or run.reason == DELAYED]
        return [run.id for run in mine if all_of_them or run.id not in watched or run in due]

    def _shorten_pauses(self, now: datetime) -> None:
        """Where the clock was set back, a run that is to be tried again would wait until it has caught up."""
        too_late = now + timedelta(seconds=attempts.LONGEST_PAUSE)
        with self.store.reading() as tx:
            paused = tx.find(RunRecord, Condition("active", "=", True), Condition("retry_at", ">", too_late))
        for run in paused:
            self.ledger.save(run, Decision(State(run.state), Act.NONE, run.reason, run.message), None, retry_at=now)

    def _take_over(self, now: datetime) -> list[str]:
        """Look after runs of servers that have not been heard of for long, where any server can."""
        with self.store.reading() as tx:
            silent = [
                server.id
                for server in tx.find(ServerRecord, Condition("seen_at", "<", now - LEASE))
                if server.id != self.keeper.id
            ]
            left = (
                tx.find(RunRecord, Condition("active", "=", True), Condition("server_id", "in", silent))
                if silent
                else []
            )
            watched = [run for run in left if (on := self._executor_of(tx, run)) is not None and on.schedules]
        taken = []
        for run in watched:
            decision = Decision(State(run.state), Act.NONE, run.reason, run.message)
            if self.ledger.save(run, decision, None, server_id=self.keeper.id) is not None:
                log.info("run taken over", run=run.id, of=run.server_id)
                taken.append(run.id)
        return taken

    def _executor_of(self, tx: Transaction, run: RunRecord | None) -> Executor | None:
        return (
            None
            if run is None or run.cluster is None
            else self.executors.find(self.ledger.know(tx).clusters.get(run.cluster))
        )

    def _waits(self, run: RunRecord) -> bool:
        """Whether a run may be given a place now."""
        paused = attempts.is_paused(run, self.clock())
        return run.server_id is None and run.state == State.QUEUED and not paused

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


def _end_and_tidy(executor: Executor, execution: str) -> None:
    """Remove what is left of an attempt of a run that has ended. Final states never change, so nothing may run on."""
    seen = executor.observe(execution)
    if seen is not None and seen.phase not in (Phase.SUCCEEDED, Phase.FAILED):
        executor.stop(execution)
    executor.tidy(execution)
