"""What a plan depends on, for each project: worked out once for as long as nothing of it is changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.drafts import Code, Snapshot
from fairlead.core.scope_tree import find_cluster
from fairlead.model.compute_resources import ComputeResource, NamedRequirements, Template
from fairlead.model.policies import Policy
from fairlead.model.queries import Condition
from fairlead.model.records import AssetRecord, ComputeResourceRecord, SecretRecord, TemplateRecord, VolumeRecord
from fairlead.model.requests import RunRequest
from fairlead.ports import Generation, Transaction
from fairlead.services.organization import Organization
from fairlead.services.unit_of_work import UnitOfWork

MOST_SUGGESTED = 100
MOST_KEPT = 500
LONGEST_CHAIN = 20
NOTHING = ""


@dataclass(frozen=True)
class PlanningContext:
    """The snapshot of a project, and the records behind what it knows by name."""

    snapshot: Snapshot
    path: tuple[str, ...]
    compute_resources: dict[str, ComputeResource]
    templates: dict[str, Template]
    archived: dict[tuple[str, str], str | None]
    records: dict[tuple[str, str], AssetRecord] = field(default_factory=dict)


class Snapshots:
    """Snapshots by project and by what a caller may be told, dropped when the configuration changes."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._kept: tuple[Generation | None, dict[tuple[str, ...], PlanningContext]] = (None, {})

    def load(self, unit: UnitOfWork, scope: str, request: RunRequest) -> PlanningContext:
        """What a request in a project depends on."""
        grounds = self._current(unit.tx.generation)
        # Hints name clusters that can do more, but only to those who see them.
        sharing = [item.name for place, item in unit.organization.sharing.items() if unit.permissions.sees(place)]
        key = (scope, *sharing)
        context = grounds.get(key)
        if context is None:
            context = build_planning_context(unit.tx, unit.organization, scope, self._code, sharing=tuple(sharing))
            grounds[key] = context
        return look_up(unit.tx, context, request)

    def _current(self, generation: Generation) -> dict[tuple[str, ...], PlanningContext]:
        known, grounds = self._kept  # one attribute, so that no thread sees half of a change
        if known != generation or len(grounds) > MOST_KEPT:
            grounds = {}
            self._kept = (generation, grounds)
        return grounds


def build_planning_context(
    tx: Transaction,
    organization: Organization,
    scope: str,
    code: Code | None,
    *,
    policies: tuple[Policy, ...] | None = None,
    sharing: tuple[str, ...] = (),
) -> PlanningContext:
    """What reaches a scope, before anything is looked up by name."""
    path = tuple(organization.tree.path(scope))
    resources: dict[str, ComputeResource] = {}
    templates: dict[str, Template] = {}
    archived: dict[tuple[str, str], str | None] = {}
    here, in_project = Condition("scope", "=", scope), scope.startswith("project/")
    snapshot = Snapshot(
        project=scope.partition("/")[2],
        cluster=find_cluster(organization.clusters.values(), path),
        platform=organization.defaults,
        policies=organization.policies_of(scope) if policies is None else policies,
        compute_resources=resources,
        templates=templates,
        # Above a project nobody knows which secrets and volumes there will be.
        secrets=frozenset(secret.name for secret in tx.find(SecretRecord, here)) if in_project else None,
        volumes=frozenset(volume.name for volume in tx.find(VolumeRecord, here)) if in_project else None,
        sharing_clusters=sharing,
        code=code,
        archived=archived,
    )
    return PlanningContext(snapshot, path, resources, templates, archived)


def look_up(tx: Transaction, context: PlanningContext, request: RunRequest) -> PlanningContext:
    """The same ground, with all that is named; where a name is unknown, with more to choose from."""
    for kind, name in _named(context, request):
        if not _find(tx, context, kind, name):
            for record in tx.find(
                _KINDS[kind],
                Condition("scope", "in", context.path),
                Condition("archived", "=", False),
                limit=MOST_SUGGESTED,
            ):
                _keep(context, kind, record)
    return context


def load_profiles(tx: Transaction, context: PlanningContext) -> list[str]:
    """The names of all compute resources that can be chosen on a ground, which knows them from now on."""
    reach = Condition("scope", "in", context.path), Condition("archived", "=", False)
    found = tx.find(ComputeResourceRecord, *reach, limit=MOST_SUGGESTED)
    for record in found:
        _keep(context, "profile", record)
    return sorted(record.name for record in found)


def _named(context: PlanningContext, request: RunRequest) -> Iterator[tuple[str, str]]:
    if request.template is not None:
        yield "template", request.template
        template = context.templates.get(context.archived.get(("template", request.template)) or request.template)
        if template is not None and template.requirements.profile is not None:
            yield "profile", template.requirements.profile
    said = (request, context.snapshot.platform, *(policy.defaults for policy in context.snapshot.policies))
    profiles = [layer.profile for layer in said if layer.profile is not None]
    if not profiles and context.snapshot.switches["compute_resource"].value == "required":
        profiles = [NOTHING]  # looked for in vain, so that there is something to suggest
    yield from (("profile", profile) for profile in profiles)


def _find(tx: Transaction, context: PlanningContext, kind: str, name: str) -> bool:
    """Look a name up, and where it leads to when it is archived. Whether it leads to one that can be used."""
    if (kind, name) in context.records:
        return True
    if (kind, name) in context.archived:
        return context.archived[kind, name] is not None
    record = tx.get(_KINDS[kind], name=name)
    if record is None or record.scope not in context.path:
        return False
    if not record.archived:
        _keep(context, kind, record)
        return True
    context.archived[kind, name] = None
    successor: Any = record
    for _ in range(LONGEST_CHAIN):
        successor = successor.successor and tx.get(_KINDS[kind], name=successor.successor)
        if successor is None or successor.scope not in context.path:
            break
        if not successor.archived:
            _keep(context, kind, successor)
            context.archived[kind, name] = successor.name
            break
    return context.archived[kind, name] is not None


def _keep(context: PlanningContext, kind: str, record: AssetRecord) -> None:
    if kind == "profile" and isinstance(record, ComputeResourceRecord):
        context.compute_resources[record.name] = compute_resource_of(record)
    elif isinstance(record, TemplateRecord):
        context.templates[record.name] = template_of(record)
    context.records[kind, record.name] = record


def compute_resource_of(record: ComputeResourceRecord) -> ComputeResource:
    """What a record says, ready to be planned with."""
    return ComputeResource.model_validate(_said(record, ComputeResource))


def template_of(record: TemplateRecord) -> Template:
    """What a record says, ready to be planned with."""
    return Template.model_validate(_said(record, Template))


def _said(record: AssetRecord, model: type[NamedRequirements]) -> dict[str, Any]:
    """The fields that a record and a model share."""
    said = {name: getattr(record, name) for name in model.model_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


_KINDS: dict[str, type[Any]] = {"profile": ComputeResourceRecord, "template": TemplateRecord}
