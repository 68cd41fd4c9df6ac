"""Tries of a run: how an executor knows each of them, and whether another one is due."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, get_args

from fairlead.model.oom_retries import RetryReason
from fairlead.model.plans import Layer
from fairlead.model.quantities import MAXIMUM, NANOS, Quantity, QuantityFormat
from fairlead.model.records import PlanRecord, RunRecord

LATER = re.compile(r"-([2-9]|[1-9][0-9]+)$", re.ASCII)  # how the ids of all tries but the first end
OUT_OF_MEMORY = "OOMKilled"
FAILED_BY_ITSELF = "ExitCode"  # after which a pause may help; after the others, what was wrong is gone
FIRST_PAUSE, LONGEST_PAUSE = 10, 300  # in seconds
MOST_GROWN = 20  # how often memory grows at most: a factor may be next to nothing
STEP = 2**20  # what memory grows by is a multiple of this many bytes


def execution_of(run_id: str, attempt: int) -> str:
    """The id by which an executor knows a try of a run: the first has the run's own."""
    return run_id if attempt == 1 else f"{run_id}-{attempt}"


def run_id_of(execution_id: str) -> str:
    """The run that is tried."""
    return LATER.sub("", execution_id)


def attempt_of(execution_id: str) -> int:
    """Which try of its run it is."""
    found = LATER.search(execution_id)
    return int(found[1]) if found else 1


def describe_execution(execution_id: str) -> str:
    """How a try is called in a sentence."""
    run, number = f"run {run_id_of(execution_id)}", attempt_of(execution_id)
    return run if number == 1 else f"attempt {number} of {run}"


def last_started_attempt(run: RunRecord) -> int:
    """The last try that was given a place: while a run waits to be tried again, the one before."""
    return run.attempt if run.server_id is not None else max(run.attempt - 1, 1)


def is_paused(run: RunRecord, now: datetime) -> bool:
    """Whether a run waits for the moment at which it is tried again."""
    return run.retry_at is not None and run.retry_at > now


@dataclass(frozen=True)
class RetryPolicy:
    """On which terms a run is tried again, as it was planned. Amounts are those of one pod, in bytes."""

    retries: int = 0
    retry_on: tuple[str, ...] = get_args(RetryReason)
    grow: Fraction | None = None
    pods: int = 1
    request: int = 0
    limit: int | None = None
    most: int = MAXIMUM  # of the limit, or of the request where there is no limit

    @classmethod
    def of(cls, kept: PlanRecord) -> "RetryPolicy":
        """Those of a plan. What a compute resource owns does not grow."""
        settings: Mapping[str, Any] = {setting["path"]: setting for setting in kept.plan["settings"]}
        said = {path: setting["value"] for path, setting in settings.items() if setting["value"] is not None}
        owner = settings.get("resources.mem.requests", {}).get("source", {}).get("layer")
        grow = said.get("on_oom.grow")
        retry_on = kept.request.get("function", {}).get("retry_on")
        return cls(
            retries=said.get("retries", 0),
            retry_on=cls.retry_on if retry_on is None else tuple(retry_on),
            grow=None if grow is None or owner == Layer.COMPUTE_RESOURCE else Fraction(str(grow)),
            pods=said.get("replicas", 1),
            request=_read_bytes(said.get("resources.mem.requests")) or 0,
            limit=_read_bytes(said.get("resources.mem.limits")),
            most=_read_bytes(said.get("on_oom.max")) or MAXIMUM,
        )

    def memory_of(self, run: RunRecord) -> int:
        """What one pod of a run requests at its present try."""
        return self.request if run.mem_bytes == self.request * self.pods else run.mem_bytes // self.pods

    def limit_with(self, request: int) -> int | None:
        """The limit that goes with a request: it grows as much as that did."""
        return None if self.limit is None else -(-self.limit * request // self.request)

    def grow_from(self, request: int) -> int | None:
        """What one pod requests next; None where it may not be more."""
        if self.grow is None or not self.request:
            return None
        asked = -(-(request * self.grow) // STEP) * STEP
        most = self.most * self.request // (self.limit or self.request)
        more = min(asked, most, MAXIMUM // self.pods)
        return more if more > request else None


@dataclass(frozen=True)
class AttemptHistory:
    """On which terms a run is tried again, and what each try before the present one held of memory."""

    terms: RetryPolicy = field(default_factory=RetryPolicy)
    before: Sequence[int] = ()


NO_HISTORY = AttemptHistory()


@dataclass(frozen=True)
class NextAttempt:
    """Another try of a run: what it holds of memory, after which pause it begins, and how that is told."""

    mem_bytes: int
    pause_seconds: int
    told: str


@dataclass(frozen=True)
class NoRetry:
    """That there is no other try, and why; nothing where none was asked for."""

    told: str = ""


def decide_next(run: RunRecord, reason: str, tried: AttemptHistory) -> NextAttempt | NoRetry:
    """What comes after a try that failed for a reason. Tries with more memory are no retries."""
    terms = tried.terms
    grown = sum(less < more for less, more in pairwise([*tried.before, run.mem_bytes]))
    left = terms.retries - (run.attempt - 1 - grown)
    request, number = terms.memory_of(run), run.attempt + 1
    more = terms.grow_from(request) if grown < MOST_GROWN else None
    if reason == OUT_OF_MEMORY and more is not None:
        shown = format_memory(terms.limit_with(more) or more)
        return NextAttempt(more * terms.pods, 0, f"attempt {number} begins at once, with {shown} of memory")
    total = 1 + terms.retries + grown
    if left > 0 and reason in terms.retry_on:
        pause = _pause_after(reason, terms.retries - left)
        begins = f"begins in {pause} s" if pause else "begins at once"
        return NextAttempt(run.mem_bytes, pause, f"attempt {number} of {total} {begins}")
    return NoRetry("; ".join(_describe_end(run, reason, terms, total, left)))


def format_memory(amount: int) -> str:
    """An amount of memory in a sentence."""
    return str(Quantity(amount * NANOS, QuantityFormat.BINARY))


def _describe_end(run: RunRecord, reason: str, terms: RetryPolicy, total: int, left: int) -> list[str]:
    told = []
    if reason == OUT_OF_MEMORY and terms.grow is not None:
        request = terms.memory_of(run)
        told.append(f"it is given no more than {format_memory(terms.limit_with(request) or request)} of memory")
    if left > 0:
        named = ", which retry_on does not name" if reason in get_args(RetryReason) else ""
        told.append(f"it is not tried again after {reason}{named}")
    elif total > 1:
        told.append(f"that was attempt {run.attempt} of {total}")
    return told


def _pause_after(reason: str, used: int) -> int:
    return min(FIRST_PAUSE * 2**used, LONGEST_PAUSE) if reason == FAILED_BY_ITSELF else 0


def _read_bytes(text: str | None) -> int | None:
    """An amount in a plan; None where none is said, or it is unlimited."""
    return None if text is None or text == "unlimited" else Quantity.parse(text).whole
