"""Planning contexts for projects, cached until the configuration changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.assets import ComputeResource, NamedRequirements, Policy, Template
from fairlead.model.columns import Condition
from fairlead.model.records import AssetRecord, ComputeResourceRecord, SecretRecord, TemplateRecord, VolumeRecord
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import find_cluster
from fairlead.ports import Generation, Transaction
from fairlead.resolution.drafts import Code, Snapshot
from fairlead.services.transactions.unit_of_work import Organization, UnitOfWork

MAX_SUGGESTED = 100  # assets loaded to suggest similar names or to find one that fits
MAX_CACHED = 500  # contexts; beyond this, the cache is emptied
MAX_SUCCESSORS = 20  # limit for chains of archived assets, which can be circular
NO_NAME = ""


@dataclass(frozen=True)
class PlanningContext:
    """A project's snapshot, and the records of the assets in it, by name."""

    snapshot: Snapshot
    path: tuple[str, ...]  # scopes from the platform down, whose assets are available
    # The snapshot refers to these dicts. They contain only the assets that requests name, because a platform may have
    # thousands of assets.
    compute_resources: dict[str, ComputeResource]
    templates: dict[str, Template]
    archived: dict[tuple[str, str], str | None]  # (kind, name): its successor, or None if it has no usable successor
    records: dict[tuple[str, str], AssetRecord] = field(default_factory=dict)  # by kind and name


class Snapshots:
    """Cache of planning contexts, keyed by project and by the GPU-sharing clusters that the caller can see."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._cache: tuple[Generation | None, dict[tuple[str, ...], PlanningContext]] = (None, {})

    def load(self, unit: UnitOfWork, scope: str, request: RunRequest) -> PlanningContext:
        """Return the planning context for a request in a project."""
        contexts = self._current(unit.tx.generation)
        # Hints mention clusters that share GPUs, but only those visible to the caller.
        clusters = unit.organization.gpu_sharing_clusters
        sharing = [cluster.name for cluster_scope, cluster in clusters.items() if unit.permissions.sees(cluster_scope)]
        key = (scope, *sharing)
        context = contexts.get(key)
        if context is None:
            context = build_planning_context(unit.tx, unit.organization, scope, self._code, sharing=tuple(sharing))
            contexts[key] = context
        return resolve_names(unit.tx, context, request)

    def _current(self, generation: Generation) -> dict[tuple[str, ...], PlanningContext]:
        cached, contexts = self._cache  # a single attribute, so that threads read a consistent pair
        if cached != generation or len(contexts) > MAX_CACHED:
            contexts = {}
            self._cache = (generation, contexts)
        return contexts


def build_planning_context(
    tx: Transaction,
    organization: Organization,
    scope: str,
    code: Code | None,
    *,
    policies: tuple[Policy, ...] | None = None,
    sharing: tuple[str, ...] = (),
) -> PlanningContext:
    """Build the planning context for a scope. It contains no assets until `resolve_names` adds them."""
    path = tuple(organization.tree.path(scope))
    resources: dict[str, ComputeResource] = {}
    templates: dict[str, Template] = {}
    archived: dict[tuple[str, str], str | None] = {}
    in_scope, is_project = Condition("scope", "=", scope), scope.startswith("project/")
    snapshot = Snapshot(
        project=scope.partition("/")[2],
        cluster=find_cluster(organization.clusters.values(), path),
        platform=organization.defaults,
        policies=organization.policies_of(scope) if policies is None else policies,
        compute_resources=resources,
        templates=templates,
        # Only projects have secrets and volumes. For other scopes, None means that these are not checked.
        secrets=frozenset(secret.name for secret in tx.find(SecretRecord, in_scope)) if is_project else None,
        volumes=frozenset(volume.name for volume in tx.find(VolumeRecord, in_scope)) if is_project else None,
        sharing_clusters=sharing,
        code=code,
        archived=archived,
    )
    return PlanningContext(snapshot, path, resources, templates, archived)


def resolve_names(tx: Transaction, context: PlanningContext, request: RunRequest) -> PlanningContext:
    """Add the assets that a request references to the context. If one is unknown, add other assets to suggest."""
    for kind, name in _referenced_names(context, request):
        if not _resolve(tx, context, kind, name):
            for record in tx.find(
                _KINDS[kind],
                Condition("scope", "in", context.path),
                Condition("archived", "=", False),
                limit=MAX_SUGGESTED,
            ):
                _add(context, kind, record)
    return context


def load_profiles(tx: Transaction, context: PlanningContext) -> list[str]:
    """Add all available compute resources to the context and return their names."""
    available = Condition("scope", "in", context.path), Condition("archived", "=", False)
    records = tx.find(ComputeResourceRecord, *available, limit=MAX_SUGGESTED)
    for record in records:
        _add(context, "profile", record)
    return sorted(record.name for record in records)


def compute_resource_of(record: ComputeResourceRecord) -> ComputeResource:
    """Convert a record to its model."""
    return ComputeResource.model_validate(_shared_fields(record, ComputeResource))


def template_of(record: TemplateRecord) -> Template:
    """Convert a record to its model."""
    return Template.model_validate(_shared_fields(record, Template))


def _referenced_names(context: PlanningContext, request: RunRequest) -> Iterator[tuple[str, str]]:
    if request.template is not None:
        yield "template", request.template
        # The caller resolves each name before asking for the next one, so the template is in the context by now.
        template = context.templates.get(context.archived.get(("template", request.template)) or request.template)
        if template is not None and template.requirements.profile is not None:
            yield "profile", template.requirements.profile
    layers = (request, context.snapshot.platform, *(policy.defaults for policy in context.snapshot.policies))
    profiles = [layer.profile for layer in layers if layer.profile is not None]
    if not profiles and context.snapshot.switches["compute_resource"].value == "required":
        profiles = [NO_NAME]  # never found, so the compute resources to suggest are loaded
    yield from (("profile", profile) for profile in profiles)


def _resolve(tx: Transaction, context: PlanningContext, kind: str, name: str) -> bool:
    """Add an asset, or an archived asset's successor, to the context. Returns whether one is available."""
    if (kind, name) in context.records:
        return True
    if (kind, name) in context.archived:
        return context.archived[kind, name] is not None
    record = tx.get(_KINDS[kind], name=name)
    if record is None or record.scope not in context.path:
        return False
    if not record.archived:
        _add(context, kind, record)
        return True
    context.archived[kind, name] = None
    successor: Any = record
    for _ in range(MAX_SUCCESSORS):
        successor = successor.successor and tx.get(_KINDS[kind], name=successor.successor)
        if successor is None or successor.scope not in context.path:
            break
        if not successor.archived:
            _add(context, kind, successor)
            context.archived[kind, name] = successor.name
            break
    return context.archived[kind, name] is not None


def _add(context: PlanningContext, kind: str, record: AssetRecord) -> None:
    if kind == "profile" and isinstance(record, ComputeResourceRecord):
        context.compute_resources[record.name] = compute_resource_of(record)
    elif isinstance(record, TemplateRecord):
        context.templates[record.name] = template_of(record)
    context.records[kind, record.name] = record


def _shared_fields(record: AssetRecord, model: type[NamedRequirements]) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in model.model_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


_KINDS: dict[str, type[Any]] = {"profile": ComputeResourceRecord, "template": TemplateRecord}
