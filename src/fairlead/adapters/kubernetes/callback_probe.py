"""Whether pods reach the server: one is made that tries it, and is removed whatever comes of it."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from fairlead.adapters.kubernetes.capabilities import find_object
from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.core.manifests.probes import PROBE_LABEL, REACHED, render_probe
from fairlead.errors import Unavailable
from fairlead.model.observations import JSON, Check
from fairlead.model.scopes import Cluster

PATIENCE_SECONDS = 35.0  # so that the whole check is answered within a minute
POD_SECONDS = 60
PAUSE_SECONDS = 0.25
NAME = "callbacks"
OVER = ("Succeeded", "Failed")
LIMITS = (
    "pods do not call back, because the cluster has no server_url: code up to 1 MB and results up to 4000 bytes work; "
    "larger code, larger results and files of the output folder need it"
)


def check_callbacks(
    api: ApiClient,
    cluster: Cluster,
    namespaces: Sequence[str],
    *,
    patience: float = PATIENCE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """Whether a pod in the first of these namespaces that is there reaches the server."""
    if cluster.server_url is None:
        hint = (
            f"fairlead clusters edit {cluster.name} --server-url https://..., an address of this server that pods reach"
        )
        yield Check(NAME, "warning", LIMITS, hint)
        return
    namespace = next((name for name in namespaces if _is_there(api, name)), None)
    if namespace is None:
        message = f"whether pods reach {cluster.server_url} was not tried: there is no namespace for it yet"
        yield Check(NAME, "warning", message, "make a project on the cluster, run something in it, then check again")
        return
    try:
        yield from _try(api, cluster, namespace, patience, sleep)
    except ApiError as refused:
        message = f"no pod could be made in {namespace} to try it: {refused}"
        yield Check(NAME, "problem", message, "mend what the cluster says; runs would be refused in the same way")


def _try(
    api: ApiClient, cluster: Cluster, namespace: str, patience: float, sleep: Callable[[float], None]
) -> Iterator[Check]:
    name = f"fairlead-probe-{secrets.token_hex(4)}"
    path = path_of("v1", "pods", namespace)
    _sweep(api, path)
    made = api.create(path, render_probe(cluster, namespace, name, POD_SECONDS))
    try:
        pod = made
        for _ in range(round(patience / PAUSE_SECONDS)):
            if pod.get("status", {}).get("phase") in OVER:
                break
            sleep(PAUSE_SECONDS)
            pod = api.get(f"{path}/{name}")
        yield _judge(pod, cluster, patience)
    finally:
        # Should this fail, the pod has ended by itself by then, and the next check removes it.
        with contextlib.suppress(ApiError, Unavailable):
            api.delete(f"{path}/{name}", uid=made["metadata"]["uid"])


def _is_there(api: ApiClient, namespace: str) -> bool:
    found = find_object(api, path_of("v1", "namespaces", name=namespace))
    return found is not None and "deletionTimestamp" not in found["metadata"]


def _sweep(api: ApiClient, path: str) -> None:
    """Remove what a check left behind that was interrupted."""
    for pod in api.list(path, labelSelector=f"{PROBE_LABEL}=true")["items"]:
        if pod.get("status", {}).get("phase") in OVER:
            api.delete(f"{path}/{pod['metadata']['name']}", uid=pod["metadata"]["uid"])


def _judge(pod: JSON, cluster: Cluster, patience: float) -> Check:
    status = pod.get("status", {})
    container: JSON = next(iter(status.get("containerStatuses", ())), {})
    state = container.get("state", {})
    told = state.get("terminated", {}).get("message", "").strip()
    if status.get("phase") == "Succeeded" and told == REACHED:
        return Check(NAME, "ok", f"pods reach the server at {cluster.server_url}")
    if status.get("phase") == "Succeeded" and told:
        message = f"pods do not reach the server at {cluster.server_url}: {told}"
        hint = (
            "see whether the server listens there, and what is in the way: a network policy, a firewall, a certificate"
        )
        return Check(NAME, "problem", message, hint)
    waiting = state.get("waiting") or state.get("terminated") or {}
    conditions = {said["type"]: said for said in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    if status.get("phase") not in OVER and scheduled.get("status") == "False":
        waiting = scheduled
    reason = ": ".join(filter(None, (waiting.get("reason", ""), waiting.get("message", ""))))
    said = reason or status.get("message") or f"it is {status.get('phase', 'Pending')}"
    if status.get("phase") in OVER:
        message = f"the pod that tries {cluster.server_url} failed ({cluster.python_image}): {said}"
        return Check(
            NAME, "problem", message, "see whether python_image has python3 and may run as another user than root"
        )
    message = f"the pod that tries {cluster.server_url} did not run within {patience:.0f} s: {said}"
    return Check(
        NAME, "warning", message, f"mend what it says; while {cluster.python_image} is being fetched, check again"
    )
