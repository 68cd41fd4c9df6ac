"""The tree of scopes: clusters, departments and projects."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected, name_taken
from fairlead.files.kubeconfigs import KUBECONFIG
from fairlead.model import names
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Violation
from fairlead.model.records import (
    JSON,
    SETTINGS,
    ComputeResourceRecord,
    FunctionRecord,
    GrantRecord,
    PolicyRecord,
    RunRecord,
    ScheduleRecord,
    ScopeRecord,
    SecretRecord,
    SettingsRecord,
    TemplateRecord,
    VolumeRecord,
)
from fairlead.model.scopes import PLATFORM, Cluster, Department, Permission, Project, Scope
from fairlead.scheduling.queue_order import waits_for_executor
from fairlead.services.catalog.assets import format_objects
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MODELS: Mapping[str, type[Scope]] = {"cluster": Cluster, "department": Department, "project": Project}
# Objects that prevent the deletion of their scope. Ended runs and functions are deleted along with the scope.
CONTENT_TYPES: Mapping[str, type[Any]] = {
    "compute resource": ComputeResourceRecord,
    "template": TemplateRecord,
    "policy": PolicyRecord,
    "secret": SecretRecord,
    "volume": VolumeRecord,
    "role": GrantRecord,
    "schedule": ScheduleRecord,
}
MAX_LISTED = 50


class Scopes:
    """Manages clusters, departments and projects."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, query: ListQuery, kind: str | None = None) -> Page[ScopeRecord]:
        """List the visible scopes of one kind or of all kinds."""
        with self.units.reading(call) as unit:
            within = [*unit.visible_scopes(), *([] if kind is None else [Condition("kind", "=", kind)])]
            return load_page(unit.tx, ScopeRecord, query, sort="name", within=within)

    def get(self, call: Call, scope: str) -> ScopeRecord:
        """Return one scope."""
        with self.units.reading(call) as unit:
            return self.find(unit, scope)

    def create(self, call: Call, definition: Scope) -> ScopeRecord:
        """Create a scope inside its parent."""
        # The first cluster also changes the cluster of the assets that already exist.
        with self.units.changing(call, "organization", "assets") as unit:
            return unit.find_response(ScopeRecord) or unit.store_response(self.add(unit, definition))

    def edit(self, call: Call, scope: str, change: Mapping[str, Any], *, force: bool = False) -> ScopeRecord:
        """Change the given fields of a scope. A new name renames it, and a new parent moves it with its contents."""
        # A new name or parent also changes the scope or cluster of the assets inside.
        with self.units.changing(call, "organization", "assets") as unit:
            record = self.find(unit, scope, Permission.ADMINISTER)
            unit.check_writable(record, record.kind, force=force)
            return self.change(unit, record, self._merge(record, change))

    def delete(self, call: Call, scope: str, *, force: bool = False) -> None:
        """Delete a scope. Raises `Conflict` if it is not empty."""
        with self.units.changing(call, "organization", "assets") as unit:
            record = self.find(unit, scope, Permission.ADMINISTER)
            unit.check_writable(record, record.kind, force=force)
            self.remove(unit, record)

    def find(self, unit: UnitOfWork, scope: str, permission: Permission = Permission.VIEW) -> ScopeRecord:
        """Return a scope. Raises `NotFound` if it is not visible, `Forbidden` if the caller lacks the permission."""
        unit.require(permission, scope, scope)
        record = unit.tx.get(ScopeRecord, scope=scope)
        if record is None:
            raise NotFound(f"{scope} does not exist")
        return record

    def add(self, unit: UnitOfWork, definition: Scope, managed_by: str | None = None) -> ScopeRecord:
        """Create a scope in a unit of work."""
        placed = _place(unit, definition)
        hint = unit.hint_projects(placed.scope)
        self._check_parent(unit, placed, is_chosen=placed.parent == definition.parent, hint=hint)
        if unit.tx.get(ScopeRecord, scope=placed.scope) is not None:
            raise name_taken(placed.KIND, placed.name)
        stored = ScopeRecord(**unit.creation_fields(), **_fields_of(placed), managed_by=managed_by)
        record = unit.add(stored, stored.kind, stored.name, stored.scope)
        if record.kind == "cluster":
            self.move_into_clusters(unit.refreshed())
        return record

    def move_into_clusters(self, unit: UnitOfWork) -> None:
        """Move departments and projects that are in no cluster into the default cluster, if there is one."""
        organization, cluster = unit.organization, unit.organization.default_cluster
        outside = [record for record in organization.scopes.values() if record.parent == PLATFORM]
        for record in outside if cluster is not None else ():
            if record.kind != "cluster":
                moved = replace(record, parent=cluster, **unit.update_fields(record))
                unit.save(record, moved, f"{record.kind}.move", record.name, record.scope)
                inside = [record.scope, *organization.tree.descendants(record.scope)]
                unit.tx.move_to_cluster(inside, cluster)

    def change(
        self, unit: UnitOfWork, record: ScopeRecord, definition: Scope, managed_by: str | None = None
    ) -> ScopeRecord:
        """Change a scope in a unit of work."""
        named_parent, definition = definition.parent, _place(unit, definition, record)
        values = _fields_of(definition) | {"managed_by": managed_by or record.managed_by}
        if all(getattr(record, name) == value for name, value in values.items()):
            return record
        if definition.parent != record.parent:
            # A scope that moves away is no longer subject to its parent's policies, so permission is needed there too.
            unit.require(Permission.ADMINISTER, record.parent or PLATFORM, record.parent or PLATFORM)
            self._check_parent(unit, definition, is_chosen=definition.parent == named_parent)
        # A new name, parent or namespace template can change the location of objects on a cluster.
        locations = _find_locations(unit)
        if definition.scope != record.scope:
            # This must come before the save: the foreign keys update all references to the name.
            unit.tx.rename_scope(record.scope, definition.scope)
        action = (
            "rename" if definition.scope != record.scope else "move" if definition.parent != record.parent else "edit"
        )
        changed = replace(record, **values, **unit.update_fields(record))
        after = unit.save(record, changed, f"{record.kind}.{action}", definition.name, definition.scope)
        if definition.parent != record.parent:
            self._move(unit, record.scope, definition)
        _check_locations(locations, _find_locations(unit.refreshed()))
        return after

    def remove(self, unit: UnitOfWork, record: ScopeRecord) -> None:
        """Delete a scope in a unit of work. Raises `Conflict` if it is not empty.

        A project is deleted with its ended runs and functions, and a cluster with its kubeconfig.
        """
        # The kubeconfig is deleted first, because otherwise it would count as part of the cluster's contents.
        kubeconfig = unit.tx.get(SecretRecord, scope=record.scope, name=KUBECONFIG)
        if kubeconfig is not None and record.kind == "cluster":
            unit.remove(kubeconfig, "kubeconfig", KUBECONFIG, record.scope)
        contents = self._find_contents(unit, record.scope)
        if contents:
            message = f"{record.scope} is not empty: it has {format_objects(contents)}"
            raise Conflict(message, "move or delete its contents first", contents)
        if record.scope == unit.organization.default_cluster:
            _clear_default_cluster(unit, record.scope)
        for kind in (RunRecord, FunctionRecord):
            unit.tx.remove_all(kind, Condition("scope", "=", record.scope))
        unit.remove(record, record.kind, record.name, record.scope)

    def _merge(self, record: ScopeRecord, change: Mapping[str, Any]) -> Scope:
        model = MODELS.get(record.kind)
        if model is None:
            raise Conflict("the platform itself cannot be renamed or moved", "change its policy or the settings")
        data = {"name": record.name, "parent": record.parent, **record.details}
        try:
            return model.model_validate(
                {**data, **{model.canonical_name(name): value for name, value in change.items()}}
            )
        except ValidationError as error:
            raise RequestRejected(violations_of(error, model)) from error

    def _check_parent(self, unit: UnitOfWork, definition: Scope, *, is_chosen: bool, hint: str | None = None) -> None:
        """Check that the caller may add a scope to its parent. `is_chosen` means that they have named the parent."""
        parent = definition.parent
        is_visible = parent in unit.organization.scopes and unit.permissions.sees(parent)
        if is_chosen and not is_visible:
            violation = Violation("parent", "scope", f"{parent} does not exist", "use a scope that you can see")
            raise RequestRejected([violation])
        if not is_visible or not unit.permissions.may(Permission.ADMINISTER, parent):
            # The default cluster is not named to callers who cannot see it.
            where = parent if is_visible else PLATFORM
            message = f"{unit.principal.user} may not add a {definition.KIND} to {where}"
            raise Forbidden(message, hint or f"ask an administrator of {where} for the admin role")

    def _find_contents(self, unit: UnitOfWork, scope: str) -> list[JSON]:
        in_scope = Condition("scope", "=", scope)
        children = unit.tx.find(ScopeRecord, Condition("parent", "=", scope), limit=MAX_LISTED)
        contents: list[JSON] = [{"kind": child.kind, "name": child.name, "scope": child.scope} for child in children]
        for noun, kind in CONTENT_TYPES.items():
            for item in unit.tx.find(kind, in_scope, limit=MAX_LISTED):
                name = getattr(item, "name", None) or getattr(item, "subject", None) or scope
                contents.append({"kind": noun, "name": name, "scope": scope})
        runs = unit.tx.find(RunRecord, in_scope, Condition("active", "=", True), limit=MAX_LISTED)
        return [*contents, *({"kind": "run", "name": run.id, "scope": scope} for run in runs)]

    def _move(self, unit: UnitOfWork, old: str, definition: Scope) -> None:
        """Update the cluster of moved objects. Raises `Conflict` if a compute resource that they use is unavailable."""
        # `unit.organization` predates the change, so the descendants are listed under the old name.
        moved = [definition.scope, *unit.organization.tree.descendants(old)]
        tree = unit.refreshed().organization.tree
        unit.tx.move_to_cluster(moved, tree.cluster_of(definition.scope))
        in_moved = Condition("scope", "in", tuple(moved))
        templates = unit.tx.find(TemplateRecord, in_moved)
        references = [("template", item.name, item.scope, item.compute_resource) for item in templates]
        policies = unit.tx.find(PolicyRecord, in_moved)
        references += [
            ("policy", item.scope, item.scope, item.content.get("defaults", {}).get("profile")) for item in policies
        ]
        lost: list[JSON] = []
        for kind, name, scope, profile in references:
            resource = unit.tx.get(ComputeResourceRecord, name=profile) if profile is not None else None
            if resource is not None and resource.scope not in tree.path(scope):
                lost.append({"kind": kind, "name": name, "scope": scope, "needs": profile})
        if lost:
            first = lost[0]
            message = (
                f"{first['kind']} {first['name']} uses compute resource {first['needs']}, which would be unavailable"
            )
            raise Conflict(message, "change the objects that use it first, or move it to a parent scope", lost)


