"""The pod template of a run with its GPU requests, and the test pod for `fairlead clusters check`."""

import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.manifests import functions, volumes
from fairlead.model.names import HOME, PREFIX
from fairlead.model.nodes import GpuShare
from fairlead.model.plans import Manifest
from fairlead.model.quantities import GpuMemory, Percent, Quantity
from fairlead.model.scopes import Cluster
from fairlead.resolution.drafts import Draft
from fairlead.resolution.enforced import DEFAULT_ID
from fairlead.resolution.layers import REQUIRED_NODES, render_affinity

PROBE_LABEL = f"{PREFIX}/probe"
TERMINATION = "/dev/termination-log"
REACHED = "reached"
CALL_SECONDS = 10
MAX_MESSAGE_LENGTH = 500  # the kubelet reads at most 4096 bytes
# Writes a termination message that says whether the server responded, or contains the error.
PROBE_SCRIPT = f"""\
import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout={CALL_SECONDS}) as response:
        message = {REACHED!r} if response.status == 200 else f"HTTP status {{response.status}}"
except Exception as error:
    message = f"{{type(error).__name__}}: {{error}}"
with open({TERMINATION!r}, "w") as file:
    file.write(message[:{MAX_MESSAGE_LENGTH}])
"""

MEBIBYTE = 2**20
SCHEDULERS = {"kai": "kai-scheduler", "hami": "hami-scheduler"}

CONTAINER = "main"
RESOURCES = {"cpu": "cpu", "mem": "memory", "disk": "ephemeral-storage"}


