"""Roles granted to users and groups in scopes, and the audit log."""

from collections.abc import Iterator

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.columns import Condition, Page
from fairlead.model.parsing import short_repr
from fairlead.model.plans import Violation
from fairlead.model.records import JSON, AuditRecord, GrantRecord
from fairlead.model.scopes import PLATFORM, Grant, Permission, Role
from fairlead.services.transactions.pages import ListQuery, load_page
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

EXPORT_PAGE_SIZE = 500


class Grants:
    """Manages role grants."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, query: ListQuery) -> Page[GrantRecord]:
        """List the role grants in all scopes that the caller administers."""
        with self.units.reading(call) as unit:
            administered = unit.permissions.scopes_with(Permission.ADMINISTER)
            within = [] if administered is None else [Condition("scope", "in", tuple(sorted(administered)))]
            return load_page(unit.tx, GrantRecord, query, sort="subject", within=within)

    def create(self, call: Call, grant: Grant) -> GrantRecord:
        """Grant a role."""
        with self.units.changing(call, "organization") as unit:
            if (before := unit.find_response(GrantRecord)) is not None:
                return before
            if grant.scope not in unit.organization.scopes or not unit.permissions.sees(grant.scope):
                violation = Violation("scope", "scope", f"{grant.scope} does not exist", "use a scope that you can see")
                raise RequestRejected([violation])
            unit.require(Permission.ADMINISTER, grant.scope, grant.scope)
            values: JSON = {"subject": grant.subject, "role": str(grant.role), "scope": grant.scope}
            if unit.tx.get(GrantRecord, **values) is not None:
                raise Conflict(f"{grant.subject} already has the {grant.role} role in {grant.scope}")
            record = GrantRecord(**unit.creation_fields(), **values)
            return unit.store_response(unit.add(record, "role", grant.subject, grant.scope))

    def delete(self, call: Call, grant_id: str) -> None:
        """Revoke a role. Raises `Conflict` if it belongs to the last platform administrator."""
        with self.units.changing(call, "organization") as unit:
            record = unit.tx.get(GrantRecord, id=grant_id)
            # Not `Forbidden`, because only a scope's administrators may know its grants.
            if record is None or not unit.permissions.may(Permission.ADMINISTER, record.scope):
                raise NotFound(f"role {short_repr(grant_id)} does not exist")
            unit.check_revision(record)
            # Otherwise only a restart would restore access, by granting the role to the `admins` in the settings.
            if record.scope == PLATFORM and record.role == Role.ADMIN:
                admins = unit.tx.find(GrantRecord, Condition("scope", "=", PLATFORM), Condition("role", "=", "admin"))
                if len(admins) == 1:
                    message = f"{record.subject} is the last platform administrator"
                    raise Conflict(message, "grant the admin role to another user first")
            unit.remove(record, "role", record.subject, record.scope)


class Audits:
    """Lists and exports the audit log."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, query: ListQuery) -> Page[AuditRecord]:
        """List the entries for all scopes that the caller administers, newest first."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, AuditRecord, query, sort="-at", within=_administered_scopes(unit))

    def export(self, call: Call, query: ListQuery) -> Iterator[list[AuditRecord]]:
        """Yield all entries that match the query, page by page, oldest first."""
        # Oldest first, so that entries added during the export come at the end.
        query = ListQuery(filters=query.filters, search=query.search, sort="at", limit=EXPORT_PAGE_SIZE)
        while True:
            # One transaction per page: a slow client must not keep one open. Each page checks the permissions again.
            page = self.page(call, query)
            yield page.items
            if page.next_cursor is None:
                return
            query = ListQuery(query.filters, query.search, "at", page.next_cursor, EXPORT_PAGE_SIZE)


def _administered_scopes(unit: UnitOfWork) -> list[Condition]:
    administered = unit.permissions.scopes_with(Permission.ADMINISTER)
    if administered == frozenset():
        message = f"{unit.principal.user} does not administer any scope and cannot read the audit log"
        raise Forbidden(message, "ask an administrator for the admin role")
    if administered is None:
        return []
    # Filtered by ID, because older entries contain the names that scopes had at the time.
    scopes = unit.organization.scopes
    return [Condition("scope_id", "in", tuple(scopes[scope].id for scope in sorted(administered)))]
