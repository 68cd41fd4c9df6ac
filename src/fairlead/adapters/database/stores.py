"""The store on a database: transactions over tables, and the library's errors in our words."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from fairlead.adapters.database import engines, queries
from fairlead.adapters.database.failures import translated
from fairlead.adapters.database.orders import order_of
from fairlead.adapters.database.tables import TABLES, generations, scopes
from fairlead.adapters.database.waiting import Line
from fairlead.errors import Changed, Conflict
from fairlead.model import columns
from fairlead.model.queries import Condition, Page, Query
from fairlead.model.records import ComputeResourceRecord, TemplateRecord
from fairlead.ports import ConfigPart, Generation, RecordT

FEW = 1000
LOCKS = {None: "", "shared": " FOR SHARE", "alone": " FOR UPDATE"}


class DatabaseStore:
    """Records in SQLite or PostgreSQL. The row of generations is the lock on the configuration."""

    def __init__(self, url: str) -> None:
        line = Line()
        self._writer, self._reader = engines.open_engines(url, line)
        self._one_writer = line if self.dialect == "sqlite" else contextlib.nullcontext()

    @property
    def dialect(self) -> str:
        """Which database it is: `sqlite` or `postgresql`."""
        return self._writer.dialect.name

    @property
    def engine(self) -> sa.Engine:
        """The engine for changes, for migrations."""
        return self._writer

    @contextlib.contextmanager
    def reading(self) -> Iterator["DatabaseTransaction"]:
        """A look at the store as it is at one moment."""
        with translated("reading the database"), self._reader.connect() as connection, connection.begin():
            yield DatabaseTransaction(connection, _read_generation(connection))

    @contextlib.contextmanager
    def recording(self, *, alone: bool = False) -> Iterator["DatabaseTransaction"]:
        """A change that rests on the configuration, which nobody changes meanwhile; alone, nobody records either."""
        with translated("changing the database"), self._one_writer, self._writer.begin() as connection:
            tx = DatabaseTransaction(connection, _read_generation(connection, lock="alone" if alone else "shared"))
            yield tx
            tx.check_whole()

    @contextlib.contextmanager
    def changing(self, part: ConfigPart, *more: ConfigPart) -> Iterator["DatabaseTransaction"]:
        """A change of parts of the configuration, one at a time."""
        with translated("changing the database"), self._one_writer, self._writer.begin() as connection:
            grown = sa.update(generations).values({part: generations.c[part] + 1 for part in (part, *more)})
            row = connection.execute(grown.returning(generations.c.organization, generations.c.assets)).one()
            tx = DatabaseTransaction(connection, Generation(*row))
            yield tx
            tx.check_whole()

    def close(self) -> None:
        """Let go of files and connections."""
        self._writer.dispose()
        self._reader.dispose()


class DatabaseTransaction:
    """One transaction on a connection."""

    def __init__(self, connection: sa.Connection, generation: Generation) -> None:
        self._connection = connection
        self.generation = generation
        self.refused = False

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """The one record whose fields have these values."""
        found = self.find(kind, *(Condition(name, "=", value) for name, value in key.items()), limit=1)
        return found[0] if found else None

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Records for which all conditions hold, in the order of one of their texts; without one, oldest first."""
        order = (TABLES[kind].c[by], TABLES[kind].c.id)
        statement = queries.select_of(kind).where(*self._clauses(kind, conditions)).order_by(*dict.fromkeys(order))
        return self._load(kind, statement.limit(limit) if limit is not None else statement)

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """One page of a list; its cursor is left for the caller to make."""
        key = TABLES[kind].c.id
        conditions = self._clauses(kind, query.conditions)
        clauses = [*conditions, *queries.search_of(kind, query.search), *queries.after_of(kind, query)]
        few = None if queries.is_broad(query) else self._find_few(kind, query, clauses)
        # The page is cut first: what is derived is then worked out for its rows alone.
        directions = queries.directions_of(kind, query)
        if few is not None:
            return Page(self._load(kind, queries.select_of(kind).where(key.in_(few)).order_by(*directions)))
        clauses[: len(conditions)] = self._clauses(kind, query.conditions, in_order=True)
        cut = sa.select(key).where(*clauses).order_by(*directions).limit(query.limit).subquery("page")
        return Page(self._load(kind, queries.select_of(kind).join(cut, cut.c.id == key).order_by(*directions)))

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """How many records there are for which all conditions hold."""
        clauses = [*self._clauses(kind, conditions), *queries.search_of(kind, search)]
        statement = sa.select(sa.func.count()).select_from(TABLES[kind]).where(*clauses)
        return int(self._connection.execute(statement).scalar_one())

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """How many records there are for which all conditions hold, by the values of some of their fields."""
        columns = [TABLES[kind].c[name] for name in names]
        counted = sa.select(*columns, sa.func.count()).where(*self._clauses(kind, conditions)).group_by(*columns)
        return {tuple(row[:-1]): row[-1] for row in self._connection.execute(counted)}

    def add(self, record: Any) -> None:
        """Keep a new record. Raise `Conflict` where its name or id is taken."""
        with self._refusing(record):
            self._connection.execute(sa.insert(TABLES[type(record)]), _values(record))

    def save(self, record: Any) -> None:
        """Keep a changed record. Raise `Changed` unless its revision is the next after the kept one."""
        table = TABLES[type(record)]
        kept = sa.and_(table.c.id == record.id, table.c.revision == record.revision - 1)
        with self._refusing(record):
            changed = self._connection.execute(sa.update(table).where(kept).values(_values(record)))
        if changed.rowcount != 1:
            raise Changed("it was changed by somebody else at the same time", "read it again, then change it")

    def remove(self, record: Any) -> None:
        """Forget a record."""
        self.remove_all(type(record), Condition("id", "=", record.id))

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Forget all records for which the conditions hold; how many there were."""
        try:
            return self._connection.execute(sa.delete(TABLES[kind]).where(*self._clauses(kind, conditions))).rowcount
        except IntegrityError as error:
            raise Conflict("something still uses it", "remove what uses it first") from error

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Note that compute resources and templates at these scopes are on a cluster. That is no change of theirs."""
        for kind in (ComputeResourceRecord, TemplateRecord):
            there = self._clauses(kind, [Condition("scope", "in", tuple(scopes))])
            self._connection.execute(sa.update(TABLES[kind]).where(*there).values(cluster=cluster))

    def rename_scope(self, old: str, new: str) -> None:
        """Give a place a new name: whatever names it as its scope, parent or cluster follows."""
        try:
            self._connection.execute(sa.update(scopes).where(scopes.c.scope == old).values(scope=new))
        except IntegrityError as error:
            raise Conflict(f"there is already a {new}", "choose another name") from error

    @contextlib.contextmanager
    def _refusing(self, record: Any) -> Iterator[None]:
        """Say that something is taken, where the database does. What was done before cannot be kept then."""
        try:
            yield
        except IntegrityError as error:
            self.refused = True
            called = getattr(record, "name", None) or record.id
            if "foreign key" in str(error.orig).lower():
                raise Conflict(f"the place of {called} is not there any more", "read the tree again") from error
            raise Conflict(f"there is already one called {called}", "choose another name") from error

    def check_whole(self) -> None:
        """Raise where a refusal was caught on the way: PostgreSQL would forget all of it, and say nothing."""
        if self.refused:
            raise RuntimeError("a transaction in which the database refused something cannot be kept")

    def _load(self, kind: type[RecordT], statement: sa.Select[Any]) -> list[RecordT]:
        names = statement.selected_columns.keys()
        return [kind(**dict(zip(names, row, strict=True))) for row in self._connection.execute(statement)]

    def _find_few(self, kind: type, query: Query, clauses: Sequence[Any]) -> list[str] | None:
        """The ids of the page where only few rows match; None where many do.

        Databases cannot know whether to read the list in its order until enough rows match, or to collect the matching
        ones and sort them. With few of the one and many of the other, either takes a hundred times as long.
        """
        order = order_of(kind, query.sort)
        statement = sa.select(order, TABLES[kind].c.id).where(*clauses).limit(FEW + 1)
        found = [tuple(row) for row in self._connection.execute(statement)]
        if len(found) > FEW:
            return None
        return [key for _, key in sorted(found, reverse=query.descending)[: query.limit]]

    def _clauses(self, kind: type, conditions: Sequence[Condition], *, in_order: bool = False) -> list[Any]:
        return queries.clauses_of(kind, conditions, self._connection.dialect.name, in_order=in_order)


def _values(record: Any) -> dict[str, Any]:
    own = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in record.DERIVED}
    return own | dict(columns.computed_columns(record))


def _read_generation(connection: sa.Connection, *, lock: Literal["alone", "shared"] | None = None) -> Generation:
    # As text: every transaction asks this first, and building the statement would take longer than asking.
    locking = "" if connection.dialect.name == "sqlite" else LOCKS[lock]
    return Generation(*connection.exec_driver_sql(f"SELECT organization, assets FROM generations{locking}").one())
