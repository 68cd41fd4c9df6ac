"""From what a cluster tells of a run's objects to what is observed of the run: a phase, a reason, and a sentence."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from fairlead.adapters.exits import describe_exit, describe_times
from fairlead.adapters.kubernetes.kueue import KueueQueues
from fairlead.adapters.kubernetes.kueue_messages import describe_queued
from fairlead.adapters.kubernetes.objects import ContainerTermination, MainObject, ObservedPod, WarningEvent
from fairlead.adapters.kubernetes.readiness import (
    PodProblem,
    crash_reason,
    find_readiness_problem,
    most_severe,
    observe_readiness,
)
from fairlead.adapters.kubernetes.views import RunView
from fairlead.core.outcomes import parse_outcome, read_result
from fairlead.model.observations import JSON, Observation, Phase

TAIL_LINES, LONGEST_TAIL = 3, 600
EARLIEST = datetime.min.replace(tzinfo=UTC)

# Why a container waits, as the kubelet calls it: that it is on its way, and that its image does not come.
ON_ITS_WAY = ("", "ContainerCreating", "PodInitializing")
NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
ENDED_BY_NODE = "TerminationByKubelet"
DISRUPTIONS = {
    "PreemptionByScheduler": ("Preempted", "it made room for one with a higher priority, and waits for another place"),
    "DeletionByTaintManager": ("NodeLost", "its node went away, and it waits for another place"),
    "DeletionByPodGC": ("NodeLost", "its node went away, and it waits for another place"),
    "EvictionByEvictionAPI": ("Evicted", "it had to leave its node, and waits for another place"),
    ENDED_BY_NODE: ("Evicted", "its node has ended it, and it waits for another place"),
}
NOT_STARTED = ("StartError", "ContainerCannotRun")
FORGOTTEN = "ContainerStatusUnknown"  # the kubelet does not find again what it had started
IN_THE_WAY = ("FailedCreate", "FailedMount", "FailedAttachVolume")
NO_VOLUME, CLAIM = "ProvisioningFailed", "PersistentVolumeClaim"
PULLING = re.compile(r"^Back-off pulling image .*?: ErrImagePull: ")  # which stands before what was said at first
OF_OTHERS = re.compile(r" (no new claims to deallocate, )?preemption: .*", re.DOTALL)
NEW_NAME = re.compile(r'^Error creating: (pods "[^"]*" is forbidden: )?')  # another one with each try
OVER = ("Complete", "Failed")
ABOUT_TO_END = ("FailureTarget", "SuccessCriteriaMet")


@dataclass(frozen=True)
class ObservationContext:
    """What else is known while a run is observed: warnings, why a pod fits nowhere, whether its node is there.

    `queues`: those of Kueue, where it decides who goes on.
    """

    warnings: Sequence[WarningEvent] = ()
    explain: Callable[[ObservedPod], str] = lambda _pod: ""
    describe_node_loss: Callable[[ObservedPod], str] = lambda _pod: ""
    queues: KueueQueues | None = None


def observe(view: RunView, context: ObservationContext) -> Observation | None:
    """What is seen of a run; None where it was not released, so that nothing of it has begun."""
    main = view.main
    if main is None or not main.released:
        return None
    pods = sorted(view.pods.values(), key=lambda pod: (pod.index, pod.created_at or EARLIEST))
    if main.deleting:
        return observe_ending(pods, "is being ended")
    for name, tell in zip(OVER, (_succeed, _fail), strict=True):
        if main.kind == "Job" and _holds(main, name):
            seen, since = tell(main, pods), main.conditions[name].since
            return replace(seen, started_at=_started_at(pods), finished_at=_finished_at(pods) or since)
    return replace(_go_on(view, main, pods, context), started_at=_started_at(pods))


def has_outdated_pods(view: RunView) -> bool:
    """Whether a Job has ended, and what is known of its pods is older than that."""
    main, over = view.main, [pod for pod in view.pods.values() if pod.is_over]
    if main is None or main.kind != "Job" or main.deleting or not any(_holds(main, name) for name in OVER):
        return False
    enough = len(over) >= main.wanted if _holds(main, OVER[0]) else any(pod.phase == "Failed" for pod in over)
    return not enough or len(over) < len(view.pods)


def observe_ending(pods: Sequence[ObservedPod], message: str) -> Observation:
    """What is seen of a run that is being removed, for as long as something of it is there."""
    phase = Phase.RUNNING if any(pod.began for pod in pods) else Phase.STARTING
    return Observation(phase, "Ending", message, started_at=_started_at(pods))


def read_termination_message(pods: Sequence[ObservedPod]) -> JSON:
    """What the first pod left in its termination message: a result or an error, and what was lost.

    Of several that took each other's place, the last one counts.
    """
    left = [pod for pod in pods if pod.ended is not None and pod.ended.message.startswith("{")]
    first = min((pod.index for pod in left), default=0)
    last = max((pod for pod in left if pod.index == first), key=lambda pod: pod.created_at or EARLIEST, default=None)
    return {} if last is None or last.ended is None else parse_outcome(last.ended.message.encode()) or {}


def _go_on(view: RunView, main: MainObject, pods: list[ObservedPod], context: ObservationContext) -> Observation:
    alive = [pod for pod in pods if not pod.is_over]
    if main.suspended:
        return _observe_suspended(main, context.queues)
    if main.kind == "Deployment":
        return _observe_served(view, main, alive, context)
    if (not alive and pods and view.disrupted is None) or any(_holds(main, name) for name in ABOUT_TO_END):
        return Observation(Phase.RUNNING)  # its pods have ended, and the Job is about to say what came of it
    if not alive:
        return Observation(Phase.PENDING, *_describe_missing(view, context))
    troubles = [trouble for pod in alive if (trouble := _find_trouble(pod, view, context)) is not None]
    if not troubles:
        return Observation(Phase.RUNNING)
    worst, running = most_severe(troubles), len(alive) - len(troubles)
    if running:
        told = f"{running} of {main.wanted} pods run; {worst.message or 'the others are being started'}"
        return Observation(Phase.RUNNING, worst.reason, told)
    return Observation(*worst)


def _observe_served(
    view: RunView, main: MainObject, alive: list[ObservedPod], context: ObservationContext
) -> Observation:
    pods = [pod for pod in alive if not pod.deleting]
    if not pods:
        return Observation(Phase.PENDING, *_describe_missing(view, context))
    found = [_find_silence(pod, main, view, context) for pod in pods]
    return observe_readiness(main, found.count(None), [trouble for trouble in found if trouble is not None])


def _find_silence(pod: ObservedPod, main: MainObject, view: RunView, context: ObservationContext) -> PodProblem | None:
    """What keeps a pod from answering; None where it answers."""
    trouble = _find_trouble(pod, view, context)
    if trouble is not None and (trouble.reason or not pod.began):
        return trouble._replace(phase=Phase.DEGRADED) if trouble.phase is Phase.RUNNING else trouble
    return find_readiness_problem(main, pod, _explain_end(pod, pod.ended)[1] if pod.ended is not None else "")


def _find_trouble(pod: ObservedPod, view: RunView, context: ObservationContext) -> PodProblem | None:
    """What keeps a pod from running; None where it runs."""
    if pod.running_since is not None:
        if not (lost := context.describe_node_loss(pod)):
            return None
        message = f"its node {lost}: what has become of it is known once the node is back, or was removed"
        return PodProblem(Phase.RUNNING, "NodeLost", message)
    reason, words = pod.waiting
    scheduled = pod.conditions.get("PodScheduled")
    if not pod.node:
        if scheduled is None or scheduled.status == "True":
            return PodProblem(Phase.PENDING, "", "")
        why, disruption = _describe_disruption(view)
        missing, volume = _describe_volume(scheduled.message, context.warnings)
        ours = "; ".join(filter(None, [disruption, volume, context.explain(pod)]))
        theirs = OF_OTHERS.sub("", scheduled.message)
        told = f"{ours}; the scheduler says: {theirs}" if ours else theirs
        return PodProblem(Phase.PENDING, why or missing or scheduled.reason, told)
    if reason == "CrashLoopBackOff":
        told = "" if pod.ended is None else f"{_explain_end(pod, pod.ended)[1]}; "
        message = f"{told}it has ended {describe_times(pod.restarts + 1)}, and is started again after a pause"
        return PodProblem(Phase.DEGRADED, crash_reason(pod), message)
    if reason in NO_IMAGE:
        return PodProblem(
            Phase.STARTING, "ImagePullBackOff", f"its image cannot be pulled: {PULLING.sub('', words) or reason}"
        )
    if reason not in ON_ITS_WAY:
        return PodProblem(Phase.STARTING, reason, f"its container cannot be made: {words or reason}")
    for warned in context.warnings:
        if warned.reason in IN_THE_WAY and warned.about == pod.uid:
            return PodProblem(Phase.STARTING, warned.reason, warned.message)
    return PodProblem(Phase.STARTING, "", "")


def _observe_suspended(main: MainObject, queues: KueueQueues | None) -> Observation:
    """A Job that is held: by Kueue, which is to let it go, or by somebody."""
    if not main.queue:
        message = f"somebody has suspended {main.kind} {main.name}: it goes on once that is taken back"
        return Observation(Phase.PENDING, "Suspended", message)
    if queues is None:
        return Observation(Phase.PENDING, "Queued", f"waits in queue {main.queue} of the cluster")
    return Observation(
        Phase.PENDING, *describe_queued(main, queues.find(main)), queue_position=partial(queues.queue_position, main)
    )


def _describe_missing(view: RunView, context: ObservationContext) -> tuple[str, str]:
    """Why there is no pod that could run."""
    since = EARLIEST if view.disrupted is None else view.disrupted.since or EARLIEST
    for warned in context.warnings:
        if warned.reason in IN_THE_WAY and (warned.at is None or warned.at > since):
            return warned.reason, f"its pod cannot be made: {NEW_NAME.sub('', warned.message)}; it is tried again"
    return _describe_disruption(view)


def _describe_disruption(view: RunView) -> tuple[str, str]:
    """Why its last pod had to leave, where it had to."""
    found = None if view.disrupted is None else DISRUPTIONS.get(view.disrupted.reason)
    if found is None or view.disrupted is None:
        return "", ""
    words = view.disrupted.message.strip() if view.disrupted.reason == ENDED_BY_NODE else ""
    return found[0], f"{found[1]}: {words}" if words else found[1]


def _describe_volume(said: str, warnings: Sequence[WarningEvent]) -> tuple[str, str]:
    """Why there is no volume that the scheduler waits for."""
    for warned in warnings:
        if warned.reason == NO_VOLUME and CLAIM in said:
            return warned.reason, f"its volume {warned.about_name} cannot be made: {warned.message}"
    return "", ""


def _succeed(_main: MainObject, pods: Sequence[ObservedPod]) -> Observation:
    handed = read_termination_message(pods)
    message = ""
    if isinstance(lost := handed.get("lost"), dict):
        message = f"has completed; {lost.get('files')} of its files could not be handed over: {lost.get('why')}"
    result = handed.get("result")
    result = read_result(result) if isinstance(result, dict) else None
    return Observation(Phase.SUCCEEDED, "", message, exit_code=0, result=result)


def _fail(main: MainObject, pods: Sequence[ObservedPod]) -> Observation:
    failed = main.conditions["Failed"]
    ended = [pod for pod in pods if pod.phase == "Failed"]
    pod = min(ended, key=lambda pod: (pod.ended and pod.ended.finished_at) or EARLIEST, default=None)
    if pod is None:
        message = f"somebody or something has removed its pod: {failed.message}"
        return Observation(Phase.FAILED, "PodRemoved", message)
    reason, message = _explain_end(pod, pod.ended)
    if reason == "DeadlineExceeded":
        message = f"ran longer than its deadline of {main.deadline} seconds"
    which = f"pod {pod.index}: " if main.wanted > 1 else ""
    error = read_termination_message([pod]).get("error")
    return Observation(
        Phase.FAILED,
        reason,
        which + message,
        exit_code=None if pod.ended is None else pod.ended.code,
        error=error if isinstance(error, dict) else None,
    )


def _explain_end(pod: ObservedPod, ended: ContainerTermination | None) -> tuple[str, str]:
    """Why a pod failed: a reason to match, and a sentence."""
    if pod.reason in ("Evicted", "DeadlineExceeded") or ended is None:
        return pod.reason or "Failed", pod.message.strip() or "failed, and nothing tells why"
    if ended.reason == "OOMKilled":
        limit = f"its limit of {pod.memory}" if pod.memory else "its node could give"
        return "OOMKilled", f"used more memory than {limit}"
    if ended.reason in NOT_STARTED:
        return "StartFailed", f"its container could not be started: {ended.message or ended.reason}"
    if ended.reason == FORGOTTEN:
        return "NodeLost", f"its node {pod.node} was started anew while it ran"
    error = read_termination_message([pod]).get("error")
    if isinstance(error, dict) and error.get("message"):
        return "ExitCode", f"{error.get('type', 'error')}: {error['message']}"
    tail = "" if ended.message.startswith("{") else _last_lines(ended.message)
    return "ExitCode", describe_exit(ended.code) + (f": {tail}" if tail else "")


def _holds(main: MainObject, name: str) -> bool:
    condition = main.conditions.get(name)
    return condition is not None and condition.status == "True"


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-TAIL_LINES:])[-LONGEST_TAIL:]


def _started_at(pods: Sequence[ObservedPod]) -> datetime | None:
    times = [pod.running_since or (pod.ended and pod.ended.started_at) for pod in pods]
    return min((time for time in times if time), default=None)


def _finished_at(pods: Sequence[ObservedPod]) -> datetime | None:
    return max((pod.ended.finished_at for pod in pods if pod.ended and pod.ended.finished_at), default=None)
