"""Storage for tests: claims are bound to local folders, which are deleted with their claim."""

import contextlib
import shutil
from pathlib import Path

from tests.cluster.clients import ApiError, Object
from tests.cluster.kubelet.api import Api

PROVISIONER = "fairlead.test/folders"
DEFAULT, FAST = "standard", "fast"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


def make_classes() -> list[Object]:
    """Two storage classes, one of them the default."""
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
    """Create a volume for each unbound claim. Runs forever."""
    async for kind, changed in api.watch("/api/v1/persistentvolumeclaims"):
        if kind != "DELETED":
            for claim in changed if kind == "LISTED" else [changed]:
                if _needs_volume(claim):
                    await _provide(api, claim, folder)


async def remove_volumes(api: Api) -> None:
    """Delete each volume whose claim was deleted. Runs forever."""
    async for kind, changed in api.watch("/api/v1/persistentvolumes"):
        if kind != "DELETED":
            for volume in changed if kind == "LISTED" else [changed]:
                is_ours = (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
                if is_ours and volume.get("status", {}).get("phase") == "Released":
                    shutil.rmtree(volume["spec"]["hostPath"]["path"], ignore_errors=True)
                    with contextlib.suppress(ApiError):
                        await api.request("DELETE", f"/api/v1/persistentvolumes/{volume['metadata']['name']}")


def _needs_volume(claim: Object) -> bool:
    meta = claim["metadata"]
    provisioner = (meta.get("annotations") or {}).get("volume.kubernetes.io/storage-provisioner")
    return provisioner == PROVISIONER and not claim["spec"].get("volumeName") and "deletionTimestamp" not in meta


async def _provide(api: Api, claim: Object, folder: Path) -> None:
    meta, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{meta['uid']}"
    (folder / name).mkdir(parents=True, exist_ok=True)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
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
    with contextlib.suppress(ApiError):  # it already exists
        await api.request("POST", "/api/v1/persistentvolumes", volume)
