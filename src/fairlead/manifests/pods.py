"""The pod template of a run: containers, volumes and GPUs; and the test pod for `fairlead clusters check`."""

import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.names import BOOTSTRAP, HOME, PREFIX, SHARED_MEMORY
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
SHARED = "fairlead-shm"  # the volume for shared memory
# -u: output is unbuffered, so it appears in the log immediately and is not lost when the process is killed.
COMMAND = ("python3", "-u", f"{BOOTSTRAP}/bootstrap.py")
# Authenticates the pod to the server. It is created when the run starts, so it is not a project secret.
RUN_TOKEN = "FAIRLEAD_RUN_TOKEN"
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


def pull_secrets(draft: Draft) -> dict[str, str]:
    """The image pull secrets on a Kubernetes cluster, each with the suffix of its object's name."""
    # Numbered, because secret names may contain characters that are not allowed in object names, such as _.
    numbered = enumerate(draft.pull_secrets if draft.cluster.executor == "kubernetes" else (), start=1)
    return {f"pull-{number}": name for number, name in numbered}


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
        "imagePullSecrets": [{"name": draft.object_name(suffix)} for suffix in pull_secrets(draft)],
        "containers": [_render_container(draft, gpu.resources)],
        "volumes": _render_volumes(draft),
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
        **_render_image(draft),
        # Other containers start in their image's working folder, because their command may depend on it.
        **({"workingDir": HOME} if draft.function.kind == "python" else {}),
        **_render_command(draft),
        "env": _render_envs(draft),
        **_render_resources(draft, gpu_resources),
        "volumeMounts": _render_mounts(draft),
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


def _render_image(draft: Draft) -> dict[str, Any]:
    """The image and its pull policy."""
    image, policy = draft.values.get("function.image"), draft.values.get("function.pull_policy")
    has_policy = policy is not None and draft.cluster.executor == "kubernetes"
    return {**({} if image is None else {"image": image}), **({"imagePullPolicy": policy} if has_policy else {})}


def _render_command(draft: Draft) -> dict[str, Any]:
    """The command and arguments of the container, unless the image defines them."""
    function = draft.function
    # An empty list in the request removes the function's arguments.
    args = function.args if draft.request.args is None else draft.request.args
    parts = {"command": COMMAND if function.kind == "python" else function.command, "args": args}
    return {name: [escape_references(word) for word in words] for name, words in parts.items() if words}


def _render_envs(draft: Draft) -> list[dict[str, Any]]:
    """Environment variables. Secrets are references to the run's Secret."""
    envs = draft.section("envs")
    secrets = sorted(draft.groups.get("secrets", ()))
    source = draft.object_name("secrets")
    # The token is a reference, like the secrets: plans are shown and stored, so they must not contain it.
    secret_names = [*([RUN_TOKEN] if draft.calls_back else []), *secrets]
    return [
        *({"name": name, "value": escape_references(value)} for name, value in envs.items()),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": source, "key": name}}} for name in secret_names),
    ]


def escape_references(text: str) -> str:
    """Escape text so that Kubernetes does not expand $(NAME) in it."""
    # Other text stays unchanged, so that manifests are readable: `$HOME` has no special meaning in Kubernetes.
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


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


def _render_volumes(draft: Draft) -> list[dict[str, Any]]:
    """The pod's requested volumes, and the platform's own volumes."""
    requested = [{"name": name, **_render_source(draft, name, parts)} for name, parts in draft.volumes.items()]
    return [*requested, *(volume for volume, _ in _platform_volumes(draft))]


def _render_mounts(draft: Draft) -> list[dict[str, Any]]:
    """The volume mounts of the container."""
    return [
        *(_render_mount(name, parts) for name, parts in draft.volumes.items()),
        *(mount for _, mount in _platform_volumes(draft)),
    ]


def _platform_volumes(draft: Draft) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The home folder, the code of a Python function, and shared memory, each with its mount."""
    # Many programs write a cache to their home folder, and most images have none that the run's user can write to.
    yield {"name": "fairlead-home", "emptyDir": {}}, {"name": "fairlead-home", "mountPath": HOME}
    if draft.function.kind == "python":
        code = {"name": "fairlead-code", "configMap": {"name": draft.object_name("code")}}
        yield code, {"name": "fairlead-code", "mountPath": BOOTSTRAP, "readOnly": True}
    # By default /dev/shm has 64 MiB, which is too little for PyTorch's data loaders.
    shm, limit = draft.values.get("resources.shm"), draft.values.get("resources.mem.limits")
    if shm:
        # `shm: true`: shared memory counts toward the pod's memory, so more than the memory limit is never useful.
        size = shm if isinstance(shm, Quantity) else limit
        bound = {"sizeLimit": str(size)} if isinstance(size, Quantity) else {}
        memory = {"name": SHARED, "emptyDir": {"medium": "Memory", **bound}}
        yield memory, {"name": SHARED, "mountPath": SHARED_MEMORY}


def _render_mount(name: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": name, "mountPath": parts["mount_path"]}
    if parts.get("read_only"):
        mount["readOnly"] = True
    if "sub_path" in parts:
        mount["subPath"] = parts["sub_path"]
    return mount


def _render_source(draft: Draft, name: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    match parts["volume_type"]:
        case "persistent_volume_claim":
            return {"persistentVolumeClaim": {"claimName": draft.object_name(name)}}
        case "shared_volume":
            # The claim already exists and outlives the run, so its name does not depend on the run.
            return {"persistentVolumeClaim": {"claimName": parts["spec.claim_name"]}}
        case "ephemeral":
            return {"ephemeral": {"volumeClaimTemplate": {"spec": render_claim(parts)}}}
        case "config_map":
            return {"configMap": {"name": parts["spec.name"]}}
        case "secret":
            # Only this key is mounted, because the Secret also contains the run's other secrets.
            key = parts["spec.name"]
            return {"secret": {"secretName": draft.object_name("secrets"), "items": [{"key": key, "path": key}]}}
        case _:
            size = {"sizeLimit": str(parts["spec.size"])} if "spec.size" in parts else {}
            medium = {"medium": parts["spec.medium"]} if parts.get("spec.medium") else {}
            return {"emptyDir": {**medium, **size}}


def render_claim(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim for a volume."""
    # If the class is omitted, the cluster default applies. An empty name would mean no class at all.
    storage_class = {"storageClassName": parts["spec.storage_class"]} if "spec.storage_class" in parts else {}
    return {
        # Not all storage classes support other modes. A check rejects multiple replicas with one claim.
        "accessModes": ["ReadWriteOnce"],
        **storage_class,
        "resources": {"requests": {"storage": str(parts["spec.size"])}},
    }
