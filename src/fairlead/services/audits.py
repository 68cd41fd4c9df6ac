"""Reads the audit log. Entries are added by `UnitOfWork.audit`."""

from collections.abc import Iterator

from fairlead.errors import Forbidden
from fairlead.model.columns import Condition, Page
from fairlead.model.records import AuditRecord
from fairlead.model.scopes import Permission
from fairlead.services.calls import Call
from fairlead.services.pages import ListQuery, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

EXPORT_PAGE_SIZE = 500


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
