"""A run's attempts: their execution IDs and log cursors, and whether to retry."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, get_args

from fairlead.backoff import Backoff
from fairlead.model.plans import Layer
from fairlead.model.quantities import MAXIMUM, NANOS, Quantity
from fairlead.model.records import PlanRecord, RunRecord
from fairlead.model.requests import RetryReason
from fairlead.model.runs import ExecutionId
from fairlead.scheduling.reasons import describe_amount

# The execution ID suffix of every attempt except the first. It is unambiguous, because run IDs contain no hyphen.
ATTEMPT_SUFFIX = re.compile(r"-([2-9]|[1-9][0-9]+)$", re.ASCII)
OUT_OF_MEMORY = "OOMKilled"
# After this failure a pause may help, because a service that the program needs may be down. Other failures, such as a
# lost node, need no pause.
PROGRAM_FAILURE = "ExitCode"
# The pause doubles with each retry. These are also the kubelet's defaults for crashing containers.
BACKOFF = Backoff(10, 300)
MAX_GROWTHS = 20  # a factor close to 1 would otherwise cause many retries
STEP = 2**20  # memory grows to a multiple of this many bytes, so that amounts stay readable

# A log cursor is a position in the log of one attempt. Later attempts have greater cursors.
POSITIONS = 2**40  # larger than any log, and 8,000 times this is still an exact integer in JavaScript


def execution_of(run_id: str, attempt: int) -> ExecutionId:
    """The execution ID of an attempt. For the first attempt, this is the run ID."""
    return ExecutionId(run_id if attempt == 1 else f"{run_id}-{attempt}")


def run_id_of(execution_id: str) -> str:
    """The run ID of an execution."""
    return ATTEMPT_SUFFIX.sub("", execution_id)


def attempt_of(execution_id: str) -> int:
    """The attempt number of an execution."""
    match = ATTEMPT_SUFFIX.search(execution_id)
    return int(match[1]) if match else 1


def describe_execution(execution_id: str) -> str:
    """The name of an execution in messages."""
    run, number = f"run {run_id_of(execution_id)}", attempt_of(execution_id)
    return run if number == 1 else f"attempt {number} of {run}"


def last_started_attempt(run: RunRecord) -> int:
    """The number of the last attempt that was started: the previous one while a run is waiting for a retry."""
    # A run that is waiting for a retry already has the number of the next attempt, but no server yet.
    return run.attempt if run.server_id is not None else max(run.attempt - 1, 1)


def is_paused(run: RunRecord, now: datetime) -> bool:
    """Whether a run is in the pause before its next attempt."""
    return run.retry_at is not None and run.retry_at > now


@dataclass(frozen=True)
class RetryPolicy:
    """The planned retries of a run. Amounts are per pod, in bytes."""

    retries: int = 0
    retry_on: tuple[str, ...] = get_args(RetryReason)
    grow: Fraction | None = None
    pods: int = 1
    request: int = 0
    limit: int | None = None
    max_memory: int = MAXIMUM  # applies to the limit, or to the request of runs without a limit

    @classmethod
    def of(cls, plan: PlanRecord) -> "RetryPolicy":
        """The retry policy from a plan. Memory that a compute resource sets does not grow."""
        # The stored plan is used, not the current policies: a retry must not change what was accepted.
        settings: Mapping[str, Any] = {setting["path"]: setting for setting in plan.plan["settings"]}
        values = {path: setting["value"] for path, setting in settings.items() if setting["value"] is not None}
        owner = settings.get("resources.mem.requests", {}).get("source", {}).get("layer")
        grow = values.get("on_oom.grow")
        retry_on = plan.request.get("function", {}).get("retry_on")
        return cls(
            retries=values.get("retries", 0),
            retry_on=cls.retry_on if retry_on is None else tuple(retry_on),
            # JSON stores the factor as a float. str() restores the decimal: Fraction(1.1) is slightly more than 11/10.
            grow=None if grow is None or owner == Layer.COMPUTE_RESOURCE else Fraction(str(grow)),
            pods=values.get("replicas", 1),
            request=_read_bytes(values.get("resources.mem.requests")) or 0,
            limit=_read_bytes(values.get("resources.mem.limits")),
            max_memory=_read_bytes(values.get("on_oom.max")) or MAXIMUM,
        )

    def memory_of(self, run: RunRecord) -> int:
        """The memory request of one pod in the current attempt."""
        return self.request if run.mem_bytes == self.request * self.pods else run.mem_bytes // self.pods

    def limit_with(self, request: int) -> int | None:
        """The memory limit for a request. It grows in proportion to the request."""
        return None if self.limit is None else -(-self.limit * request // self.request)

    def grow_from(self, request: int) -> int | None:
        """The memory request of the next attempt; None if it cannot grow."""
        if self.grow is None or not self.request:
            return None
        # -(-a // b) rounds up. Rounding down could return the same amount for a small factor.
        grown = -(-(request * self.grow) // STEP) * STEP
        # `max_memory` applies to the limit. Request and limit grow in proportion, so convert it to a maximum request.
        maximum = self.max_memory * self.request // (self.limit or self.request)
        # The total memory of all pods is stored as a 64-bit integer.
        increased = min(grown, maximum, MAXIMUM // self.pods)
        return increased if increased > request else None


@dataclass(frozen=True)
class AttemptHistory:
    """A run's retry policy, and the memory of each previous attempt."""

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    previous_memory: Sequence[int] = ()


