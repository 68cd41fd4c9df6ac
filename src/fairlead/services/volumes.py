"""Volumes that the runs of a project share."""

from fairlead.errors import Conflict, NotFound
from fairlead.model.parsing import short_repr
from fairlead.model.project_objects import SharedVolume
from fairlead.model.queries import Condition, Page
from fairlead.model.records import RunRecord, VolumeRecord
from fairlead.model.roles import Permission
from fairlead.services.assets import name_some
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Volumes:
    """The use cases of volumes."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, scope: str, asked: Listing) -> Page[VolumeRecord]:
        """The volumes of a project."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            return load_page(unit.tx, VolumeRecord, asked, sort="name", within=[Condition("scope", "=", scope)])

    def get(self, call: Call, scope: str, name: str) -> VolumeRecord:
        """One volume of a project."""
        with self.units.reading(call) as unit:
            return self._find(unit, scope, name, Permission.VIEW)

    def create(self, call: Call, scope: str, volume: SharedVolume) -> VolumeRecord:
        """A new volume, empty until a run writes to it."""
        with self.units.changing(call, "assets") as unit:
            if (before := unit.recall(VolumeRecord)) is not None:
                return before
            unit.require(Permission.RUN, scope, scope)
            if unit.tx.get(VolumeRecord, scope=scope, name=volume.name) is not None:
                raise Conflict(f"{scope} already has a volume {volume.name}", "choose another name")
            record = VolumeRecord(
                **unit.stamps(),
                scope=scope,
                name=volume.name,
                size=str(volume.size),
                storage_class=volume.storage_class,
                description=volume.description,
            )
            return unit.remember(unit.add(record, "volume", volume.name, scope))

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Remove a volume with all that is on it, unless a run that is not finished uses it."""
        with self.units.changing(call, "assets") as unit:
            record = self._find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            live = unit.tx.find(RunRecord, Condition("scope", "=", scope), Condition("active", "=", True))
            users = [{"kind": "run", "name": run.id, "scope": scope} for run in live if f"volume/{name}" in run.uses]
            if users:
                message = f"volume {name} is used by {name_some(users)}"
                raise Conflict(message, "wait for the runs to end, or stop them", users)
            unit.remove(record, "volume", name, scope)

    def _find(self, unit: UnitOfWork, scope: str, name: str, permission: Permission) -> VolumeRecord:
        unit.require(permission, scope, scope)
        record = unit.tx.get(VolumeRecord, scope=scope, name=name)
        if record is None:
            raise NotFound(f"{scope} has no volume {short_repr(name)}")
        return record
