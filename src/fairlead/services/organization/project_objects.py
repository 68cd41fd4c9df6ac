"""Shared volumes and secrets of projects. Secret values are encrypted, passed to runs and never shown."""

from dataclasses import dataclass, replace
from datetime import datetime

from fairlead.errors import Conflict, NotFound
from fairlead.model.columns import Condition, Page
from fairlead.model.names import VARIABLE
from fairlead.model.parsing import short_repr
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import RunRecord, SecretRecord, VolumeRecord
from fairlead.model.scopes import Permission
from fairlead.ports import Keyring, Sealed
from fairlead.services.catalog.assets import format_objects
from fairlead.services.transactions.pages import ListQuery, load_page, map_page, parse_field
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

RESEAL_BATCH_SIZE = 200  # per transaction, which blocks other configuration changes


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


@dataclass(frozen=True, kw_only=True)
class SecretView:
    """A secret without its value."""

    id: str
    name: str
    scope: str
    revision: int
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


class Secrets:
    """Manages secrets and their encryption."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring) -> None:
        self.units, self.keyring = units, keyring

    def page(self, call: Call, scope: str, query: ListQuery) -> Page[SecretView]:
        """List the secrets of a project."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            within = [Condition("scope", "=", scope)]
            return map_page(load_page(unit.tx, SecretRecord, query, sort="name", within=within), _view_of)

    def put(self, call: Call, scope: str, name: str, value: str) -> tuple[SecretView, bool]:
        """Set the value of a secret. Returns the secret, and whether it is new."""
        with self.units.changing(call, "assets") as unit:
            unit.require(Permission.RUN, scope, scope)
            parse_field("name", VARIABLE.parse, name)
            record = unit.tx.get(SecretRecord, scope=scope, name=name)
            if record is None:
                unit.check_absent(f"secret {name}")
                stamps = unit.creation_fields()
                # The ciphertext is bound to the ID: it is useless in another record, but survives a project rename.
                sealed = self.keyring.seal(value.encode(), stamps["id"])
                record = SecretRecord(**stamps, scope=scope, name=name, sealed=sealed.content, key_id=sealed.key_id)
                return _view_of(unit.add(record, "secret", name, scope)), True
            unit.check_revision(record)
            sealed = self.keyring.seal(value.encode(), record.id)
            after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.update_fields(record))
            return _view_of(unit.save(record, after, "secret.edit", name, scope)), False

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Delete a secret. Runs that have already started keep its value."""
        with self.units.changing(call, "assets") as unit:
            unit.require(Permission.RUN, scope, scope)
            record = unit.tx.get(SecretRecord, scope=scope, name=name)
            if record is None:
                raise NotFound(f"secret {short_repr(name)} does not exist in {scope}")
            unit.check_revision(record)
            unit.remove(record, "secret", name, scope)

    def count_stale(self, call: Call) -> int:
        """Return the number of secrets that are encrypted with an older key."""
        with self.units.reading(call) as unit:
            return unit.tx.count(SecretRecord, Condition("key_id", "!=", self.keyring.key_id))

    def reseal(self, call: Call) -> int:
        """Encrypt every secret with the current key. Returns the number of secrets that used an older key."""
        resealed = 0
        while True:
            # Each batch is committed separately, so that an interrupted rotation can resume.
            with self.units.changing(call, "assets") as unit:
                stale = unit.tx.find(
                    SecretRecord, Condition("key_id", "!=", self.keyring.key_id), limit=RESEAL_BATCH_SIZE
                )
                for record in stale:
                    self._reseal(unit, record)
            resealed += len(stale)
            if len(stale) < RESEAL_BATCH_SIZE:
                return resealed

    def _reseal(self, unit: UnitOfWork, record: SecretRecord) -> None:
        value = self.keyring.open(Sealed(record.sealed, record.key_id), record.id)
        sealed = self.keyring.seal(value, record.id)
        after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.update_fields(record))
        unit.save(record, after, "secret.reseal", record.name, record.scope)


def _view_of(record: SecretRecord) -> SecretView:
    return SecretView(
        id=record.id,
        name=record.name,
        scope=record.scope,
        revision=record.revision,
        created_by=record.created_by,
        created_at=record.created_at,
        updated_by=record.updated_by,
        updated_at=record.updated_at,
    )
