"""Claims, volumes, their classes and namespaces as Kubernetes tells of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.core.fitting.pod_resources import read_amounts
from fairlead.model.nodes import Claim, Labels, SchedulingContext, StorageClass, Volume

BOUND = "pv.kubernetes.io/bind-completed"
CHOSEN_NODE = "volume.kubernetes.io/selected-node"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"  # where it is there, it goes before the field
MAKES_NONE = ("", "kubernetes.io/no-provisioner")
OF_STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")

JSON = Mapping[str, Any]


def read_claim(raw: JSON) -> Claim:
    """A claim to a volume."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    notes = meta.get("annotations") or {}
    return Claim(
        volume=spec.get("volumeName") or "",
        storage_class=notes.get(OLD_CLASS, spec.get("storageClassName")),
        size=_read_size((spec.get("resources") or {}).get("requests")),
        modes=tuple(spec.get("accessModes") or ()),
        selector=spec.get("selector"),
        block=spec.get("volumeMode") == "Block",
        bound=bool(spec.get("volumeName")) and BOUND in notes,
        attributes_class=spec.get("volumeAttributesClassName") or "",
        chosen_node=notes.get(CHOSEN_NODE) or "",
        lost=(raw.get("status") or {}).get("phase") == "Lost",
        leaving="deletionTimestamp" in meta,
        uid=meta.get("uid") or "",
    )


def read_volume(raw: JSON) -> Volume:
    """A volume that is there."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    kept = spec.get("claimRef")
    required = (spec.get("nodeAffinity") or {}).get("required")
    return Volume(
        name=meta["name"],
        node_terms=None if required is None else tuple(required.get("nodeSelectorTerms") or ()),
        labels=meta.get("labels") or {},
        claimed_by=None if kept is None else (kept.get("namespace") or "", kept.get("name") or ""),
        claim_uid=(kept or {}).get("uid") or "",
        size=_read_size(spec.get("capacity")),
        modes=tuple(spec.get("accessModes") or ()),
        storage_class=(meta.get("annotations") or {}).get(OLD_CLASS, spec.get("storageClassName") or ""),
        block=spec.get("volumeMode") == "Block",
        available=(raw.get("status") or {}).get("phase") == "Available",
        attributes_class=spec.get("volumeAttributesClassName") or "",
        leaving="deletionTimestamp" in meta,
    )


def read_class(raw: JSON) -> StorageClass:
    """A way in which volumes are made."""
    return StorageClass(
        waits=raw.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(raw.get("allowedTopologies") or ()),
        makes=(raw.get("provisioner") or "") not in MAKES_NONE,
    )


def read_scheduling_context(items: Iterable[JSON], *, complete: bool = False) -> SchedulingContext:
    """What is among objects beside nodes and pods.

    Without anything of storage among them nobody has looked for claims, unless they are said to be all that there is.
    """
    namespaces: dict[str, Labels] = {}
    claims: dict[tuple[str, str], Claim] = {}
    volumes: dict[str, Volume] = {}
    classes: dict[str, StorageClass] = {}
    looked = complete
    for raw in items:
        kind, meta = raw["kind"], raw["metadata"]
        looked = looked or kind in OF_STORAGE
        if kind == "Namespace":
            namespaces[meta["name"]] = meta.get("labels") or {}
        elif kind == "PersistentVolumeClaim":
            claims[meta.get("namespace") or "", meta["name"]] = read_claim(raw)
        elif kind == "PersistentVolume":
            volumes[meta["name"]] = read_volume(raw)
        elif kind == "StorageClass":
            classes[meta["name"]] = read_class(raw)
    return SchedulingContext(namespaces, claims if looked else None, volumes, classes)


def _read_size(amounts: JSON | None) -> int:
    return read_amounts(amounts or {}).get("storage", 0)
