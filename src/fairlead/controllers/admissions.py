"""Gives places to runs that wait, as far as there is one and quotas allow it. Whose turn it is, the core decides."""

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from functools import partial

from fairlead.controllers.queue_order import AdmissionPass, load_admission_pass
from fairlead.controllers.run_state import RunStateWriter
from fairlead.controllers.steps import log_failures
from fairlead.core.attempts import execution_of
from fairlead.core.fitting.admission import AdmissionSession, QueuedRun
from fairlead.core.fitting.pod_requests import PodRequest, read_pod_request
from fairlead.core.manifests.attempts import manifests_of
from fairlead.core.queue_order import QUOTA
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.ports import Executor, Executors, Notify, Store, Transaction

HandOn = Callable[[Executor, str], None]  # says that an executor is to be given a run, beside others


class Admissions:
    """The way from the queue to an executor: here one run after the other, to a cluster beside each other."""

    def __init__(
        self, store: Store, state_writer: RunStateWriter, executors: Executors, start: Notify, hand_on: HandOn
    ) -> None:
        self.store, self.state_writer, self.executors = store, state_writer, executors
        self._start, self._hand_on = start, hand_on
        self._pod_requests: dict[str, tuple[str, PodRequest]] = {}  # by try: the next one may ask for more

    def admit(self, now: datetime, most: int, freed: Collection[str] | None = None) -> None:
        """Give a place to those that wait, the first in the queue first.

        Of so many of them; of those that quotas hold, where freed scopes are said, only what may have changed there.
        """
        with self.store.reading() as tx:
            executors = {
                scope: executor
                for scope, cluster in self.state_writer.know(tx).clusters.items()
                if (executor := self.executors.find(cluster)) is not None
            }
            turns = load_admission_pass(tx, self.state_writer.known.bounds, executors, now=now, most=most, freed=freed)
            local = [run for run in turns.waiting if not executors[run.cluster or ""].has_scheduler]
            asks = {
                run.id: QueuedRun(run.id, name, pod_request, (now - (run.retry_at or run.created_at)).total_seconds())
                for run, name, pod_request in self._read_pod_requests(tx, local)
            }
        here = {run.id for run in local}
        for run in turns.waiting:
            if run.id not in here and not turns.is_bound(run):
                self._hand_on(executors[run.cluster or ""], run.id)
        doors = {on: AdmissionSession(*on.nodes()) for on in set(executors.values()) if not on.has_scheduler}
        for run in turns.waiting:
            executor = executors[run.cluster or ""]
            if run.id in asks:
                self._admit_here(run, turns, asks[run.id], doors[executor])
            elif run.id not in here and turns.is_bound(run):
                self._admit_there(run, turns, executor)

    def _admit_here(self, run: RunRecord, turns: AdmissionPass, waiting: QueuedRun, door: AdmissionSession) -> None:
        """Start a run on this machine, where it is its turn and there is room."""
        lacking = turns.find_short(run)
        if lacking and door.could_take(waiting):
            turns.turn_away(run, lacking)
            self.state_writer.note_turn(run, lacking)
        elif lacking:
            if run.reason != QUOTA:  # another machine may be larger
                self.state_writer.note(run, door.decide(waiting))
        elif not turns.comes_later(run):
            verdict = door.decide(waiting)
            if not verdict.admitted:
                if turns.leave(run):
                    self.state_writer.note(run, verdict)
            elif self.state_writer.claim(run) is not None:
                turns.let_in(run)
                self._start(run.id)

    def _admit_there(self, run: RunRecord, turns: AdmissionPass, executor: Executor) -> None:
        """Hand a run to a cluster, which has the room or waits for it, where it is its turn."""
        if lacking := turns.find_short(run):
            turns.turn_away(run, lacking)
            self.state_writer.note_turn(run, lacking)
        elif not turns.comes_later(run):
            turns.let_in(run)
            self._hand_on(executor, run.id)

    def _read_pod_requests(self, tx: Transaction, runs: list[RunRecord]) -> Iterator[tuple[RunRecord, str, PodRequest]]:
        """What each try asks for, read once for as long as it waits."""
        known, self._pod_requests = self._pod_requests, {}
        for run in runs:
            execution = execution_of(run.id, run.log_failures)
            if execution in known:
                self._pod_requests[execution] = known[execution]
            elif (kept := tx.get(PlanRecord, id=run.id)) is not None:
                # One that is not understood keeps nobody else from being given a place.
                log_failures(f"reading what run {run.id} asks for", partial(self._read_ask, run, execution, kept))
            if execution in self._pod_requests:
                yield (run, *self._pod_requests[execution])

    def _read_ask(self, run: RunRecord, execution: str, kept: PlanRecord) -> None:
        manifests = manifests_of(run, kept)
        self._pod_requests[execution] = manifests[0]["metadata"]["name"], read_pod_request(manifests)