class Location(NamedTuple):
    """The location of a volume or an active run on a cluster. `namespace` is empty if it was not created there."""

    name: str
    cluster_id: str
    namespace: str
    follows_project: bool = False  # it is a run that is planned again if its project moves to another cluster


def _find_locations(unit: UnitOfWork) -> dict[str, Location]:
    """Return the location of each volume and active run, by ID."""
    organization, locations = unit.organization, {}
    objects = [(item.id, item.scope, f"volume {item.name}", False) for item in unit.tx.find(VolumeRecord)]
    active = unit.tx.find(RunRecord, Condition("active", "=", True))
    objects += [(run.id, run.scope, f"run {run.id}", waits_for_executor(run)) for run in active]
    for record_id, scope, name, follows_project in objects:
        cluster = organization.cluster_of(scope)
        cluster_id = "" if cluster is None else organization.scopes[cluster.scope].id
        # Without a connection, nothing has been created on the cluster, so the object can still be moved.
        is_created = cluster is not None and _may_have_executed(unit, cluster)
        namespace = names.namespace_of(scope.partition("/")[2], cluster.namespace) if cluster and is_created else ""
        locations[record_id] = Location(name, cluster_id, namespace, follows_project)
    return locations


def _may_have_executed(unit: UnitOfWork, cluster: Cluster) -> bool:
    """Whether runs may have been executed on a Kubernetes cluster, in which case it may contain Fairlead's objects."""
    kubeconfig = unit.tx.get(SecretRecord, scope=cluster.scope, name=KUBECONFIG)
    return cluster.executor == "kubernetes" and (kubeconfig is not None or cluster.connection == "in_cluster")


