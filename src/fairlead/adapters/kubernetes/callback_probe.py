"""Uses a probe pod to check whether pods can reach the server."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence

from fairlead.adapters.kubernetes.capabilities import find_object
from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.errors import Unavailable
from fairlead.manifests.pods import PROBE_LABEL, REACHED, render_probe
from fairlead.model.runs import JSON, Check
from fairlead.model.scopes import Cluster

PATIENCE_SECONDS = 35.0  # so that the whole check takes less than a minute
POD_SECONDS = 60  # deadline of the pod, in case the server is killed before it deletes the pod
PAUSE_SECONDS = 0.25
NAME = "callbacks"
ENDED = ("Succeeded", "Failed")
LIMITS = (
    "pods cannot call the server because the cluster has no server_url: code is limited to 1 MB and results to "
    "4000 bytes, and output files are not saved"
)


def check_callbacks(
    api: KubernetesClient,
    cluster: Cluster,
    namespaces: Sequence[str],
    *,
    patience: float = PATIENCE_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Check]:
    """Use a pod in the first existing namespace to check whether pods can reach the server."""
    if cluster.server_url is None:
        hint = f"fairlead clusters edit {cluster.name} --server-url https://..., with an address that pods can reach"
        yield Check(NAME, "warning", LIMITS, hint)
        return
    namespace = next((name for name in namespaces if _exists(api, name)), None)
    if namespace is None:
        message = f"cannot check whether pods can reach {cluster.server_url}: no project has a namespace yet"
        yield Check(NAME, "warning", message, "create a project on the cluster, submit a run, then check again")
        return
    try:
        yield from _probe(api, cluster, namespace, patience, sleep)
    except ApiError as error:
        message = f"the probe pod could not be created in {namespace}: {error}"
        yield Check(NAME, "problem", message, "fix the reported cause; it also affects runs")


def _probe(
    api: KubernetesClient, cluster: Cluster, namespace: str, patience: float, sleep: Callable[[float], None]
) -> Iterator[Check]:
    name = f"fairlead-probe-{secrets.token_hex(4)}"
    path = path_of("v1", "pods", namespace)
    _delete_leftovers(api, path)
    created = api.create(path, render_probe(cluster, namespace, name, POD_SECONDS))
    try:
        pod = created
        for _ in range(round(patience / PAUSE_SECONDS)):
            if pod.get("status", {}).get("phase") in ENDED:
                break
            sleep(PAUSE_SECONDS)
            pod = api.get(f"{path}/{name}")
        yield _evaluate(pod, cluster, patience)
    finally:
        # If this fails, the pod ends on its own, and the next check deletes it.
        with contextlib.suppress(ApiError, Unavailable):
            api.delete(f"{path}/{name}", uid=created["metadata"]["uid"])


def _exists(api: KubernetesClient, namespace: str) -> bool:
    raw = find_object(api, path_of("v1", "namespaces", name=namespace))
    return raw is not None and "deletionTimestamp" not in raw["metadata"]


def _delete_leftovers(api: KubernetesClient, path: str) -> None:
    """Delete the probe pods of interrupted checks."""
    for pod in api.list(path, labelSelector=f"{PROBE_LABEL}=true")["items"]:
        if pod.get("status", {}).get("phase") in ENDED:  # others may belong to a check that is in progress
            api.delete(f"{path}/{pod['metadata']['name']}", uid=pod["metadata"]["uid"])


def _evaluate(pod: JSON, cluster: Cluster, patience: float) -> Check:
    status = pod.get("status", {})
    container: JSON = next(iter(status.get("containerStatuses", ())), {})
    state = container.get("state", {})
    result = state.get("terminated", {}).get("message", "").strip()
    if status.get("phase") == "Succeeded" and result == REACHED:
        return Check(NAME, "ok", f"pods can reach the server at {cluster.server_url}")
    if status.get("phase") == "Succeeded" and result:
        message = f"pods cannot reach the server at {cluster.server_url}: {result}"
        hint = "check that the server listens there, and check network policies, firewalls and certificates"
        return Check(NAME, "problem", message, hint)
    waiting = state.get("waiting") or state.get("terminated") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    if status.get("phase") not in ENDED and scheduled.get("status") == "False":
        waiting = scheduled
    reason = ": ".join(filter(None, (waiting.get("reason", ""), waiting.get("message", ""))))
    detail = reason or status.get("message") or f"it is {status.get('phase', 'Pending')}"
    if status.get("phase") in ENDED:
        message = f"the probe pod for {cluster.server_url} failed ({cluster.python_image}): {detail}"
        hint = "check that python_image contains python3 and can run as a non-root user"
        return Check(NAME, "problem", message, hint)
    message = f"the probe pod for {cluster.server_url} did not run within {patience:.0f} s: {detail}"
    hint = f"fix the reported cause; if {cluster.python_image} is still being pulled, check again"
    return Check(NAME, "warning", message, hint)
