"""Stored function code, addressed by its digest."""

import hashlib
from dataclasses import dataclass, replace

from fairlead.errors import NotFound, RequestRejected
from fairlead.model.columns import Condition
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import BlobRecord, CodeRecord
from fairlead.model.requests import parse_digest
from fairlead.model.scopes import Permission
from fairlead.services.calls import Call
from fairlead.services.parsing import parse_field
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True)
class StoredCode:
    """The digest and size of stored code."""

    digest: str
    size: int


class CodeStore:
    """Stores and finds code."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def find(self, call: Call, scope: str, digest: str) -> StoredCode:
        """Return stored code. Raises `NotFound` if it must be uploaded first."""
        with self.units.reading(call) as unit:
            unit.require(Permission.RUN, scope, scope)
            record = find_code(unit, scope, digest)
        if record is None:
            raise NotFound(f"code {short_repr(digest)} does not exist", "upload it with PUT to this URL")
        return StoredCode(record.digest, record.size)

    def put(self, call: Call, scope: str, digest: str, content: bytes) -> StoredCode:
        """Store code. Does nothing if it is already stored."""
        parse_field("digest", parse_digest, digest)
        actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if actual != digest:
            message = f"the digest of the content is {actual}, not {digest}"
            raise RequestRejected([Violation("digest", "digest", message, "send the complete content with its digest")])
        # Exclusive, because otherwise two simultaneous uploads of the same code would conflict.
        with self.units.recording(call, exclusive=True) as unit:
            unit.require(Permission.RUN, scope, scope)
            if find_code(unit, scope, digest) is None:
                values = {"id": _id_of(unit, scope, digest), "digest": digest, "created_by": unit.principal.user}
                unit.tx.add(CodeRecord(**values, size=len(content), created_at=unit.now))
                # Another project may have uploaded the same code. Uses `count`, because `get` would load the content.
                if unit.tx.count(BlobRecord, Condition("id", "=", digest)) == 0:
                    unit.tx.add(BlobRecord(id=digest, content=content))
        return StoredCode(digest, len(content))


def find_code(unit: UnitOfWork, scope: str, digest: str) -> CodeRecord | None:
    """Return a project's stored code; None if it does not exist."""
    return unit.tx.get(CodeRecord, id=_id_of(unit, scope, digest))


def copy_code(unit: UnitOfWork, source: str, target: str, digest: str | None) -> None:
    """Copy code from one project to another, for a run that moves there."""
    record = None if digest is None or source == target else find_code(unit, source, digest)
    if record is not None and find_code(unit, target, record.digest) is None:
        # The content is shared, so only the reference is copied. Retention counts from its new creation time.
        new_id, by = _id_of(unit, target, record.digest), unit.principal.user
        unit.tx.add(replace(record, id=new_id, created_by=by, created_at=unit.now))


def _id_of(unit: UnitOfWork, scope: str, digest: str) -> str:
    # Includes the project, because knowing a digest must not give access to other projects' code.
    return f"{unit.organization.scopes[scope].id}/{digest}"
