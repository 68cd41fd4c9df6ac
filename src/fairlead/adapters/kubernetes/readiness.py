"""Whether the pods of a run that serves answer, and what follows from that for the run."""

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.adapters.exits import describe_times
from fairlead.adapters.kubernetes.objects import MainObject, ObservedPod
from fairlead.model.observations import Observation, Phase

SEVERITY = (Phase.STARTING, Phase.RUNNING, Phase.PENDING, Phase.DEGRADED)  # the worst last
OTHERS = "the others are being started"
OUT_OF_MEMORY = "OOMKilled"


class PodProblem(NamedTuple):
    """What keeps a pod from running, or from answering."""

    phase: Phase
    reason: str
    message: str


def most_severe(troubles: Sequence[PodProblem]) -> PodProblem:
    """The one that is told of several."""
    return max(troubles, key=lambda trouble: SEVERITY.index(trouble.phase) if trouble.reason else -1)


def observe_readiness(main: MainObject, ready: int, troubles: Sequence[PodProblem]) -> Observation:
    """How a run is that serves, of whose pods so many answer, and the others have troubles."""
    wanted = main.wanted
    if ready >= wanted:
        return Observation(Phase.RUNNING, "Ready", "answers" if wanted == 1 else f"all {wanted} replicas answer")
    worst = most_severe(troubles) if troubles else PodProblem(Phase.PENDING, "", "")
    if not ready:
        return Observation(*worst)
    told = f"{ready} of {wanted} replicas answer; {(worst.reason and worst.message) or OTHERS}"
    return Observation(Phase.RUNNING, worst.reason or "Ready", told)


def find_readiness_problem(main: MainObject, pod: ObservedPod, ended: str) -> PodProblem | None:
    """Why a pod does not answer whose container was started; None where it does. `ended`: how it ended before."""
    if pod.is_ready:
        return None
    if pod.ended is not None:
        going = pod.running_since is not None
        times = describe_times(pod.restarts if going else pod.restarts + 1)
        on = f"was started again: nothing listens on port {main.port} yet" if going else "is started again"
        return PodProblem(Phase.DEGRADED, crash_reason(pod), f"{ended}; it has ended {times}, and {on}")
    ready = pod.conditions.get("Ready")
    if ready is None or ready.since is None or pod.running_since is None or ready.since <= pod.running_since:
        return PodProblem(Phase.STARTING, "", f"is being started: nothing listens on port {main.port} yet")
    return PodProblem(Phase.DEGRADED, "NotReady", f"its process runs, and nothing answers on port {main.port} any more")


def crash_reason(pod: ObservedPod) -> str:
    """The reason that is told of a pod that ends, and is started again."""
    return OUT_OF_MEMORY if pod.ended is not None and pod.ended.reason == OUT_OF_MEMORY else "CrashLoopBackOff"
