"""The code of functions: kept once under its digest, so that a run can be repeated exactly."""

import hashlib
from dataclasses import dataclass, replace

from fairlead.errors import NotFound, RequestRejected
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import BlobRecord, CodeRecord
from fairlead.model.requests import parse_digest
from fairlead.model.roles import Permission
from fairlead.services.calls import Call
from fairlead.services.parsing import parse_field
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory


@dataclass(frozen=True)
class StoredCode:
    """Code that is kept, and under which digest a request names it."""

    digest: str
    size: int


class CodeStore:
    """The use cases of code."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def find(self, call: Call, scope: str, digest: str) -> StoredCode:
        """Code that is kept already, and need not be sent. Raise `NotFound` where it must."""
        with self.units.reading(call) as unit:
            unit.require(Permission.RUN, scope, scope)
            kept = find_code(unit, scope, digest)
        if kept is None:
            raise NotFound(f"there is no code {short_repr(digest)}", "send it: PUT it to this address")
        return StoredCode(kept.digest, kept.size)

    def put(self, call: Call, scope: str, digest: str, content: bytes) -> StoredCode:
        """Keep code. What is kept already stays as it is."""
        parse_field("digest", parse_digest, digest)
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if found != digest:
            message = f"what was sent is {found}, and not {digest}"
            raise RequestRejected([Violation("digest", "digest", message, "send it whole, under its own digest")])
        # Alone: who sends the same at once would otherwise be told that its digest is taken.
        with self.units.recording(call, alone=True) as unit:
            unit.require(Permission.RUN, scope, scope)
            if find_code(unit, scope, digest) is None:
                made = {"id": _id_of(unit, scope, digest), "digest": digest, "created_by": unit.principal.user}
                unit.tx.add(CodeRecord(**made, size=len(content), created_at=unit.now))
                if unit.tx.count(BlobRecord, Condition("id", "=", digest)) == 0:
                    unit.tx.add(BlobRecord(id=digest, content=content))
        return StoredCode(digest, len(content))


def find_code(unit: UnitOfWork, scope: str, digest: str) -> CodeRecord | None:
    """Code that a project keeps."""
    return unit.tx.get(CodeRecord, id=_id_of(unit, scope, digest))


def lend_code(unit: UnitOfWork, scope: str, other: str, digest: str | None) -> None:
    """Keep the code of a project in another one too, for a run that moves there."""
    kept = None if digest is None or scope == other else find_code(unit, scope, digest)
    if kept is not None and find_code(unit, other, kept.digest) is None:
        new_id, by = _id_of(unit, other, kept.digest), unit.principal.user
        unit.tx.add(replace(kept, id=new_id, created_by=by, created_at=unit.now))


def _id_of(unit: UnitOfWork, scope: str, digest: str) -> str:
    return f"{unit.organization.scopes[scope].id}/{digest}"
