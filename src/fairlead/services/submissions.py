"""Builds the records of submitted runs."""

from typing import Any

from fairlead.model.plans import Plan
from fairlead.model.records import RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.runs import State
from fairlead.scheduling import quotas
from fairlead.scheduling.queue_order import queue_key
from fairlead.services.snapshots import PlanningContext
from fairlead.services.unit_of_work import UnitOfWork

QUEUED_MESSAGE = "waiting in the queue"


def build_run_record(
    unit: UnitOfWork, run_id: str, scope: str, request: RunRequest, plan: Plan, context: PlanningContext
) -> RunRecord:
    """Build the record of a planned run."""
    values = {setting.path: setting.value for setting in plan.settings}
    profile, template = values.get("profile"), values.get("template")
    resource = context.records.get(("profile", profile)) if profile else None
    started_from = context.records.get(("template", template)) if template else None
    return RunRecord(
        **{**unit.creation_fields(), "id": run_id},  # a preview may have chosen the ID
        scope=scope,
        function=request.function.name,
        action=request.action,
        state=str(State.QUEUED),
        reason="Queued",
        message=QUEUED_MESSAGE,
        code=request.function.code,
        cluster=_cluster_of(unit, context),
        # The names are those that the plan used. The IDs are used to find an asset's runs after it is renamed.
        compute_resource=profile,
        compute_resource_id=None if resource is None else resource.id,
        compute_resource_revision=None if resource is None else resource.revision,
        template=template,
        template_id=None if started_from is None else started_from.id,
        uses=sorted(_uses_of(values)),  # a volume cannot be deleted while an active run uses it
        priority=request.priority or 0,
        queue_key=queue_key(run_id, request.priority or 0),
        idle_seconds=None if (idle := values.get("idle_timeout")) is None else int(idle),
        **quotas.count_resources(plan.settings)._asdict(),
    )


def _cluster_of(unit: UnitOfWork, context: PlanningContext) -> str | None:
    """Return the cluster that a run was planned for; None if the project is not in a cluster."""
    scope = context.snapshot.cluster.scope
    return scope if scope in unit.organization.clusters else None


def _uses_of(values: dict[str, Any]) -> set[str]:
    """Return the project's volumes and secrets that a run uses."""
    prefixes = ("secrets.", "function.pull_secrets.")
    used = {f"secret/{value}" for path, value in values.items() if path.startswith(prefixes)}
    for path, value in values.items():
        section, _, part = path.partition(".")
        if section == "volumes" and part.endswith(".spec.claim_name"):
            used.add(f"volume/{value}")
        elif section == "volumes" and value == "secret" and part.endswith(".volume_type"):
            used.add(f"secret/{values[path.removesuffix('volume_type') + 'spec.name']}")
    return used
