"""A pod's volumes, their mounts, and the claims that the platform creates for them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.manifests.functions import object_name, render_metadata
from fairlead.model.names import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.model.plans import Manifest
from fairlead.model.quantities import Quantity
from fairlead.resolution.drafts import Draft

SHARED = "fairlead-shm"

Parts = Mapping[str, Any]
Json = dict[str, Any]


def render_volumes(draft: Draft) -> list[Json]:
    """The pod's requested volumes, and the platform's own volumes."""
    requested = [{"name": name, **_render_source(draft, name, parts)} for name, parts in _requested(draft)]
    return [*requested, *(volume for volume, _ in _platform_volumes(draft))]


def render_mounts(draft: Draft) -> list[Json]:
    """The volume mounts of the container."""
    return [
        *(_render_mount(name, parts) for name, parts in _requested(draft)),
        *(mount for _, mount in _platform_volumes(draft)),
    ]


def render_claims(draft: Draft) -> Iterator[Manifest]:
    """The claims that are created for this run and deleted with it."""
    for name, parts in _requested(draft):
        if parts["volume_type"] == "persistent_volume_claim":
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": render_metadata(draft, name),
                "spec": _render_claim(parts),
            }


def _requested(draft: Draft) -> Iterable[tuple[str, Parts]]:
    return draft.volumes.items()


def _platform_volumes(draft: Draft) -> Iterator[tuple[Json, Json]]:
    """The home folder, the code of a Python function, and shared memory, each with its mount."""
    # Many programs write a cache to their home folder, and most images have none that the run's user can write to.
    yield {"name": "fairlead-home", "emptyDir": {}}, {"name": "fairlead-home", "mountPath": HOME}
    if draft.function.kind == "python":
        code = {"name": "fairlead-code", "configMap": {"name": object_name(draft, "code")}}
        yield code, {"name": "fairlead-code", "mountPath": BOOTSTRAP, "readOnly": True}
    # By default /dev/shm has 64 MiB, which is too little for PyTorch's data loaders.
    shm, limit = draft.values.get("resources.shm"), draft.values.get("resources.mem.limits")
    if shm:
        # `shm: true`: shared memory counts toward the pod's memory, so more than the memory limit is never useful.
        size = shm if isinstance(shm, Quantity) else limit
        bound = {"sizeLimit": str(size)} if isinstance(size, Quantity) else {}
        memory = {"name": SHARED, "emptyDir": {"medium": "Memory", **bound}}
        yield memory, {"name": SHARED, "mountPath": SHARED_MEMORY}


def _render_mount(name: str, parts: Parts) -> Json:
    mount: Json = {"name": name, "mountPath": parts["mount_path"]}
    if parts.get("read_only"):
        mount["readOnly"] = True
    if "sub_path" in parts:
        mount["subPath"] = parts["sub_path"]
    return mount


def _render_source(draft: Draft, name: str, parts: Parts) -> Json:
    match parts["volume_type"]:
        case "persistent_volume_claim":
            return {"persistentVolumeClaim": {"claimName": object_name(draft, name)}}
        case "shared_volume":
            # The claim already exists and outlives the run, so its name does not depend on the run.
            return {"persistentVolumeClaim": {"claimName": parts["spec.claim_name"]}}
        case "ephemeral":
            return {"ephemeral": {"volumeClaimTemplate": {"spec": _render_claim(parts)}}}
        case "config_map":
            return {"configMap": {"name": parts["spec.name"]}}
        case "secret":
            # Only this key is mounted, because the Secret also contains the run's other secrets.
            key = parts["spec.name"]
            return {"secret": {"secretName": object_name(draft, "secrets"), "items": [{"key": key, "path": key}]}}
        case _:
            size = {"sizeLimit": str(parts["spec.size"])} if "spec.size" in parts else {}
            medium = {"medium": parts["spec.medium"]} if parts.get("spec.medium") else {}
            return {"emptyDir": {**medium, **size}}


def _render_claim(parts: Parts) -> Json:
    # If the class is omitted, the cluster default applies. An empty name would mean no class at all.
    storage_class = {"storageClassName": parts["spec.storage_class"]} if "spec.storage_class" in parts else {}
    return {
        # Not all storage classes support other modes. A check rejects multiple replicas with one claim.
        "accessModes": ["ReadWriteOnce"],
        **storage_class,
        "resources": {"requests": {"storage": str(parts["spec.size"])}},
    }
