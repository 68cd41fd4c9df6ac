"""Platform-wide settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairlead.model.assets import Defaults
from fairlead.model.records import JSON, SETTINGS, SettingsRecord
from fairlead.model.scopes import PLATFORM, Permission
from fairlead.services.calls import Call
from fairlead.services.policies import check_profile
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True)
class SettingsView:
    """The platform defaults and the server configuration."""

    revision: int
    defaults: JSON
    server: JSON


class PlatformSettings:
    """Reads and changes the platform-wide settings."""

    def __init__(self, units: UnitOfWorkFactory, describe: Callable[[], JSON]) -> None:
        self.units, self.describe = units, describe

    def get(self, call: Call) -> SettingsView:
        """Return the settings."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, PLATFORM, PLATFORM)
            return self._view(unit, unit.tx.get(SettingsRecord, id=SETTINGS))

    def put(self, call: Call, defaults: Defaults) -> SettingsView:
        """Replace the platform defaults."""
        with self.units.changing(call, "organization") as unit:
            unit.require(Permission.ADMINISTER, PLATFORM, PLATFORM)
            check_profile(unit, defaults.profile, PLATFORM)
            return self._view(unit, self._store(unit, defaults))

    def _store(self, unit: UnitOfWork, defaults: Defaults) -> SettingsRecord:
        record = unit.tx.get(SettingsRecord, id=SETTINGS)
        if record is None:
            unit.check_absent("settings")
            # The fixed ID ensures that only one record can exist.
            created = SettingsRecord(**{**unit.creation_fields(), "id": SETTINGS}, defaults=defaults.to_data())
            return unit.add(created, "settings", SETTINGS, PLATFORM)
        unit.check_revision(record, required=True)
        after = replace(record, defaults=defaults.to_data(), **unit.update_fields(record))
        return unit.save(record, after, "settings.edit", SETTINGS, PLATFORM)

    def _view(self, unit: UnitOfWork, record: SettingsRecord | None) -> SettingsView:
        """Return the settings. Only administrators get the watched folder's status, because it may name any object."""
        server = self.describe()
        if not unit.permissions.may(Permission.ADMINISTER, PLATFORM):
            server.pop("folder", None)
        return SettingsView(record.revision if record else 0, record.defaults if record else {}, server)
