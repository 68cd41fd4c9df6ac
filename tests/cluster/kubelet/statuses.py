"""Statuses of pods and containers."""

from datetime import UTC, datetime

from tests.cluster.clients import Object
from tests.cluster.kubelet.containers import Ended

LONGEST_MESSAGE = 4096


def now() -> str:
    """This moment, as Kubernetes writes times."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def waiting(reason: str, message: str = "") -> Object:
    """The state of a container that has not started."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated(ended: Ended, identity: str, started: str, message: str) -> Object:
    """The state of a container that has ended."""
    cut = message.encode()[:LONGEST_MESSAGE].decode("utf-8", "ignore")
    message_field = {"message": cut} if cut else {}
    times = {"startedAt": started, "finishedAt": now()}
    return {
        "terminated": {
            "exitCode": ended.code,
            "reason": ended.reason,
            "containerID": identity,
            **times,
            **message_field,
        }
    }


def container_status(container: Object, state: Object, last: Object, restarts: int, ready: bool) -> Object:
    """The status of a container."""
    running = "running" in state
    image = container["image"]
    known = {} if "waiting" in state and not last else {"imageID": f"{image}@sha256:{'0' * 64}"}
    inside = next(iter(state.values())) or {}
    identity = {"containerID": inside["containerID"]} if "containerID" in inside else {}
    shown = {"running": {"startedAt": inside["startedAt"]}} if running else state
    return {
        "name": container["name"],
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": running,
        "restartCount": restarts,
        "state": shown,
        "lastState": last,
        **known,
        **identity,
    }


def conditions(phase: str, ready: bool, *, evicted: bool = False) -> list[Object]:
    """The status of a pod, including the conditions of the scheduler."""
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
        {"type": kind, "status": str(true), "lastTransitionTime": now(), "reason": why} for kind, true, why in states
    ]
