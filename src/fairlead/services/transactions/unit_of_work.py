"""Unit of work: one transaction with the caller, their permissions, revision checks, idempotency and the audit log."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RevisionMissing, Unauthenticated
from fairlead.model.assets import Policy
from fairlead.model.columns import Condition
from fairlead.model.parsing import printable, suggest_names
from fairlead.model.records import (
    JSON,
    SETTINGS,
    AssetRecord,
    AuditRecord,
    GrantRecord,
    IdempotencyRecord,
    PolicyRecord,
    Record,
    ScopeRecord,
    SettingsRecord,
    TokenRecord,
)
from fairlead.model.resources import Requirements
from fairlead.model.scopes import (
    PLATFORM,
    Cluster,
    Permission,
    Permissions,
    Role,
    ScopeTree,
    permissions_of,
    read_cluster,
)
from fairlead.ports import OWN_USERS, Authenticator, Clock, ConfigPart, MakeId, Principal, Store, Transaction
from fairlead.scheduling.queue_order import QuotaLimits
from fairlead.scheduling.queue_policies import QueuePolicies

UNCOMMITTED = -1  # generation of an organization with uncommitted changes; stored generations are never negative
TOKEN_PREFIX = "fl_"  # distinguishes tokens issued by this server from the identity provider's tokens
# Keys are stored for longer than clients retry. Redeemed one-time codes are stored for the same time, which is longer
# than the codes are valid.
IDEMPOTENCY_KEY_LIFETIME = timedelta(days=2)
# Avoids verifying a signature on each request. Until an entry expires, the token's own expiry is not checked.
PRINCIPAL_CACHE_LIFETIME = timedelta(seconds=30)
MAX_CACHED_PRINCIPALS = 1000  # beyond this, the cache is emptied, which costs one verification per token
MAX_ATTEMPTS = 10
NOT_AUDITED = ("sealed", "key_id", "digest")  # record fields that must not appear in the audit log

RecordT = TypeVar("RecordT", bound=Record)
ManagedRecord = ScopeRecord | AssetRecord | PolicyRecord
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class Call:
    """Context of one request to a service."""

    bearer: str | None = field(default=None, repr=False)  # hidden to keep it out of tracebacks and logs
    address: str = ""  # the client's, for the audit log
    request_id: str = ""
    revision: int | None = None  # the revision in If-Match
    revision_of: str | None = None  # the end of the object's ID in If-Match
    any_revision: bool = False  # whether the request has If-Match: *
    key: str | None = None  # the Idempotency-Key
    fingerprint: str = ""  # digest of the request, to detect a key that is reused for a different request
    principal: Principal | None = None  # the user, if already authenticated
    trusted: bool = False  # whether the caller is the server itself, with all permissions


def digest_of(text: str) -> str:
    """Return the SHA-256 digest of a string. Safe for tokens, which are too random to need a slow hash."""
    # Text from a JSON body can contain lone surrogates. Such a token is unknown, but must not cause an error.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Organization:
    """Scopes, policies, grants and defaults as of one generation."""

    generation: int
    scopes: Mapping[str, ScopeRecord]
    policies: Mapping[str, PolicyRecord]
    grants: tuple[GrantRecord, ...]
    defaults: Requirements
    chosen_cluster: str | None  # the default cluster that an administrator has chosen
    # These caches need no invalidation: revoking a role or token creates a new generation, which gets a new object.
    _permissions: dict[Principal, Permissions] = field(default_factory=dict, compare=False)
    _tokens: dict[str, TokenRecord] = field(default_factory=dict, compare=False)

    @classmethod
    def load(cls, tx: Transaction, generation: int) -> "Organization":
        """Load the organization in a transaction."""
        settings = tx.get(SettingsRecord, id=SETTINGS)
        return cls(
            generation=generation,
            scopes={record.scope: record for record in tx.find(ScopeRecord)},
            policies={policy.scope: policy for policy in tx.find(PolicyRecord)},
            grants=tuple(tx.find(GrantRecord)),
            defaults=Requirements.model_validate(settings.defaults if settings else {}),
            chosen_cluster=settings.default_cluster if settings else None,
        )

    @cached_property
    def tree(self) -> ScopeTree:
        """The parent of each scope."""
        return ScopeTree({scope: record.parent for scope, record in self.scopes.items() if record.parent is not None})

    @cached_property
    def scope_of_id(self) -> dict[str, str]:
        """Each scope by the ID of its record. Unlike the scope, the ID stays the same when the scope is renamed."""
        return {record.id: scope for scope, record in self.scopes.items()}

    @cached_property
    def clusters(self) -> dict[str, Cluster]:
        """The clusters by scope."""
        return {scope: read_cluster(record) for scope, record in self.scopes.items() if record.kind == "cluster"}

    @property
    def default_cluster(self) -> str | None:
        """The scope of the cluster for new projects: the chosen one, or the oldest. None: no clusters."""
        return self.chosen_cluster or next(
            iter(self.clusters), None
        )  # scopes are loaded in the order of their creation

    def cluster_of(self, scope: str) -> Cluster | None:
        """Return the cluster of a scope: the one that contains it, or the default cluster. None: no clusters."""
        return self.clusters.get(self.tree.cluster_of(scope) or self.default_cluster or "")

    def clusters_near(self, scope: str) -> list[Cluster]:
        """Return the clusters that contain the scope or are inside it."""
        return [cluster for other, cluster in self.clusters.items() if self.tree.are_related(other, scope)]

    @cached_property
    def gpu_sharing_clusters(self) -> dict[str, Cluster]:
        """The clusters that share GPUs, by scope."""
        return {scope: cluster for scope, cluster in self.clusters.items() if cluster.gpu_sharing != "none"}

    @cached_property
    def parsed_policies(self) -> dict[str, Policy]:
        """The policies by scope, as models."""
        records = self.policies
        return {scope: Policy.model_validate({**record.content, "scope": scope}) for scope, record in records.items()}

    @cached_property
    def quota_limits(self) -> QuotaLimits:
        """The quotas of all scopes."""
        return QuotaLimits.of(self.tree, ((scope, policy.quota) for scope, policy in self.parsed_policies.items()))

    @cached_property
    def queue_policies(self) -> QueuePolicies:
        """The queue policies of all scopes."""
        return QueuePolicies.of(self.tree, ((scope, policy.queue) for scope, policy in self.parsed_policies.items()))

    def policies_of(self, scope: str) -> tuple[Policy, ...]:
        """Return the policies that apply to a scope, starting with the platform's."""
        return tuple(self.parsed_policies[ancestor] for ancestor in self.tree.path(scope) if ancestor in self.policies)

    def permissions_of(self, principal: Principal) -> Permissions:
        """Return a user's permissions."""
        if principal not in self._permissions:
            grants = ((grant.subject, grant.role, grant.scope) for grant in self.grants)
            self._permissions[principal] = permissions_of(principal.user, principal.groups, grants, self.tree)
        return self._permissions[principal]

    def has_cached_token(self, text: str) -> bool:
        """Whether a token with this text is in the cache. It may have expired in the meantime."""
        return digest_of(text) in self._tokens

    def find_token(self, tx: Transaction, text: str, now: datetime) -> TokenRecord | None:
        """Return the token with this text; None if it does not exist or has expired."""
        digest = digest_of(text)
        token = self._tokens.get(digest) or tx.get(TokenRecord, digest=digest)
        if token is None:
            return None
        self._tokens[digest] = token
        # Expiry does not change the generation, so it is checked on each use.
        return token if token.expires_at is None or token.expires_at > now else None


