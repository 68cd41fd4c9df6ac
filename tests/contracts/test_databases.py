"""Database stores return the same lists as the in-memory store."""

from collections.abc import Iterable
from typing import Any

import pytest
import sqlalchemy as sa

from fairlead.adapters.database import stores
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.model.columns import COLUMNS, Condition, Operator, Query
from fairlead.model.records import RunRecord
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import NOW, add_records, make_world

pytestmark = pytest.mark.every_store

OPERATORS: dict[str, tuple[Operator, ...]] = {
    "text": ("=", "!=", "contains", "in"),
    "keyword": ("=", "!=", "contains", "in"),
    "boolean": ("=", "!=", "in"),
    "number": ("=", "!=", "<", "<=", ">", ">=", "in"),
    "time": ("=", "!=", "<", "<=", ">", ">=", "until", "in"),
}
MAX_VALUES = 3  # values per column: each costs a query for each operator
SEARCH_TEXTS = ("a", "APPLE", "äp", "Äp", "ÄP", "%", "_", "\\", "/", "platform", "twin", "日", "none")
EACH_LIST = pytest.mark.parametrize("kind", COLUMNS, ids=lambda kind: kind.__name__)


@pytest.fixture
def memory(database_store: DatabaseStore) -> MemoryStore:
    """An in-memory store with the same records as the database."""
    stores_to_fill = MemoryStore(), database_store
    for store in stores_to_fill:
        add_records(store, *make_world())
    return stores_to_fill[0]


@EACH_LIST
def test_conditions_find_the_same_records_as_memory(
    database_store: DatabaseStore, memory: MemoryStore, kind: type
) -> None:
    with memory.reading() as expected, database_store.reading() as tx:
        everything: list[Any] = expected.find(kind)
        assert tx.find(kind) == everything
        for column in COLUMNS[kind].values():
            values = _distinct(column.of(item) for item in everything)[:MAX_VALUES]
            for operator in OPERATORS[column.kind]:
                operands_by_operator = {"contains": values, "until": values}
                operands = {"in": [tuple(values[::2])], **operands_by_operator}.get(operator, [None, *values])
                for condition in (Condition(column.name, operator, value) for value in operands):
                    assert tx.find(kind, condition) == expected.find(kind, condition), condition


@EACH_LIST
def test_searches_find_the_same_records_as_memory(
    database_store: DatabaseStore, memory: MemoryStore, kind: type
) -> None:
    with memory.reading() as expected, database_store.reading() as tx:
        for text in SEARCH_TEXTS:
            query = Query(search=text, limit=500)
            assert tx.page(kind, query) == expected.page(kind, query), text
            assert tx.count(kind, search=text) == expected.count(kind, search=text)


@EACH_LIST
def test_pages_of_long_lists_equal_those_of_memory(
    database_store: DatabaseStore, memory: MemoryStore, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If many records match, the database sorts them; otherwise the store does."""
    monkeypatch.setattr(stores, "FEW", 0)
    with memory.reading() as expected, database_store.reading() as tx:
        everything: list[Any] = expected.find(kind)
        for column in COLUMNS[kind].values():
            for value in _distinct(column.of(item) for item in everything)[:1]:
                query = Query((Condition(column.name, "!=", value),), sort=column.name, limit=5)
                assert tx.page(kind, query) == expected.page(kind, query), query


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value is not None))


@pytest.mark.parametrize(
    ("condition", "sort", "index"),
    [
        (Condition("updated_at", ">", NOW), "updated_at", "ix_runs_updated_at"),
        (Condition("scope", "=", "project/forest"), "created_at", "ix_runs_scope_created_at"),
    ],
    ids=["changed", "of a project"],
)
def test_runs_are_found_with_an_index(sqlite_store: DatabaseStore, condition: Condition, sort: str, index: str) -> None:
    statements: list[tuple[str, Any]] = []
    with sqlite_store.reading() as tx:
        connection = tx._connection
        sa.event.listen(
            connection, "before_cursor_execute", lambda *arguments: statements.append((arguments[2], arguments[3]))
        )
        tx.page(RunRecord, Query((condition,), sort=sort))
        statement, values = statements[0]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    assert index in str(plan)
