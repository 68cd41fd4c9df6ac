"""Tokens: what lets users and programs in. Their text is shown once, and only its digest is kept."""

import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from fairlead.errors import Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.parsing import show
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import TokenRecord
from fairlead.model.roles import Deed
from fairlead.model.scopes import PLATFORM
from fairlead.model.tokens import TokenRequest
from fairlead.ports import Principal
from fairlead.services.calls import Call, digest_of
from fairlead.services.listing import Listing, load_page, map_page
from fairlead.services.units import TOKEN_PREFIX, Unit, Units

LINK_LASTS = timedelta(minutes=15)
SESSION_LASTS = timedelta(hours=12)


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

    def __init__(self, units: Units) -> None:
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
        with self.units.changing(call, "organisation") as unit:
            unit.recall(TokenView)
            user = asked.user or unit.principal.user
            groups = unit.principal.groups
            if user != unit.principal.user:
                groups = ()
                if not unit.permissions.may(Deed.GOVERN, PLATFORM):
                    message = f"{unit.principal.user} may not make tokens for {user}"
                    raise Forbidden(message, "leave user out to make one for yourself")
            expires_at = None if asked.expires_in is None else unit.now + timedelta(seconds=int(asked.expires_in))
            return unit.remember(self.add(unit, user, groups, asked.name, "api", expires_at), once=True)

    def delete(self, call: Call, token_id: str) -> None:
        """Revoke a token: from now on it lets nobody in."""
        with self.units.changing(call, "organisation") as unit:
            record = unit.tx.get(TokenRecord, id=token_id)
            mine = record is not None and record.user == unit.principal.user
            if record is None or not (mine or unit.permissions.may(Deed.GOVERN, PLATFORM)):
                raise NotFound(f"there is no token {show(token_id)}")
            unit.check_revision(record)
            unit.remove(record, "token", record.name, PLATFORM)

    def sign_in(self, call: Call, word: str) -> TokenView:
        """A session of a browser, for the word of a sign-in link or for a token."""
        nobody = replace(call, principal=Principal("nobody", via="sign-in"))
        with self.units.reading(nobody) as unit:
            _find_open(unit, word)  # before anything is locked: anybody can ask
        with self.units.changing(nobody, "organisation") as unit:
            unit.tx.remove_all(TokenRecord, Condition("expires_at", "<", unit.now - SESSION_LASTS))
            found = _find_open(unit, word)
            unit = replace(unit, principal=Principal(found.user, tuple(found.groups), f"{found.purpose}:{found.name}"))
            if found.purpose == "login":
                unit.remove(found, "token", found.name, PLATFORM)
            until = unit.now + SESSION_LASTS
            if found.purpose != "login" and found.expires_at is not None:
                until = min(until, found.expires_at)
            return self.add(unit, found.user, tuple(found.groups), "browser", "session", until)

    def sign_out(self, call: Call) -> None:
        """End the session that the caller came with."""
        with self.units.changing(call, "organisation") as unit:
            found = unit.tx.get(TokenRecord, digest=digest_of(call.bearer or ""))
            if found is not None and found.purpose == "session":
                unit.remove(found, "token", found.name, PLATFORM)

    def add(
        self,
        unit: Unit,
        user: str,
        groups: tuple[str, ...],
        name: str,
        purpose: str,
        expires_at: datetime | None,
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
        )
        unit.add(record, "token", name, PLATFORM)
        return view_of(record, text)


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
        token=text,
    )


def _find_open(unit: Unit, word: str) -> TokenRecord:
    """The token or sign-in link with this text, where it still opens."""
    found = unit.tx.get(TokenRecord, digest=digest_of(word))
    if found is None or (found.expires_at is not None and found.expires_at <= unit.now):
        message = "the sign-in link is used up or too old" if word else "no sign-in link or token was sent"
        raise Unauthenticated(message, "run fairlead up again, or sign in with a token")
    return found


def _own(unit: Unit) -> list[Condition]:
    return [] if unit.permissions.may(Deed.GOVERN, PLATFORM) else [Condition("user", "=", unit.principal.user)]