@dataclass(frozen=True)
class UnitOfWork:
    """One operation by a caller, in one transaction."""

    tx: Transaction
    organization: Organization
    principal: Principal
    permissions: Permissions
    call: Call
    now: datetime  # the same time for all records in the transaction
    make_id: MakeId

    def require(self, permission: Permission, scope: str, noun: str) -> None:
        """Raise `NotFound` if the scope is not visible, `Forbidden` if the caller lacks the permission."""
        if scope not in self.organization.scopes or not self.permissions.sees(scope):
            # A missing scope causes the same error, so that callers cannot find out which hidden scopes exist.
            raise NotFound(f"{printable(noun)} does not exist", self.hint_projects(scope) if noun == scope else None)
        if permission is not Permission.VIEW and not self.permissions.may(permission, scope):
            roles = (
                "admin"
                if permission is Permission.ADMINISTER
                else "editor or admin"
                if permission is Permission.SHARE
                else "member or admin"
            )
            message = f"{self.principal.user} may not {permission} {scope}"
            raise Forbidden(message, f"ask an administrator of {scope} for the {roles} role")

    def hint_projects(self, scope: str) -> str | None:
        """Return a hint with the projects that the caller can use. None: it is not a project, or they may create it."""
        kind, _, name = scope.partition("/")
        creates_in = self.organization.default_cluster or PLATFORM
        if kind != "project" or self.permissions.may(Permission.ADMINISTER, creates_in):
            return None
        usable = self.permissions.scopes_with(Permission.RUN)
        projects = (record for record in self.organization.scopes.values() if record.kind == "project")
        known = [record.name for record in projects if usable is None or record.scope in usable]
        if not known:
            return "ask an administrator of a project for the member role"
        return suggest_names(name, known, "use one of your projects: {known}")

    def sees_project(self, project_id: str) -> bool:
        """Whether the caller can view the project with this ID."""
        scope = self.organization.scope_of_id.get(project_id)
        return scope is not None and self.permissions.sees(scope)

    def refreshed(self) -> "UnitOfWork":
        """Return a copy that sees the changes this transaction has made to the organization."""
        organization = Organization.load(self.tx, UNCOMMITTED)
        return replace(
            self, organization=organization, permissions=_permissions_for(organization, self.principal, self.call)
        )

    def clusters_near(self, scope: str) -> list[Cluster]:
        """Return the visible clusters that contain the scope or are inside it."""
        clusters = self.organization.clusters_near(scope)
        return [cluster for cluster in clusters if self.permissions.sees(cluster.scope)]

    def visible_scopes(self) -> list[Condition]:
        """Return the conditions that restrict records to scopes visible to the caller."""
        visible = self.permissions.visible
        return [] if visible is None else [Condition("scope", "in", tuple(sorted(visible)))]

    def scope_conditions(self, scope: str | None) -> list[Condition]:
        """Return the conditions for records in one scope, or in all scopes visible to the caller."""
        if scope is None:
            return self.visible_scopes()
        self.require(Permission.VIEW, scope, scope)
        return [Condition("scope", "=", scope)]

    def add(self, record: RecordT, noun: str, name: str, scope: str) -> RecordT:
        """Store a new record and audit it."""
        self.tx.add(record)
        self.audit(f"{noun}.create", record, name, scope, after=record)
        return record

    def save(self, before: RecordT, after: RecordT, action: str, name: str, scope: str) -> RecordT:
        """Store a changed record and audit the change."""
        self.tx.save(after)
        self.audit(action, after, name, scope, before=before, after=after)
        return after

    def remove(self, record: Record, noun: str, name: str, scope: str) -> None:
        """Delete a record and audit it."""
        self.tx.remove(record)
        self.audit(f"{noun}.delete", record, name, scope, before=record)

    def audit(self, action: str, of: Any, name: str, scope: str, *, before: Any = None, after: Any = None) -> None:
        """Add an entry to the audit log, with the object before and after the change."""
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
            # The log is filtered by ID, because scopes can be renamed. A new scope is not in `organization` yet.
            scope_id=of.id if isinstance(of, ScopeRecord) else self.organization.scopes[scope].id,
            before=to_audit_data(before),
            after=to_audit_data(after),
        )
        self.tx.add(entry)

    def creation_fields(self) -> dict[str, Any]:
        """Return the ID, users and timestamps for a new record."""
        user = self.principal.user
        stamps = {"created_by": user, "created_at": self.now, "updated_by": user, "updated_at": self.now}
        return {"id": self.make_id(), **stamps}

    def update_fields(self, record: Record) -> dict[str, Any]:
        """Return the next revision, the user and the timestamp for a changed record."""
        return {"revision": record.revision + 1, "updated_by": self.principal.user, "updated_at": self.now}

    def check_revision(self, record: Record, *, required: bool = False) -> None:
        """Check If-Match. Raises `Changed` if the revision does not match, `RevisionMissing` if one is required."""
        if self.call.revision is None and required and not self.call.any_revision:
            hint = "send If-Match with the ETag you read, or If-Match: * to replace any revision"
            raise RevisionMissing("it already exists, and replacing it requires If-Match", hint)
        # An object that was recreated under the same name may have the same revision as the deleted one.
        if self.call.revision_of is not None and not record.id.endswith(self.call.revision_of):
            raise Changed("it has been deleted and recreated since you read it", "read it again, then change it")
        if self.call.revision is not None and self.call.revision != record.revision:
            message = f"it is now at revision {record.revision}, but you read revision {self.call.revision}"
            raise Changed(message, "read it again, then change it")

    def check_absent(self, noun: str) -> None:
        """Raise `Changed` if the caller sent the revision of an object that does not exist."""
        if self.call.revision not in (None, 0):  # 0 means settings that were never saved
            raise Changed(f"the {noun} that you read was deleted", "omit If-Match to create it again")

    def check_writable(self, record: ManagedRecord, noun: str, *, force: bool, required: bool = False) -> None:
        """Check If-Match. Raises `Conflict` if the object is managed by files, unless `force` is set."""
        self.check_revision(record, required=required)
        if record.managed_by is not None and not force:
            hint = "change the file and apply it, or override it until the next apply with force=true (CLI: --force)"
            raise Conflict(f"the {noun} is managed by {record.managed_by}", hint)

    def find_response(self, kind: type[ResponseT]) -> ResponseT | None:
        """Return the stored response to this request, if its Idempotency-Key was used before."""
        if self.call.key is None:
            return None
        stored = self.tx.get(IdempotencyRecord, id=self._response_id())
        if stored is None:
            return None
        if stored.digest != self.call.fingerprint:
            raise Conflict("this Idempotency-Key was used for another request", "use a new key for a new request")
        if stored.answer is None:
            message = "this Idempotency-Key was already used, and the secret in the response cannot be shown again"
            raise Conflict(message, "use a new key, and delete the object that was created")
        return msgspec.convert(stored.answer, kind)

    def store_response(self, response: ResponseT, *, once: bool = False) -> ResponseT:
        """Store the response for retries with the same Idempotency-Key. With `once`, its content is not stored."""
        if self.call.key is not None:
            # Removing expired keys here avoids the need for a background task.
            self.tx.remove_all(IdempotencyRecord, Condition("created_at", "<", self.now - IDEMPOTENCY_KEY_LIFETIME))
            content = None if once else msgspec.json.decode(msgspec.json.encode(response))
            user, digest = self.principal.user, self.call.fingerprint
            self.tx.add(
                IdempotencyRecord(id=self._response_id(), user=user, digest=digest, answer=content, created_at=self.now)
            )
        return response

    def _response_id(self) -> str:
        # Includes the user, because a key must never return a response that was meant for another user.
        return digest_of(f"{self.principal.user}\n{self.call.key}")


