"""Outcomes of runs: derived from their objects while those exist, then stored with the run's files."""

import threading
import time
from collections import OrderedDict
from datetime import datetime
from typing import Any

import msgspec

from fairlead.errors import Conflict
from fairlead.lifecycle.lifecycle import parse_outcome, read_result
from fairlead.model.runs import JSON, Observation, Phase
from fairlead.ports import Clock, Store
from fairlead.run_files import load_file, load_size, save_file

OUTCOME, RESULT, ERROR, USAGE = "outcome.json", "result.json", "error.json", "usage.json"
MAX_REMEMBERED = 5000
RECHECK_SECONDS = 1.0  # active runs are observed often, and almost always have no stored outcome


class Outcomes:
    """The outcomes of all runs on one cluster. An outcome never changes once it is recorded."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Observation] = OrderedDict()
        self._missing: dict[str, float] = {}  # by run ID: when the store was last found to have no outcome

    def get(self, run_id: str) -> Observation | None:
        """A run's outcome, if this process knows it."""
        with self._lock:
            return self._known.get(run_id)

    def load(self, run_id: str) -> Observation | None:
        """A run's outcome, even if another server stored it."""
        if (known := self.get(run_id)) is not None:
            return known
        if time.monotonic() - self._missing.get(run_id, -RECHECK_SECONDS) < RECHECK_SECONDS:
            return None
        with self.store.reading() as tx:
            content = load_file(tx, run_id, OUTCOME)
        if content is not None:
            return self._remember(run_id, _read(content))
        if len(self._missing) > MAX_REMEMBERED:
            self._missing.clear()
        self._missing[run_id] = time.monotonic()
        return None

    def record(self, run_id: str, observation: Observation) -> Observation:
        """Record the outcome of a run, or return the one that is already recorded."""
        return self.get(run_id) or self._remember(run_id, observation)

    def save(self, run_id: str, observation: Observation, usage: list[JSON]) -> None:
        """Store the outcome and usage of a run with its files. Does nothing if they are already stored."""
        # Check first, because `clean_up` calls this repeatedly, and reading does not wait for other writers.
        with self.store.reading() as tx:
            if load_size(tx, run_id, OUTCOME) is not None:
                return
        try:
            with self.store.recording() as tx:
                if load_file(tx, run_id, OUTCOME) is None:
                    save_file(tx, run_id, OUTCOME, msgspec.json.encode(vars(observation)), self.clock())
                    save_file(tx, run_id, USAGE, msgspec.json.encode(usage), self.clock())
        except Conflict:  # the run was deleted
            return

    def load_usage(self, run_id: str) -> list[JSON]:
        """A run's stored usage samples."""
        with self.store.reading() as tx:
            content = load_file(tx, run_id, USAGE)
        samples: list[JSON] = [] if content is None else msgspec.json.decode(content)
        return [{**sample, "at": datetime.fromisoformat(sample["at"])} for sample in samples]

    def load_uploaded(self, run_id: str, name: Any) -> JSON:
        """The result or error that the sidecar uploaded because it was too long for the termination message."""
        if name not in (RESULT, ERROR):
            return {}
        with self.store.reading() as tx:
            content = load_file(tx, run_id, name)
        value = None if content is None else parse_outcome(content)
        return {"result": read_result(value)} if name == RESULT else {"error": value}

    def forget(self, run_id: str) -> None:
        """Remove a run from the cache."""
        with self._lock:
            self._known.pop(run_id, None)

    def _remember(self, run_id: str, observation: Observation) -> Observation:
        with self._lock:
            # Two threads may observe the end of a run differently. Both must use the same outcome.
            known = self._known.setdefault(run_id, observation)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return known


def _read(content: bytes) -> Observation:
    fields = msgspec.json.decode(content)
    for name in ("started_at", "finished_at"):
        fields[name] = None if fields[name] is None else datetime.fromisoformat(fields[name])
    return Observation(**{**fields, "phase": Phase(fields["phase"])})
