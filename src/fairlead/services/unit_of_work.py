"""One use case is one transaction: who asks, what holds, what is kept, and what the audit says of it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from fairlead.core.permissions import Permissions
from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RevisionMissing, Unauthenticated
from fairlead.model.parsing import printable
from fairlead.model.queries import Condition
from fairlead.model.records import JSON, AssetRecord, AuditRecord, IdempotencyRecord, PolicyRecord, Record, ScopeRecord
from fairlead.model.roles import Permission, Role
from fairlead.model.scopes import PLATFORM, Cluster
from fairlead.ports import OWN_USERS, Authenticator, Clock, ConfigPart, MakeId, Principal, Store, Transaction
from fairlead.services.calls import Call, digest_of
from fairlead.services.organization import Organization

UNCOMMITTED = -1
TOKEN_PREFIX = "fl_"
REMEMBERED = timedelta(days=2)
IDENTIFIED_FOR = timedelta(seconds=30)
MOST_IDENTIFIED = 1000
MOST_TRIES = 10
HIDDEN = ("sealed", "key_id", "digest")  # what the audit must not know

RecordT = TypeVar("RecordT", bound=Record)
Managed = ScopeRecord | AssetRecord | PolicyRecord
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class UnitOfWork:
    """What a use case works with."""

    tx: Transaction
    organization: Organization
    principal: Principal
    permissions: Permissions
    call: Call
    now: datetime
    make_id: MakeId

    def require(self, permission: Permission, scope: str, noun: str) -> None:
        """Raise `NotFound` where the caller does not see the scope, `Forbidden` where they may not do the permission."""
        if scope not in self.organization.scopes or not self.permissions.sees(scope):
            raise NotFound(f"there is no {printable(noun)}")
        if permission is not Permission.VIEW and not self.permissions.may(permission, scope):
            roles = (
                "admin"
                if permission is Permission.ADMINISTER
                else "editor or admin"
                if permission is Permission.SHARE
                else "member or admin"
            )
            message = f"{self.principal.user} may not {permission} {scope}"
            raise Forbidden(message, f"ask an administrator of {scope} for the role {roles}")

    def refreshed(self) -> "UnitOfWork":
        """The same use case, with its own changes of the organization in the picture."""
        organization = Organization.load(self.tx, UNCOMMITTED)
        return replace(self, organization=organization, permissions=_permit(organization, self.principal, self.call))

    def clusters_near(self, scope: str) -> list[Cluster]:
        """The clusters that a scope is on or that are below it, as far as the caller sees them."""
        near = self.organization.clusters_near(scope)
        return [cluster for cluster in near if self.permissions.sees(cluster.scope)]

    def in_sight(self) -> list[Condition]:
        """What must hold of a scope for the caller to see what is there."""
        visible = self.permissions.visible
        return [] if visible is None else [Condition("scope", "in", tuple(sorted(visible)))]

    def within(self, scope: str | None) -> list[Condition]:
        """What must hold of a scope for something to be at a place that the caller sees, or at any such place."""
        if scope is None:
            return self.in_sight()
        self.require(Permission.VIEW, scope, scope)
        return [Condition("scope", "=", scope)]

    def add(self, record: RecordT, noun: str, name: str, scope: str) -> RecordT:
        """Keep a new record, and say so in the audit."""
        self.tx.add(record)
        self.audit(f"{noun}.create", record, name, scope, after=record)
        return record

    def save(self, before: RecordT, after: RecordT, action: str, name: str, scope: str) -> RecordT:
        """Keep a changed record, and say so in the audit."""
        self.tx.save(after)
        self.audit(action, after, name, scope, before=before, after=after)
        return after

    def remove(self, record: Record, noun: str, name: str, scope: str) -> None:
        """Forget a record, and say so in the audit."""
        self.tx.remove(record)
        self.audit(f"{noun}.delete", record, name, scope, before=record)

    def audit(self, action: str, of: Any, name: str, scope: str, *, before: Any = None, after: Any = None) -> None:
        """Who does what to what, before and after, when, and from where."""
        entry = AuditRecord(
            id=self.make_id(),
            at=self.now,
            user=self.principal.user,
            via=self.principal.via,
            address=self.call.address,
            request_id=self.call.request_id,
            action=action,
            kind=action.partition(".")[0],
            object_id=of.id,
            name=name,
            scope=scope,
            scope_id=of.id if isinstance(of, ScopeRecord) else self.organization.scopes[scope].id,
            before=to_audit(before),
            after=to_audit(after),
        )
        self.tx.add(entry)

    def stamps(self) -> dict[str, Any]:
        """What a new record says of its making."""
        user = self.principal.user
        stamped = {"created_by": user, "created_at": self.now, "updated_by": user, "updated_at": self.now}
        return {"id": self.make_id(), **stamped}

    def next(self, record: Record) -> dict[str, Any]:
        """What a changed record says of its change."""
        return {"revision": record.revision + 1, "updated_by": self.principal.user, "updated_at": self.now}

    def check_revision(self, record: Record, *, required: bool = False) -> None:
        """Raise where the caller read another revision than the one that is kept."""
        if self.call.revision is None and required and not self.call.any_revision:
            hint = "send If-Match with the ETag that you read, or If-Match: * to replace whatever is there"
            raise RevisionMissing("it exists, and replacing it needs the revision that you read", hint)
        if self.call.revision_of is not None and not record.id.endswith(self.call.revision_of):
            raise Changed("it was deleted and made anew since you read it", "read it again, then change it")
        if self.call.revision is not None and self.call.revision != record.revision:
            message = f"it is at revision {record.revision} now, and you read {self.call.revision}"
            raise Changed(message, "read it again, then change it")

    def check_absent(self, noun: str) -> None:
        """Raise where the caller read a revision of something that is not there."""
        if self.call.revision not in (None, 0):
            raise Changed(f"what you read of the {noun} is not there any more", "leave If-Match out to make it anew")

    def check_free(self, record: Managed, noun: str, *, force: bool, required: bool = False) -> None:
        """Raise where the caller read another revision, or where files say what it is and are not to be overruled."""
        self.check_revision(record, required=required)
        if record.managed_by is not None and not force:
            hint = "change the file and apply it again, or overrule it until then: force=true, at a terminal --force"
            raise Conflict(f"the {noun} is managed by {record.managed_by}", hint)

    def recall(self, answer: type[Answer]) -> Answer | None:
        """What this same request was answered before, where its idempotency key was used."""
        if self.call.key is None:
            return None
        kept = self.tx.get(IdempotencyRecord, id=self._answer_id())
        if kept is None:
            return None
        if kept.digest != self.call.fingerprint:
            raise Conflict("this Idempotency-Key was used for another request", "use a new key for a new request")
        if kept.answer is None:
            message = "this was done before with the same Idempotency-Key, and its answer was shown only once"
            raise Conflict(message, "use a new key, and remove what was made before")
        return msgspec.convert(kept.answer, answer)

    def remember(self, answer: Answer, *, once: bool = False) -> Answer:
        """Keep the answer for when the same request is sent again; not where it is to be shown only once."""
        if self.call.key is not None:
            self.tx.remove_all(IdempotencyRecord, Condition("created_at", "<", self.now - REMEMBERED))
            kept = None if once else msgspec.json.decode(msgspec.json.encode(answer))
            user, digest = self.principal.user, self.call.fingerprint
            self.tx.add(
                IdempotencyRecord(id=self._answer_id(), user=user, digest=digest, answer=kept, created_at=self.now)
            )
        return answer

    def _answer_id(self) -> str:
        return digest_of(f"{self.principal.user}\n{self.call.key}")


class UnitOfWorkFactory:
    """Opens transactions for callers who are known."""

    def __init__(self, store: Store, clock: Clock, make_id: MakeId, identity: Authenticator | None = None) -> None:
        self._store, self._clock, self._make_id, self._identity = store, clock, make_id, identity
        self._organization: Organization | None = None
        self._identified: dict[str, tuple[Principal, datetime]] = {}

    @contextlib.contextmanager
    def reading(self, call: Call) -> Iterator[UnitOfWork]:
        """A use case that changes nothing."""
        principal = self._identify(call)
        with self._store.reading() as tx:
            yield self._unit(tx, call, principal)

    @contextlib.contextmanager
    def recording(self, call: Call, *, alone: bool = False) -> Iterator[UnitOfWork]:
        """A use case that rests on the configuration and does not change it."""
        principal = self._identify(call)
        # The same request twice at once must find its first answer.
        with self._store.recording(alone=alone or call.key is not None) as tx:
            yield self._unit(tx, call, principal)

    @contextlib.contextmanager
    def changing(self, call: Call, part: ConfigPart, *more: ConfigPart) -> Iterator[UnitOfWork]:
        """A use case that changes the configuration."""
        principal = self._identify(call)
        with self._store.changing(part, *more) as tx:
            yield self._unit(tx, call, principal, changed="organization" in (part, *more))

    def knows(self, call: Call) -> bool:
        """Whether the caller was let in a moment ago. Costs nothing; whether it still holds, each use case sees."""
        known = self._organization
        return call.bearer is not None and (
            (known is not None and known.knows_token(call.bearer)) or self._recall(call.bearer) is not None
        )

    def admit(self, call: Call) -> None:
        """Raise `Unauthenticated` where the caller is nobody known."""
        with self.reading(call):
            pass

    def _identify(self, call: Call) -> Principal | None:
        """Who asks, where no token of ours says it. Outside the transaction: a provider may have to be asked."""
        if call.principal is not None:
            return call.principal
        if call.bearer is None:
            raise Unauthenticated("no token was sent", "send the header Authorization: Bearer <token>")
        if call.bearer.startswith(TOKEN_PREFIX) or self._identity is None:
            return None
        principal = self._recall(call.bearer) or self._identity.authenticate(call.bearer)
        refuse_own_user(principal)
        if len(self._identified) >= MOST_IDENTIFIED:
            self._identified.clear()
        self._identified.setdefault(digest_of(call.bearer), (principal, self._clock() + IDENTIFIED_FOR))
        return principal

    def _recall(self, bearer: str) -> Principal | None:
        """Who a provider said that the bearer is, a moment ago."""
        principal, until = self._identified.get(digest_of(bearer), (None, None))
        now = self._clock()
        if until is not None and not now < until <= now + IDENTIFIED_FOR:  # later only where the clock was set back
            self._identified.pop(digest_of(bearer), None)
            return None
        return principal

    def _unit(self, tx: Transaction, call: Call, principal: Principal | None, *, changed: bool = False) -> UnitOfWork:
        now = self._clock()
        organization = self._load(tx, changed=changed)
        if principal is None:
            token = organization.find_token(tx, call.bearer or "", now)
            if token is None or token.purpose == "login":
                raise Unauthenticated("the token is not known, was revoked or has expired", "get a new token")
            principal = Principal(token.user, tuple(token.groups), f"{token.purpose}:{token.name}")
        permissions = _permit(organization, principal, call)
        return UnitOfWork(tx, organization, principal, permissions, call, now, self._make_id)

    def _load(self, tx: Transaction, *, changed: bool) -> Organization:
        """The organization as it was when the transaction began; a change of it only counts from its end."""
        generation = tx.generation.organization - changed
        known = self._organization
        if known is None or known.generation != generation:
            known = Organization.load(tx, generation)
            self._organization = known
        return known


def _permit(organization: Organization, principal: Principal, call: Call) -> Permissions:
    if call.trusted:
        return Permissions(organization.tree, {PLATFORM: frozenset({Role.ADMIN})})
    return organization.permissions_of(principal)


def refuse_own_user(principal: Principal) -> None:
    """An issuer whose users can choose their names must not let one be who started the server."""
    if principal.user.endswith(OWN_USERS):
        message = f"{principal.user} is a user of the server itself, which no issuer knows"
        raise Unauthenticated(message, "use another name at the issuer, or another claim for the user")


def to_audit(record: Any) -> JSON | None:
    """A record as the audit tells it."""
    if record is None or isinstance(record, dict):
        return record
    derived = record.DERIVED
    said = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in derived}
    shown: JSON = msgspec.to_builtins({name: value for name, value in said.items() if name not in HIDDEN})
    return shown


def insist(call: Call, do: Callable[[], Answer]) -> Answer:
    """Do what is asked for, again where somebody else changes the object at that very moment.

    Who named no revision means the object, however it is: what the platform keeps of it is no reason to refuse.
    """
    for _ in range(MOST_TRIES - 1):
        try:
            return do()
        except Changed:
            if call.revision is not None:
                raise
    return do()