class UnitOfWorkFactory:
    """Authenticates callers and opens a transaction for each operation."""

    def __init__(self, store: Store, clock: Clock, make_id: MakeId, identity: Authenticator | None = None) -> None:
        self._store, self._clock, self._make_id, self._identity = store, clock, make_id, identity
        self._organization: Organization | None = None
        self._principals: dict[str, tuple[Principal, datetime]] = {}  # by token digest, with the entry's expiry time

    @contextlib.contextmanager
    def reading(self, call: Call) -> Iterator[UnitOfWork]:
        """Open a read-only transaction."""
        principal = self._authenticate(call)
        with self._store.reading() as tx:
            yield self._build(tx, call, principal)

    @contextlib.contextmanager
    def recording(self, call: Call, *, exclusive: bool = False) -> Iterator[UnitOfWork]:
        """Open a transaction that adds records while the configuration is locked against changes.

        With `exclusive`, no other `recording()` transaction runs at the same time either.
        """
        principal = self._authenticate(call)
        # If a request is sent twice at the same time, the second must find the response to the first.
        with self._store.recording(exclusive=exclusive or call.key is not None) as tx:
            yield self._build(tx, call, principal)

    @contextlib.contextmanager
    def changing(self, call: Call, part: ConfigPart, *more: ConfigPart) -> Iterator[UnitOfWork]:
        """Open a transaction that changes parts of the configuration."""
        principal = self._authenticate(call)
        with self._store.changing(part, *more) as tx:
            yield self._build(tx, call, principal, changed="organization" in (part, *more))

    @property
    def latest_organization(self) -> Organization | None:
        """The organization that the latest transaction read, which may be outdated; None before the first one."""
        return self._organization

    def is_recently_authenticated(self, call: Call) -> bool:
        """Whether the caller was authenticated recently. Only reads caches; each operation authenticates again."""
        cached = self._organization
        return call.bearer is not None and (
            (cached is not None and cached.has_cached_token(call.bearer))
            or self._cached_principal(call.bearer) is not None
        )

    def authenticate(self, call: Call) -> None:
        """Raise `Unauthenticated` if the caller has no valid token."""
        with self.reading(call):
            pass

    def _authenticate(self, call: Call) -> Principal | None:
        """Return the user of an identity provider's token; None for tokens issued by this server.

        Runs outside the transaction, because verifying a token may send requests to the identity provider.
        """
        if call.principal is not None:
            return call.principal
        if call.bearer is None:
            raise Unauthenticated("no token was sent", "send the header Authorization: Bearer <token>")
        if call.bearer.startswith(TOKEN_PREFIX) or self._identity is None:
            return None
        principal = self._cached_principal(call.bearer) or self._identity.authenticate(call.bearer)
        reject_reserved_user(principal)
        if len(self._principals) >= MAX_CACHED_PRINCIPALS:
            self._principals.clear()
        # Using a token does not extend its time in the cache, so it is verified again once that time has passed.
        self._principals.setdefault(digest_of(call.bearer), (principal, self._clock() + PRINCIPAL_CACHE_LIFETIME))
        return principal

    def _cached_principal(self, bearer: str) -> Principal | None:
        """Return the user of a token that was recently verified with the identity provider."""
        principal, until = self._principals.get(digest_of(bearer), (None, None))
        now = self._clock()
        # An expiry further ahead than this means that the clock was set back.
        if until is not None and not now < until <= now + PRINCIPAL_CACHE_LIFETIME:
            self._principals.pop(digest_of(bearer), None)
            return None
        return principal

    def _build(self, tx: Transaction, call: Call, principal: Principal | None, *, changed: bool = False) -> UnitOfWork:
        now = self._clock()
        organization = self._load_organization(tx, changed=changed)
        if principal is None:
            token = organization.find_token(tx, call.bearer or "", now)
            # A sign-in link's code can only be exchanged for a session.
            if token is None or token.purpose == "login":
                raise Unauthenticated("the token is unknown, revoked or expired", "create a new token")
            principal = Principal(token.user, tuple(token.groups), f"{token.purpose}:{token.name}")
        permissions = _permissions_for(organization, principal, call)
        return UnitOfWork(tx, organization, principal, permissions, call, now, self._make_id)

    def _load_organization(self, tx: Transaction, *, changed: bool) -> Organization:
        """Return the organization as of the start of the transaction, from the cache if it has not changed."""
        # A transaction that changes the organization has already incremented the generation, but changed nothing else
        # yet. The previous state is cached, because after a rollback another change gets the same new number.
        generation = tx.generation.organization - changed
        organization = self._organization
        if organization is None or organization.generation != generation:
            organization = Organization.load(tx, generation)
            self._organization = organization
        return organization


