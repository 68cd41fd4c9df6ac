"""The organization tree: clusters, departments and projects, and what lives in them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from fairlead.core.kubeconfigs import KUBECONFIG
from fairlead.core.manifests import names
from fairlead.core.scope_tree import find_cluster
from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import (
    JSON,
    ComputeResourceRecord,
    FunctionRecord,
    GrantRecord,
    PolicyRecord,
    RunRecord,
    ScheduleRecord,
    ScopeRecord,
    SecretRecord,
    TemplateRecord,
    VolumeRecord,
)
from fairlead.model.roles import Permission
from fairlead.model.scopes import PLATFORM, Cluster, Department, Project, Scope
from fairlead.services.assets import name_some
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MODELS: Mapping[str, type[Scope]] = {"cluster": Cluster, "department": Department, "project": Project}
# What can live at a scope, besides other places.
INHABITANTS: Mapping[str, type[Any]] = {
    "compute resource": ComputeResourceRecord,
    "template": TemplateRecord,
    "policy": PolicyRecord,
    "secret": SecretRecord,
    "volume": VolumeRecord,
    "role": GrantRecord,
    "schedule": ScheduleRecord,
}
MOST_TOLD = 50


class Scopes:
    """The use cases of the tree."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, asked: Listing, kind: str | None = None) -> Page[ScopeRecord]:
        """The places of a kind, or of all kinds, that the caller sees."""
        with self.units.reading(call) as unit:
            within = [*unit.in_sight(), *([] if kind is None else [Condition("kind", "=", kind)])]
            return load_page(unit.tx, ScopeRecord, asked, sort="name", within=within)

    def get(self, call: Call, scope: str) -> ScopeRecord:
        """One place."""
        with self.units.reading(call) as unit:
            return self.find(unit, scope)

    def create(self, call: Call, place: Scope) -> ScopeRecord:
        """A new place below another one."""
        with self.units.changing(call, "organization") as unit:
            return unit.recall(ScopeRecord) or unit.remember(self.add(unit, place))

    def edit(self, call: Call, scope: str, change: Mapping[str, Any], *, force: bool = False) -> ScopeRecord:
        """Change what is said: a new name renames it, a new parent moves it and all below it."""
        with self.units.changing(call, "organization", "assets") as unit:
            record = self.find(unit, scope, Permission.ADMINISTER)
            unit.check_free(record, record.kind, force=force)
            return self.change(unit, record, self._merge(record, change))

    def delete(self, call: Call, scope: str, *, force: bool = False) -> None:
        """Remove a place, unless something lives in it."""
        with self.units.changing(call, "organization", "assets") as unit:
            record = self.find(unit, scope, Permission.ADMINISTER)
            unit.check_free(record, record.kind, force=force)
            self.drop(unit, record)

    def find(self, unit: UnitOfWork, scope: str, permission: Permission = Permission.VIEW) -> ScopeRecord:
        """A place for a caller who may do the permission."""
        unit.require(permission, scope, scope)
        record = unit.tx.get(ScopeRecord, scope=scope)
        if record is None:
            raise NotFound(f"there is no {scope}")
        return record

    def add(self, unit: UnitOfWork, place: Scope, managed_by: str | None = None) -> ScopeRecord:
        """A new place, within a use case."""
        self._check_parent(unit, place)
        if unit.tx.get(ScopeRecord, scope=place.scope) is not None:
            raise Conflict(f"there is already a {place.scope}", "choose another name")
        record = ScopeRecord(**unit.stamps(), **_fields_of(place), managed_by=managed_by)
        return unit.add(record, record.kind, record.name, record.scope)

    def change(self, unit: UnitOfWork, record: ScopeRecord, place: Scope, managed_by: str | None = None) -> ScopeRecord:
        """A changed place, within a use case."""
        said = _fields_of(place) | {"managed_by": managed_by or record.managed_by}
        if all(getattr(record, name) == value for name, value in said.items()):
            return record
        if place.parent != record.parent:
            # Who leaves a place leaves its policies: it has a say.
            unit.require(Permission.ADMINISTER, record.parent or PLATFORM, record.parent or PLATFORM)
            self._check_parent(unit, place)
        homes = _find_homes(unit)
        if place.scope != record.scope:
            unit.tx.rename_scope(record.scope, place.scope)
        action = "rename" if place.scope != record.scope else "move" if place.parent != record.parent else "edit"
        changed = replace(record, **said, **unit.next(record))
        after = unit.save(record, changed, f"{record.kind}.{action}", place.name, place.scope)
        if place.parent != record.parent:
            self._move(unit, record.scope, place)
        _check_homes(homes, _find_homes(unit.refreshed()))
        return after

    def drop(self, unit: UnitOfWork, record: ScopeRecord) -> None:
        """Remove a place, within a use case, unless something lives in it.

        Finished runs and functions go with their project, and a kubeconfig with its cluster.
        """
        kubeconfig = unit.tx.get(SecretRecord, scope=record.scope, name=KUBECONFIG)
        if kubeconfig is not None and record.kind == "cluster":
            unit.remove(kubeconfig, "kubeconfig", KUBECONFIG, record.scope)
        living = self._living(unit, record.scope)
        if living:
            message = f"{record.scope} still has {name_some(living)}"
            raise Conflict(message, "move or delete what is in it first", living)
        for kind in (RunRecord, FunctionRecord):
            unit.tx.remove_all(kind, Condition("scope", "=", record.scope))
        unit.remove(record, record.kind, record.name, record.scope)

    def _merge(self, record: ScopeRecord, change: Mapping[str, Any]) -> Scope:
        model = MODELS.get(record.kind)
        if model is None:
            raise Conflict("the platform itself cannot be renamed or moved", "change its policy or the settings")
        written = {"name": record.name, "parent": record.parent, **record.details}
        try:
            return model.model_validate(
                {**written, **{model.canonical_name(name): value for name, value in change.items()}}
            )
        except ValidationError as error:
            raise RequestRejected(violations_of(error, model)) from error

    def _check_parent(self, unit: UnitOfWork, place: Scope) -> None:
        if place.parent not in unit.organization.scopes or not unit.permissions.sees(place.parent):
            violation = Violation("parent", "scope", f"there is no {place.parent}", "choose a place that you see")
            raise RequestRejected([violation])
        unit.require(Permission.ADMINISTER, place.parent, place.parent)

    def _living(self, unit: UnitOfWork, scope: str) -> list[JSON]:
        here = Condition("scope", "=", scope)
        below = unit.tx.find(ScopeRecord, Condition("parent", "=", scope), limit=MOST_TOLD)
        found: list[JSON] = [{"kind": place.kind, "name": place.name, "scope": place.scope} for place in below]
        for noun, kind in INHABITANTS.items():
            for item in unit.tx.find(kind, here, limit=MOST_TOLD):
                name = getattr(item, "name", None) or getattr(item, "subject", None) or scope
                found.append({"kind": noun, "name": name, "scope": scope})
        runs = unit.tx.find(RunRecord, here, Condition("active", "=", True), limit=MOST_TOLD)
        return [*found, *({"kind": "run", "name": run.id, "scope": scope} for run in runs)]

    def _move(self, unit: UnitOfWork, old: str, place: Scope) -> None:
        """What is at a moved place or below it is on another cluster now, and must still reach what it names."""
        moved = [place.scope, *unit.organization.tree.below(old)]
        tree = unit.refreshed().organization.tree
        unit.tx.move_to_cluster(moved, tree.cluster_of(place.scope))
        there = Condition("scope", "in", tuple(moved))
        templates = unit.tx.find(TemplateRecord, there)
        named = [("template", item.name, item.scope, item.compute_resource) for item in templates]
        policies = unit.tx.find(PolicyRecord, there)
        named += [
            ("policy", item.scope, item.scope, item.content.get("defaults", {}).get("profile")) for item in policies
        ]
        lost: list[JSON] = []
        for kind, name, scope, profile in named:
            resource = unit.tx.get(ComputeResourceRecord, name=profile) if profile is not None else None
            if resource is not None and resource.scope not in tree.path(scope):
                lost.append({"kind": kind, "name": name, "scope": scope, "needs": profile})
        if lost:
            message = f"{lost[0]['kind']} {lost[0]['name']} would no longer reach compute resource {lost[0]['needs']}"
            raise Conflict(message, "change what names it first, or offer it further up", lost)