def render_probe(cluster: Cluster, namespace: str, name: str, seconds: int) -> Manifest:
    """A pod that sends one request to the server and exits."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "fairlead", PROBE_LABEL: "true"},
        },
        "spec": {
            "restartPolicy": "Never",
            # This ends the pod even if the server that created it does not remove it.
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": DEFAULT_ID,
                "runAsGroup": DEFAULT_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": cluster.python_image,
                    "command": ["python3", "-c", PROBE_SCRIPT, f"{cluster.server_url}/healthz"],
                    "resources": {
                        # A namespace with a ResourceQuota rejects pods without requests and limits.
                        "requests": {"cpu": "50m", "memory": "64Mi"},
                        "limits": {"cpu": "500m", "memory": "128Mi"},
                    },
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


@dataclass(frozen=True)
class GpuParts:
    """The parts of a pod manifest that request GPUs."""

    resources: dict[str, int] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    scheduler: str | None = None
    share: GpuShare | None = None


def render_gpus(draft: Draft) -> GpuParts:
    """The GPU parts of a pod. GPU sharing also selects the scheduler, unless queueing does."""
    cluster, sharing = draft.cluster, draft.cluster.gpu_sharing if draft.devices else "none"
    # A single scheduler must assign all GPUs of a cluster, or two schedulers could assign the same GPU.
    chosen = "kai" if cluster.queueing == "kai" else sharing
    share = _gpu_share(draft.gpu_memory, sharing)
    return GpuParts(
        resources=_render_gpu_resources(draft, share) if draft.devices else {},
        annotations=_render_kai(draft, share) if share is not None and sharing == "kai" else {},
        # KAI schedules a pod only if it names a queue, even if it uses no GPUs.
        labels={"kai.scheduler/queue": cluster.kai_queue} if chosen == "kai" else {},
        scheduler=SCHEDULERS.get(chosen),
        share=share,
    )


def _gpu_share(memory: Percent | GpuMemory | None, sharing: str) -> GpuShare | None:
    if memory is None or sharing not in SCHEDULERS:
        return None
    if isinstance(memory, Percent):
        return GpuShare(sharing, percent=memory.value)
    # HAMi and KAI count in MiB. The amount is rounded up, so that the pod gets at least what it requested.
    return GpuShare(sharing, memory=-(-memory.units // MEBIBYTE))


def _render_gpu_resources(draft: Draft, share: GpuShare | None) -> dict[str, int]:
    resource = draft.cluster.gpu_resource
    if draft.mig is not None:
        # Resource names cannot contain a plus sign. NVIDIA's device plugin replaces it in the same way.
        return {f"nvidia.com/mig-{draft.mig.replace('+', '.')}": 1}
    if share is None:
        return {resource: draft.devices}
    if share.provider == "kai":
        return {}  # KAI rejects pods that request both a device and a share
    part = {"mem-percentage": share.percent} if share.percent else {"mem": share.memory}
    return {resource: 1} | {f"{resource}{suffix}": amount for suffix, amount in part.items()}


def _render_kai(draft: Draft, share: GpuShare) -> dict[str, str]:
    # KAI schedules by these annotations. The limit is only informational: KAI does not enforce it.
    part = {"gpu-fraction": f"{share.percent / 100:g}"} if share.percent else {"gpu-memory": str(share.memory)}
    limit = draft.gpu_memory_limit
    return part | ({f"{PREFIX}/gpu-memory-limit": str(limit)} if limit is not None else {})


def render_pod_template(draft: Draft, restart_policy: str) -> dict[str, Any]:
    """The pod template of a Job or Deployment."""
    gpu = render_gpus(draft)
    metadata: dict[str, Any] = {"labels": draft.labels | gpu.labels}
    if annotations := draft.name_annotations | gpu.annotations:
        metadata["annotations"] = annotations
    spec = {
        "restartPolicy": restart_policy,
        "automountServiceAccountToken": draft.values["security.service_account_token"],
        # Otherwise Kubernetes adds variables for every Service in the namespace, including those of other runs.
        "enableServiceLinks": False,
        "securityContext": _render_pod_security(draft),
        "imagePullSecrets": functions.render_pull_references(draft),
        "containers": [_render_container(draft, gpu.resources)],
        "volumes": volumes.render_volumes(draft),
        "schedulerName": gpu.scheduler,
        "nodeSelector": draft.section("node_selector"),
        "tolerations": list(map(dict, draft.section("tolerations").values())),
        "affinity": _render_affinity(draft),
        "runtimeClassName": draft.values.get("runtime_class"),
        "priorityClassName": draft.values.get("priority_class"),
    }
    # False is not removed, because automountServiceAccountToken defaults to true.
    return {"metadata": metadata, "spec": {name: value for name, value in spec.items() if value not in (None, {}, [])}}


def _render_container(draft: Draft, gpu_resources: Mapping[str, int]) -> dict[str, Any]:
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
            "allowPrivilegeEscalation": draft.values["security.allow_privilege_escalation"],
            "capabilities": {"drop": [draft.values["security.drop_capabilities"]]},
        },
    }
    if draft.request.action != "job" and draft.port is not None:
        container["ports"] = [{"name": "http", "containerPort": draft.port}]
        # This only checks that the port accepts connections: a busy model must not lose its only endpoint.
        container["readinessProbe"] = {"tcpSocket": {"port": draft.port}, "periodSeconds": 2, "failureThreshold": 5}
    return container


def _render_resources(draft: Draft, gpu_resources: Mapping[str, int]) -> dict[str, Any]:
    # Kubernetes requires equal requests and limits for GPUs and other extended resources.
    requests = {name: str(amount) for name, amount in gpu_resources.items()}
    limits = dict(requests)
    for name, parts in draft.resources.items():
        if name in RESOURCES:
            for part, amounts in (("requests", requests), ("limits", limits)):
                # `unlimited` is expressed by omitting the limit.
                if isinstance(amount := parts.get(part), Quantity):
                    amounts[RESOURCES[name]] = str(amount)
        elif name.startswith("extended.") and parts[""].nanos:
            requests[name.removeprefix("extended.")] = limits[name.removeprefix("extended.")] = str(parts[""])
    both = {"requests": requests, "limits": limits}
    resources = {part: dict(sorted(amounts.items())) for part, amounts in both.items() if amounts}
    return {"resources": resources} if resources else {}


def _render_affinity(draft: Draft) -> dict[str, Any]:
    parts = draft.section("affinity")
    if draft.required_nodes is not None:
        parts[REQUIRED_NODES] = draft.required_nodes
    # Copied (ten times faster than with deepcopy), because changing a manifest must not change the compute resource
    # that defines the terms.
    affinity: dict[str, Any] = marshal.loads(marshal.dumps(render_affinity(parts)))
    return affinity


def _render_pod_security(draft: Draft) -> dict[str, Any]:
    return {
        "runAsNonRoot": draft.values["security.run_as_non_root"],
        "runAsUser": draft.values.get("run_as_user"),
        "runAsGroup": draft.values.get("run_as_group"),
        "fsGroup": draft.values.get("fs_group"),
        # Otherwise mounting a volume with a million files takes minutes each time.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": draft.values["security.seccomp_profile"]},
    }
