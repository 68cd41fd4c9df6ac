"""Storage for tests: claims of the classes here are bound to folders, which go when their claim goes."""

import contextlib
import shutil
from pathlib import Path

from tests.cluster.clients import Object, Refused
from tests.cluster.kubelet.api import Api

PROVISIONER = "fairlead.test/folders"
DEFAULT, FAST = "standard", "fast"
BY = "pv.kubernetes.io/provisioned-by"


def make_classes() -> list[Object]:
    """The storage classes: one that is the default, and one that is not."""
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": name,
                "annotations": {"storageclass.kubernetes.io/is-default-class": str(name == DEFAULT).lower()},
            },
            "provisioner": PROVISIONER,
            "volumeBindingMode": "Immediate",
        }
        for name in (DEFAULT, FAST)
    ]


async def provide_volumes(api: Api, folder: Path) -> None:
    """Make a volume for each claim that waits for one, for ever."""
    async for kind, seen in api.watch("/api/v1/persistentvolumeclaims"):
        if kind != "DELETED":
            for claim in seen if kind == "LISTED" else [seen]:
                if _waits(claim):
                    await _provide(api, claim, folder)


async def remove_volumes(api: Api) -> None:
    """Remove each volume whose claim is gone, for ever."""
    async for kind, seen in api.watch("/api/v1/persistentvolumes"):
        if kind != "DELETED":
            for volume in seen if kind == "LISTED" else [seen]:
                mine = (volume["metadata"].get("annotations") or {}).get(BY) == PROVISIONER
                if mine and volume.get("status", {}).get("phase") == "Released":
                    shutil.rmtree(volume["spec"]["hostPath"]["path"], ignore_errors=True)
                    with contextlib.suppress(Refused):
                        await api.ask("DELETE", f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def _waits(claim: Object) -> bool:
    meta = claim["metadata"]
    by = (meta.get("annotations") or {}).get("volume.kubernetes.io/storage-provisioner")
    return by == PROVISIONER and not claim["spec"].get("volumeName") and "deletionTimestamp" not in meta


async def _provide(api: Api, claim: Object, folder: Path) -> None:
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    (folder / name).mkdir(parents=True, exist_ok=True)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
            "hostPath": {"path": str(folder / name)},
            "claimRef": {
                **{key: meta[key] for key in ("namespace", "name", "uid")},
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
            },
        },
    }
    with contextlib.suppress(Refused):  # it was made already
        await api.ask("POST", "/api/v1/persistentvolumes", volume)
