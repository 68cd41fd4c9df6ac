"""The audit: who did what to what, when and from where. It is only ever read here; use cases add to it."""

from collections.abc import Iterator

from fairlead.errors import Forbidden
from fairlead.model.queries import Condition, Page
from fairlead.model.records import AuditRecord
from fairlead.model.roles import Permission
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

AT_ONCE = 500


class Audits:
    """The use cases of the audit."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def page(self, call: Call, asked: Listing) -> Page[AuditRecord]:
        """What happened at scopes that the caller governs, the newest first."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, AuditRecord, asked, sort="-at", within=_governed(unit))

    def export(self, call: Call, asked: Listing) -> Iterator[list[AuditRecord]]:
        """All of it, page after page, the oldest first."""
        asked = Listing(filters=asked.filters, search=asked.search, sort="at", limit=AT_ONCE)
        while True:
            page = self.page(call, asked)
            yield page.items
            if page.next_cursor is None:
                return
            asked = Listing(asked.filters, asked.search, "at", page.next_cursor, AT_ONCE)


def _governed(unit: UnitOfWork) -> list[Condition]:
    reach = unit.permissions.reach(Permission.ADMINISTER)
    if reach == frozenset():
        message = f"{unit.principal.user} governs no scope, so there is no audit to read"
        raise Forbidden(message, "ask an administrator for the role admin")
    if reach is None:
        return []
    scopes = unit.organization.scopes
    return [Condition("scope_id", "in", tuple(scopes[scope].id for scope in sorted(reach)))]