def _find_homes(unit: UnitOfWork) -> dict[str, tuple[str, str, str]]:
    """Where volumes and live runs are, by their ids: the cluster, the namespace there, and what they are called."""
    organization, homes = unit.organization, {}
    there = [(item.id, item.scope, f"volume {item.name}") for item in unit.tx.find(VolumeRecord)]
    live = unit.tx.find(RunRecord, Condition("active", "=", True))
    there += [(run.id, run.scope, f"run {run.id}") for run in live]
    for record_id, scope, name in there:
        cluster = find_cluster(organization.clusters.values(), organization.tree.path(scope))
        place = organization.scopes.get(cluster.scope)
        namespace = names.namespace(scope.partition("/")[2], cluster.namespace)
        home = (place.id, namespace) if place is not None and _is_reached(unit, cluster) else ("", "")
        homes[record_id] = (*home, name)
    return homes


def _is_reached(unit: UnitOfWork, cluster: Cluster) -> bool:
    """Whether runs may have been executed on a Kubernetes cluster."""
    kept = unit.tx.get(SecretRecord, scope=cluster.scope, name=KUBECONFIG)
    return cluster.executor == "kubernetes" and (kept is not None or cluster.connection == "in_cluster")


def _check_homes(before: Mapping[str, tuple[str, str, str]], after: Mapping[str, tuple[str, str, str]]) -> None:
    """Raise `Conflict` where runs would find empty volumes: what is on a cluster stays in its namespace."""
    left = [home for record_id, home in before.items() if after.get(record_id) != home and home[1]]
    if left:
        _, namespace, name = left[0]
        message = f"{name} is in namespace {namespace} of its cluster, and would stay behind"
        raise Conflict(message, "wait for runs to end; copy what is on volumes, and delete them first")


def _fields_of(place: Scope) -> JSON:
    """The fields of a record; of a cluster only what was said of it."""
    details = place.model_dump(mode="json", exclude={"name", "parent"}, exclude_defaults=True)
    said = {"kind": place.KIND, "name": place.name, "scope": place.scope, "parent": place.parent}
    return {**said, "details": details}
