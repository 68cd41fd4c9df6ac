"""The store contract for conditions and lists: the same records in the same order on every page."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from fairlead.model.columns import COLUMNS, MAX_INTEGER, Condition, Operator, Query
from fairlead.model.records import (
    AuditRecord,
    ComputeResourceRecord,
    GrantRecord,
    RunRecord,
    TemplateRecord,
    TokenRecord,
    VolumeRecord,
)
from fairlead.ports import Store, Transaction
from tests.contracts.samples import NOW, SCOPES, add_records, make, make_world

pytestmark = pytest.mark.every_store

EACH_LIST = pytest.mark.parametrize("kind", COLUMNS, ids=lambda kind: kind.__name__)
# Names that are difficult to sort: case, letters other than A to Z, and characters before and after letters.
UNSORTED_NAMES = ("b", "B", "a", "_", "~", "Z", "z", "é", "É", "日", "5", "")


@pytest.fixture
def world(store: Store) -> Store:
    """A store with many records of every listed kind."""
    add_records(store, *make_world())
    return store


# Conditions


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("=", "fast", ["v1"]),
        ("=", "FAST", []),
        ("=", None, ["v3"]),
        ("=", "", ["v4"]),
        ("!=", "fast", ["v2", "v3", "v4"]),
        ("!=", None, ["v1", "v2", "v4"]),
        ("in", ("fast", "slow", "gone"), ["v1", "v2"]),
        ("in", (), []),
        ("in", (None,), []),
        ("contains", "S", ["v1", "v2"]),
        ("contains", "", ["v1", "v2", "v4"]),
        ("contains", "fa_t", []),
    ],
)
def test_conditions_on_text(filled_store: Store, operator: Operator, value: Any, expected: list[str]) -> None:
    classes = ("fast", "slow", None, "")
    add_records(
        filled_store,
        *(
            make(VolumeRecord, f"v{number}", storage_class=storage_class)
            for number, storage_class in enumerate(classes, 1)
        ),
    )
    _check_condition(filled_store, VolumeRecord, Condition("storage_class", operator, value), expected)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("=", 2, ["c2"]),
        ("!=", 2, ["c0", "c1", "c3"]),
        ("<", 2, ["c0", "c1"]),
        ("<=", 2, ["c0", "c1", "c2"]),
        (">", 0, ["c1", "c2"]),
        (">=", 0, ["c0", "c1", "c2"]),
        ("<", None, []),
        (">=", None, []),
        ("=", None, ["c3"]),
        ("!=", None, ["c0", "c1", "c2"]),
        ("in", (0, 2, 7), ["c0", "c2"]),
        ("<=", MAX_INTEGER, ["c0", "c1", "c2"]),
    ],
)
def test_conditions_on_numbers(filled_store: Store, operator: Operator, value: Any, expected: list[str]) -> None:
    for number, gpu in enumerate(({"devices": 0}, {"devices": 1}, {"devices": 2}, {})):
        requirements = {"resources": {"gpu": gpu}}
        add_records(filled_store, make(ComputeResourceRecord, f"c{number}", requirements=requirements))
    _check_condition(filled_store, ComputeResourceRecord, Condition("gpu_devices", operator, value), expected)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("=", NOW, ["t1"]),
        ("=", NOW + timedelta(microseconds=1), ["t2"]),
        ("<", NOW + timedelta(microseconds=1), ["t1"]),
        (">", NOW, ["t2"]),
        (">=", NOW, ["t1", "t2"]),
        ("until", NOW, ["t1", "t3"]),
        ("until", NOW - timedelta(microseconds=1), ["t3"]),
        ("=", None, ["t3"]),
        ("!=", NOW, ["t2", "t3"]),
        ("<", None, []),
    ],
)
def test_conditions_on_times(filled_store: Store, operator: Operator, value: Any, expected: list[str]) -> None:
    moments: tuple[datetime | None, ...] = (NOW, NOW + timedelta(microseconds=1), None)
    add_records(
        filled_store, *(make(TokenRecord, f"t{number}", expires_at=moment) for number, moment in enumerate(moments, 1))
    )
    _check_condition(filled_store, TokenRecord, Condition("expires_at", operator, value), expected)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("=", True, ["r1"]), ("=", False, ["r2"]), ("!=", True, ["r2"]), ("in", (True, False), ["r1", "r2"])],
)
def test_conditions_on_booleans(filled_store: Store, operator: Operator, value: Any, expected: list[str]) -> None:
    add_records(filled_store, make(RunRecord, "r1", active=True), make(RunRecord, "r2", active=False))
    _check_condition(filled_store, RunRecord, Condition("active", operator, value), expected)


def test_all_conditions_must_match(filled_store: Store) -> None:
    add_records(
        filled_store, *(make(RunRecord, f"r{number}", state="ab"[number % 2], active=number < 3) for number in range(6))
    )
    with filled_store.reading() as tx:
        both = (Condition("state", "=", "b"), Condition("active", "=", True))
        assert [run.id for run in tx.find(RunRecord, *both)] == ["r1"]
        assert [run.id for run in tx.page(RunRecord, Query(both)).items] == ["r1"]
        assert (tx.count(RunRecord, *both), tx.count(RunRecord)) == (1, 6)


def test_a_condition_may_have_5000_values(filled_store: Store) -> None:
    many = tuple(f"project/{number}" for number in range(5_000))
    add_records(
        filled_store,
        make(AuditRecord, "a1", scope=many[0]),
        make(AuditRecord, "a2", scope=many[-1]),
        make(AuditRecord, "a3"),
    )
    add_records(filled_store, *(make(VolumeRecord, f"v{number}", scope=scope) for number, scope in enumerate(SCOPES)))
    _check_condition(filled_store, AuditRecord, Condition("scope", "in", many), ["a1", "a2"])
    _check_condition(filled_store, VolumeRecord, Condition("scope", "in", (*many, *SCOPES[2:])), ["v2", "v3"])
    with filled_store.changing("assets") as tx:
        assert tx.remove_all(VolumeRecord, Condition("scope", "in", (*many, *SCOPES[2:]))) == 2


# Searching


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%", ["c50% off"]),
        ("_", ["ca_b"]),
        ("50%", ["c50% off"]),
        ("A_B", ["ca_b"]),
        ("\\", ["c\\d"]),
        ("/", ["cx/y"]),
        ("MIXED", ["cMiXeD"]),
        ("mixed", ["cMiXeD"]),
        ("É", ["cÉté"]),
        ("日", ["c日本"]),
        ("it's", ["cit's"]),
        ("nowhere", []),
    ],
)
def test_special_characters_are_searched_literally(filled_store: Store, text: str, expected: list[str]) -> None:
    for description in ("50% off", "a_b", "aXb", "\\d", "x/y", "MiXeD", "Été", "日本", "it's", ""):
        add_records(
            filled_store,
            make(
                ComputeResourceRecord,
                f"c{description}",
                name=f"n{len(description)}-{description.encode().hex()}",
                description=description,
            ),
        )
    with filled_store.reading() as tx:
        assert [item.id for item in tx.page(ComputeResourceRecord, Query(search=text)).items] == expected
        assert tx.count(ComputeResourceRecord, search=text) == len(expected)
        assert [
            item.id for item in tx.find(ComputeResourceRecord, Condition("description", "contains", text))
        ] == expected


def test_only_searchable_columns_are_searched(filled_store: Store) -> None:
    add_records(
        filled_store,
        make(TemplateRecord, "t1", name="needle-1"),
        make(TemplateRecord, "t2", compute_resource="the NEEDLE"),
        make(TemplateRecord, "t3", created_by="needle"),
        make(TemplateRecord, "t4", successor="needle", updated_by="needle", managed_by="needle"),
    )
    with filled_store.reading() as tx:
        query = Query((Condition("scope", "=", "platform"),), search="needle")
        assert [item.id for item in tx.page(TemplateRecord, query).items] == ["t1", "t2", "t3"]
        assert tx.count(TemplateRecord, Condition("id", "!=", "t1"), search="Needle") == 2


# Derived columns


def test_usage_of_assets_is_counted_when_they_are_read(filled_store: Store) -> None:
    later = NOW + timedelta(hours=1)
    add_records(filled_store, *(make(ComputeResourceRecord, id, name=f"name-{id}") for id in ("c1", "c2")))
    add_records(
        filled_store,
        make(TemplateRecord, "t1", compute_resource="name-c1"),
        make(TemplateRecord, "t2", compute_resource="c1"),
    )
    add_records(filled_store, make(RunRecord, "r1", compute_resource_id="c1", template_id="t1"))
    add_records(filled_store, make(RunRecord, "r2", compute_resource_id="c1", active=False, created_at=later))
    add_records(filled_store, make(RunRecord, "r3", compute_resource_id="gone", compute_resource="name-c1"))
    with filled_store.reading() as tx:
        used, unused = tx.find(ComputeResourceRecord)
        assert (used.workloads, used.templates, used.last_used_at) == (1, 1, later)
        assert (unused.workloads, unused.templates, unused.last_used_at) == (0, 0, None)
        assert [(item.workloads, item.last_used_at) for item in tx.find(TemplateRecord)] == [(1, NOW), (0, None)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("workloads", ">=", 1), ["c1"]),
        (Condition("workloads", "=", 0), ["c2"]),
        (Condition("templates", ">", 0), ["c2"]),
        (Condition("last_used_at", "=", None), ["c2"]),
        (Condition("last_used_at", "<=", NOW), ["c1"]),
        (Condition("last_used_at", "!=", NOW), ["c2"]),
    ],
)
def test_conditions_on_derived_columns(filled_store: Store, condition: Condition, expected: list[str]) -> None:
    add_records(filled_store, make(ComputeResourceRecord, "c1"), make(ComputeResourceRecord, "c2"))
    add_records(
        filled_store, make(RunRecord, "r1", compute_resource_id="c1"), make(TemplateRecord, "t1", compute_resource="c2")
    )
    _check_condition(filled_store, ComputeResourceRecord, condition, expected)


def test_derived_values_are_not_saved(filled_store: Store) -> None:
    add_records(filled_store, make(ComputeResourceRecord, "c1", workloads=7, templates=7, last_used_at=NOW))
    with filled_store.changing("assets") as tx:
        tx.save(make(ComputeResourceRecord, "c1", revision=2, workloads=8))
        stored = tx.get(ComputeResourceRecord, id="c1")
    assert stored == make(ComputeResourceRecord, "c1", revision=2)


def test_computed_columns_are_updated_on_save(filled_store: Store) -> None:
    before = make(TemplateRecord, "t1", requirements={"resources": {"gpu": {"devices": 1}}})
    add_records(filled_store, before)
    with filled_store.changing("assets") as tx:
        tx.save(replace(before, revision=2, requirements={"resources": {"gpu": {"devices": 4}}}))
    _check_condition(filled_store, TemplateRecord, Condition("gpu_devices", "=", 1), [])
    _check_condition(filled_store, TemplateRecord, Condition("gpu_devices", "=", 4), ["t1"])


# Order


@EACH_LIST
def test_every_column_sorts_both_ways_and_pages_contain_each_record_once(world: Store, kind: type) -> None:
    with world.reading() as tx:
        everything: list[Any] = tx.find(kind)
        assert len(everything) >= 13
        for column in COLUMNS[kind].values():
            for descending in (False, True):
                expected = sorted(everything, key=_sort_key(kind, column.name), reverse=descending)
                paged = _read_all_pages(tx, kind, column.name, descending=descending)
                assert [item.id for item in paged] == [item.id for item in expected], (column.name, descending)
                assert paged == expected


def test_text_is_sorted_without_case_and_ties_by_id(filled_store: Store) -> None:
    add_records(
        filled_store, *(make(GrantRecord, f"g{number:02}", subject=name) for number, name in enumerate(UNSORTED_NAMES))
    )
    with filled_store.reading() as tx:
        for descending in (False, True):
            names = [grant.subject for grant in _read_all_pages(tx, GrantRecord, "subject", descending=descending)]
            ascending = ["", "5", "_", "a", "b", "B", "Z", "z", "~", "É", "é", "日"]
            assert names == (ascending[::-1] if descending else ascending)


@pytest.mark.parametrize(
    ("column", "order"),
    [
        ("cpu_request", ["c4", "c5", "c1", "c2", "c3"]),  # a missing value sorts before all values
        ("cpu_limit", ["c1", "c2", "c3", "c4", "c5"]),  # a missing limit sorts after all limits
        ("mem_request", ["c1", "c2", "c4", "c5", "c3"]),
        ("mem_limit", ["c3", "c1", "c2", "c4", "c5"]),
        ("gpu_memory", ["c1", "c3", "c5", "c4", "c2"]),  # a share comes before an amount
        ("last_used_at", ["c1", "c2", "c4", "c5", "c3"]),
    ],
)
def test_missing_and_unlimited_values_have_a_defined_order(filled_store: Store, column: str, order: list[str]) -> None:
    resource_list: list[dict[str, Any]] = [
        {"cpu": {"requests": "100m", "limits": "500m"}},
        {"cpu": {"requests": "1", "limits": "1"}, "gpu": {"memory": {"request": "10Gi"}}},
        {"cpu": {"requests": "1500m", "limits": "2"}, "mem": {"requests": "1Gi", "limits": "1Gi"}},
        {"cpu": {"limits": "unlimited"}, "mem": {"limits": "unlimited"}, "gpu": {"memory": {"limit": "100%"}}},
        {},
    ]
    for number, resources in enumerate(resource_list, 1):
        add_records(filled_store, make(ComputeResourceRecord, f"c{number}", requirements={"resources": resources}))
    add_records(filled_store, make(RunRecord, "r1", compute_resource_id="c3"))
    with filled_store.reading() as tx:
        assert [item.id for item in _read_all_pages(tx, ComputeResourceRecord, column)] == order


@pytest.mark.parametrize("limit", [1, 2, 13, 50])
def test_pages_of_any_size_contain_the_same_records(world: Store, limit: int) -> None:
    with world.reading() as tx:
        paged = _read_all_pages(
            tx, AuditRecord, "user", limit=limit, conditions=(Condition("kind", "=", "run"),), search="g"
        )
        assert {item.kind for item in paged} == {"run"}
        assert [(a.user.lower(), a.id) < (b.user.lower(), b.id) for a, b in pairwise(paged)] == [True] * (
            len(paged) - 1
        )
        assert len(paged) == tx.count(AuditRecord, Condition("kind", "=", "run"), search="g") > 2


@pytest.mark.parametrize("sort", ["id", "created_at", "function"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "options", [{"search": "1"}, {"conditions": (Condition("created_by", "=", "apple"),)}], ids=["search", "filter"]
)
def test_a_scan_ends_after_a_number_of_records_in_the_same_scopes(
    world: Store, sort: str, descending: bool, options: dict[str, Any]
) -> None:
    in_scope = Condition("scope", "in", SCOPES[:2])
    query = Query(sort=sort, descending=descending, limit=200)
    query = replace(query, conditions=(in_scope, *options.get("conditions", ())), search=options.get("search", ""))
    with world.reading() as tx:
        examined = tx.page(RunRecord, replace(query, conditions=(in_scope,), search="")).items
        matching = tx.page(RunRecord, query).items
        assert 0 < len(matching) < len(examined)
        for most in range(1, len(examined)):
            end = tx.scan_end(RunRecord, query, most)
            assert end is not None
            assert end[1] == examined[most - 1].id
            within = {run.id for run in examined[:most]}
            before, after = replace(query, until=end), replace(query, after=end)
            assert tx.page(RunRecord, before).items == [run for run in matching if run.id in within]
            assert tx.page(RunRecord, after).items == [run for run in matching if run.id not in within]
        assert tx.scan_end(RunRecord, query, len(examined)) is None
        assert tx.scan_end(RunRecord, replace(query, conditions=(in_scope,), search=""), 1) is None


def test_a_cursor_is_valid_after_its_record_was_deleted(filled_store: Store) -> None:
    add_records(filled_store, *(make(VolumeRecord, f"v{number}") for number in range(4)))
    with filled_store.changing("assets") as tx:
        tx.remove_all(VolumeRecord, Condition("id", "=", "v1"))
        assert [item.id for item in tx.page(VolumeRecord, Query(sort="name", after=("v1", "v1"))).items] == ["v2", "v3"]


def _check_condition(store: Store, kind: type, condition: Condition, ids: list[str]) -> None:
    """find, count and page return the same records for a condition."""
    with store.reading() as tx:
        matching: list[Any] = tx.find(kind, condition)
        listed: list[Any] = tx.page(kind, Query((condition,))).items
        assert [item.id for item in matching] == ids
        assert listed == matching
        assert tx.count(kind, condition) == len(ids)


def _read_all_pages(
    tx: Transaction, kind: type, sort: str, *, descending: bool = False, limit: int = 5, **options: Any
) -> list[Any]:
    """The records on all pages of a list, with cursors like the product's."""
    column, after = COLUMNS[kind][sort], None
    items: list[Any] = []
    while True:
        query = Query(sort=sort, descending=descending, after=after, limit=limit, **options)
        page: list[Any] = tx.page(kind, query).items
        items += page
        assert len(items) <= 200, f"pages by {sort} do not end"
        if len(page) < limit:
            return items
        after = column.sort_value(column.of(page[-1])), page[-1].id


def _sort_key(kind: type, sort: str) -> Callable[[Any], tuple[Any, str]]:
    """The sort key of a record, implemented independently of the product."""
    column = COLUMNS[kind][sort]

    def sort_key(record: Any) -> tuple[Any, str]:
        value = column.of(record)
        if column.kind in ("text", "keyword"):
            value = "".join(
                letter.lower() if letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" else letter for letter in value or ""
            )
        return (column.missing if value is None else value), record.id

    return sort_key
