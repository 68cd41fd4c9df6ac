"""API tokens, sign-in links, browser sessions, OpenID Connect sign-in and the first token. Only digests are stored."""

import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import GrantRecord, ScopeRecord, TokenRecord
from fairlead.model.scopes import PLATFORM, Cluster, Permission, Project, Role
from fairlead.ports import Login, LoginAttempt, Principal
from fairlead.services.access.rate_limits import FailedSignIns, RateLimiter
from fairlead.services.organization.scopes import Scopes
from fairlead.services.transactions.pages import ListQuery, load_page, map_page
from fairlead.services.transactions.unit_of_work import (
    TOKEN_PREFIX,
    Call,
    UnitOfWork,
    UnitOfWorkFactory,
    digest_of,
    reject_reserved_user,
)

LINK_NAME = "sign-in link"
LINK_LIFETIME = timedelta(minutes=15)  # short, because links are visible in terminals and chats
SESSION_LIFETIME = timedelta(hours=12)  # a user who leaves a group keeps its roles for this long at most
# Tokens that can create sign-in links and sessions, which expire with the token.
LONG_LIVED_PURPOSES = ("api", "local")

SIGN_IN_AGAIN = "sign in again"

ANONYMOUS = Principal("nobody", via="sign-in")
# Trusted, because on a new platform no user has a role yet.
FIRST_RUN_CALL = Call(principal=Principal("fairlead", via="start"), trusted=True)


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """A token or session. `token` is set only in the response that created it."""

    id: str
    name: str
    user: str
    purpose: str
    expires_at: datetime | None
    created_by: str
    created_at: datetime
    created_with: str | None = None  # for sessions: the ID of the token that they expire with
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class CurrentUser:
    """The caller: user, groups, kind of authentication, and roles by scope."""

    user: str
    groups: list[str]
    via: str
    roles: list[dict[str, str]]


