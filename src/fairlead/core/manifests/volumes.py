"""Volumes of a pod, where they are mounted, and the claims that the platform makes for them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlead.core.container_folders import BOOTSTRAP, HOME, SHARED_MEMORY
from fairlead.core.drafts import Draft
from fairlead.core.manifests.metadata import name_of, render_metadata
from fairlead.model.plans import Manifest
from fairlead.model.quantities import Quantity

SHARED = "fairlead-shm"

Parts = Mapping[str, Any]
Json = dict[str, Any]


def render_volumes(draft: Draft) -> list[Json]:
    """The volumes of the pod: those asked for, and the platform's own."""
    asked = [{"name": name, **_render_source(draft, name, parts)} for name, parts in _asked(draft)]
    return [*asked, *(volume for volume, _ in _own(draft))]


def render_mounts(draft: Draft) -> list[Json]:
    """Where the container finds them."""
    return [*(_render_mount(name, parts) for name, parts in _asked(draft)), *(mount for _, mount in _own(draft))]


def render_claims(draft: Draft) -> Iterator[Manifest]:
    """The claims that are made for this run and go with it."""
    for name, parts in _asked(draft):
        if parts["volume_type"] == "persistent_volume_claim":
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": render_metadata(draft, name),
                "spec": _render_claim(parts),
            }


def _asked(draft: Draft) -> Iterable[tuple[str, Parts]]:
    return draft.resolution.named("volumes").items()


def _own(draft: Draft) -> Iterator[tuple[Json, Json]]:
    """A home to write to, the code of a Python function, and shared memory where it is asked for."""
    yield {"name": "fairlead-home", "emptyDir": {}}, {"name": "fairlead-home", "mountPath": HOME}
    if draft.function.kind == "python":
        code = {"name": "fairlead-code", "configMap": {"name": name_of(draft, "code")}}
        yield code, {"name": "fairlead-code", "mountPath": BOOTSTRAP, "readOnly": True}
    shm, limit = draft.resolution.value("resources", "shm"), draft.amount("mem", "limits")
    if shm:
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
            return {"persistentVolumeClaim": {"claimName": name_of(draft, name)}}
        case "shared_volume":
            return {"persistentVolumeClaim": {"claimName": parts["spec.claim_name"]}}
        case "ephemeral":
            return {"ephemeral": {"volumeClaimTemplate": {"spec": _render_claim(parts)}}}
        case "config_map":
            return {"configMap": {"name": parts["spec.name"]}}
        case "secret":
            key = parts["spec.name"]
            return {"secret": {"secretName": name_of(draft, "secrets"), "items": [{"key": key, "path": key}]}}
        case _:
            size = {"sizeLimit": str(parts["spec.size"])} if "spec.size" in parts else {}
            medium = {"medium": parts["spec.medium"]} if parts.get("spec.medium") else {}
            return {"emptyDir": {**medium, **size}}


def _render_claim(parts: Parts) -> Json:
    storage_class = {"storageClassName": parts["spec.storage_class"]} if "spec.storage_class" in parts else {}
    return {
        "accessModes": ["ReadWriteOnce"],
        **storage_class,
        "resources": {"requests": {"storage": str(parts["spec.size"])}},
    }
