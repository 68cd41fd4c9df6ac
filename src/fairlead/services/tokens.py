"""API tokens, sign-in links and browser sessions. Only digests are stored, and a token is shown only once."""

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import TokenRecord
from fairlead.model.scopes import PLATFORM, Permission
from fairlead.ports import Principal
from fairlead.services.calls import Call, digest_of
from fairlead.services.pages import ListQuery, load_page, map_page
from fairlead.services.unit_of_work import TOKEN_PREFIX, UnitOfWork, UnitOfWorkFactory, reject_reserved_user

LINK_NAME = "sign-in link"
LINK_LIFETIME = timedelta(minutes=15)  # short, because links are visible in terminals and chats
SESSION_LIFETIME = timedelta(hours=12)  # a user who leaves a group keeps its roles for this long at most
# Tokens that can create sign-in links and sessions, which expire with the token.
LONG_LIVED_PURPOSES = ("api", "local")


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

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

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

    def sign_in(self, call: Call, credential: str) -> TokenView:
        """Create a browser session from a sign-in link's code or from a token."""
        anonymous = replace(call, principal=Principal("nobody", via="sign-in"))
        with self.units.reading(anonymous) as unit:
            _find_valid(unit, credential)  # unauthenticated callers must not be able to lock the configuration
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
