"""Stores records in a database: transactions, queries and conflicts."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fairlead.adapters.database import engines, queries
from fairlead.adapters.database.engines import WriterLock, translate_errors
from fairlead.adapters.database.queries import sort_expression
from fairlead.adapters.database.tables import TABLES, generations, scopes
from fairlead.errors import Changed, Conflict, name_taken
from fairlead.model import columns
from fairlead.model.columns import Condition, Page, Query
from fairlead.model.records import ComputeResourceRecord, TemplateRecord
from fairlead.ports import ConfigPart, Generation, RecordT

MAX_PARAMETERS = 5000  # of one statement
FEW = 1000  # up to this number, matching rows are sorted in memory
# PostgreSQL row locks. Any number of transactions can share the row; an exclusive lock excludes all others. SQLite
# needs none, because it has only one writer.
LOCKS = {None: "", "shared": " FOR SHARE", "exclusive": " FOR UPDATE"}


class DatabaseStore:
    """Stores records in SQLite or PostgreSQL. The row in the generations table is the lock on the configuration."""

    def __init__(self, url: str) -> None:
        lock = WriterLock()
        self._writer, self._reader = engines.open_engines(url, lock)
        self._writer_lock = lock if self.dialect == "sqlite" else contextlib.nullcontext()

    @property
    def dialect(self) -> str:
        """The database: `sqlite` or `postgresql`."""
        return self._writer.dialect.name

    @property
    def engine(self) -> sa.Engine:
        """The engine for writing, which migrations also use."""
        return self._writer

    @contextlib.contextmanager
    def reading(self) -> Iterator["DatabaseTransaction"]:
        """Open a read-only transaction on a consistent snapshot."""
        with translate_errors("read the database"), self._reader.connect() as connection, connection.begin():
            # Both databases take the snapshot at the first statement, so the generation applies to all later reads.
            yield DatabaseTransaction(connection, _read_generation(connection))

    @contextlib.contextmanager
    def recording(self, *, exclusive: bool = False) -> Iterator["DatabaseTransaction"]:
        """Open a transaction that adds records while the configuration is locked against changes.

        With `exclusive`, no other `recording()` transaction runs at the same time either.
        """
        with translate_errors("change the database"), self._writer_lock, self._writer.begin() as connection:
            generation = _read_generation(connection, lock="exclusive" if exclusive else "shared")
            tx = DatabaseTransaction(connection, generation)
            yield tx
            tx.check_complete()

    @contextlib.contextmanager
    def changing(self, part: ConfigPart, *more: ConfigPart) -> Iterator["DatabaseTransaction"]:
        """Open a transaction that changes parts of the configuration. Only one runs at a time."""
        with translate_errors("change the database"), self._writer_lock, self._writer.begin() as connection:
            # This must come first: the update locks the row, so other changes wait here before they have read anything.
            increment = sa.update(generations).values({part: generations.c[part] + 1 for part in (part, *more)})
            row = connection.execute(increment.returning(generations.c.organization, generations.c.assets)).one()
            tx = DatabaseTransaction(connection, Generation(*row))
            yield tx
            tx.check_complete()

    def close(self) -> None:
        """Close files and connections."""
        self._writer.dispose()
        self._reader.dispose()


class DatabaseTransaction:
    """A transaction on a database connection."""

    def __init__(self, connection: sa.Connection, generation: Generation) -> None:
        self._connection = connection
        self.generation = generation
        self.has_conflict = False

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """Return the record whose fields have these values."""
        records = self.find(kind, *(Condition(name, "=", value) for name, value in key.items()), limit=1)
        return records[0] if records else None

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Return the records that match all conditions, sorted by a text field; by default oldest first."""
        # IDs begin with the creation time, so they sort by age. Duplicates are removed in case `by` is the ID.
        order = (TABLES[kind].c[by], TABLES[kind].c.id)
        statement = queries.select_records(kind).where(*self._clauses(kind, conditions)).order_by(*dict.fromkeys(order))
        return self._load(kind, statement.limit(limit) if limit is not None else statement)

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """Return one page of a list. The caller creates the cursor for the next page."""
        key = TABLES[kind].c.id
        conditions = self._clauses(kind, query.conditions)
        clauses = [*conditions, *queries.search_clauses(kind, query.search), *queries.cursor_clauses(kind, query)]
        in_order = queries.is_read_in_order(kind, query) or query.until is not None
        few = None if in_order else self._find_few(kind, query, clauses)
        # Select the IDs on the page first, so that derived columns are computed for its rows only.
        directions = queries.order_by_clauses(kind, query)
        if few is not None:
            return Page(self._load(kind, queries.select_records(kind).where(key.in_(few)).order_by(*directions)))
        # Many rows match, so read in order until the page is full. The conditions are replaced by a form that prevents
        # SQLite from choosing a different index.
        clauses[: len(conditions)] = self._clauses(kind, query.conditions, sorted_by=query.sort)
        cut = sa.select(key).where(*clauses).order_by(*directions).limit(query.limit).subquery("page")
        return Page(self._load(kind, queries.select_records(kind).join(cut, cut.c.id == key).order_by(*directions)))

    def scan_end(self, kind: type[Any], query: Query, most: int) -> tuple[Any, str] | None:
        """Return the sort value and ID of the last record that a page may examine, if no index finds the matches.

        The page then examines `most` records in the scopes. None if there is an index or there are fewer records.
        """
        if not queries.needs_scan(kind, query):
            return None
        key, order = TABLES[kind].c.id, sort_expression(kind, query.sort)
        # Only scopes are considered, because finding the end must not itself be a scan.
        scopes = [condition for condition in query.conditions if condition.column == "scope"]
        after = queries.cursor_clauses(kind, query)
        # Count first: in a scope with few records, reading in order would read the records of all other scopes.
        some = sa.select(key).where(*self._clauses(kind, scopes), *after).limit(most + 1).subquery("some")
        if self._connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() <= most:
            return None
        clauses = self._clauses(kind, scopes, sorted_by=query.sort)
        ordered = sa.select(order, key).where(*clauses, *after).order_by(*queries.order_by_clauses(kind, query))
        return tuple(self._connection.execute(ordered.offset(most - 1).limit(1)).one())

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """Count the records that match all conditions."""
        clauses = [*self._clauses(kind, conditions), *queries.search_clauses(kind, search)]
        statement = sa.select(sa.func.count()).select_from(TABLES[kind]).where(*clauses)
        return int(self._connection.execute(statement).scalar_one())

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """Count the records that match all conditions, grouped by some of their fields."""
        columns = [TABLES[kind].c[name] for name in names]
        statement = sa.select(*columns, sa.func.count()).where(*self._clauses(kind, conditions)).group_by(*columns)
        return {tuple(row[:-1]): row[-1] for row in self._connection.execute(statement)}

    def first_of_groups(
        self, kind: type[RecordT], names: Sequence[str], *conditions: Condition, by: str, most: int
    ) -> list[RecordT]:
        """Return the first record of each group, and at most `most` groups for each value of the first field."""
        table = TABLES[kind]
        columns, clauses = [table.c[name] for name in names], self._clauses(kind, conditions)
        # The grouped columns and `by` are one index, so records that are not the first of their group are not read.
        grouped = sa.select(*columns, sa.func.min(table.c[by]).label("first")).where(*clauses).group_by(*columns)
        firsts, counts = list[str](), Counter[Any]()
        for group, *_, first in sorted(self._connection.execute(grouped), key=lambda row: row.first):
            counts[group] += 1
            if counts[group] <= most:
                firsts.append(first)
        # Not one statement with a join: without current statistics, PostgreSQL would read all records for each group.
        return [
            record
            for at in range(0, len(firsts), MAX_PARAMETERS)
            for record in self.find(
                kind, *conditions, Condition(by, "in", tuple(firsts[at : at + MAX_PARAMETERS])), by=by
            )
        ]

    def now(self, otherwise: datetime) -> datetime:
        """Return PostgreSQL's time. SQLite uses the clock of this machine, which is `otherwise`."""
        if self._connection.dialect.name == "sqlite":
            return otherwise
        # Not now(), which is the start of the transaction: it may have waited for a lock.
        now: datetime = self._connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return now

    def add(self, record: Any) -> None:
        """Insert a record. Raises `Conflict` if its name or ID is taken."""
        with self._raise_conflicts(record):
            self._connection.execute(sa.insert(TABLES[type(record)]), _values(record))

    def save(self, record: Any) -> None:
        """Update a record. Raises `Changed` unless its revision directly follows the stored one."""
        table = TABLES[type(record)]
        stored = sa.and_(table.c.id == record.id, table.c.revision == record.revision - 1)
        with self._raise_conflicts(record):
            updated = self._connection.execute(sa.update(table).where(stored).values(_values(record)))
        if updated.rowcount != 1:
            raise Changed(
                "another request changed this object at the same time", "read it again, then repeat the change"
            )

    def remove(self, record: Any) -> None:
        """Delete a record."""
        self.remove_all(type(record), Condition("id", "=", record.id))

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Delete all records that match the conditions and return their number."""
        try:
            return self._connection.execute(sa.delete(TABLES[kind]).where(*self._clauses(kind, conditions))).rowcount
        except IntegrityError as error:
            raise Conflict("it is still in use", "remove everything that uses it first") from error

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Set the cluster of compute resources and templates in these scopes, without a new revision."""
        # The cluster is determined by the scope and is not part of the content, so a move creates no revision.
        for kind in (ComputeResourceRecord, TemplateRecord):
            clauses = self._clauses(kind, [Condition("scope", "in", tuple(scopes))])
            self._connection.execute(sa.update(TABLES[kind]).where(*clauses).values(cluster=cluster))

    def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope. The foreign keys of all records that reference it are also updated."""
        try:
            self._connection.execute(sa.update(scopes).where(scopes.c.scope == old).values(scope=new))
        except IntegrityError as error:
            kind, _, name = new.partition("/")
            raise name_taken(kind, name) from error

    @contextlib.contextmanager
    def _raise_conflicts(self, record: Any) -> Iterator[None]:
        """Raise `Conflict` for integrity errors. The transaction cannot be committed after that."""
        try:
            yield
        except IntegrityError as error:
            self.has_conflict = True
            name = getattr(record, "name", None) or record.id
            if "foreign key" in str(error.orig).lower():
                raise Conflict(f"the scope of {name} was deleted", "list the scopes again") from error
            raise Conflict(f"{name} already exists", "choose another name") from error

    def check_complete(self) -> None:
        """Raise if a `Conflict` was caught earlier: PostgreSQL would silently roll the transaction back."""
        if self.has_conflict:
            raise RuntimeError("a transaction with a conflict cannot be committed")

    def _load(self, kind: type[RecordT], statement: sa.Select[Any]) -> list[RecordT]:
        names = statement.selected_columns.keys()
        return [kind(**dict(zip(names, row, strict=True))) for row in self._connection.execute(statement)]

    def _find_few(self, kind: type, query: Query, clauses: Sequence[Any]) -> list[str] | None:
        """Return the IDs on the page if only a few rows match; None if many do.

        A database cannot know whether it is faster to read the list in order until enough rows match, or to collect and
        sort all matching rows. The wrong choice takes a hundred times as long.
        """
        order = sort_expression(kind, query.sort)
        # Do not use ORDER BY, so that the database uses the conditions' index and stops early if many rows match.
        statement = sa.select(order, TABLES[kind].c.id).where(*clauses).limit(FEW + 1)
        rows = [tuple(row) for row in self._connection.execute(statement)]
        if len(rows) > FEW:
            return None
        return [key for _, key in sorted(rows, reverse=query.descending)[: query.limit]]

    def _clauses(self, kind: type, conditions: Sequence[Condition], *, sorted_by: str | None = None) -> list[Any]:
        return queries.where_clauses(kind, conditions, self._connection.dialect.name, sorted_by=sorted_by)


def _values(record: Any) -> dict[str, Any]:
    stored = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in record.DERIVED}
    return stored | dict(columns.computed_columns(record))


def _read_generation(connection: sa.Connection, *, lock: Literal["exclusive", "shared"] | None = None) -> Generation:
    # Raw SQL: every transaction executes this first, and building the statement would take longer.
    suffix = "" if connection.dialect.name == "sqlite" else LOCKS[lock]
    return Generation(*connection.exec_driver_sql(f"SELECT organization, assets FROM generations{suffix}").one())
