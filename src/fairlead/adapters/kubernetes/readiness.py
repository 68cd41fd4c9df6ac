"""Readiness of a served run's pods."""

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.adapters.exits import describe_times
from fairlead.adapters.kubernetes.objects import MainObject, ObservedPod
from fairlead.model.runs import Observation, Phase

SEVERITY = (Phase.STARTING, Phase.RUNNING, Phase.PENDING, Phase.DEGRADED)  # most severe last
OTHERS = "the others are starting"
OUT_OF_MEMORY = "OOMKilled"


class PodProblem(NamedTuple):
    """Why a pod is not running or not ready."""

    phase: Phase
    reason: str
    message: str


def most_severe(problems: Sequence[PodProblem]) -> PodProblem:
    """The most severe of several problems."""
    # A problem without a reason is normal progress.
    return max(problems, key=lambda problem: SEVERITY.index(problem.phase) if problem.reason else -1)


def observe_readiness(main: MainObject, ready: int, problems: Sequence[PodProblem]) -> Observation:
    """The state of a served run, given how many pods are ready and what is wrong with the others."""
    wanted = main.wanted
    if ready >= wanted:
        message = "ready to serve requests" if wanted == 1 else f"all {wanted} replicas are ready"
        return Observation(Phase.RUNNING, "Ready", message)
    worst = most_severe(problems) if problems else PodProblem(Phase.PENDING, "", "")
    if not ready:
        return Observation(*worst)
    message = f"{ready} of {wanted} replicas are ready; {(worst.reason and worst.message) or OTHERS}"
    return Observation(Phase.RUNNING, worst.reason or "Ready", message)


def find_readiness_problem(main: MainObject, pod: ObservedPod, ended: str) -> PodProblem | None:
    """Why a started pod is not ready, or None if it is. `ended`: the message from its previous exit."""
    if pod.is_ready:
        return None
    not_yet = f"not accepting connections on port {main.port} yet"
    if pod.ended is not None:
        running = pod.running_since is not None
        times = describe_times(pod.restarts if running else pod.restarts + 1)
        restart = f"was restarted: {not_yet}" if running else "will restart"
        return PodProblem(Phase.DEGRADED, crash_reason(pod), f"{ended}; it has exited {times} and {restart}")
    ready = pod.conditions.get("Ready")
    # The condition has not changed since the container started, so the pod has never been ready.
    if ready is None or ready.since is None or pod.running_since is None or ready.since <= pod.running_since:
        return PodProblem(Phase.STARTING, "", f"starting: {not_yet}")
    message = f"running, but no longer accepting connections on port {main.port}"
    return PodProblem(Phase.DEGRADED, "NotReady", message)


def crash_reason(pod: ObservedPod) -> str:
    """The run reason for a pod that exits and restarts."""
    return OUT_OF_MEMORY if pod.ended is not None and pod.ended.reason == OUT_OF_MEMORY else "CrashLoopBackOff"
