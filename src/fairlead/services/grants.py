"""Roles: who is what at which scope."""

from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, GrantRecord
from fairlead.model.roles import Grant, Permission, Role
from fairlead.model.scopes import PLATFORM
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.unit_of_work import UnitOfWorkFactory


class Grants:
    """The use cases of roles."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, asked: Listing) -> Page[GrantRecord]:
        """The roles at scopes that the caller governs."""
        with self.units.reading(call) as unit:
            reach = unit.permissions.reach(Permission.ADMINISTER)
            within = [] if reach is None else [Condition("scope", "in", tuple(sorted(reach)))]
            return load_page(unit.tx, GrantRecord, asked, sort="subject", within=within)

    def create(self, call: Call, grant: Grant) -> GrantRecord:
        """Give somebody a role."""
        with self.units.changing(call, "organization") as unit:
            if (before := unit.recall(GrantRecord)) is not None:
                return before
            if grant.scope not in unit.organization.scopes or not unit.permissions.sees(grant.scope):
                violation = Violation("scope", "scope", f"there is no {grant.scope}", "choose a scope that you see")
                raise RequestRejected([violation])
            unit.require(Permission.ADMINISTER, grant.scope, grant.scope)
            said: JSON = {"subject": grant.subject, "role": str(grant.role), "scope": grant.scope}
            if unit.tx.get(GrantRecord, **said) is not None:
                raise Conflict(f"{grant.subject} is already {grant.role} at {grant.scope}")
            record = GrantRecord(**unit.stamps(), **said)
            return unit.remember(unit.add(record, "role", grant.subject, grant.scope))

    def delete(self, call: Call, grant_id: str) -> None:
        """Take a role away. The platform keeps at least one administrator."""
        with self.units.changing(call, "organization") as unit:
            record = unit.tx.get(GrantRecord, id=grant_id)
            if record is None or not unit.permissions.may(Permission.ADMINISTER, record.scope):
                raise NotFound(f"there is no role {short_repr(grant_id)}")
            unit.check_revision(record)
            if record.scope == PLATFORM and record.role == Role.ADMIN:
                admins = unit.tx.find(GrantRecord, Condition("scope", "=", PLATFORM), Condition("role", "=", "admin"))
                if len(admins) == 1:
                    message = f"{record.subject} is the last administrator of the platform"
                    raise Conflict(message, "make somebody else an administrator first")
            unit.remove(record, "role", record.subject, record.scope)
