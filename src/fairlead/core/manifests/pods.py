"""The pod template of a run: one container with the resolved settings."""

import marshal
from typing import Any

from fairlead.core.manifests import functions, gpus, volumes
from fairlead.core.manifests.metadata import render_labels, render_names
from fairlead.model.names import HOME
from fairlead.model.quantities import Quantity
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import REQUIRED_NODES, render_affinity

CONTAINER = "main"
RESOURCES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage"}


def render_pod_template(draft: Draft, restart_policy: str) -> dict[str, Any]:
    """The pod template of a Job or Deployment."""
    gpu = gpus.render_gpus(draft)
    metadata: dict[str, Any] = {"labels": render_labels(draft) | gpu.labels}
    if annotations := render_names(draft) | gpu.annotations:
        metadata["annotations"] = annotations
    spec = {
        "restartPolicy": restart_policy,
        "automountServiceAccountToken": draft.resolution.value("security", "service_account_token"),
        # Otherwise Kubernetes adds variables for every Service in the namespace, including those of other runs.
        "enableServiceLinks": False,
        "securityContext": _render_pod_security(draft),
        "imagePullSecrets": functions.render_pull_references(draft),
        "containers": [_render_container(draft, gpu.resources)],
        "volumes": volumes.render_volumes(draft),
        "schedulerName": gpu.scheduler,
        "nodeSelector": draft.resolution.values("node_selector"),
        "tolerations": list(map(dict, draft.resolution.values("tolerations").values())),
        "affinity": _render_affinity(draft),
        "runtimeClassName": draft.resolution.value("runtime_class"),
        "priorityClassName": draft.resolution.value("priority_class"),
    }
    # False is not removed, because automountServiceAccountToken defaults to true.
    return {"metadata": metadata, "spec": {name: value for name, value in spec.items() if value not in (None, {}, [])}}


def _render_container(draft: Draft, gpu_resources: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": CONTAINER,
        **functions.render_image(draft),
        # Other containers start in their image's working folder, because their command may depend on it.
        **({"workingDir": HOME} if draft.function.kind == "python" else {}),
        **functions.render_command(draft),
        "env": functions.render_envs(draft),
        **_render_resources(draft, gpu_resources),
        "volumeMounts": volumes.render_mounts(draft),
        # If the program writes no termination message, Kubernetes uses the end of its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": draft.resolution.value("security", "allow_privilege_escalation"),
            "capabilities": {"drop": [draft.resolution.value("security", "drop_capabilities")]},
        },
    }
    if draft.request.action != "job" and draft.port is not None:
        container["ports"] = [{"name": "http", "containerPort": draft.port}]
        # This only checks that the port accepts connections: a busy model must not lose its only endpoint.
        container["readinessProbe"] = {"tcpSocket": {"port": draft.port}, "periodSeconds": 2, "failureThreshold": 5}
    return container


def _render_resources(draft: Draft, gpu_resources: dict[str, str]) -> dict[str, Any]:
    # Kubernetes requires equal requests and limits for GPUs and other extended resources.
    requests, limits = dict(gpu_resources), dict(gpu_resources)
    for name, kubernetes_name in RESOURCES.items():
        for part, amounts in (("requests", requests), ("limits", limits)):
            amount = draft.amount(name, part)
            # `unlimited` is expressed by omitting the limit.
            if isinstance(amount, Quantity):
                amounts[kubernetes_name] = str(amount)
    for name, parts in draft.resolution.named("resources").items():
        if name.startswith("extended.") and parts[""].nanos:
            requests[name.removeprefix("extended.")] = limits[name.removeprefix("extended.")] = str(parts[""])
    both = {"requests": requests, "limits": limits}
    resources = {part: dict(sorted(amounts.items())) for part, amounts in both.items() if amounts}
    return {"resources": resources} if resources else {}


def _render_affinity(draft: Draft) -> dict[str, Any]:
    parts = draft.resolution.values("affinity")
    if draft.required_nodes is not None:
        parts[REQUIRED_NODES] = draft.required_nodes
    # Copied (ten times faster than with deepcopy), because changing a manifest must not change the compute resource
    # that defines the terms.
    affinity: dict[str, Any] = marshal.loads(marshal.dumps(render_affinity(parts)))
    return affinity


def _render_pod_security(draft: Draft) -> dict[str, Any]:
    return {
        "runAsNonRoot": draft.resolution.value("security", "run_as_non_root"),
        "runAsUser": draft.resolution.value("run_as_user"),
        "runAsGroup": draft.resolution.value("run_as_group"),
        "fsGroup": draft.resolution.value("fs_group"),
        # Otherwise mounting a volume with a million files takes minutes each time.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": draft.resolution.value("security", "seccomp_profile")},
    }
