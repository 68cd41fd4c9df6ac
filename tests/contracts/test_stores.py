"""The contract of stores: records are stored, found by conditions, and transactions are atomic."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fairlead.adapters.database.tables import TABLES
from fairlead.errors import Changed, Conflict
from fairlead.model.queries import Condition
from fairlead.model.records import (
    AuditRecord,
    ComputeResourceRecord,
    GrantRecord,
    IdempotencyRecord,
    PlanRecord,
    PolicyRecord,
    RevisionRecord,
    RunRecord,
    ScopeRecord,
    SecretRecord,
    SettingsRecord,
    TemplateRecord,
    TokenRecord,
    VolumeRecord,
)
from fairlead.ports import ConfigPart, Generation, Store
from tests.contracts.memory import REFERENCES, UNIQUE
from tests.contracts.samples import KINDS, NOW, PARTS, PLACES, keep, make

pytestmark = pytest.mark.every_store

# All stores


def test_memory_holds_unique_what_the_tables_do() -> None:
    for kind, table in TABLES.items():
        constraints = [item for item in table.constraints if isinstance(item, sa.UniqueConstraint)]
        assert {tuple(column.name for column in item.columns) for item in constraints} == set(UNIQUE[kind])


def test_every_kind_of_record_is_tried() -> None:
    assert {*KINDS, *PARTS} == set(TABLES) == set(UNIQUE)


def test_memory_refers_to_places_where_the_tables_do() -> None:
    for kind, table in TABLES.items():
        keys = {key.parent.name for key in table.foreign_keys if key.target_fullname == "places.scope"}
        assert keys == set(REFERENCES[kind])


# Adding and getting


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_of_any_kind_comes_back_as_it_was_given(kept: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    if kind is not ScopeRecord:
        record = replace(record, **({"scope": "project/forest"} if hasattr(record, "scope") else {}))
    keep(kept, record)
    with kept.reading() as tx:
        assert tx.get(kind, id="x1") == record


def test_nothing_comes_back_where_nothing_is(kept: Store) -> None:
    with kept.reading() as tx:
        assert tx.get(ComputeResourceRecord, name="gone") is None
        assert tx.find(ComputeResourceRecord) == []
        assert tx.count(ComputeResourceRecord) == 0


def test_a_record_is_got_by_several_fields(kept: Store) -> None:
    first = make(SecretRecord, "s1", scope="project/forest", name="token")
    second = make(SecretRecord, "s2", scope="project/meadow", name="token")
    keep(kept, first, second)
    with kept.reading() as tx:
        assert tx.get(SecretRecord, scope="project/meadow", name="token") == second
        assert tx.get(SecretRecord, scope="platform", name="token") is None


def test_records_are_found_oldest_first_and_no_more_than_asked_for(kept: Store) -> None:
    keep(kept, *(make(VolumeRecord, id) for id in ("v3", "v1", "v2")))
    with kept.reading() as tx:
        assert [volume.id for volume in tx.find(VolumeRecord)] == ["v1", "v2", "v3"]
        assert [volume.id for volume in tx.find(VolumeRecord, limit=2)] == ["v1", "v2"]
        assert tx.find(VolumeRecord, limit=0) == []


def test_records_are_found_in_the_order_of_one_of_their_texts(kept: Store) -> None:
    turns = {"r1": "c", "r2": "a", "r3": "b", "r4": "a"}
    keep(kept, *(make(RunRecord, id, turn=turn) for id, turn in turns.items()))
    with kept.reading() as tx:
        assert [run.id for run in tx.find(RunRecord, by="turn", limit=3)] == ["r2", "r4", "r3"]


@pytest.mark.parametrize("text", ["", " ", "naïve Ünïcode", "日本語 🦊", "a'b\"c", "%_\\/", "line\nline\ttab", "\x7f"])
def test_any_text_comes_back(kept: Store, text: str) -> None:
    details = {"text": text, text: [text, {"deep": text}]}
    keep(kept, make(ComputeResourceRecord, "c1", description=text, requirements=details))
    with kept.reading() as tx:
        found = tx.get(ComputeResourceRecord, description=text)
    assert found is not None
    assert (found.description, found.requirements) == (text, details)


@pytest.mark.parametrize("sealed", [b"", b"\x00\xff\x00", bytes(range(256)) * 400])
def test_any_bytes_come_back(kept: Store, sealed: bytes) -> None:
    keep(kept, make(SecretRecord, "s1", sealed=sealed))
    with kept.reading() as tx:
        found = tx.get(SecretRecord, id="s1")
    assert found is not None
    assert found.sealed == sealed


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 1, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 3, 1, 0, 0, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(2026, 7, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=-8))),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ],
)
def test_a_moment_comes_back_to_the_microsecond_and_in_utc(kept: Store, moment: datetime) -> None:
    keep(kept, make(TokenRecord, "t1", created_at=moment, expires_at=moment))
    with kept.reading() as tx:
        found = tx.get(TokenRecord, expires_at=moment)
    assert found is not None
    assert (found.created_at, found.expires_at) == (moment, moment)
    assert found.created_at.tzinfo is UTC


@pytest.mark.parametrize("said", [None, {}, {"a": None}, {"a": {}}, {"a": []}, {"n": [1, 2.5, -3, 2**40, True]}])
def test_json_that_is_none_is_not_json_that_is_empty(kept: Store, said: dict[str, Any] | None) -> None:
    keep(kept, make(AuditRecord, "a1", before=said, after={}))
    with kept.reading() as tx:
        found = tx.find(AuditRecord, Condition("id", "=", "a1"))
    assert [(entry.before, entry.after) for entry in found] == [(said, {})]


@pytest.mark.parametrize("types", [None, [], ["job", "serve"]])
def test_a_list_that_is_none_is_not_a_list_that_is_empty(kept: Store, types: list[str] | None) -> None:
    keep(kept, make(ComputeResourceRecord, "c1", workload_types=types))
    with kept.reading() as tx:
        found = tx.get(ComputeResourceRecord, id="c1")
    assert found is not None
    assert found.workload_types == types


def test_what_is_read_is_a_copy(kept: Store) -> None:
    requirements = {"env": {"A": "1"}}
    keep(kept, make(TemplateRecord, "t1", requirements=requirements))
    requirements["env"]["A"] = "2"
    with kept.reading() as tx:
        for found in tx.find(TemplateRecord) + tx.find(TemplateRecord):
            assert found.requirements == {"env": {"A": "1"}}
            found.requirements["env"]["A"] = "3"


# Conflicts

TAKEN = [
    (make(ScopeRecord, "x1", scope="project/x"), {"scope": "project/x"}),
    (make(ComputeResourceRecord, "x1", name="a100"), {"name": "a100"}),
    (make(TemplateRecord, "x1", name="notebook"), {"name": "notebook"}),
    (make(RevisionRecord, "x1", object_id="o", number=2), {"object_id": "o", "number": 2}),
    (make(PolicyRecord, "x1", scope="project/forest"), {"scope": "project/forest"}),
    (make(SecretRecord, "x1", name="key", scope="project/forest"), {"name": "key", "scope": "project/forest"}),
    (make(VolumeRecord, "x1", name="data", scope="project/forest"), {"name": "data", "scope": "project/forest"}),
    (make(GrantRecord, "x1", subject="user:bo"), {"subject": "user:bo"}),
    (make(TokenRecord, "x1", digest="d"), {"digest": "d"}),
]


@pytest.mark.parametrize(("record", "same"), TAKEN, ids=[type(record).__name__ for record, _ in TAKEN])
def test_a_name_that_is_taken_is_a_conflict(kept: Store, record: Any, same: dict[str, Any]) -> None:
    keep(kept, record)
    with pytest.raises(Conflict), kept.changing("assets") as tx:
        tx.add(make(type(record), "x2", **same))
    if hasattr(record, "revision"):
        second = make(type(record), "x2", **({"scope": "project/y"} if same == {"scope": "project/x"} else {}))
        keep(kept, second)
        with pytest.raises(Conflict) as caught, kept.changing("assets") as tx:
            tx.save(replace(second, revision=2, **same))
        assert not isinstance(caught.value, Changed)


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_that_is_taken_is_a_conflict(kept: Store, kind: type) -> None:
    different = {"scope": "project/forest"} if kind is PolicyRecord else {}
    keep(kept, make(kind, "x1"))
    with pytest.raises(Conflict), kept.changing("assets") as tx:
        tx.add(make(kind, "x1", **different))


def test_names_that_differ_by_case_or_scope_are_different(kept: Store) -> None:
    keep(kept, *(make(ComputeResourceRecord, id, name=id) for id in ("a100", "A100")))
    keep(kept, *(make(SecretRecord, scope, scope=scope, name="key") for scope in PLACES))
    keep(kept, *(make(GrantRecord, role, subject="user:bo", role=role) for role in ("admin", "member")))
    with kept.reading() as tx:
        assert (tx.count(ComputeResourceRecord), tx.count(SecretRecord), tx.count(GrantRecord)) == (2, 4, 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if REFERENCES[kind]])
def test_nothing_is_kept_at_a_place_that_is_not_there(kept: Store, kind: type) -> None:
    field = "parent" if kind is ScopeRecord else "scope"
    with pytest.raises(Conflict, match="not there"), kept.changing("assets") as tx:
        tx.add(make(kind, "x1", **{field: "project/gone"}))
    record: Any = make(kind, "x2")
    keep(kept, record)
    with pytest.raises(Conflict, match="not there"), kept.changing("assets") as tx:
        tx.save(replace(record, revision=2, **{field: "project/gone"}))


# Saving and removing


@pytest.mark.parametrize("kind", [kind for kind in KINDS if hasattr(make(kind, "x"), "revision")])
def test_a_changed_record_is_saved_once(kept: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    after = replace(record, revision=2, updated_by="grace", updated_at=NOW + timedelta(hours=1))
    keep(kept, record)
    with kept.changing("assets") as tx:
        tx.save(after)
        assert tx.get(kind, id="x1") == after
    for stale in (record, after, replace(after, revision=4)):
        with pytest.raises(Changed), kept.changing("assets") as tx:
            tx.save(stale)
    with kept.reading() as tx:
        assert tx.get(kind, id="x1") == after


def test_what_is_not_there_cannot_be_saved(kept: Store) -> None:
    with pytest.raises(Changed), kept.changing("assets") as tx:
        tx.save(make(VolumeRecord, "v1", revision=2))


def test_a_save_that_comes_too_late_leaves_the_transaction_usable(kept: Store) -> None:
    with kept.changing("assets") as tx:
        with pytest.raises(Changed):
            tx.save(make(VolumeRecord, "v1", revision=2))
        tx.add(make(VolumeRecord, "v1"))
    with kept.reading() as tx:
        assert tx.count(VolumeRecord) == 1


def test_a_removed_record_is_gone_and_can_be_removed_again(kept: Store) -> None:
    record = make(VolumeRecord, "v1")
    keep(kept, record, make(VolumeRecord, "v2"))
    with kept.changing("assets") as tx:
        tx.remove(record)
        tx.remove(record)
        assert [volume.id for volume in tx.find(VolumeRecord)] == ["v2"]


def test_all_that_matches_is_removed_and_counted(kept: Store) -> None:
    old = [make(IdempotencyRecord, f"old-{number}", created_at=NOW - timedelta(days=3)) for number in range(3)]
    keep(kept, *old, make(IdempotencyRecord, "new"))
    with kept.recording() as tx:
        assert tx.remove_all(IdempotencyRecord, Condition("created_at", "<", NOW - timedelta(days=2))) == 3
        assert tx.remove_all(IdempotencyRecord, Condition("user", "=", "nobody")) == 0
        assert [answer.id for answer in tx.find(IdempotencyRecord)] == ["new"]
        assert tx.remove_all(IdempotencyRecord) == 1


def test_a_plan_comes_and_goes_with_its_run(kept: Store) -> None:
    plan = make(PlanRecord, "r1", request={"function": "train"}, plan={"settings": []})
    with pytest.raises(Conflict), kept.recording() as tx:
        tx.add(plan)
    keep(kept, make(RunRecord, "r1"), plan)
    with pytest.raises(Conflict), kept.recording() as tx:
        tx.add(plan)
    with kept.recording() as tx:
        assert tx.get(PlanRecord, id="r1") == plan
        assert tx.remove_all(RunRecord) == 1
        assert tx.find(PlanRecord) == []


@pytest.mark.parametrize("kind", [AuditRecord, RevisionRecord])
def test_what_is_append_only_stays(kept: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    keep(kept, record)
    with pytest.raises((Conflict, DBAPIError)), kept.changing("assets") as tx:
        tx.remove(record)
    with kept.reading() as tx:
        assert tx.get(kind, id="x1") == record


# All or nothing


def test_an_exception_takes_everything_back(kept: Store) -> None:
    volume = make(VolumeRecord, "v1")
    keep(kept, volume)
    with kept.reading() as tx:
        before = tx.generation
    for part in (None, "organization"):
        begun = kept.recording() if part is None else kept.changing("organization", "assets")
        with pytest.raises(KeyError), begun as tx:  # noqa: PT012  # the whole block is tested
            tx.add(make(VolumeRecord, "v2"))
            tx.save(replace(volume, size="2Gi", revision=2))
            tx.rename_scope("project/forest", "project/wood")
            tx.remove_all(GrantRecord)
            raise KeyError
    with kept.reading() as tx:
        assert tx.find(VolumeRecord) == [volume]
        assert tx.get(ScopeRecord, scope="project/forest") is not None
        assert tx.generation == before


def test_a_conflict_takes_back_what_came_before_it(kept: Store) -> None:
    with pytest.raises(Conflict), kept.changing("assets") as tx:  # noqa: PT012  # both are what is tested
        tx.add(make(VolumeRecord, "v1"))
        tx.add(make(VolumeRecord, "v1"))
    with kept.reading() as tx:
        assert tx.count(VolumeRecord) == 0


def test_a_transaction_in_which_a_conflict_was_caught_is_not_committed(kept: Store) -> None:
    with pytest.raises(RuntimeError), kept.changing("assets") as tx:  # noqa: PT012  # the error comes with the commit
        tx.add(make(VolumeRecord, "v1"))
        with pytest.raises(Conflict):
            tx.add(make(VolumeRecord, "v1"))
    with kept.reading() as tx:
        assert tx.count(VolumeRecord) == 0


def test_a_transaction_sees_its_own_changes_and_others_do_not(kept: Store) -> None:
    with kept.changing("assets") as tx:
        tx.add(make(SettingsRecord, "settings", defaults={"a": 1}))
        assert tx.count(SettingsRecord) == 1
        with kept.reading() as other:
            assert other.count(SettingsRecord) == 0


def test_a_look_stays_at_one_moment(kept: Store) -> None:
    with kept.reading() as tx:
        before = tx.generation
        keep(kept, make(RunRecord, "r1"))
        assert tx.count(RunRecord) == 0
        assert tx.generation == before
    with kept.reading() as tx:
        assert tx.count(RunRecord) == 1


def test_a_look_changes_nothing(kept: Store) -> None:
    with pytest.raises(Exception), kept.reading() as tx:  # noqa: B017, PT011  # it is a mistake in the program
        tx.add(make(RunRecord, "r1"))
    with kept.reading() as tx:
        assert tx.count(RunRecord) == 0


def test_records_are_counted_by_the_values_of_some_fields(kept: Store) -> None:
    said = (("platform", 1, True), ("platform", 1, True), ("platform", 2, True), ("project/forest", 1, False))
    keep(
        kept,
        *(make(RunRecord, f"r{n}", scope=scope, gpus=gpus, active=live) for n, (scope, gpus, live) in enumerate(said)),
    )
    with kept.reading() as tx:
        assert tx.tally(RunRecord, ("scope", "gpus")) == {
            ("platform", 1): 2,
            ("platform", 2): 1,
            ("project/forest", 1): 1,
        }
        assert tx.tally(RunRecord, ("gpus",), Condition("active", "=", True)) == {(1,): 2, (2,): 1}
        assert tx.tally(RunRecord, ("gpus",), Condition("scope", "=", "project/meadow")) == {}


def test_generations_count_the_changes_of_their_part(store: Store) -> None:
    seen = []
    parts: tuple[tuple[ConfigPart, ...], ...] = (("organization",), ("assets",), ("assets", "organization"))
    for part, *more in parts:
        with store.changing(part, *more) as tx:
            seen.append(tx.generation)
        with store.reading() as tx:
            assert tx.generation == seen[-1]
    with store.recording() as tx:
        assert tx.generation == seen[-1]
    assert seen == [Generation(2, 1), Generation(2, 2), Generation(3, 3)]
