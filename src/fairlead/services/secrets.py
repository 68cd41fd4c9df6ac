"""Secrets of projects: set, named, deleted, given to runs; their values are sealed and never shown."""

from dataclasses import dataclass, replace
from datetime import datetime

from fairlead.errors import NotFound
from fairlead.model.names import VARIABLE
from fairlead.model.parsing import short_repr
from fairlead.model.queries import Condition, Page
from fairlead.model.records import SecretRecord
from fairlead.model.roles import Permission
from fairlead.ports import Keyring, Sealed
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page, map_page
from fairlead.services.parsing import parse_field
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

AT_ONCE = 200


@dataclass(frozen=True, kw_only=True)
class SecretName:
    """What is told of a secret: everything but its value."""

    id: str
    name: str
    scope: str
    revision: int
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


class Secrets:
    """The use cases of secrets."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring) -> None:
        self.units, self.keyring = units, keyring

    def page(self, call: Call, scope: str, asked: Listing) -> Page[SecretName]:
        """The names of a project's secrets."""
        with self.units.reading(call) as unit:
            unit.require(Permission.VIEW, scope, scope)
            within = [Condition("scope", "=", scope)]
            return map_page(load_page(unit.tx, SecretRecord, asked, sort="name", within=within), _name_of)

    def put(self, call: Call, scope: str, name: str, value: str) -> tuple[SecretName, bool]:
        """Set a secret; whether it is new."""
        with self.units.changing(call, "assets") as unit:
            unit.require(Permission.RUN, scope, scope)
            parse_field("name", VARIABLE.parse, name)
            record = unit.tx.get(SecretRecord, scope=scope, name=name)
            if record is None:
                unit.check_absent(f"secret {name}")
                stamps = unit.stamps()
                sealed = self.keyring.seal(value.encode(), stamps["id"])
                record = SecretRecord(**stamps, scope=scope, name=name, sealed=sealed.content, key_id=sealed.key_id)
                return _name_of(unit.add(record, "secret", name, scope)), True
            unit.check_revision(record)
            sealed = self.keyring.seal(value.encode(), record.id)
            after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.next(record))
            return _name_of(unit.save(record, after, "secret.edit", name, scope)), False

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Forget a secret. Runs that have it already keep it."""
        with self.units.changing(call, "assets") as unit:
            unit.require(Permission.RUN, scope, scope)
            record = unit.tx.get(SecretRecord, scope=scope, name=name)
            if record is None:
                raise NotFound(f"{scope} has no secret {short_repr(name)}")
            unit.check_revision(record)
            unit.remove(record, "secret", name, scope)

    def count_stale(self, call: Call) -> int:
        """How many secrets are sealed with another key than the one that seals now."""
        with self.units.reading(call) as unit:
            return unit.tx.count(SecretRecord, Condition("key_id", "!=", self.keyring.key_id))

    def reseal(self, call: Call) -> int:
        """Seal every secret with the key that seals now; how many were sealed with another."""
        resealed = 0
        while True:
            with self.units.changing(call, "assets") as unit:
                stale = unit.tx.find(SecretRecord, Condition("key_id", "!=", self.keyring.key_id), limit=AT_ONCE)
                for record in stale:
                    self._reseal(unit, record)
            resealed += len(stale)
            if len(stale) < AT_ONCE:
                return resealed

    def _reseal(self, unit: UnitOfWork, record: SecretRecord) -> None:
        value = self.keyring.open(Sealed(record.sealed, record.key_id), record.id)
        sealed = self.keyring.seal(value, record.id)
        after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.next(record))
        unit.save(record, after, "secret.reseal", record.name, record.scope)


def _name_of(record: SecretRecord) -> SecretName:
    return SecretName(
        id=record.id,
        name=record.name,
        scope=record.scope,
        revision=record.revision,
        created_by=record.created_by,
        created_at=record.created_at,
        updated_by=record.updated_by,
        updated_at=record.updated_at,
    )
