"""Shared volumes of projects."""

from fairlead.errors import Conflict, NotFound
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import RunRecord, VolumeRecord
from fairlead.model.scopes import Permission
from fairlead.services.assets import format_objects
from fairlead.services.calls import Call
from fairlead.services.pages import ListQuery, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Volumes:
    """Manages shared volumes."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, scope: str, query: ListQuery) -> Page[VolumeRecord]:
        """List the volumes of a project."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            return load_page(unit.tx, VolumeRecord, query, sort="name", within=[Condition("scope", "=", scope)])

    def get(self, call: Call, scope: str, name: str) -> VolumeRecord:
        """Return one volume."""
        with self.units.reading(call) as unit:
            return self._find(unit, scope, name, Permission.VIEW)

    def create(self, call: Call, scope: str, volume: SharedVolume) -> VolumeRecord:
        """Create an empty volume."""
        with self.units.changing(call, "assets") as unit:
            if (before := unit.find_response(VolumeRecord)) is not None:
                return before
            unit.require(Permission.RUN, scope, scope)
            if unit.tx.get(VolumeRecord, scope=scope, name=volume.name) is not None:
                raise Conflict(f"volume {volume.name} already exists in {scope}", "choose another name")
            record = VolumeRecord(
                **unit.creation_fields(),
                scope=scope,
                name=volume.name,
                size=str(volume.size),
                storage_class=volume.storage_class,
                description=volume.description,
            )
            return unit.store_response(unit.add(record, "volume", volume.name, scope))

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Delete a volume with its data. Raises `Conflict` if an active run uses it."""
        # Submissions wait for this transaction, so no new run can start using the volume.
        with self.units.changing(call, "assets") as unit:
            record = self._find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            active = unit.tx.find(RunRecord, Condition("scope", "=", scope), Condition("active", "=", True))
            # Conditions cannot search the list in `uses`.
            usages = [{"kind": "run", "name": run.id, "scope": scope} for run in active if f"volume/{name}" in run.uses]
            if usages:
                message = f"volume {name} is used by {format_objects(usages)}"
                raise Conflict(message, "wait for the runs to end, or stop them", usages)
            # The data is deleted later, when retention finds this deletion in the audit log.
            unit.remove(record, "volume", name, scope)

    def _find(self, unit: UnitOfWork, scope: str, name: str, permission: Permission) -> VolumeRecord:
        unit.require(permission, scope, scope)
        record = unit.tx.get(VolumeRecord, scope=scope, name=name)
        if record is None:
            raise NotFound(f"volume {short_repr(name)} does not exist in {scope}")
        return record