class Tokens:
    """Manages tokens and sessions."""

    def __init__(self, units: UnitOfWorkFactory, clock: Callable[[], float]) -> None:
        self.units = units
        self.failures = FailedSignIns(units, clock)
        self._creations = RateLimiter(burst=120, per_second=2.0, clock=clock)

    def me(self, call: Call) -> CurrentUser:
        """Return the caller."""
        with self.units.reading(call) as unit:
            roles = [
                {"role": str(role), "scope": scope}
                for scope, granted in sorted(unit.permissions.roles.items())
                for role in sorted(granted)
            ]
            return CurrentUser(
                user=unit.principal.user, groups=list(unit.principal.groups), via=unit.principal.via, roles=roles
            )

    def page(self, call: Call, query: ListQuery) -> Page[TokenView]:
        """List the caller's tokens. Platform administrators see all users' tokens."""
        with self.units.reading(call) as unit:
            within = [Condition("purpose", "!=", "login"), *_own_tokens_only(unit)]
            return map_page(load_page(unit.tx, TokenRecord, query, sort="name", within=within), view_of)

    def create(self, call: Call, request: TokenRequest) -> TokenView:
        """Create a token for the caller. Platform administrators can create tokens for other users."""
        self._limit_creations(call)
        with self.units.changing(call, "organization") as unit:
            # Raises an error if the key was used before, because responses with tokens are not stored.
            unit.find_response(TokenView)
            user = request.user or unit.principal.user
            groups = unit.principal.groups
            if user != unit.principal.user:
                # Only the identity provider knows another user's groups.
                groups = ()
                if not unit.permissions.may(Permission.ADMINISTER, PLATFORM):
                    message = f"{unit.principal.user} may not create tokens for {user}"
                    raise Forbidden(message, "omit user to create a token for yourself")
            expires_at = None if request.expires_in is None else unit.now + timedelta(seconds=int(request.expires_in))
            return unit.store_response(self.add(unit, user, groups, request.name, "api", expires_at), once=True)

    def delete(self, call: Call, token_id: str) -> None:
        """Revoke a token."""
        with self.units.changing(call, "organization") as unit:
            record = unit.tx.get(TokenRecord, id=token_id)
            is_own = record is not None and record.user == unit.principal.user
            if record is None or not (is_own or unit.permissions.may(Permission.ADMINISTER, PLATFORM)):
                raise NotFound(f"token {short_repr(token_id)} does not exist")
            unit.check_revision(record)
            self.revoke(unit, record)

    def make_link(self, call: Call) -> TokenView:
        """Create a one-time code that signs a browser in as the caller.

        This requires a token issued by this server, because the browser session expires with that token.
        """
        self._limit_creations(call)
        with self.units.changing(call, "organization") as unit:
            unit.find_response(TokenView)
            _remove_expired(unit)
            token = unit.tx.get(TokenRecord, digest=digest_of(call.bearer or ""))
            if token is None or token.purpose not in LONG_LIVED_PURPOSES:
                message = f"a sign-in link requires a token from this server, not {unit.principal.via}"
                raise Forbidden(message, "use a token created with POST /tokens")
            until = _earliest(unit.now + LINK_LIFETIME, token.expires_at)
            link = self.add(unit, token.user, tuple(token.groups), LINK_NAME, "login", until, created_with=token.id)
            return unit.store_response(link, once=True)

    def find_user(self, call: Call, credential: str) -> str:
        """The user that a token, or the one-time code of a sign-in link, belongs to."""
        try:
            with self.units.reading(replace(call, principal=ANONYMOUS)) as unit:
                return _find_valid(unit, credential).user
        except Unauthenticated:
            self.failures.record(call)
            raise

    def find_current_user(self, call: Call) -> str | None:
        """The caller's user, or None if the caller is not authenticated."""
        try:
            with self.units.reading(call) as unit:
                return unit.principal.user
        except Unauthenticated:
            return None

    def sign_in(self, call: Call, credential: str) -> TokenView:
        """Create a browser session from a sign-in link's code or from a token."""
        anonymous = replace(call, principal=ANONYMOUS)
        # Unauthenticated callers must not be able to lock the configuration, so this is a separate transaction.
        user = self.find_user(call, credential)
        self._creations.check(user, "new sessions of one user")
        with self.units.changing(anonymous, "organization") as unit:
            _remove_expired(unit)
            record = _find_valid(unit, credential)
            source = _find_source(unit, record)
            # In the audit log, the credential's user is the one who created the session.
            unit = replace(
                unit, principal=Principal(record.user, tuple(record.groups), f"{record.purpose}:{record.name}")
            )
            # A link works only once: on concurrent use, the first transaction deletes it before the next one begins.
            if record.purpose == "login":
                unit.remove(record, "token", record.name, PLATFORM)
            end = None if source is None else source.expires_at
            # A session may outlive the link that opened it, but not the session or token that opened it.
            own_end = None if record.purpose == "login" else record.expires_at
            until = _earliest(unit.now + SESSION_LIFETIME, end, own_end)
            created_with = None if source is None else source.id
            return self.add(
                unit, record.user, tuple(record.groups), "browser", "session", until, created_with=created_with
            )

    def sign_in_as(self, call: Call, principal: Principal) -> TokenView:
        """Create a browser session for a user who signed in with the identity provider."""
        reject_reserved_user(principal)
        with self.units.changing(replace(call, principal=principal), "organization") as unit:
            _remove_expired(unit)
            return self.add(unit, principal.user, principal.groups, "browser", "session", unit.now + SESSION_LIFETIME)

    def sign_out(self, call: Call) -> None:
        """End the caller's browser session."""
        with self.units.changing(call, "organization") as unit:
            record = unit.tx.get(TokenRecord, digest=digest_of(call.bearer or ""))
            if record is not None and record.purpose == "session":
                unit.remove(record, "token", record.name, PLATFORM)

    def _limit_creations(self, call: Call) -> None:
        with self.units.reading(call) as unit:
            user = unit.principal.user
        self._creations.check(user, "new tokens and sign-in links of one user")

    def add(
        self,
        unit: UnitOfWork,
        user: str,
        groups: tuple[str, ...],
        name: str,
        purpose: str,
        expires_at: datetime | None,
        *,
        created_with: str | None = None,
    ) -> TokenView:
        """Create a token in a unit of work. Only the returned view contains the token text."""
        if expires_at is not None and expires_at <= unit.now:
            raise RequestRejected([Violation("expires_in", "range", "is in the past", "use a positive duration")])
        text = TOKEN_PREFIX + secrets.token_urlsafe(32)
        record = TokenRecord(
            **unit.creation_fields(),
            user=user,
            groups=list(groups),
            name=name,
            purpose=purpose,
            digest=digest_of(text),
            expires_at=expires_at,
            created_with=created_with,
        )
        unit.add(record, "token", name, PLATFORM)
        return view_of(record, text)

    def revoke(self, unit: UnitOfWork, record: TokenRecord) -> None:
        """Delete a token, its sign-in links and its sessions, in a unit of work."""
        for dependent in unit.tx.find(TokenRecord, Condition("created_with", "=", record.id)):
            unit.remove(dependent, "token", dependent.name, PLATFORM)
        unit.remove(record, "token", record.name, PLATFORM)


