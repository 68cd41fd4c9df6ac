"""Statuses of pods and containers."""

from datetime import UTC, datetime

from tests.cluster.clients import Object
from tests.cluster.kubelet.containers import ExitStatus

MAX_MESSAGE = 4096


def now() -> str:
    """The current time in Kubernetes' format."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def waiting(reason: str, message: str = "") -> Object:
    """The state of a container that has not started."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(status: ExitStatus, identity: str, started: str, message: str) -> Object:
    """The state of a container that has ended."""
    truncated = message.encode()[:MAX_MESSAGE].decode("utf-8", "ignore")
    message_field = {"message": truncated} if truncated else {}
    times = {"startedAt": started, "finishedAt": now()}
    return {
        "terminated": {
            "exitCode": status.code,
            "reason": status.reason,
            "containerID": identity,
            **times,
            **message_field,
        }
    }


def container_status(container: Object, state: Object, last: Object, restarts: int, ready: bool) -> Object:
    """The status of a container."""
    running = "running" in state
    image = container["image"]
    image_id = {} if "waiting" in state and not last else {"imageID": f"{image}@sha256:{'0' * 64}"}
    details = next(iter(state.values())) or {}
    identity = {"containerID": details["containerID"]} if "containerID" in details else {}
    visible_state = {"running": {"startedAt": details["startedAt"]}} if running else state
    return {
        "name": container["name"],
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": running,
        "restartCount": restarts,
        "state": visible_state,
        "lastState": last,
        **image_id,
        **identity,
    }


def conditions(phase: str, ready: bool, *, evicted: bool = False) -> list[Object]:
    """The pod conditions that the kubelet reports."""
    done = phase == "Succeeded"
    reason = "PodCompleted" if done else None if ready else "ContainersNotReady"
    states: list[tuple[str, bool, str | None]] = [
        ("PodReadyToStartContainers", phase == "Running", None),
        ("Initialized", True, "PodCompleted" if done else None),
        ("Ready", ready, reason),
        ("ContainersReady", ready, reason),
    ]
    states += [("DisruptionTarget", True, "TerminationByKubelet")] if evicted else []
    return [
        {"type": kind, "status": str(is_true), "lastTransitionTime": now(), "reason": condition_reason}
        for kind, is_true, condition_reason in states
    ]
