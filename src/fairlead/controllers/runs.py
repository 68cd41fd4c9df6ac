"""Reconciles runs: claims, observes, starts and stops them, and stops idle runs.

`lifecycle.lifecycle` makes the decisions.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from fairlead.controllers.admission import Admissions
from fairlead.controllers.launch_specs import LaunchInputMissing, load_launch_spec
from fairlead.controllers.retention import delete_attempts
from fairlead.controllers.run_state import AUTHOR, LEASE, RunStateWriter
from fairlead.controllers.work_queue import WorkQueue, log_failures
from fairlead.errors import FairleadError, Unavailable
from fairlead.lifecycle import attempts, lifecycle
from fairlead.lifecycle.attempts import execution_of
from fairlead.lifecycle.lifecycle import Decision, ExecutorAction
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord, ServerRecord
from fairlead.model.runs import FINAL, Phase, State
from fairlead.ports import Clock, Executor, Executors, Keyring, MakeId, Store, Transaction
from fairlead.run_events import CONTROLLER_EVENTS, RunEvents
from fairlead.scheduling.admission import RESERVE_AFTER_SECONDS

log = structlog.get_logger()

FindExecutor = Callable[[Transaction, RunRecord], Executor | None]

RESYNC_SECONDS = 5.0  # a resync finds changes by other servers, changes to quotas, and changes whose event was missed
RESYNC_INTERVAL = timedelta(seconds=RESYNC_SECONDS)
WATCHED_RESYNCS = 6  # clusters send events about their runs, so these need only every sixth resync
# After an admission pass, the next one waits for this multiple of the pass's duration, so that passes over a queue with
# many different requests leave time for other work.
PAUSE_FACTOR = 1.0
DELAYED = "StartDelayed"  # the reason shown for a run whose start is retried on each resync


class IdleCuller:
    """Stops one server's idle runs. Needs a `StableClock`, because a stop cannot be undone."""

    def __init__(self, store: Store, state_writer: RunStateWriter, find_executor: FindExecutor, clock: Clock) -> None:
        self.store, self.state_writer, self.find_executor, self.clock = store, state_writer, find_executor, clock
        self._created_at = clock()

    def stop(self) -> list[str]:
        """Stop idle runs and return their IDs."""
        now = self.clock()
        own = (Condition("active", "=", True), Condition("server_id", "=", self.state_writer.server_id))
        with self.store.reading() as tx:
            runs = tx.find(RunRecord, *own, Condition("idle_seconds", "!=", None))
            executors = [self.find_executor(tx, run) for run in runs]
        stopped: list[str] = []
        for run, executor in zip(runs, executors, strict=True):
            if executor is not None and run.started_at is not None and run.state != State.STOPPING:
                # The run could not be used while the server was down.
                since = max(run.started_at, self._created_at)
                with log_failures(f"idle check of run {run.id}"):
                    self._stop_if_idle(run, executor, since, now, stopped)
        return stopped

    def _stop_if_idle(
        self, run: RunRecord, executor: Executor, since: datetime, now: datetime, stopped: list[str]
    ) -> None:
        usage = (run.idle_seconds or 0, run.last_used_at, since)
        # Usage samples are read from files or the database, so they are loaded only for runs whose URL is unused.
        if not lifecycle.is_unused(*usage, now):
            return
        if lifecycle.is_idle(*usage, executor.read_usage(execution_of(run.id, run.attempt)), now):
            self.state_writer.save(run, lifecycle.decide_idle_stop(run), None, stopped_by=lifecycle.STOPPED_BY)
            stopped.append(run.id)


@dataclass(frozen=True)
class ServerIdentity:
    """ID, name and URL of a server. The ID belongs to the server's data folder and survives restarts."""

    id: str
    name: str
    url: str


