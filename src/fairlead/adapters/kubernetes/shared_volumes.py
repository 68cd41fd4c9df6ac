"""PersistentVolumeClaims of shared volumes, which outlive the runs that use them."""

from fairlead.adapters.kubernetes.clients import KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import PLATFORM_LABEL, VOLUME_LABEL
from fairlead.adapters.kubernetes.starting import PLURALS
from fairlead.model.runs import JSON

CLAIMS = PLURALS["PersistentVolumeClaim"]


def list_volumes(api: KubernetesClient, platform: str) -> list[str]:
    """The IDs of a platform's shared volumes that have a claim."""
    metadata = [claim["metadata"] for claim in _list_claims(api, platform)]
    return sorted(meta["labels"][VOLUME_LABEL] for meta in metadata if "deletionTimestamp" not in meta)


def remove_volume(api: KubernetesClient, platform: str, volume_id: str) -> None:
    """Delete the claims of a shared volume."""
    for claim in _list_claims(api, platform, f"={volume_id}"):
        meta = claim["metadata"]
        api.delete(path_of("v1", CLAIMS, meta["namespace"], meta["name"]), uid=meta["uid"])


def _list_claims(api: KubernetesClient, platform: str, condition: str = "") -> list[JSON]:
    selector = f"{VOLUME_LABEL}{condition},{PLATFORM_LABEL}={platform}"
    claims: list[JSON] = api.list(path_of("v1", CLAIMS), labelSelector=selector)["items"]
    return claims
