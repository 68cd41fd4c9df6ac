"""The manifests of a run's later tries: those of its plan, under names of their own, with the memory of the try."""

import marshal
from collections.abc import Sequence
from typing import Any

from fairlead.core.attempts import RetryPolicy, execution_of
from fairlead.core.manifests import names
from fairlead.core.manifests.names import PREFIX, RUN_LABEL
from fairlead.core.manifests.volumes import SHARED
from fairlead.model.plans import Manifest
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat
from fairlead.model.records import PlanRecord, RunRecord

ATTEMPT = "FAIRLEAD_ATTEMPT"
Json = dict[str, Any]


def manifests_of(run: RunRecord, kept: PlanRecord) -> tuple[Manifest, ...]:
    """What executes a run at its present try."""
    planned = tuple(kept.plan["manifests"])
    if run.attempt == 1:
        return planned
    return render_attempt(planned, run.id, run.attempt, RetryPolicy.of(kept).memory_of(run))


def render_attempt(
    manifests: Sequence[Manifest], run_id: str, attempt: int, memory: int | None = None
) -> tuple[Manifest, ...]:
    """The manifests of a try. Memory is what a pod requests of it: its limit grows as much.

    All that the plan's manifests say of themselves and of each other says so of this try's; the rest stays.
    """
    # Copies, at a tenth of deepcopy's time.
    made: list[Manifest] = [marshal.loads(marshal.dumps(manifest)) for manifest in manifests]
    meta = made[0]["metadata"]
    in_full = meta.get("annotations", {}).get(f"{PREFIX}/function-name")
    function = in_full or meta["labels"][f"{PREFIX}/function"]
    old, new = meta["name"], names.run_name(function, f"{run_id}try{attempt}")
    renamed = {item["metadata"]["name"]: new + item["metadata"]["name"].removeprefix(old) for item in made}
    pod = made[0]["spec"]["template"]["spec"]
    _rename(made, pod, renamed)
    _label(made, names.label_value(execution_of(run_id, attempt)))
    _number(pod["containers"][0], attempt)
    if memory is not None:
        _give_memory(pod, memory)
    return tuple(made)


def _rename(made: Sequence[Manifest], pod: Json, renamed: dict[str, str]) -> None:
    """Give all objects their names, and have the pod name them so."""
    for manifest in made:
        manifest["metadata"]["name"] = renamed[manifest["metadata"]["name"]]
    secrets = [env["valueFrom"]["secretKeyRef"] for env in pod["containers"][0].get("env", ()) if "valueFrom" in env]
    for named in (*pod.get("imagePullSecrets", ()), *secrets):
        named["name"] = renamed.get(named["name"], named["name"])
    for volume in pod.get("volumes", ()):
        for kind, key in (("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")):
            if kind in volume:
                volume[kind][key] = renamed.get(volume[kind][key], volume[kind][key])


def _label(made: Sequence[Manifest], execution: str) -> None:
    """Have the objects and pods of the try be found as its own, and no others."""
    labels = [manifest["metadata"]["labels"] for manifest in made]
    labels.append(made[0]["spec"]["template"]["metadata"]["labels"])
    labels += [item["spec"]["selector"]["matchLabels"] for item in made if item["kind"] == "Deployment"]
    labels += [item["spec"]["selector"] for item in made if item["kind"] == "Service"]
    for found in labels:
        found[RUN_LABEL] = execution


def _number(container: Json, attempt: int) -> None:
    """Tell the program which try it is."""
    others = [env for env in container.get("env", ()) if env["name"] != ATTEMPT]
    container["env"] = sorted([*others, {"name": ATTEMPT, "value": str(attempt)}], key=_order)


def _order(env: Json) -> tuple[bool, str]:
    """Values before references, as a plan has them."""
    return "valueFrom" in env, env["name"] if "value" in env else ""


def _give_memory(pod: Json, memory: int) -> None:
    resources = pod["containers"][0].get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    before, limit = requests.get("memory"), limits.get("memory")
    grown = memory * NANOS
    if before is None or Quantity.parse(before).nanos in (0, grown):
        return
    requests["memory"] = str(Quantity(grown, QuantityFormat.BINARY))
    if limit is None:
        return
    nanos = -(-Quantity.parse(limit).nanos * grown // Quantity.parse(before).nanos)
    limits["memory"] = str(Quantity(nanos, QuantityFormat.BINARY).rounded_up())
    for volume in pod.get("volumes", ()):
        if volume["name"] == SHARED and volume["emptyDir"].get("sizeLimit") == limit:  # as large as the limit allows
            volume["emptyDir"]["sizeLimit"] = limits["memory"]
