"""The contract of stores for conditions and lists: the same records in the same order on every page."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from fairlead.model.columns import COLUMNS, MAX_INTEGER
from fairlead.model.queries import Condition, Operator, Query
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
from tests.contracts.samples import NOW, PLACES, keep, make, make_world

pytestmark = pytest.mark.every_store

EACH_LIST = pytest.mark.parametrize("kind", COLUMNS, ids=lambda kind: kind.__name__)
# Names that cover what an order can get wrong: case, letters beyond A to Z, and signs on both sides of letters.
WORDS = ("b", "B", "a", "_", "~", "Z", "z", "é", "É", "日", "5", "")


@pytest.fixture
def world(store: Store) -> Store:
    """A store with many records of every listed kind."""
    keep(store, *make_world())
    return store


# Conditions


@pytest.mark.parametrize(
    ("operator", "value", "found"),
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
def test_a_condition_on_text_finds(kept: Store, operator: Operator, value: Any, found: list[str]) -> None:
    classes = ("fast", "slow", None, "")
    keep(kept, *(make(VolumeRecord, f"v{number}", storage_class=said) for number, said in enumerate(classes, 1)))
    _expect(kept, VolumeRecord, Condition("storage_class", operator, value), found)


@pytest.mark.parametrize(
    ("operator", "value", "found"),
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
def test_a_condition_on_a_number_finds(kept: Store, operator: Operator, value: Any, found: list[str]) -> None:
    for number, gpu in enumerate(({"devices": 0}, {"devices": 1}, {"devices": 2}, {})):
        requirements = {"resources": {"gpu": gpu}}
        keep(kept, make(ComputeResourceRecord, f"c{number}", requirements=requirements))
    _expect(kept, ComputeResourceRecord, Condition("gpu_devices", operator, value), found)


@pytest.mark.parametrize(
    ("operator", "value", "found"),
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
def test_a_condition_on_a_moment_finds(kept: Store, operator: Operator, value: Any, found: list[str]) -> None:
    moments: tuple[datetime | None, ...] = (NOW, NOW + timedelta(microseconds=1), None)
    keep(kept, *(make(TokenRecord, f"t{number}", expires_at=moment) for number, moment in enumerate(moments, 1)))
    _expect(kept, TokenRecord, Condition("expires_at", operator, value), found)


@pytest.mark.parametrize(
    ("operator", "value", "found"),
    [("=", True, ["r1"]), ("=", False, ["r2"]), ("!=", True, ["r2"]), ("in", (True, False), ["r1", "r2"])],
)
def test_a_condition_on_a_flag_finds(kept: Store, operator: Operator, value: Any, found: list[str]) -> None:
    keep(kept, make(RunRecord, "r1", active=True), make(RunRecord, "r2", active=False))
    _expect(kept, RunRecord, Condition("active", operator, value), found)


def test_all_conditions_must_hold(kept: Store) -> None:
    keep(kept, *(make(RunRecord, f"r{number}", state="ab"[number % 2], active=number < 3) for number in range(6)))
    with kept.reading() as tx:
        both = (Condition("state", "=", "b"), Condition("active", "=", True))
        assert [run.id for run in tx.find(RunRecord, *both)] == ["r1"]
        assert [run.id for run in tx.page(RunRecord, Query(both)).items] == ["r1"]
        assert (tx.count(RunRecord, *both), tx.count(RunRecord)) == (1, 6)


def test_a_condition_may_name_five_thousand_values(kept: Store) -> None:
    many = tuple(f"project/{number}" for number in range(5_000))
    keep(kept, make(AuditRecord, "a1", scope=many[0]), make(AuditRecord, "a2", scope=many[-1]), make(AuditRecord, "a3"))
    keep(kept, *(make(VolumeRecord, f"v{number}", scope=scope) for number, scope in enumerate(PLACES)))
    _expect(kept, AuditRecord, Condition("scope", "in", many), ["a1", "a2"])
    _expect(kept, VolumeRecord, Condition("scope", "in", (*many, *PLACES[2:])), ["v2", "v3"])
    with kept.changing("assets") as tx:
        assert tx.remove_all(VolumeRecord, Condition("scope", "in", (*many, *PLACES[2:]))) == 2


# Searching


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_a_search_takes_every_sign_as_it_is(kept: Store, text: str, found: list[str]) -> None:
    for said in ("50% off", "a_b", "aXb", "\\d", "x/y", "MiXeD", "Été", "日本", "it's", ""):
        keep(
            kept, make(ComputeResourceRecord, f"c{said}", name=f"n{len(said)}-{said.encode().hex()}", description=said)
        )
    with kept.reading() as tx:
        assert [item.id for item in tx.page(ComputeResourceRecord, Query(search=text)).items] == found
        assert tx.count(ComputeResourceRecord, search=text) == len(found)
        assert [item.id for item in tx.find(ComputeResourceRecord, Condition("description", "contains", text))] == found


def test_a_search_looks_into_every_searched_column_and_no_other(kept: Store) -> None:
    keep(
        kept,
        make(TemplateRecord, "t1", name="needle-1"),
        make(TemplateRecord, "t2", compute_resource="the NEEDLE"),
        make(TemplateRecord, "t3", created_by="needle"),
        make(TemplateRecord, "t4", successor="needle", updated_by="needle", managed_by="needle"),
    )
    with kept.reading() as tx:
        query = Query((Condition("scope", "=", "platform"),), search="needle")
        assert [item.id for item in tx.page(TemplateRecord, query).items] == ["t1", "t2", "t3"]
        assert tx.count(TemplateRecord, Condition("id", "!=", "t1"), search="Needle") == 2


# Derived columns


def test_what_uses_an_asset_is_counted_when_it_is_read(kept: Store) -> None:
    later = NOW + timedelta(hours=1)
    keep(kept, *(make(ComputeResourceRecord, id, name=f"name-{id}") for id in ("c1", "c2")))
    keep(
        kept, make(TemplateRecord, "t1", compute_resource="name-c1"), make(TemplateRecord, "t2", compute_resource="c1")
    )
    keep(kept, make(RunRecord, "r1", compute_resource_id="c1", template_id="t1"))
    keep(kept, make(RunRecord, "r2", compute_resource_id="c1", active=False, created_at=later))
    keep(kept, make(RunRecord, "r3", compute_resource_id="gone", compute_resource="name-c1"))
    with kept.reading() as tx:
        used, unused = tx.find(ComputeResourceRecord)
        assert (used.workloads, used.templates, used.last_used_at) == (1, 1, later)
        assert (unused.workloads, unused.templates, unused.last_used_at) == (0, 0, None)
        assert [(item.workloads, item.last_used_at) for item in tx.find(TemplateRecord)] == [(1, NOW), (0, None)]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (Condition("workloads", ">=", 1), ["c1"]),
        (Condition("workloads", "=", 0), ["c2"]),
        (Condition("templates", ">", 0), ["c2"]),
        (Condition("last_used_at", "=", None), ["c2"]),
        (Condition("last_used_at", "<=", NOW), ["c1"]),
        (Condition("last_used_at", "!=", NOW), ["c2"]),
    ],
)
def test_a_condition_may_be_on_what_is_derived(kept: Store, condition: Condition, found: list[str]) -> None:
    keep(kept, make(ComputeResourceRecord, "c1"), make(ComputeResourceRecord, "c2"))
    keep(kept, make(RunRecord, "r1", compute_resource_id="c1"), make(TemplateRecord, "t1", compute_resource="c2"))
    _expect(kept, ComputeResourceRecord, condition, found)


def test_what_is_derived_cannot_be_saved(kept: Store) -> None:
    keep(kept, make(ComputeResourceRecord, "c1", workloads=7, templates=7, last_used_at=NOW))
    with kept.changing("assets") as tx:
        tx.save(make(ComputeResourceRecord, "c1", revision=2, workloads=8))
        found = tx.get(ComputeResourceRecord, id="c1")
    assert found == make(ComputeResourceRecord, "c1", revision=2)


def test_a_computed_column_follows_what_is_saved(kept: Store) -> None:
    before = make(TemplateRecord, "t1", requirements={"resources": {"gpu": {"devices": 1}}})
    keep(kept, before)
    with kept.changing("assets") as tx:
        tx.save(replace(before, revision=2, requirements={"resources": {"gpu": {"devices": 4}}}))
    _expect(kept, TemplateRecord, Condition("gpu_devices", "=", 1), [])
    _expect(kept, TemplateRecord, Condition("gpu_devices", "=", 4), ["t1"])


# Order


@EACH_LIST
def test_every_column_sorts_both_ways_and_pages_hold_each_record_once(world: Store, kind: type) -> None:
    with world.reading() as tx:
        everything: list[Any] = tx.find(kind)
        assert len(everything) >= 13
        for column in COLUMNS[kind].values():
            for descending in (False, True):
                expected = sorted(everything, key=_place_in(kind, column.name), reverse=descending)
                walked = _walk(tx, kind, column.name, descending=descending)
                assert [item.id for item in walked] == [item.id for item in expected], (column.name, descending)
                assert walked == expected


def test_letters_are_ordered_without_their_case_and_ties_by_id(kept: Store) -> None:
    keep(kept, *(make(GrantRecord, f"g{number:02}", subject=word) for number, word in enumerate(WORDS)))
    with kept.reading() as tx:
        for descending in (False, True):
            words = [grant.subject for grant in _walk(tx, GrantRecord, "subject", descending=descending)]
            up = ["", "5", "_", "a", "b", "B", "Z", "z", "~", "É", "é", "日"]
            assert words == (up[::-1] if descending else up)


@pytest.mark.parametrize(
    ("column", "order"),
    [
        ("cpu_request", ["c4", "c5", "c1", "c2", "c3"]),  # no value sorts before all values
        ("cpu_limit", ["c1", "c2", "c3", "c4", "c5"]),  # and no limit is the most
        ("mem_request", ["c1", "c2", "c4", "c5", "c3"]),
        ("mem_limit", ["c3", "c1", "c2", "c4", "c5"]),
        ("gpu_memory", ["c1", "c3", "c5", "c4", "c2"]),  # a share comes before an amount
        ("last_used_at", ["c1", "c2", "c4", "c5", "c3"]),
    ],
)
def test_what_is_missing_or_unlimited_has_its_place(kept: Store, column: str, order: list[str]) -> None:
    said: list[dict[str, Any]] = [
        {"cpu": {"requests": "100m", "limits": "500m"}},
        {"cpu": {"requests": "1", "limits": "1"}, "gpu": {"memory": {"request": "10Gi"}}},
        {"cpu": {"requests": "1500m", "limits": "2"}, "mem": {"requests": "1Gi", "limits": "1Gi"}},
        {"cpu": {"limits": "unlimited"}, "mem": {"limits": "unlimited"}, "gpu": {"memory": {"limit": "100%"}}},
        {},
    ]
    for number, resources in enumerate(said, 1):
        keep(kept, make(ComputeResourceRecord, f"c{number}", requirements={"resources": resources}))
    keep(kept, make(RunRecord, "r1", compute_resource_id="c3"))
    with kept.reading() as tx:
        assert [item.id for item in _walk(tx, ComputeResourceRecord, column)] == order


@pytest.mark.parametrize("limit", [1, 2, 13, 50])
def test_pages_of_any_size_hold_the_same(world: Store, limit: int) -> None:
    with world.reading() as tx:
        walked = _walk(tx, AuditRecord, "user", limit=limit, conditions=(Condition("kind", "=", "run"),), search="g")
        assert {item.kind for item in walked} == {"run"}
        assert [(a.user.lower(), a.id) < (b.user.lower(), b.id) for a, b in pairwise(walked)] == [True] * (
            len(walked) - 1
        )
        assert len(walked) == tx.count(AuditRecord, Condition("kind", "=", "run"), search="g") > 2


def test_a_cursor_still_holds_when_its_record_is_gone(kept: Store) -> None:
    keep(kept, *(make(VolumeRecord, f"v{number}") for number in range(4)))
    with kept.changing("assets") as tx:
        tx.remove_all(VolumeRecord, Condition("id", "=", "v1"))
        assert [item.id for item in tx.page(VolumeRecord, Query(sort="name", after=("v1", "v1"))).items] == ["v2", "v3"]


def _expect(store: Store, kind: type, condition: Condition, ids: list[str]) -> None:
    """find, count and page return the same records for a condition."""
    with store.reading() as tx:
        found: list[Any] = tx.find(kind, condition)
        listed: list[Any] = tx.page(kind, Query((condition,))).items
        assert [item.id for item in found] == ids
        assert listed == found
        assert tx.count(kind, condition) == len(ids)


def _walk(
    tx: Transaction, kind: type, sort: str, *, descending: bool = False, limit: int = 5, **asked: Any
) -> list[Any]:
    """All pages of a list, one after the other, with the cursors that the product makes."""
    column, after = COLUMNS[kind][sort], None
    items: list[Any] = []
    while True:
        query = Query(sort=sort, descending=descending, after=after, limit=limit, **asked)
        page: list[Any] = tx.page(kind, query).items
        items += page
        assert len(items) <= 200, f"pages by {sort} do not end"
        if len(page) < limit:
            return items
        after = column.sort_value(column.of(page[-1])), page[-1].id


def _place_in(kind: type, sort: str) -> Callable[[Any], tuple[Any, str]]:
    """The sort key of a record, implemented independently of the product."""
    column = COLUMNS[kind][sort]

    def place(record: Any) -> tuple[Any, str]:
        value = column.of(record)
        if column.kind in ("text", "word"):
            value = "".join(
                letter.lower() if letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" else letter for letter in value or ""
            )
        return (column.missing if value is None else value), record.id

    return place
