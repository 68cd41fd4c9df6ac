"""Project secrets. Their values are encrypted, passed to runs and never shown."""

from dataclasses import dataclass, replace
from datetime import datetime

from fairlead.errors import NotFound
from fairlead.model.columns import Condition, Page
from fairlead.model.names import VARIABLE
from fairlead.model.parsing import short_repr
from fairlead.model.records import SecretRecord
from fairlead.model.scopes import Permission
from fairlead.ports import Keyring, Sealed
from fairlead.services.calls import Call
from fairlead.services.pages import ListQuery, load_page, map_page
from fairlead.services.parsing import parse_field
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

RESEAL_BATCH_SIZE = 200  # per transaction, which blocks other configuration changes


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
