"""Planning contexts for projects, cached until the configuration changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.model.assets import ComputeResource, NamedRequirements, Policy, Template
from fairlead.model.columns import Condition
from fairlead.model.plans import Violation
from fairlead.model.records import AssetRecord, ComputeResourceRecord, SecretRecord, TemplateRecord, VolumeRecord
from fairlead.model.requests import RunRequest
from fairlead.model.resources import Requirements
from fairlead.model.scopes import Cluster
from fairlead.ports import Executors, Generation, RecordT, Transaction
from fairlead.resolution.drafts import Code, Snapshot
from fairlead.resolution.policy_merging import merge_switches
from fairlead.services.transactions.unit_of_work import Organization, UnitOfWork

MAX_SUGGESTED = 100  # assets loaded to suggest similar names or to find one that fits
MAX_CACHED = 2000  # contexts; beyond this, the cache is emptied
MAX_SUCCESSORS = 20  # limit for chains of archived assets, which can be circular
NO_NAME = ""


@dataclass(frozen=True)
class PlanningContext:
    """The snapshot for requests that name the same assets, and the records of the assets in it."""

    snapshot: Snapshot
    records: Mapping[tuple[str, str], AssetRecord]  # by kind and name
    has_unknown_names: bool  # then it also contains assets to suggest


class Snapshots:
    """Cache of planning contexts, keyed by project, visible GPU-sharing clusters, and the assets that requests name."""

    def __init__(self, code: Code, executors: Executors) -> None:
        self._code, self._executors = code, executors
        self._cache: tuple[Generation | None, dict[tuple[Any, ...], PlanningContext]] = (None, {})

    def load(self, unit: UnitOfWork, scope: str, request: RunRequest) -> PlanningContext:
        """Return the planning context for a request in a project."""
        contexts = self._current(unit.tx.generation)
        # Hints mention clusters that share GPUs, but only those visible to the caller.
        clusters = unit.organization.gpu_sharing_clusters
        sharing = tuple(cluster.name for at, cluster in clusters.items() if unit.permissions.sees(at))
        key = (scope, sharing, request.template, request.profile)
        context = contexts.get(key)
        if context is None:
            organization = unit.organization
            context = build_planning_context(
                unit.tx, organization, scope, self._code, request, sharing=sharing, executors=self._executors
            )
            # Otherwise, each misspelled name would keep up to `MAX_SUGGESTED` assets in memory.
            if not context.has_unknown_names:
                contexts[key] = context
        return context

    def _current(self, generation: Generation) -> dict[tuple[Any, ...], PlanningContext]:
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
    request: RunRequest,
    *,
    policies: tuple[Policy, ...] | None = None,
    sharing: tuple[str, ...] = (),
    executors: Executors | None = None,
) -> PlanningContext:
    """Build the planning context for a request in a scope. Without executors, their capabilities are not checked."""
    path = tuple(organization.tree.path(scope))
    policies = organization.policies_of(scope) if policies is None else policies
    assets = _NamedAssets(tx, path)
    assets.load_for(request, organization.defaults, policies)
    in_scope, is_project = Condition("scope", "=", scope), scope.startswith("project/")
    cluster = organization.cluster_of(scope) or Cluster(name="default")
    executor = None if executors is None else executors.find(cluster)
    snapshot = Snapshot(
        project=scope.partition("/")[2],
        cluster=cluster,
        platform=organization.defaults,
        policies=policies,
        compute_resources={
            record.name: compute_resource_of(record)
            for record in assets.records.values()
            if isinstance(record, ComputeResourceRecord)
        },
        templates=assets.templates,
        # Only projects have secrets and volumes. For other scopes, None means that these are not checked.
        secrets=frozenset(secret.name for secret in tx.find(SecretRecord, in_scope)) if is_project else None,
        volumes=frozenset(volume.name for volume in tx.find(VolumeRecord, in_scope)) if is_project else None,
        sharing_clusters=sharing,
        code=code,
        archived=assets.archived,
        capabilities=None if executor is None else executor.capabilities,
    )
    return PlanningContext(snapshot, assets.records, assets.has_unknown_names)


def check_cluster(organization: Organization, scope: str) -> Iterator[Violation]:
    """A run needs a cluster. Every project has one, unless the platform has no clusters."""
    if organization.cluster_of(scope) is None:
        hint = "add a cluster, or ask a platform administrator to add one: fairlead clusters add"
        yield Violation("project", "no_cluster", f"{scope} is not in a cluster: the platform has no clusters", hint)


def load_compute_resources(unit: UnitOfWork, scope: str) -> dict[str, ComputeResource]:
    """Load the compute resources that are available in a scope, by name."""
    records = _find_available(unit.tx, ComputeResourceRecord, unit.organization.tree.path(scope))
    return {record.name: compute_resource_of(record) for record in records}


def compute_resource_of(record: ComputeResourceRecord) -> ComputeResource:
    """Convert a record to its model."""
    return ComputeResource.model_validate(_shared_fields(record, ComputeResource))


def template_of(record: TemplateRecord) -> Template:
    """Convert a record to its model."""
    return Template.model_validate(_shared_fields(record, Template))


class _NamedAssets:
    """Loads the assets that a request, its template and the defaults name. A platform may have thousands of others."""

    def __init__(self, tx: Transaction, path: Sequence[str]) -> None:
        self._tx, self._path = tx, path  # scopes from the platform down, whose assets are available
        self.records: dict[tuple[str, str], AssetRecord] = {}  # by kind and name
        self.templates: dict[str, Template] = {}
        self.archived: dict[tuple[str, str], str | None] = {}  # (kind, name): its usable successor, if any
        self.has_unknown_names = False

    def load_for(self, request: RunRequest, platform: Requirements, policies: Sequence[Policy]) -> None:
        """Load the named assets. If one is unknown, load others to suggest."""
        layers = [request, platform, *(policy.defaults for policy in policies)]
        if request.template is not None:
            self._load("template", request.template)
            template = self.templates.get(self.archived.get(("template", request.template)) or request.template)
            if template is not None:
                layers.append(template.requirements)
        profiles = [layer.profile for layer in layers if layer.profile is not None]
        if not profiles and merge_switches(policies)["compute_resource"].value == "required":
            profiles = [NO_NAME]  # never found, so the compute resources to suggest are loaded
        for profile in profiles:
            self._load("profile", profile)

    def _load(self, kind: str, name: str) -> None:
        record = self._find(kind, name)
        if record is not None and record.archived:
            record = self._find_successor(kind, record)
            self.archived[kind, name] = None if record is None else record.name
        if record is not None:
            self._add(kind, record)
            return
        self.has_unknown_names = True
        for suggested in _find_available(self._tx, _KINDS[kind], self._path):
            self._add(kind, suggested)

    def _find(self, kind: str, name: str) -> AssetRecord | None:
        record: AssetRecord | None = self._tx.get(_KINDS[kind], name=name)
        return record if record is not None and record.scope in self._path else None

    def _find_successor(self, kind: str, record: AssetRecord) -> AssetRecord | None:
        successor: AssetRecord | None = record
        for _ in range(MAX_SUCCESSORS):
            if successor is None or successor.successor is None:
                return None
            successor = self._find(kind, successor.successor)
            if successor is not None and not successor.archived:
                return successor
        return None

    def _add(self, kind: str, record: AssetRecord) -> None:
        self.records[kind, record.name] = record
        if isinstance(record, TemplateRecord):
            self.templates[record.name] = template_of(record)


def _find_available(tx: Transaction, kind: type[RecordT], path: Sequence[str]) -> list[RecordT]:
    return tx.find(kind, Condition("scope", "in", tuple(path)), Condition("archived", "=", False), limit=MAX_SUGGESTED)


def _shared_fields(record: AssetRecord, model: type[NamedRequirements]) -> dict[str, Any]:
    values = {name: getattr(record, name) for name in model.model_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


_KINDS: dict[str, type[Any]] = {"profile": ComputeResourceRecord, "template": TemplateRecord}