class RunController:
    """Reconciles one server's runs: each run when it has an event, and all of them every few seconds."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        executors: Executors,
        *,
        identity: ServerIdentity,
        clock: Clock,
        make_id: MakeId,
        run_events: RunEvents,
        reserve_after: float = RESERVE_AFTER_SECONDS,
        stable_clock: Clock | None = None,
    ) -> None:
        self.store, self.keyring, self.executors = store, keyring, executors
        self.identity, self.clock, self.run_events = identity, clock, run_events
        self.state_writer = RunStateWriter(store, identity.id, clock, make_id, run_events, self.quota_freed)
        self.idle_culler = IdleCuller(store, self.state_writer, self._executor_of, stable_clock or clock)
        self.admissions = Admissions(
            store,
            self.state_writer,
            executors,
            self._start_claimed,
            self._add_to_queue,
            reserve_after=reserve_after,
        )
        self._wakeup = threading.Condition()
        self._changed: set[str] = set()  # runs to reconcile
        self._is_quota_freed = False  # whether a run ended or was submitted where a quota applies
        self._postponed: set[str] | None = None  # runs whose reason the next pass saves; None if no pass is due
        self._resync_due = False  # whether the next pass saves the reasons of all groups
        self._is_shut_down = False
        self._resynced_at: datetime | None = None
        self._resyncs = 0
        self._watched: dict[str, Executor] = {}  # by run: the cluster that sends events about it
        self._loaded: dict[str, RunRecord] = {}  # records just read, so that `reconcile` need not read them again
        self._failed: set[str] = set()  # runs whose reconciliation failed, retried in the next resync
        self._cleanups: dict[str, set[str]] = {}  # by run: ended attempts whose objects have not been removed yet
        self._queues: dict[Executor, WorkQueue] = {}  # one per cluster, so that a slow cluster delays only its own runs
        run_events.subscribe(self.enqueue, *CONTROLLER_EVENTS)

    def enqueue(self, run_id: str) -> None:
        """Reconcile a run soon."""
        with self._wakeup:
            self._changed.add(run_id)
            self._wakeup.notify()

    def quota_freed(self, scope: str) -> None:
        """Trigger admission of runs waiting for a quota in a scope. Does nothing if no quota applies there."""
        if self.state_writer.organization.quota_limits.limiting_scopes(scope):
            with self._wakeup:
                self._is_quota_freed = True
                self._wakeup.notify()

    def run_forever(self) -> None:
        """Reconcile runs until `shut_down` is called."""
        next_pass = 0.0
        while not self._is_shut_down:
            with self._wakeup:
                changed, self._changed = self._changed, set()
            before = time.monotonic()
            self.sync(changed, may_admit=before >= next_pass)
            now = time.monotonic()
            if before >= next_pass:
                next_pass = now + (now - before) * PAUSE_FACTOR
            pause = RESYNC_SECONDS if self._postponed is None else max(next_pass - now, 0)
            with self._wakeup:
                self._wakeup.wait_for(lambda: self._changed or self._is_quota_freed or self._is_shut_down, pause)

    def shut_down(self) -> None:
        """Stop reconciling. Runs that have started continue."""
        with self._wakeup:
            self._is_shut_down = True
            self._wakeup.notify()
        # Iterates over a copy, because the controller thread may still be adding a queue.
        for queue in list(self._queues.values()):
            queue.shut_down()

    def sync(self, changed: set[str], *, may_admit: bool = True) -> None:
        """Reconcile the changed runs, or all runs if a resync is due, then admit queued runs.

        Without `may_admit`, admission is postponed to the next call.
        """
        now = self.clock()
        # The difference is negative if the clock was set back.
        resync = self._resynced_at is None or not timedelta(0) <= now - self._resynced_at <= RESYNC_INTERVAL
        if resync:
            self._resynced_at, self._resyncs = now, self._resyncs + 1
            while self._failed:  # emptied one by one because other threads add to it
                changed.add(self._failed.pop())
            changed |= self._cleanups.copy().keys()
            # This comes first, because the other steps look up executors.
            with log_failures("connecting to clusters"):
                self._follow_clusters()
            with log_failures("heartbeat"):
                self._send_heartbeat(now)
            with log_failures("taking over runs"):
                changed.update(self._take_over(now))
            with log_failures("listing runs"):
                changed.update(self._list_own())
            with log_failures("idle culling"):
                changed.update(self.idle_culler.stop())
            with log_failures("shortening retry delays"):
                self._shorten_retry_delays(now)
        waiting: list[str] = []
        for run_id in sorted(changed):
            with log_failures(f"reconciling run {run_id}"):
                self._dispatch(run_id, waiting)
        with self._wakeup:
            is_quota_freed, self._is_quota_freed = self._is_quota_freed, False
        self._resync_due = self._resync_due or resync
        if self._postponed is not None or resync or is_quota_freed or waiting or not changed:
            self._postponed = (self._postponed or set()).union(waiting)
        if self._postponed is not None and may_admit:
            explain, self._postponed = self._postponed, None
            update_reasons, self._resync_due = self._resync_due, False
            with log_failures("admission"):
                self._resync_due = self.admissions.admit(now, explain, update_reasons=update_reasons)
                self._postponed = set() if self._resync_due else None

    def _follow_clusters(self) -> None:
        self.executors.refresh()
        executors = self.executors.all()
        # Built from a copy, because workers remove runs at the same time.
        self._watched = {run_id: executor for run_id, executor in self._watched.copy().items() if executor in executors}
        for removed in [executor for executor in self._queues if executor not in executors]:
            # Does not wait: its workers may be blocked on the removed cluster, and other clusters need this thread.
            self._queues.pop(removed).shut_down(wait=False)

    def _dispatch(self, run_id: str, waiting: list[str]) -> None:
        """Reconcile a local run right away; queue a cluster run. Adds the IDs of runs that may wait for admission."""
        # A worker reads a known cluster run. Reading it here as well would delay the events of all other runs.
        executor = self._watched.get(run_id)
        if executor is None:
            run, executor = self._load(run_id)
            if run is not None and not run.active:
                # A request may have ended the run, for example by stopping it while it waited for the quota.
                self.quota_freed(run.scope)
            if run is None or executor is None or not executor.has_scheduler:
                waiting.append(run_id)
                self._reconcile(run_id, run, executor)
                return
            if self._is_waiting(run) and self.state_writer.organization.quota_limits.limiting_scopes(run.scope):
                waiting.append(run_id)  # admission hands it to the cluster when it is next in line for its quotas
                return
            self._watched[run_id], self._loaded[run_id] = executor, run
        self._add_to_queue(executor, run_id)

    def _add_to_queue(self, executor: Executor, run_id: str) -> None:
        if executor not in self._queues:
            self._queues[executor] = WorkQueue(self.reconcile, self._failed.add)
        self._queues[executor].add(run_id)

    def reconcile(self, run_id: str) -> None:
        """Observe a run, decide what to do next, do it and save the new state."""
        run, executor = self._loaded.pop(run_id, None), self._watched.get(run_id)
        if run is None or executor is None:
            run, executor = self._load(run_id)
        self._reconcile(run_id, run, executor)

    def _reconcile(self, run_id: str, run: RunRecord | None, executor: Executor | None) -> None:
        """Reconcile a run that was just loaded. `run` is None if it was deleted."""
        if run is None or not run.active:
            self._watched.pop(run_id, None)
        if run is None:
            self._cleanups.pop(run_id, None)
            # The cluster's name was deleted with the record, so every executor is searched.
            for each in self.executors.all():
                with log_failures(f"deleting attempts of run {run_id}") as failures:
                    delete_attempts(each, run_id)
                if failures:
                    self._failed.add(run_id)
            return
        if executor is not None:
            self._clean_up_pending(executor, run)
        if executor is not None and executor.has_scheduler and self._is_waiting(run):
            # The cluster's scheduler finds a node, so the run does not wait for free capacity here.
            run = self.state_writer.claim(run)
        if run is None or executor is None or not run.active or run.server_id != self.identity.id:
            return
        execution = attempts.execution_of(run_id, run.attempt)
        try:
            observation = executor.observe(execution)
        except Unavailable as error:
            # Without this, the run would appear to be about to start while its cluster does not respond.
            if executor.has_scheduler and run.reason == "Claimed":
                self.state_writer.save(run, _delay(error), None)
            raise
        # Only retry decisions need the history, so other reconciliations do not read it.
        failed = observation is not None and observation.phase is Phase.FAILED
        decision = lifecycle.decide(
            run, observation, self.state_writer.load_attempt_history(run) if failed else attempts.NO_HISTORY
        )
        if decision.action is ExecutorAction.START:
            decision = self._start(executor, run, decision)
        elif decision.action is ExecutorAction.STOP:
            decision = self._stop(executor, execution, decision)
        if decision.failure is not None:
            self._watched.pop(run_id, None)  # it is queued again and admitted like any other queued run
        self.state_writer.save(run, decision, observation)
        # This must come after the save: if this server is killed first, the next one must observe the same outcome.
        if decision.state in FINAL or decision.failure is not None:
            self._clean_up(executor, run_id, execution)

    def _clean_up_pending(self, executor: Executor, run: RunRecord) -> None:
        """Remove the objects of ended attempts, and those of an ended run whenever an event about it arrives.

        Objects can appear after a run has ended if the response to their creation was lost or the watch was late.
        """
        executions = self._cleanups.get(run.id, set()).copy()
        if not run.active and run.server_id == self.identity.id:
            executions.add(attempts.execution_of(run.id, run.attempt))
        for execution in sorted(executions):
            self._clean_up(executor, run.id, execution, ended=not run.active)

    def _clean_up(self, executor: Executor, run_id: str, execution: str, *, ended: bool = False) -> None:
        """Save an ended attempt's log and remove its objects. Retried on each resync until it succeeds."""
        pending = self._cleanups.setdefault(run_id, set())
        pending.add(execution)
        with log_failures(f"cleaning up {attempts.describe_execution(execution)}") as failures:
            if ended:
                _stop_if_active(executor, execution)
            executor.clean_up(execution)
        if not failures:
            pending.discard(execution)
            if not pending:
                self._cleanups.pop(run_id, None)

    def _load(self, run_id: str) -> tuple[RunRecord | None, Executor | None]:
        with self.store.reading() as tx:
            run = tx.get(RunRecord, id=run_id)
            return run, self._executor_of(tx, run)

    def _start_claimed(self, run: RunRecord, executor: Executor) -> None:
        with log_failures(f"starting run {run.id}"):
            self._reconcile(run.id, run, executor)

    def _start(self, executor: Executor, run: RunRecord, decision: Decision) -> Decision:
        try:
            with self.store.reading() as tx:
                launch_spec = load_launch_spec(tx, self.keyring, run)
        except LaunchInputMissing as error:  # retrying does not help: the input was deleted
            return Decision(State.FAILED, ExecutorAction.NONE, error.reason, str(error))
        except Unavailable as error:  # for example, a missing encryption key
            return _delay(error)
        try:
            executor.start(launch_spec)
        except Unavailable as error:
            return _delay(error)
        return decision

    def _stop(self, executor: Executor, execution: str, decision: Decision) -> Decision:
        try:
            executor.stop(execution)
        except FairleadError as error:
            # The run counts as stopped only after its executor has confirmed it. Until then it may still be running.
            return Decision(State.STOPPING, ExecutorAction.NONE, "StopDelayed", f"{error}; retrying")
        return decision

    def _list_own(self) -> list[str]:
        """IDs of this server's active runs that are due for reconciliation."""
        with self.store.reading() as tx:
            runs = tx.find(RunRecord, Condition("active", "=", True), Condition("server_id", "=", self.identity.id))
            watched = {
                run.id
                for run in runs
                if (executor := self._executor_of(tx, run)) is not None and executor.has_scheduler
            }
        include_watched = self._resyncs % WATCHED_RESYNCS == 1
        # A stop may have been requested on another server, and a delayed start must be retried: no event follows.
        due = [run for run in runs if run.state == State.STOPPING or run.reason == DELAYED]
        return [run.id for run in runs if include_watched or run.id not in watched or run in due]

    def _shorten_retry_delays(self, now: datetime) -> None:
        """Immediately retry runs whose retry time is too far ahead because the clock was set back."""
        latest = now + timedelta(seconds=attempts.BACKOFF.longest)
        with self.store.reading() as tx:
            delayed = tx.find(RunRecord, Condition("active", "=", True), Condition("retry_at", ">", latest))
        for run in delayed:
            decision = Decision(State(run.state), ExecutorAction.NONE, run.reason, run.message)
            self.state_writer.save(run, decision, None, retry_at=now)

    def _take_over(self, now: datetime) -> list[str]:
        """Take over cluster runs whose servers have sent no heartbeat for longer than the lease."""
        with self.store.reading() as tx:
            expired = [
                server.id
                for server in tx.find(ServerRecord, Condition("seen_at", "<", now - LEASE))
                if server.id != self.identity.id
            ]
            orphaned = (
                tx.find(RunRecord, Condition("active", "=", True), Condition("server_id", "in", expired))
                if expired
                else []
            )
            # Local runs are not taken over, because only the server on their machine can reach them.
            on_clusters = [
                run
                for run in orphaned
                if (executor := self._executor_of(tx, run)) is not None and executor.has_scheduler
            ]
        taken = []
        for run in on_clusters:
            decision = Decision(State(run.state), ExecutorAction.NONE, run.reason, run.message)
            # The save checks the revision, so only one server takes over the run, even if several try.
            if self.state_writer.save(run, decision, None, server_id=self.identity.id) is not None:
                log.info("run taken over", run=run.id, previous_server=run.server_id)
                taken.append(run.id)
        return taken

    def _executor_of(self, tx: Transaction, run: RunRecord | None) -> Executor | None:
        return (
            None
            if run is None or run.cluster is None
            else self.executors.find(self.state_writer.load_organization(tx).clusters.get(run.cluster))
        )

    def _is_waiting(self, run: RunRecord) -> bool:
        """Whether a run is queued and may be admitted now."""
        paused = attempts.is_paused(run, self.clock())
        return run.server_id is None and run.state == State.QUEUED and not paused

    def _send_heartbeat(self, now: datetime) -> None:
        """Record that this server is alive, and its URL, so that other servers can refer clients to it."""
        with self.store.recording() as tx:
            record = tx.get(ServerRecord, id=self.identity.id)
            stamps = {"updated_by": AUTHOR, "updated_at": now, "seen_at": now}
            values: dict[str, Any] = {"name": self.identity.name, "url": self.identity.url, **stamps}
            if record is None:
                tx.add(ServerRecord(id=self.identity.id, created_by=AUTHOR, created_at=now, **values))
            else:
                tx.save(replace(record, revision=record.revision + 1, **values))


def _delay(error: Unavailable) -> Decision:
    return Decision(State.PENDING, ExecutorAction.NONE, DELAYED, f"{error}; retrying")


def _stop_if_active(executor: Executor, execution: str) -> None:
    # Final states never change, so no part of an ended run may keep running.
    observation = executor.observe(execution)
    if observation is not None and observation.phase not in (Phase.SUCCEEDED, Phase.FAILED):
        executor.stop(execution)
