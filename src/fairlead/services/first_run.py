"""The first things: the platform itself, a place to work in, and somebody who governs it."""

from collections.abc import Iterable

from fairlead.model.queries import Condition
from fairlead.model.records import GrantRecord, ScopeRecord, TokenRecord
from fairlead.model.roles import Role
from fairlead.model.scopes import PLATFORM, Cluster, Project
from fairlead.ports import Principal
from fairlead.services.calls import Call, digest_of
from fairlead.services.scopes import Scopes
from fairlead.services.tokens import LINK, LINK_LASTS, Tokens
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

FOUNDER = Call(principal=Principal("fairlead", via="start"), trusted=True)


class FirstRun:
    """What a server does once before it serves."""

    def __init__(self, units: UnitOfWorkFactory, scopes: Scopes, tokens: Tokens) -> None:
        self.units, self.scopes, self.tokens = units, scopes, tokens

    def found(self, admins: Iterable[str]) -> None:
        """Make sure that there is a platform with administrators, and on an empty one a place to work in."""
        with self.units.changing(FOUNDER, "organization") as unit:
            if unit.tx.get(ScopeRecord, scope=PLATFORM) is None:
                platform = ScopeRecord(**unit.stamps(), kind=PLATFORM, name=PLATFORM, scope=PLATFORM, parent=None)
                unit.add(platform, PLATFORM, PLATFORM, PLATFORM)
                unit = unit.refreshed()
                self.scopes.add(unit, Cluster(name="local", executor="local"))
                self.scopes.add(unit.refreshed(), Project(name="default", parent="cluster/local"))
            for admin in admins:
                self._grant(unit, admin)

    def let_in(self, user: str, machine: str, known: str | None) -> tuple[str, str]:
        """A token for whoever started the server, the known one where it still lets in; and a word to sign in with."""
        with self.units.changing(FOUNDER, "organization") as unit:
            kept = None if known is None else unit.tx.get(TokenRecord, digest=digest_of(known))
            text = known if kept is not None and (kept.user, kept.purpose) == (user, "local") else None
            if text is None:
                stale = (Condition("purpose", "=", "local"), Condition("name", "=", machine))
                for token in unit.tx.find(TokenRecord, *stale):
                    self.tokens.revoke(unit, token)
                text = self.tokens.add(unit, user, (), machine, "local", None).token
            word = self.tokens.add(unit, user, (), LINK, "login", unit.now + LINK_LASTS).token
            assert text is not None
            assert word is not None
            return text, word

    def _grant(self, unit: UnitOfWork, subject: str) -> None:
        said = {"subject": subject, "role": str(Role.ADMIN), "scope": PLATFORM}
        if unit.tx.get(GrantRecord, **said) is None:
            record = GrantRecord(**unit.stamps(), subject=subject, role=str(Role.ADMIN), scope=PLATFORM)
            unit.add(record, "role", subject, PLATFORM)