def reject_reserved_user(principal: Principal) -> None:
    """Raise `Unauthenticated` if the identity provider reports a user name that is reserved for the server.

    Otherwise, users who can choose their own names could sign in as the administrator who started the server.
    """
    if principal.user.endswith(OWN_USERS):
        message = f"the user name {principal.user} is reserved for the server"
        raise Unauthenticated(
            message, "use a different name in the identity provider, or a different claim for the user"
        )


def to_audit_data(record: Any) -> JSON | None:
    """Return a record's fields for the audit log, without secrets and derived fields."""
    if record is None or isinstance(record, dict):
        return record
    derived = record.DERIVED
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in derived}
    content: JSON = msgspec.to_builtins({name: value for name, value in values.items() if name not in NOT_AUDITED})
    return content


def retry_on_conflict(call: Call, operation: Callable[[], ResponseT]) -> ResponseT:
    """Retry an operation if the object was changed concurrently, unless the caller sent If-Match.

    Without If-Match, the operation applies to any revision, so an update by the server must not make it fail.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return operation()
        except Changed:
            if call.revision is not None:
                raise
    return operation()


def _permissions_for(organization: Organization, principal: Principal, call: Call) -> Permissions:
    if call.trusted:
        return Permissions(organization.tree, {PLATFORM: frozenset({Role.ADMIN})})
    return organization.permissions_of(principal)
