"""The folder of a run: what its supervisor writes there, and what is read off it."""

import contextlib
import fcntl
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead.adapters.local.specs import ERRORS, LOCK, LOG, OUTCOME, STATE, USAGE, read_json, write_json
from fairlead.adapters.logpages import read_page
from fairlead.errors import NotFound
from fairlead.model.observations import LogPage, Observation, Phase

PHASES = {"starting": Phase.STARTING, "running": Phase.RUNNING, "degraded": Phase.DEGRADED}
KEPT = "output"  # of a run's home, after its end

JSON = dict[str, Any]


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def state(self) -> JSON | None:
        """How far the supervisor said that it is; None where it has not begun."""
        state: JSON | None = read_json(self.path / STATE)
        return state

    @property
    def outcome(self) -> JSON | None:
        """What came of the run; None where it has not ended."""
        outcome: JSON | None = read_json(self.path / OUTCOME)
        return outcome

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended."""
        return (self.path / OUTCOME).exists()

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor looks after the run."""
        try:
            with (self.path / LOCK).open() as opened:
                fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    @property
    def supervisor_error(self) -> str:
        """What a supervisor said before it failed; nothing where it was killed."""
        try:
            return ((self.path / ERRORS).read_text("utf-8", "replace").strip().splitlines() or [""])[-1]
        except OSError:
            return ""

    def fail(self, reason: str, message: str, started_at: float | None = None) -> JSON:
        """Write down that the run failed without its supervisor telling how."""
        ended: JSON = {"exit_code": None, "stopped": False, "result": None, "error": None, "usage": {}}
        times = {"started_at": started_at, "finished_at": datetime.now(UTC).timestamp()}
        outcome = {"phase": str(Phase.FAILED), "reason": reason, "message": message, **ended, **times}
        write_json(self.path / OUTCOME, outcome)
        return outcome

    def read_log(self, cursor: int, max_bytes: int) -> LogPage:
        """The log from a cursor on. Raise `NotFound` where it is not there any more."""
        if not self.path.exists():
            raise NotFound(f"the log of run {self.path.name} is not kept any more")
        ended = self.has_ended  # asked first: what is written until then is read
        return read_page(self.path / LOG, cursor, max_bytes, ended=ended)

    def read_usage(self) -> list[JSON]:
        """The samples of what the run used, the oldest first."""
        try:
            lines = (self.path / USAGE).read_text("utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        samples = []
        for line in lines:
            with contextlib.suppress(ValueError):  # it is half written: now, or once when the disk was full
                samples.append(json.loads(line))
        return [{**sample, "at": _moment(sample["at"])} for sample in samples]

    def clean_up(self) -> None:
        """Remove what a run that has ended needs no longer."""
        if not (self.path / "code").exists():
            return  # that was done already
        for name in ("volumes", "root"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / "home") as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif entry.name != KEPT:
                    shutil.rmtree(entry.path, ignore_errors=True)
        shutil.rmtree(self.path / "code", ignore_errors=True)  # last: without it, all of this is done


def observe_active(state: JSON) -> Observation:
    """What a supervisor says of a run that goes on."""
    phase = PHASES[state["phase"]]
    started_at = None if phase is Phase.STARTING else _moment(state["started_at"])
    return Observation(phase, state.get("reason", ""), state.get("message", ""), started_at=started_at)


def observe_ended(outcome: JSON) -> Observation:
    """What is known of a run that has ended."""
    times = {name: None if outcome[name] is None else _moment(outcome[name]) for name in ("started_at", "finished_at")}
    told = {name: value for name, value in outcome.items() if name not in times}
    return Observation(**{**told, "phase": Phase(outcome["phase"]), **times})


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