def _check_locations(before: Mapping[str, Location], after: Mapping[str, Location]) -> None:
    """Raise `Conflict` if the cluster or namespace of a volume or active run changes.

    Objects on a cluster cannot move to a different namespace, so runs would find empty volumes.
    """
    moved = [
        location
        for record_id, location in before.items()
        if location.namespace
        and after[record_id] != location
        and not (location.follows_project and after[record_id].cluster_id != location.cluster_id)
    ]
    if moved:
        message = f"{moved[0].name} is in namespace {moved[0].namespace} of its cluster and cannot be moved"
        raise Conflict(message, "wait until all runs have ended; copy the data from volumes, then delete them")


def _place(unit: UnitOfWork, definition: Scope, record: ScopeRecord | None = None) -> Scope:
    """Return the definition of a department or project with a parent in a cluster, if there are clusters.

    Instead of `platform`, the parent is the default cluster. If it is omitted, an existing scope keeps its parent.
    """
    cluster = unit.organization.default_cluster
    if definition.parent != PLATFORM or definition.KIND == "cluster" or cluster is None:
        return definition
    keeps_parent = record is not None and record.parent != PLATFORM and "parent" not in definition.model_fields_set
    parent = record.parent if record is not None and keeps_parent else cluster
    return definition.model_copy(update={"parent": parent})


def _clear_default_cluster(unit: UnitOfWork, scope: str) -> None:
    """Remove the default cluster from the settings. Raises `Conflict` if new projects could use another cluster."""
    others = [other.name for at, other in unit.organization.clusters.items() if at != scope]
    if others:
        hint = f"choose another default first, for example: fairlead clusters default {others[0]}"
        raise Conflict(f"{scope} is the default cluster, in which new projects are created", hint)
    settings = unit.tx.get(SettingsRecord, id=SETTINGS)
    if settings is not None and settings.default_cluster is not None:
        cleared = replace(settings, default_cluster=None, **unit.update_fields(settings))
        unit.save(settings, cleared, "settings.edit", SETTINGS, PLATFORM)


def _fields_of(definition: Scope) -> JSON:
    """Return a scope's record fields. Its details contain no default values."""
    details = definition.model_dump(mode="json", exclude={"name", "parent"}, exclude_defaults=True)
    fields = {"kind": definition.KIND, "name": definition.name, "scope": definition.scope, "parent": definition.parent}
    return {**fields, "details": details}