NO_HISTORY = AttemptHistory()


@dataclass(frozen=True)
class NextAttempt:
    """The next attempt of a run: its memory, the pause before it, and a message."""

    mem_bytes: int
    pause_seconds: float
    message: str


@dataclass(frozen=True)
class NoRetry:
    """No further attempt. The message is empty if no retries were requested."""

    message: str = ""


def decide_next(run: RunRecord, reason: str, history: AttemptHistory) -> NextAttempt | NoRetry:
    """Decide what follows a failed attempt. Attempts with more memory do not count as retries."""
    policy = history.policy
    # Memory increases are counted from the previous attempts, because only the memory of each attempt is stored.
    growths = sum(before < after for before, after in pairwise([*history.previous_memory, run.mem_bytes]))
    retries_left = policy.retries - (run.attempt - 1 - growths)
    request, number = policy.memory_of(run), run.attempt + 1
    increased = policy.grow_from(request) if growths < MAX_GROWTHS else None
    # This comes before normal retries: with the same memory, the program would most likely fail again.
    if reason == OUT_OF_MEMORY and increased is not None:
        memory = format_memory(policy.limit_with(increased) or increased)
        return NextAttempt(increased * policy.pods, 0, f"attempt {number} starts now with {memory} of memory")
    # Attempts with more memory are in addition to the retries.
    total = 1 + policy.retries + growths
    if retries_left > 0 and reason in policy.retry_on:
        pause = BACKOFF.pause(policy.retries - retries_left) if reason == PROGRAM_FAILURE else 0
        starts = f"starts in {pause:g} s" if pause else "starts now"
        return NextAttempt(run.mem_bytes, pause, f"attempt {number} of {total} {starts}")
    return NoRetry("; ".join(_describe_end(run, reason, policy, total, retries_left)))


def format_memory(amount: int) -> str:
    """An amount of memory for messages, such as 1.5 GiB."""
    return describe_amount("memory", amount * NANOS)


def join_cursor(attempt: int, position: int) -> int:
    """The cursor of a position in the log of an attempt. For the first attempt it equals the position."""
    return (attempt - 1) * POSITIONS + position


def split_cursor(cursor: int) -> tuple[int, int]:
    """Split a cursor into the attempt and the position in its log."""
    return cursor // POSITIONS + 1, cursor % POSITIONS


def _describe_end(run: RunRecord, reason: str, policy: RetryPolicy, total: int, retries_left: int) -> list[str]:
    messages = []
    if reason == OUT_OF_MEMORY and policy.grow is not None:
        request = policy.memory_of(run)
        messages.append(f"its memory cannot grow beyond {format_memory(policy.limit_with(request) or request)}")
    if retries_left > 0:
        excluded = " (not in retry_on)" if reason in get_args(RetryReason) else ""
        messages.append(f"not retried after {reason}{excluded}")
    elif total > 1:
        messages.append(f"that was attempt {run.attempt} of {total}")
    return messages


def _read_bytes(text: str | None) -> int | None:
    """An amount from a plan, in bytes; None if unset or unlimited."""
    return None if text is None or text == "unlimited" else Quantity.parse(text).units
