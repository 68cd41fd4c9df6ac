"""Manifests and demands for retries: those of the plan, with new names and the attempt's memory."""

import marshal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairlead.lifecycle.attempts import RetryPolicy, execution_of
from fairlead.manifests.pods import SHARED
from fairlead.model import names
from fairlead.model.names import ATTEMPT, RUN_LABEL
from fairlead.model.plans import Demand, Manifest
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat
from fairlead.model.records import PlanRecord, RunRecord

Json = dict[str, Any]


def manifests_of(run: RunRecord, plan: PlanRecord) -> tuple[Manifest, ...]:
    """The manifests for a run's current attempt."""
    planned = tuple(plan.plan["manifests"])
    return planned if run.attempt == 1 else render_attempt(planned, run, RetryPolicy.of(plan).memory_of(run))


def demand_of(run: RunRecord, plan: PlanRecord) -> Demand:
    """What a run's current attempt needs. Later attempts have their own label, and may have more memory."""
    demand = plan.demand
    if run.attempt == 1:
        return demand
    labels = {**demand.pod_request.labels, RUN_LABEL: names.label_value(execution_of(run.id, run.attempt))}
    amounts = dict(demand.pod_request.amounts)
    if amounts.get("memory"):
        amounts["memory"] = RetryPolicy.of(plan).memory_of(run) * NANOS
    return replace(
        demand,
        pod_request=replace(demand.pod_request, labels=labels, amounts=amounts),
        resources=demand.resources._replace(mem_bytes=run.mem_bytes),
    )


def name_of(run: RunRecord) -> str:
    """The name of the Job or Deployment of a run's current attempt."""
    # The execution ID is not used: run_name would hash it because of its hyphen, and the name would not show the run.
    return names.run_name(run.function, run.id if run.attempt == 1 else f"{run.id}attempt{run.attempt}")


def render_attempt(manifests: Sequence[Manifest], run: RunRecord, memory: int | None = None) -> tuple[Manifest, ...]:
    """The manifests for a run's current attempt. `memory` is the request per pod; the limit grows in proportion.

    Also changes the names, references and labels in the planned manifests. Everything else stays the same.
    """
    # marshal copies ten times faster than deepcopy.
    copies: list[Manifest] = [marshal.loads(marshal.dumps(manifest)) for manifest in manifests]
    old, new = copies[0]["metadata"]["name"], name_of(run)
    renamed = {item["metadata"]["name"]: new + item["metadata"]["name"].removeprefix(old) for item in copies}
    pod = copies[0]["spec"]["template"]["spec"]
    _rename(copies, pod, renamed)
    _label(copies, names.label_value(execution_of(run.id, run.attempt)))
    _set_attempt(pod["containers"][0], run.attempt)
    if memory is not None:
        _set_memory(pod, memory)
    return tuple(copies)


def _rename(copies: Sequence[Manifest], pod: Json, renamed: dict[str, str]) -> None:
    """Rename all objects, and the pod's references to them."""
    for manifest in copies:
        manifest["metadata"]["name"] = renamed[manifest["metadata"]["name"]]
    secrets = [env["valueFrom"]["secretKeyRef"] for env in pod["containers"][0].get("env", ()) if "valueFrom" in env]
    for reference in (*pod.get("imagePullSecrets", ()), *secrets):
        # Objects that the run did not create, such as shared volumes, keep their names.
        reference["name"] = renamed.get(reference["name"], reference["name"])
    for volume in pod.get("volumes", ()):
        for kind, key in (("configMap", "name"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName")):
            if kind in volume:
                volume[kind][key] = renamed.get(volume[kind][key], volume[kind][key])


def _label(copies: Sequence[Manifest], execution: str) -> None:
    """Set the run label of all objects, pods and selectors to the execution ID."""
    labels = [manifest["metadata"]["labels"] for manifest in copies]
    labels.append(copies[0]["spec"]["template"]["metadata"]["labels"])
    # The API server rejects a Deployment whose selector does not match the labels of its pods.
    labels += [item["spec"]["selector"]["matchLabels"] for item in copies if item["kind"] == "Deployment"]
    labels += [item["spec"]["selector"] for item in copies if item["kind"] == "Service"]
    for mapping in labels:
        mapping[RUN_LABEL] = execution


def _set_attempt(container: Json, attempt: int) -> None:
    """Set the attempt number in the program's environment."""
    others = [env for env in container.get("env", ()) if env["name"] != ATTEMPT]
    container["env"] = sorted([*others, {"name": ATTEMPT, "value": str(attempt)}], key=_sort_key)


def _sort_key(env: Json) -> tuple[bool, str]:
    """Sort values before references, as in plans."""
    return "valueFrom" in env, env["name"] if "value" in env else ""


def _set_memory(pod: Json, memory: int) -> None:
    resources = pod["containers"][0].get("resources", {})
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    before, limit = requests.get("memory"), limits.get("memory")
    grown = memory * NANOS
    # An unchanged amount keeps the notation used in the plan.
    if before is None or Quantity.parse(before).nanos in (0, grown):
        return
    requests["memory"] = str(Quantity(grown, QuantityFormat.BINARY))
    if limit is None:
        return
    # Rounded up, so that the limit is never below the request.
    nanos = -(-Quantity.parse(limit).nanos * grown // Quantity.parse(before).nanos)
    limits["memory"] = str(Quantity(nanos, QuantityFormat.BINARY).rounded_up())
    for volume in pod.get("volumes", ()):
        # If /dev/shm was as large as the memory limit, it grows with the limit.
        if volume["name"] == SHARED and volume["emptyDir"].get("sizeLimit") == limit:
            volume["emptyDir"]["sizeLimit"] = limits["memory"]
