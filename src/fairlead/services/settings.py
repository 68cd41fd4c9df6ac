"""What administrators set for the whole platform."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairlead.model.compute_resources import Defaults
from fairlead.model.records import JSON, SETTINGS, SettingsRecord
from fairlead.model.roles import Permission
from fairlead.model.scopes import PLATFORM
from fairlead.services.calls import Call
from fairlead.services.policies import check_profile
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True)
class SettingsView:
    """What is set, and what the server was started with."""

    revision: int
    defaults: JSON
    server: JSON


class PlatformSettings:
    """The use cases of the settings."""

    def __init__(self, units: UnitOfWorkFactory, describe: Callable[[], JSON]) -> None:
        self.units, self.describe = units, describe

    def get(self, call: Call) -> SettingsView:
        """What is set."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, PLATFORM, PLATFORM)
            return self._view(unit, unit.tx.get(SettingsRecord, id=SETTINGS))

    def put(self, call: Call, defaults: Defaults) -> SettingsView:
        """Say what holds where nobody says anything."""
        with self.units.changing(call, "organization") as unit:
            unit.require(Permission.ADMINISTER, PLATFORM, PLATFORM)
            check_profile(unit, defaults.profile, PLATFORM)
            return self._view(unit, self._keep(unit, defaults))

    def _keep(self, unit: UnitOfWork, defaults: Defaults) -> SettingsRecord:
        record = unit.tx.get(SettingsRecord, id=SETTINGS)
        if record is None:
            unit.check_absent("settings")
            made = SettingsRecord(**{**unit.stamps(), "id": SETTINGS}, defaults=defaults.to_data())
            return unit.add(made, "settings", SETTINGS, PLATFORM)
        unit.check_revision(record, required=True)
        after = replace(record, defaults=defaults.to_data(), **unit.next(record))
        return unit.save(record, after, "settings.edit", SETTINGS, PLATFORM)

    def _view(self, unit: UnitOfWork, record: SettingsRecord | None) -> SettingsView:
        """What is set. What the watched folder came to may name anything, so it is for those who govern all."""
        server = self.describe()
        if not unit.permissions.may(Permission.ADMINISTER, PLATFORM):
            server.pop("folder", None)
        return SettingsView(record.revision if record else 0, record.defaults if record else {}, server)
