"""Initial data for a new installation: the platform, a cluster, a project, administrators and a token."""

from collections.abc import Iterable

from fairlead.model.columns import Condition
from fairlead.model.records import GrantRecord, ScopeRecord, TokenRecord
from fairlead.model.scopes import PLATFORM, Cluster, Project, Role
from fairlead.ports import Principal
from fairlead.services.calls import Call, digest_of
from fairlead.services.scopes import Scopes
from fairlead.services.tokens import LINK_LIFETIME, LINK_NAME, Tokens
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Trusted, because on a new platform no user has a role yet.
FIRST_RUN_CALL = Call(principal=Principal("fairlead", via="start"), trusted=True)


class FirstRun:
    """Creates the initial data when the server starts."""

    def __init__(self, units: UnitOfWorkFactory, scopes: Scopes, tokens: Tokens) -> None:
        self.units, self.scopes, self.tokens = units, scopes, tokens

    def initialize(self, admins: Iterable[str]) -> None:
        """Add administrators. If there is no platform yet, create one with a local cluster and a default project."""
        with self.units.changing(FIRST_RUN_CALL, "organization") as unit:
            if unit.tx.get(ScopeRecord, scope=PLATFORM) is None:
                platform = ScopeRecord(
                    **unit.creation_fields(), kind=PLATFORM, name=PLATFORM, scope=PLATFORM, parent=None
                )
                unit.add(platform, PLATFORM, PLATFORM, PLATFORM)
                # Each scope is checked against the organization, which must already contain its parent.
                unit = unit.refreshed()
                self.scopes.add(unit, Cluster(name="local", executor="local"))
                self.scopes.add(unit.refreshed(), Project(name="default", parent="cluster/local"))
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
