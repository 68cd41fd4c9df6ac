"""Derives the state of a run from its Kubernetes objects: phase, reason, message and readiness."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from fairlead.adapters.kubernetes.kueue import KueueQueues, describe_queued
from fairlead.adapters.kubernetes.objects import ContainerTermination, MainObject, ObservedPod, WarningEvent
from fairlead.adapters.kubernetes.views import RunView
from fairlead.adapters.outcomes import describe_exit, describe_times, parse_outcome, read_result
from fairlead.model.runs import JSON, Observation, Phase

SEVERITY = (Phase.STARTING, Phase.RUNNING, Phase.PENDING, Phase.DEGRADED)  # most severe last
OTHERS = "the others are starting"
OUT_OF_MEMORY = "OOMKilled"

TAIL_LINES, MAX_TAIL = 3, 600
EARLIEST = datetime.min.replace(tzinfo=UTC)

# Reasons why containers wait: normal progress, and images that cannot be pulled.
IN_PROGRESS = ("", "ContainerCreating", "PodInitializing")
# The kubelet alternates between some of the image errors; the run shows one reason for all of them.
IMAGE_ERRORS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
KUBELET_TERMINATION = "TerminationByKubelet"
DISRUPTIONS = {
    "PreemptionByScheduler": ("Preempted", "preempted by a pod with higher priority, waiting for another node"),
    "DeletionByTaintManager": ("NodeLost", "its node was lost, waiting for another node"),
    "DeletionByPodGC": ("NodeLost", "its node was lost, waiting for another node"),
    "EvictionByEvictionAPI": ("Evicted", "evicted from its node, waiting for another node"),
    KUBELET_TERMINATION: ("Evicted", "terminated by its node, waiting for another node"),
}
START_ERRORS = ("StartError", "ContainerCannotRun")
STATUS_UNKNOWN = "ContainerStatusUnknown"  # the kubelet lost track of the container, for example after a reboot
BLOCKING_EVENTS = ("FailedCreate", "FailedMount", "FailedAttachVolume")
PROVISIONING_FAILED, CLAIM = "ProvisioningFailed", "PersistentVolumeClaim"
PULLING = re.compile(r"^Back-off pulling image .*?: ErrImagePull: ")  # hides the original error
# The scheduler also appends why preemption would not help, often repeating the same reasons.
PREEMPTION = re.compile(r" (no new claims to deallocate, )?preemption: .*", re.DOTALL)
# Removed from messages, because it contains a new pod name on each attempt.
CREATION_ERROR = re.compile(r'^Error creating: (pods "[^"]*" is forbidden: )?')
FINISHED = ("Complete", "Failed")
# Kubernetes has decided how the Job ends, but its remaining pods are still terminating.
ENDING = ("FailureTarget", "SuccessCriteriaMet")


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


@dataclass(frozen=True)
class ObservationContext:
    """Warnings and explanations for the pods of a run. `queues` is set if Kueue admits Jobs."""

    warnings: Sequence[WarningEvent] = ()
    explain: Callable[[ObservedPod], str] = lambda _pod: ""
    describe_node_loss: Callable[[ObservedPod], str] = lambda _pod: ""
    queues: KueueQueues | None = None


def observe(view: RunView, context: ObservationContext) -> Observation | None:
    """The state of a run, or None if it has not been released yet."""
    main = view.main
    if main is None or not main.released:
        return None  # the controller continues the start, which is idempotent
    pods = sorted(view.pods.values(), key=lambda pod: (pod.index, pod.created_at or EARLIEST))
    if main.deleting:
        return observe_ending(pods, "stopping")
    for name, observe_end in zip(FINISHED, (_observe_success, _observe_failure), strict=True):
        if main.kind == "Job" and _is_true(main, name):
            observation, since = observe_end(main, pods), main.conditions[name].since
            return replace(observation, started_at=_started_at(pods), finished_at=_finished_at(pods) or since)
    return replace(_observe_active(view, main, pods, context), started_at=_started_at(pods))


def has_outdated_pods(view: RunView) -> bool:
    """Whether a Job has ended, but the watch has not reported the end of its pods yet."""
    main, ended = view.main, [pod for pod in view.pods.values() if pod.is_over]
    if main is None or main.kind != "Job" or main.deleting or not any(_is_true(main, name) for name in FINISHED):
        return False
    enough = len(ended) >= main.wanted if _is_true(main, FINISHED[0]) else any(pod.phase == "Failed" for pod in ended)
    return not enough or len(ended) < len(view.pods)


def observe_ending(pods: Sequence[ObservedPod], message: str) -> Observation:
    """The state of a run whose objects are being deleted."""
    phase = Phase.RUNNING if any(pod.began for pod in pods) else Phase.STARTING
    return Observation(phase, "Ending", message, started_at=_started_at(pods))


def read_termination_message(pods: Sequence[ObservedPod]) -> JSON:
    """The termination message of the first pod: its result or error, and files that could not be uploaded.

    If the pod was replaced, this is the latest pod's message.
    """
    # Any other message is the end of the log, which Kubernetes uses if the program wrote no message.
    written = [pod for pod in pods if pod.ended is not None and pod.ended.message.startswith("{")]
    first = min((pod.index for pod in written), default=0)
    last = max((pod for pod in written if pod.index == first), key=lambda pod: pod.created_at or EARLIEST, default=None)
    return {} if last is None or last.ended is None else parse_outcome(last.ended.message.encode()) or {}


def _observe_active(
    view: RunView, main: MainObject, pods: list[ObservedPod], context: ObservationContext
) -> Observation:
    alive = [pod for pod in pods if not pod.is_over]
    if main.suspended:
        return _observe_suspended(main, context.queues)
    if main.kind == "Deployment":
        return _observe_served(view, main, alive, context)
    if (not alive and pods and view.disrupted is None) or any(_is_true(main, name) for name in ENDING):
        return Observation(Phase.RUNNING)  # its pods have ended, and the Job will report the result shortly
    if not alive:
        return Observation(Phase.PENDING, *_describe_missing(view, context))
    problems = [problem for pod in alive if (problem := _find_problem(pod, view, context)) is not None]
    if not problems:
        return Observation(Phase.RUNNING)
    worst, running = most_severe(problems), len(alive) - len(problems)
    if running:
        message = f"{running} of {main.wanted} pods are running; {worst.message or OTHERS}"
        return Observation(Phase.RUNNING, worst.reason, message)
    return Observation(*worst)


def _observe_served(
    view: RunView, main: MainObject, alive: list[ObservedPod], context: ObservationContext
) -> Observation:
    pods = [pod for pod in alive if not pod.deleting]
    if not pods:
        return Observation(Phase.PENDING, *_describe_missing(view, context))
    problems = [_find_served_problem(pod, main, view, context) for pod in pods]
    return observe_readiness(main, problems.count(None), [problem for problem in problems if problem is not None])


def _find_served_problem(
    pod: ObservedPod, main: MainObject, view: RunView, context: ObservationContext
) -> PodProblem | None:
    """Why a pod is not ready to serve requests, or None if it is."""
    problem = _find_problem(pod, view, context)
    if problem is not None and (problem.reason or not pod.began):
        return problem._replace(phase=Phase.DEGRADED) if problem.phase is Phase.RUNNING else problem
    return find_readiness_problem(main, pod, _explain_end(pod, pod.ended)[1] if pod.ended is not None else "")


def _find_problem(pod: ObservedPod, view: RunView, context: ObservationContext) -> PodProblem | None:
    """Why a pod is not running, or None if it is."""
    if pod.running_since is not None:
        # The kubelet on a lost node cannot report anything, so its pods seem to be running.
        if not (lost := context.describe_node_loss(pod)):
            return None
        message = f"its node {lost}; the pod's state is unknown until the node comes back or is removed"
        return PodProblem(Phase.RUNNING, "NodeLost", message)
    reason, detail = pod.waiting
    scheduled = pod.conditions.get("PodScheduled")
    if not pod.node:
        if scheduled is None or scheduled.status == "True":
            return PodProblem(Phase.PENDING, "", "")
        disruption_reason, disruption = _describe_disruption(view)
        volume_reason, volume = _describe_volume(scheduled.message, context.warnings)
        explanation = "; ".join(filter(None, [disruption, volume, context.explain(pod)]))
        scheduler_message = PREEMPTION.sub("", scheduled.message)
        message = f"{explanation}; the scheduler says: {scheduler_message}" if explanation else scheduler_message
        return PodProblem(Phase.PENDING, disruption_reason or volume_reason or scheduled.reason, message)
    if reason == "CrashLoopBackOff":
        end = "" if pod.ended is None else f"{_explain_end(pod, pod.ended)[1]}; "
        # `restarts` does not include the latest exit until the container restarts.
        message = f"{end}it has exited {describe_times(pod.restarts + 1)} and will restart after a pause"
        return PodProblem(Phase.DEGRADED, crash_reason(pod), message)
    if reason in IMAGE_ERRORS:
        return PodProblem(
            Phase.STARTING, "ImagePullBackOff", f"its image cannot be pulled: {PULLING.sub('', detail) or reason}"
        )
    if reason not in IN_PROGRESS:
        return PodProblem(Phase.STARTING, reason, f"its container cannot be created: {detail or reason}")
    for event in context.warnings:
        if event.reason in BLOCKING_EVENTS and event.about == pod.uid:
            return PodProblem(Phase.STARTING, event.reason, event.message)
    return PodProblem(Phase.STARTING, "", "")


def _observe_suspended(main: MainObject, queues: KueueQueues | None) -> Observation:
    if not main.queue:
        message = f"{main.kind} {main.name} was suspended; the run will continue when it is resumed"
        return Observation(Phase.PENDING, "Suspended", message)
    if queues is None:
        return Observation(Phase.PENDING, "Queued", f"waiting in queue {main.queue} of the cluster")
    return Observation(
        Phase.PENDING, *describe_queued(main, queues.find(main)), queue_position=partial(queues.queue_position, main)
    )


def _describe_missing(view: RunView, context: ObservationContext) -> tuple[str, str]:
    """The reason and message for a run without pods."""
    # Warnings from before a disruption are about the disrupted pod.
    since = EARLIEST if view.disrupted is None else view.disrupted.since or EARLIEST
    for event in context.warnings:
        if event.reason in BLOCKING_EVENTS and (event.at is None or event.at > since):
            return event.reason, f"its pod cannot be created: {CREATION_ERROR.sub('', event.message)}; retrying"
    return _describe_disruption(view)


def _describe_disruption(view: RunView) -> tuple[str, str]:
    """The reason and message if the last pod was disrupted, else empty."""
    known = None if view.disrupted is None else DISRUPTIONS.get(view.disrupted.reason)
    if known is None or view.disrupted is None:
        return "", ""
    reason, message = known
    detail = view.disrupted.message.strip() if view.disrupted.reason == KUBELET_TERMINATION else ""
    return reason, f"{message}: {detail}" if detail else message


def _describe_volume(scheduler_message: str, warnings: Sequence[WarningEvent]) -> tuple[str, str]:
    """The reason and message if a volume that the scheduler is waiting for could not be provisioned, else empty."""
    for event in warnings:
        if event.reason == PROVISIONING_FAILED and CLAIM in scheduler_message:
            return event.reason, f"its volume {event.about_name} cannot be provisioned: {event.message}"
    return "", ""


def _observe_success(_main: MainObject, pods: Sequence[ObservedPod]) -> Observation:
    report = read_termination_message(pods)
    message = ""
    if isinstance(lost := report.get("lost"), dict):
        message = f"completed; {lost.get('files')} of its files could not be uploaded: {lost.get('why')}"
    result = report.get("result")
    result = read_result(result) if isinstance(result, dict) else None
    return Observation(Phase.SUCCEEDED, "", message, exit_code=0, result=result)


def _observe_failure(main: MainObject, pods: Sequence[ObservedPod]) -> Observation:
    failed = main.conditions["Failed"]
    ended = [pod for pod in pods if pod.phase == "Failed"]
    # The first failure is the cause: Kubernetes then terminates the other pods.
    pod = min(ended, key=lambda pod: (pod.ended and pod.ended.finished_at) or EARLIEST, default=None)
    if pod is None:
        message = f"its pod was removed: {failed.message}"
        return Observation(Phase.FAILED, "PodRemoved", message)
    reason, message = _explain_end(pod, pod.ended)
    if reason == "DeadlineExceeded":
        message = f"exceeded its deadline of {main.deadline} s"
    prefix = f"pod {pod.index}: " if main.wanted > 1 else ""
    error = read_termination_message([pod]).get("error")
    return Observation(
        Phase.FAILED,
        reason,
        prefix + message,
        exit_code=None if pod.ended is None else pod.ended.code,
        error=error if isinstance(error, dict) else None,
    )


def _explain_end(pod: ObservedPod, ended: ContainerTermination | None) -> tuple[str, str]:
    """The reason and message of a failed pod."""
    # The kubelet sets these reasons on the pod. The container's status, if there is one, shows only that it was killed.
    if pod.reason in ("Evicted", "DeadlineExceeded") or ended is None:
        return pod.reason or "Failed", pod.message.strip() or "failed for an unknown reason"
    if ended.reason == "OOMKilled":
        limit = f"its memory limit of {pod.memory}" if pod.memory else "the memory of its node"
        return "OOMKilled", f"exceeded {limit}"
    if ended.reason in START_ERRORS:
        return "StartFailed", f"its container could not be started: {ended.message or ended.reason}"
    if ended.reason == STATUS_UNKNOWN:
        return "NodeLost", f"its node {pod.node} restarted while the pod was running"
    error = read_termination_message([pod]).get("error")
    if isinstance(error, dict) and error.get("message"):
        return "ExitCode", f"{error.get('type', 'error')}: {error['message']}"
    # With FallbackToLogsOnError, Kubernetes uses the end of the log as the message.
    tail = "" if ended.message.startswith("{") else _last_lines(ended.message)
    return "ExitCode", describe_exit(ended.code) + (f": {tail}" if tail else "")


def _is_true(main: MainObject, name: str) -> bool:
    condition = main.conditions.get(name)
    return condition is not None and condition.status == "True"


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-TAIL_LINES:])[-MAX_TAIL:]


def _started_at(pods: Sequence[ObservedPod]) -> datetime | None:
    times = [pod.running_since or (pod.ended and pod.ended.started_at) for pod in pods]
    return min((time for time in times if time), default=None)


def _finished_at(pods: Sequence[ObservedPod]) -> datetime | None:
    return max((pod.ended.finished_at for pod in pods if pod.ended and pod.ended.finished_at), default=None)
