"""Tokens: what lets users and programs in. Their text is shown once, and only its digest is kept."""

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import TokenRecord
from fairlead.model.roles import Permission
from fairlead.model.scopes import PLATFORM
from fairlead.model.tokens import TokenRequest
from fairlead.ports import Principal
from fairlead.services.calls import Call, digest_of
from fairlead.services.pages import Listing, load_page, map_page
from fairlead.services.unit_of_work import TOKEN_PREFIX, UnitOfWork, UnitOfWorkFactory, refuse_own_user

LINK = "sign-in link"
LINK_LASTS = timedelta(minutes=15)
SESSION_LASTS = timedelta(hours=12)
LASTING = ("api", "local")  # purposes of tokens that make links and open sessions, which end with them


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """What is told of a token; its text only in the answer that made it."""

    id: str
    name: str
    user: str
    purpose: str
    expires_at: datetime | None
    created_by: str
    created_at: datetime
    created_with: str | None = None  # of a session: the id of the token with which it ends
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Me:
    """Who the caller is, and what they are at which scope."""

    user: str
    groups: list[str]
    via: str
    roles: list[dict[str, str]]


class Tokens:
    """The use cases of tokens and sessions."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def me(self, call: Call) -> Me:
        """Who the caller is."""
        with self.units.reading(call) as unit:
            roles = [
                {"role": str(role), "scope": scope}
                for scope, granted in sorted(unit.permissions.roles.items())
                for role in sorted(granted)
            ]
            return Me(user=unit.principal.user, groups=list(unit.principal.groups), via=unit.principal.via, roles=roles)

    def page(self, call: Call, asked: Listing) -> Page[TokenView]:
        """The caller's tokens; administrators of the platform see everybody's."""
        with self.units.reading(call) as unit:
            within = [Condition("purpose", "!=", "login"), *_own(unit)]
            return map_page(load_page(unit.tx, TokenRecord, asked, sort="name", within=within), view_of)

    def create(self, call: Call, asked: TokenRequest) -> TokenView:
        """A new token for the caller, or, from an administrator of the platform, for somebody else."""
        with self.units.changing(call, "organization") as unit:
            unit.recall(TokenView)
            user = asked.user or unit.principal.user
            groups = unit.principal.groups
            if user != unit.principal.user:
                groups = ()
                if not unit.permissions.may(Permission.ADMINISTER, PLATFORM):
                    message = f"{unit.principal.user} may not make tokens for {user}"
                    raise Forbidden(message, "leave user out to make one for yourself")
            expires_at = None if asked.expires_in is None else unit.now + timedelta(seconds=int(asked.expires_in))
            return unit.remember(self.add(unit, user, groups, asked.name, "api", expires_at), once=True)

    def delete(self, call: Call, token_id: str) -> None:
        """Revoke a token: from now on it lets nobody in."""
        with self.units.changing(call, "organization") as unit:
            record = unit.tx.get(TokenRecord, id=token_id)
            mine = record is not None and record.user == unit.principal.user
            if record is None or not (mine or unit.permissions.may(Permission.ADMINISTER, PLATFORM)):
                raise NotFound(f"there is no token {short_repr(token_id)}")
            unit.check_revision(record)
            self.revoke(unit, record)

    def make_link(self, call: Call) -> TokenView:
        """A word that signs a browser in as the caller, once and soon.

        Only a token of this server makes one: what the link opens ends with that token.
        """
        with self.units.changing(call, "organization") as unit:
            unit.recall(TokenView)
            _forget_old(unit)
            token = unit.tx.get(TokenRecord, digest=digest_of(call.bearer or ""))
            if token is None or token.purpose not in LASTING:
                message = f"a sign-in link is made with a token of this server; you came with {unit.principal.via}"
                raise Forbidden(message, "send one that POST /tokens made")
            until = _earliest(unit.now + LINK_LASTS, token.expires_at)
            link = self.add(unit, token.user, tuple(token.groups), LINK, "login", until, created_with=token.id)
            return unit.remember(link, once=True)

    def sign_in(self, call: Call, word: str) -> TokenView:
        """A session of a browser, for the word of a sign-in link or for a token."""
        nobody = replace(call, principal=Principal("nobody", via="sign-in"))
        with self.units.reading(nobody) as unit:
            _find_open(unit, word)  # before anything is locked: anybody can ask
        with self.units.changing(nobody, "organization") as unit:
            _forget_old(unit)
            found = _find_open(unit, word)
            source = _find_source(unit, found)
            unit = replace(unit, principal=Principal(found.user, tuple(found.groups), f"{found.purpose}:{found.name}"))
            if found.purpose == "login":
                unit.remove(found, "token", found.name, PLATFORM)
            end = None if source is None else source.expires_at
            own_end = None if found.purpose == "login" else found.expires_at
            until = _earliest(unit.now + SESSION_LASTS, end, own_end)
            created_with = None if source is None else source.id
            return self.add(
                unit, found.user, tuple(found.groups), "browser", "session", until, created_with=created_with
            )

    def sign_in_as(self, call: Call, principal: Principal) -> TokenView:
        """A session of a browser, for somebody whom an issuer has just signed in."""
        refuse_own_user(principal)
        with self.units.changing(replace(call, principal=principal), "organization") as unit:
            _forget_old(unit)
            return self.add(unit, principal.user, principal.groups, "browser", "session", unit.now + SESSION_LASTS)

    def sign_out(self, call: Call) -> None:
        """End the session that the caller came with."""
        with self.units.changing(call, "organization") as unit:
            found = unit.tx.get(TokenRecord, digest=digest_of(call.bearer or ""))
            if found is not None and found.purpose == "session":
                unit.remove(found, "token", found.name, PLATFORM)

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
        """Keep a new token, within a use case; the answer is the only place where its text is."""
        if expires_at is not None and expires_at <= unit.now:
            raise RequestRejected([Violation("expires_in", "range", "is over already", "say a time to come")])
        text = TOKEN_PREFIX + secrets.token_urlsafe(32)
        record = TokenRecord(
            **unit.stamps(),
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
        """Forget a token with the links and sessions that were made with it, within a use case."""
        for made in unit.tx.find(TokenRecord, Condition("created_with", "=", record.id)):
            unit.remove(made, "token", made.name, PLATFORM)
        unit.remove(record, "token", record.name, PLATFORM)


def view_of(record: TokenRecord, text: str | None = None) -> TokenView:
    """What is told of a token."""
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


def _forget_old(unit: UnitOfWork) -> None:
    unit.tx.remove_all(TokenRecord, Condition("expires_at", "<", unit.now - SESSION_LASTS))


def _find_open(unit: UnitOfWork, word: str) -> TokenRecord:
    """The token or sign-in link with this text, where it still opens."""
    found = unit.tx.get(TokenRecord, digest=digest_of(word))
    if found is None or (found.expires_at is not None and found.expires_at <= unit.now):
        message = (
            "the link or token is unknown, revoked, used up or too old" if word else "no sign-in link or token was sent"
        )
        raise Unauthenticated(message, "run fairlead open for a new one, or sign in with a token")
    return found


def _find_source(unit: UnitOfWork, found: TokenRecord) -> TokenRecord | None:
    """The token that a session ends with which this opens. There is none where an issuer or the server signs in."""
    if found.purpose in LASTING:
        return found
    return None if found.created_with is None else unit.tx.get(TokenRecord, id=found.created_with)


def _earliest(*moments: datetime | None) -> datetime:
    return min(moment for moment in moments if moment is not None)


def _own(unit: UnitOfWork) -> list[Condition]:
    return (
        [] if unit.permissions.may(Permission.ADMINISTER, PLATFORM) else [Condition("user", "=", unit.principal.user)]
    )