def view_of(record: TokenRecord, text: str | None = None) -> TokenView:
    """Convert a record to a view, with the token text if the token is new."""
    return TokenView(
        id=record.id,
        name=record.name,
        user=record.user,
        purpose=record.purpose,
        expires_at=record.expires_at,
        created_by=record.created_by,
        created_at=record.created_at,
        created_with=record.created_with,
        token=text,
    )


def _remove_expired(unit: UnitOfWork) -> None:
    # Expired tokens are rejected anyway. Removing them only limits the size of the table.
    unit.tx.remove_all(TokenRecord, Condition("expires_at", "<", unit.now - SESSION_LIFETIME))


def _find_valid(unit: UnitOfWork, credential: str) -> TokenRecord:
    """Return the token or sign-in link with this text. Raises `Unauthenticated` if it is not valid."""
    record = unit.tx.get(TokenRecord, digest=digest_of(credential))
    if record is None or (record.expires_at is not None and record.expires_at <= unit.now):
        message = (
            "the link or token is unknown, revoked, already used or expired"
            if credential
            else "no sign-in link or token was sent"
        )
        raise Unauthenticated(message, "run fairlead open for a new link, or sign in with a token")
    return record


def _find_source(unit: UnitOfWork, record: TokenRecord) -> TokenRecord | None:
    """Return the token that a new session expires with; None for links created by the server."""
    if record.purpose in LONG_LIVED_PURPOSES:
        return record
    return None if record.created_with is None else unit.tx.get(TokenRecord, id=record.created_with)


def _earliest(*moments: datetime | None) -> datetime:
    return min(moment for moment in moments if moment is not None)


def _own_tokens_only(unit: UnitOfWork) -> list[Condition]:
    return (
        [] if unit.permissions.may(Permission.ADMINISTER, PLATFORM) else [Condition("user", "=", unit.principal.user)]
    )


@dataclass(frozen=True)
class AuthorizationResponse:
    """The issuer's authorization response: query parameters of the redirect back to the server."""

    state: str = field(default="", repr=False)
    code: str = field(default="", repr=False)
    iss: str | None = None
    error: str = ""
    error_description: str = ""


