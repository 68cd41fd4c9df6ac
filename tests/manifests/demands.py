"""Reads a demand back from manifests, to compare it with the one that planning builds."""

import json
from collections.abc import Sequence
from typing import Any

from fairlead.manifests.pods import RUN_TOKEN
from fairlead.model.names import SECRET_NAME
from fairlead.model.plans import Demand, FunctionCall, Manifest, RunResources
from fairlead.scheduling.pod_requests import read_pod_request


def read_demand(manifests: Sequence[Manifest], resources: RunResources) -> Demand:
    """The demand that the manifests describe. They do not contain the amounts that count toward quotas."""
    secrets = [manifest for manifest in manifests if manifest["kind"] == "Secret"]
    annotated = [manifest["metadata"].get("annotations", {}).get(SECRET_NAME) for manifest in secrets]
    keys = [key for manifest, name in zip(secrets, annotated, strict=True) if name is None for key in manifest["data"]]
    calls: list[dict[str, Any]] = [
        json.loads(manifest["data"]["call.json"]) for manifest in manifests if manifest["kind"] == "ConfigMap"
    ]
    deadline = manifests[0]["spec"]["template"]["spec"].get("activeDeadlineSeconds")
    return Demand(
        pod_request=read_pod_request(manifests),
        resources=resources,
        secrets=tuple(key for key in keys if key != RUN_TOKEN),
        pull_secrets=tuple(name for name in annotated if name is not None),
        needs_token=RUN_TOKEN in keys,
        deadline_seconds=None if deadline is None else float(deadline),
        call=FunctionCall(**calls[0] | {"command": tuple(calls[0]["command"])}) if calls else None,
    )


def check_demand(manifests: Sequence[Manifest], demand: Demand | None) -> None:
    """Assert that a demand contains exactly what the manifests contain."""
    assert demand is not None
    assert demand == read_demand(manifests, demand.resources)
