"""How runs of a cluster ended: known from their objects while those are there, kept among their files afterwards."""

import threading
import time
from collections import OrderedDict
from datetime import datetime
from typing import Any

import msgspec

from fairlead.core.outcomes import parse_outcome, read_result
from fairlead.errors import Conflict
from fairlead.model.observations import JSON, Observation, Phase
from fairlead.ports import Clock, Store
from fairlead.run_files import load_file, load_size, save_file

OUTCOME, RESULT, ERROR, USAGE = "outcome.json", "result.json", "error.json", "usage.json"
MOST_REMEMBERED = 5000
ASKED_SECONDS = 1.0


class Outcomes:
    """The outcomes of one cluster's runs. What was told of one stays what is told."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Observation] = OrderedDict()
        self._asked: dict[str, float] = {}  # when the store was last asked in vain

    def get(self, run_id: str) -> Observation | None:
        """How a run ended; None where it did not, as far as is known here."""
        with self._lock:
            return self._known.get(run_id)

    def load(self, run_id: str) -> Observation | None:
        """The same, also where another server has kept it."""
        if (known := self.get(run_id)) is not None:
            return known
        if time.monotonic() - self._asked.get(run_id, -ASKED_SECONDS) < ASKED_SECONDS:
            return None
        with self.store.reading() as tx:
            content = load_file(tx, run_id, OUTCOME)
        if content is not None:
            return self._remember(run_id, _read(content))
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.clear()
        self._asked[run_id] = time.monotonic()
        return None

    def record(self, run_id: str, seen: Observation) -> Observation:
        """Say how a run ended, unless that was said before."""
        return self.get(run_id) or self._remember(run_id, seen)

    def save(self, run_id: str, seen: Observation, usage: list[JSON]) -> None:
        """Keep how a run ended and what it used, among its files; once, for each sweep asks for it again."""
        with self.store.reading() as tx:
            if load_size(tx, run_id, OUTCOME) is not None:
                return
        try:
            with self.store.recording() as tx:
                if load_file(tx, run_id, OUTCOME) is None:
                    save_file(tx, run_id, OUTCOME, msgspec.json.encode(vars(seen)), self.clock())
                    save_file(tx, run_id, USAGE, msgspec.json.encode(usage), self.clock())
        except Conflict:  # the run is not there any more
            return

    def load_usage(self, run_id: str) -> list[JSON]:
        """What was kept of what a run used."""
        with self.store.reading() as tx:
            content = load_file(tx, run_id, USAGE)
        samples: list[JSON] = [] if content is None else msgspec.json.decode(content)
        return [{**sample, "at": datetime.fromisoformat(sample["at"])} for sample in samples]

    def load_uploaded(self, run_id: str, name: Any) -> JSON:
        """The result or error that a run has handed over, for it was too long for a message: that of a name."""
        if name not in (RESULT, ERROR):
            return {}
        with self.store.reading() as tx:
            content = load_file(tx, run_id, name)
        found = None if content is None else parse_outcome(content)
        return {"result": read_result(found)} if name == RESULT else {"error": found}

    def forget(self, run_id: str) -> None:
        """Remember nothing of a run."""
        with self._lock:
            self._known.pop(run_id, None)

    def _remember(self, run_id: str, seen: Observation) -> Observation:
        with self._lock:
            known = self._known.setdefault(run_id, seen)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
            return known


def _read(content: bytes) -> Observation:
    said = msgspec.json.decode(content)
    for name in ("started_at", "finished_at"):
        said[name] = None if said[name] is None else datetime.fromisoformat(said[name])
    return Observation(**{**said, "phase": Phase(said["phase"])})