class Logins:
    """Signs browsers in through an OpenID Connect issuer. `link` means that sign-in links are enabled too."""

    def __init__(self, tokens: Tokens, login: Login | None = None, *, link: bool = False) -> None:
        self._tokens, self._login, self.link = tokens, login, link

    @property
    def issuer(self) -> str | None:
        """The issuer URL; None if OpenID Connect is not configured."""
        return None if self._login is None else self._login.issuer

    def begin(self, _call: Call, redirect_uri: str) -> tuple[LoginAttempt, str]:
        """Start a sign-in. Returns the attempt, which the browser stores, and the issuer URL to redirect to."""
        # The state, nonce and PKCE verifier bind the response, the ID token and the code to this attempt.
        attempt = LoginAttempt(*(secrets.token_urlsafe(32) for _ in range(3)))
        return attempt, self._find_login().begin(attempt, redirect_uri)

    def finish(
        self, call: Call, attempt: LoginAttempt, redirect_uri: str, response: AuthorizationResponse
    ) -> TokenView:
        """Create a session from the issuer's response, if this browser started the sign-in."""
        try:
            return self._finish(call, attempt, redirect_uri, response)
        except Unauthenticated:
            self._tokens.failures.record(call)
            raise

    def _finish(
        self, call: Call, attempt: LoginAttempt, redirect_uri: str, response: AuthorizationResponse
    ) -> TokenView:
        login = self._find_login()
        # Prevents login CSRF: a link with an attacker's code would sign this browser in as the attacker.
        if not hmac.compare_digest(attempt.state.encode(), response.state.encode()):
            raise Unauthenticated("this response does not belong to this browser's last sign-in", SIGN_IN_AGAIN)
        # Prevents mix-up attacks (RFC 9207): another issuer must not complete this sign-in. Not all issuers send `iss`.
        if response.iss not in (None, login.issuer):
            message = f"the response is from {short_repr(response.iss)}, but the issuer is {short_repr(login.issuer)}"
            raise Unauthenticated(message, SIGN_IN_AGAIN)
        # Checked after the state, because otherwise any link could show its author's text as an error from the issuer.
        if response.error or not response.code:
            description = f" ({short_repr(response.error_description)})" if response.error_description else ""
            message = f"{login.issuer} rejected the sign-in: {short_repr(response.error or None)}{description}"
            raise Unauthenticated(message, f"{SIGN_IN_AGAIN}, or ask the identity provider's administrator")
        return self._tokens.sign_in_as(call, login.finish(attempt, redirect_uri, response.code))

    def _find_login(self) -> Login:
        if self._login is None:
            raise NotFound("sign-in with OpenID Connect is not configured", "sign in with a token or a link")
        return self._login


class FirstRun:
    """Creates the initial data when the server starts."""

    def __init__(self, units: UnitOfWorkFactory, scopes: Scopes, tokens: Tokens) -> None:
        self.units, self.scopes, self.tokens = units, scopes, tokens

    def initialize(self, admins: Iterable[str]) -> None:
        """Add administrators. If there is no platform yet, create one with a local cluster and a default project."""
        with self.units.changing(FIRST_RUN_CALL, "organization", "assets") as unit:
            if unit.tx.get(ScopeRecord, scope=PLATFORM) is None:
                platform = ScopeRecord(
                    **unit.creation_fields(), kind=PLATFORM, name=PLATFORM, scope=PLATFORM, parent=None
                )
                unit.add(platform, PLATFORM, PLATFORM, PLATFORM)
                # Each scope is checked against the organization, which must already contain its parent.
                unit = unit.refreshed()
                self.scopes.add(unit, Cluster(name="local", executor="local"))
                self.scopes.add(unit.refreshed(), Project(name="default", parent="cluster/local"))
            else:
                # Earlier versions created projects and departments directly in the platform.
                self.scopes.move_into_clusters(unit)
            # Done each time the server starts, so that administrators added to the settings later also get the role.
            for admin in admins:
                self._grant(unit, admin)

    def issue_local_token(self, user: str, machine: str, stored: str | None) -> tuple[str, str]:
        """Return a token for the user who started the server, and a one-time sign-in code.

        `stored` is the token from the previous start, which is reused if it is still valid.
        """
        with self.units.changing(FIRST_RUN_CALL, "organization") as unit:
            record = None if stored is None else unit.tx.get(TokenRecord, digest=digest_of(stored))
            text = stored if record is not None and (record.user, record.purpose) == (user, "local") else None
            if text is None:
                # The text of an older token is lost, so it is revoked, which also ends its sessions.
                stale = (Condition("purpose", "=", "local"), Condition("name", "=", machine))
                for token in unit.tx.find(TokenRecord, *stale):
                    self.tokens.revoke(unit, token)
                text = self.tokens.add(unit, user, (), machine, "local", None).token
            # The code is not tied to the token, so that its session stays valid if the token is replaced.
            code = self.tokens.add(unit, user, (), LINK_NAME, "login", unit.now + LINK_LIFETIME).token
            assert text is not None
            assert code is not None
            return text, code

    def _grant(self, unit: UnitOfWork, subject: str) -> None:
        grant = {"subject": subject, "role": str(Role.ADMIN), "scope": PLATFORM}
        if unit.tx.get(GrantRecord, **grant) is None:
            record = GrantRecord(**unit.creation_fields(), subject=subject, role=str(Role.ADMIN), scope=PLATFORM)
            unit.add(record, "role", subject, PLATFORM)
