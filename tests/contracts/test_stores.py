"""The store contract: records are stored, found by conditions, and transactions are atomic."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fairlead.adapters.database.tables import TABLES
from fairlead.errors import Changed, Conflict
from fairlead.model.columns import Condition
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
from tests.contracts.samples import DEPENDENT_KINDS, KINDS, NOW, SCOPES, add_records, make

pytestmark = pytest.mark.every_store

# All stores


def test_memory_and_tables_have_the_same_unique_constraints() -> None:
    for kind, table in TABLES.items():
        constraints = [item for item in table.constraints if isinstance(item, sa.UniqueConstraint)]
        assert {tuple(column.name for column in item.columns) for item in constraints} == set(UNIQUE[kind])


def test_every_kind_of_record_is_tested() -> None:
    assert {*KINDS, *DEPENDENT_KINDS} == set(TABLES) == set(UNIQUE)


def test_memory_and_tables_have_the_same_references_to_scopes() -> None:
    for kind, table in TABLES.items():
        keys = {key.parent.name for key in table.foreign_keys if key.target_fullname == "places.scope"}
        assert keys == set(REFERENCES[kind])


# Adding and getting


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_every_kind_round_trip(filled_store: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    if kind is not ScopeRecord:
        record = replace(record, **({"scope": "project/forest"} if hasattr(record, "scope") else {}))
    add_records(filled_store, record)
    with filled_store.reading() as tx:
        assert tx.get(kind, id="x1") == record


def test_an_empty_store_returns_nothing(filled_store: Store) -> None:
    with filled_store.reading() as tx:
        assert tx.get(ComputeResourceRecord, name="gone") is None
        assert tx.find(ComputeResourceRecord) == []
        assert tx.count(ComputeResourceRecord) == 0


def test_a_record_is_selected_by_several_fields(filled_store: Store) -> None:
    first = make(SecretRecord, "s1", scope="project/forest", name="token")
    second = make(SecretRecord, "s2", scope="project/meadow", name="token")
    add_records(filled_store, first, second)
    with filled_store.reading() as tx:
        assert tx.get(SecretRecord, scope="project/meadow", name="token") == second
        assert tx.get(SecretRecord, scope="platform", name="token") is None


def test_records_are_found_oldest_first_up_to_the_limit(filled_store: Store) -> None:
    add_records(filled_store, *(make(VolumeRecord, id) for id in ("v3", "v1", "v2")))
    with filled_store.reading() as tx:
        assert [volume.id for volume in tx.find(VolumeRecord)] == ["v1", "v2", "v3"]
        assert [volume.id for volume in tx.find(VolumeRecord, limit=2)] == ["v1", "v2"]
        assert tx.find(VolumeRecord, limit=0) == []


def test_records_are_sorted_by_a_text_field(filled_store: Store) -> None:
    key_by_id = {"r1": "c", "r2": "a", "r3": "b", "r4": "a"}
    add_records(filled_store, *(make(RunRecord, id, queue_key=key) for id, key in key_by_id.items()))
    with filled_store.reading() as tx:
        assert [run.id for run in tx.find(RunRecord, by="queue_key", limit=3)] == ["r2", "r4", "r3"]


@pytest.mark.parametrize("text", ["", " ", "naïve Ünïcode", "日本語 🦊", "a'b\"c", "%_\\/", "line\nline\ttab", "\x7f"])
def test_any_text_round_trips(filled_store: Store, text: str) -> None:
    details = {"text": text, text: [text, {"deep": text}]}
    add_records(filled_store, make(ComputeResourceRecord, "c1", description=text, requirements=details))
    with filled_store.reading() as tx:
        stored = tx.get(ComputeResourceRecord, description=text)
    assert stored is not None
    assert (stored.description, stored.requirements) == (text, details)


@pytest.mark.parametrize("sealed", [b"", b"\x00\xff\x00", bytes(range(256)) * 400])
def test_any_bytes_round_trip(filled_store: Store, sealed: bytes) -> None:
    add_records(filled_store, make(SecretRecord, "s1", sealed=sealed))
    with filled_store.reading() as tx:
        stored = tx.get(SecretRecord, id="s1")
    assert stored is not None
    assert stored.sealed == sealed


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
def test_times_round_trip_with_microseconds_in_utc(filled_store: Store, moment: datetime) -> None:
    add_records(filled_store, make(TokenRecord, "t1", created_at=moment, expires_at=moment))
    with filled_store.reading() as tx:
        stored = tx.get(TokenRecord, expires_at=moment)
    assert stored is not None
    assert (stored.created_at, stored.expires_at) == (moment, moment)
    assert stored.created_at.tzinfo is UTC


@pytest.mark.parametrize("value", [None, {}, {"a": None}, {"a": {}}, {"a": []}, {"n": [1, 2.5, -3, 2**40, True]}])
def test_json_null_differs_from_empty_json(filled_store: Store, value: dict[str, Any] | None) -> None:
    add_records(filled_store, make(AuditRecord, "a1", before=value, after={}))
    with filled_store.reading() as tx:
        entries = tx.find(AuditRecord, Condition("id", "=", "a1"))
    assert [(entry.before, entry.after) for entry in entries] == [(value, {})]


@pytest.mark.parametrize("types", [None, [], ["job", "serve"]])
def test_a_missing_list_differs_from_an_empty_list(filled_store: Store, types: list[str] | None) -> None:
    add_records(filled_store, make(ComputeResourceRecord, "c1", workload_types=types))
    with filled_store.reading() as tx:
        stored = tx.get(ComputeResourceRecord, id="c1")
    assert stored is not None
    assert stored.workload_types == types


def test_records_are_returned_as_copies(filled_store: Store) -> None:
    requirements = {"env": {"A": "1"}}
    add_records(filled_store, make(TemplateRecord, "t1", requirements=requirements))
    requirements["env"]["A"] = "2"
    with filled_store.reading() as tx:
        for template in tx.find(TemplateRecord) + tx.find(TemplateRecord):
            assert template.requirements == {"env": {"A": "1"}}
            template.requirements["env"]["A"] = "3"


# Conflicts

CONFLICTING = [
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


@pytest.mark.parametrize(("record", "same"), CONFLICTING, ids=[type(record).__name__ for record, _ in CONFLICTING])
def test_an_existing_name_is_a_conflict(filled_store: Store, record: Any, same: dict[str, Any]) -> None:
    add_records(filled_store, record)
    with pytest.raises(Conflict), filled_store.changing("assets") as tx:
        tx.add(make(type(record), "x2", **same))
    if hasattr(record, "revision"):
        second = make(type(record), "x2", **({"scope": "project/y"} if same == {"scope": "project/x"} else {}))
        add_records(filled_store, second)
        with pytest.raises(Conflict) as caught, filled_store.changing("assets") as tx:
            tx.save(replace(second, revision=2, **same))
        assert not isinstance(caught.value, Changed)


@pytest.mark.parametrize("kind", KINDS)
def test_an_existing_id_is_a_conflict(filled_store: Store, kind: type) -> None:
    different = {"scope": "project/forest"} if kind is PolicyRecord else {}
    add_records(filled_store, make(kind, "x1"))
    with pytest.raises(Conflict), filled_store.changing("assets") as tx:
        tx.add(make(kind, "x1", **different))


def test_names_that_differ_by_case_or_scope_are_different(filled_store: Store) -> None:
    add_records(filled_store, *(make(ComputeResourceRecord, id, name=id) for id in ("a100", "A100")))
    add_records(filled_store, *(make(SecretRecord, scope, scope=scope, name="key") for scope in SCOPES))
    add_records(filled_store, *(make(GrantRecord, role, subject="user:bo", role=role) for role in ("admin", "member")))
    with filled_store.reading() as tx:
        assert (tx.count(ComputeResourceRecord), tx.count(SecretRecord), tx.count(GrantRecord)) == (2, 4, 2)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if REFERENCES[kind]])
def test_records_of_a_missing_scope_are_rejected(filled_store: Store, kind: type) -> None:
    field = REFERENCES[kind][0]
    with pytest.raises(Conflict, match="was deleted"), filled_store.changing("assets") as tx:
        tx.add(make(kind, "x1", **{field: "project/gone"}))
    record: Any = make(kind, "x2")
    add_records(filled_store, record)
    with pytest.raises(Conflict, match="was deleted"), filled_store.changing("assets") as tx:
        tx.save(replace(record, revision=2, **{field: "project/gone"}))


# Saving and removing


@pytest.mark.parametrize("kind", [kind for kind in KINDS if hasattr(make(kind, "x"), "revision")])
def test_a_changed_record_is_saved_once(filled_store: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    after = replace(record, revision=2, updated_by="grace", updated_at=NOW + timedelta(hours=1))
    add_records(filled_store, record)
    with filled_store.changing("assets") as tx:
        tx.save(after)
        assert tx.get(kind, id="x1") == after
    for stale in (record, after, replace(after, revision=4)):
        with pytest.raises(Changed), filled_store.changing("assets") as tx:
            tx.save(stale)
    with filled_store.reading() as tx:
        assert tx.get(kind, id="x1") == after


def test_a_missing_record_cannot_be_saved(filled_store: Store) -> None:
    with pytest.raises(Changed), filled_store.changing("assets") as tx:
        tx.save(make(VolumeRecord, "v1", revision=2))


def test_a_stale_save_leaves_the_transaction_usable(filled_store: Store) -> None:
    with filled_store.changing("assets") as tx:
        with pytest.raises(Changed):
            tx.save(make(VolumeRecord, "v1", revision=2))
        tx.add(make(VolumeRecord, "v1"))
    with filled_store.reading() as tx:
        assert tx.count(VolumeRecord) == 1


def test_removing_a_record_is_idempotent(filled_store: Store) -> None:
    record = make(VolumeRecord, "v1")
    add_records(filled_store, record, make(VolumeRecord, "v2"))
    with filled_store.changing("assets") as tx:
        tx.remove(record)
        tx.remove(record)
        assert [volume.id for volume in tx.find(VolumeRecord)] == ["v2"]


def test_matching_records_are_removed_and_counted(filled_store: Store) -> None:
    old = [make(IdempotencyRecord, f"old-{number}", created_at=NOW - timedelta(days=3)) for number in range(3)]
    add_records(filled_store, *old, make(IdempotencyRecord, "new"))
    with filled_store.recording() as tx:
        assert tx.remove_all(IdempotencyRecord, Condition("created_at", "<", NOW - timedelta(days=2))) == 3
        assert tx.remove_all(IdempotencyRecord, Condition("user", "=", "nobody")) == 0
        assert [response.id for response in tx.find(IdempotencyRecord)] == ["new"]
        assert tx.remove_all(IdempotencyRecord) == 1


def test_a_plan_is_deleted_with_its_run(filled_store: Store) -> None:
    plan = make(PlanRecord, "r1", request={"function": "train"}, plan={"settings": []})
    with pytest.raises(Conflict), filled_store.recording() as tx:
        tx.add(plan)
    add_records(filled_store, make(RunRecord, "r1"), plan)
    with pytest.raises(Conflict), filled_store.recording() as tx:
        tx.add(plan)
    with filled_store.recording() as tx:
        assert tx.get(PlanRecord, id="r1") == plan
        assert tx.remove_all(RunRecord) == 1
        assert tx.find(PlanRecord) == []


@pytest.mark.parametrize("kind", [AuditRecord, RevisionRecord])
def test_append_only_records_cannot_be_removed(filled_store: Store, kind: type) -> None:
    record: Any = make(kind, "x1")
    add_records(filled_store, record)
    with pytest.raises((Conflict, DBAPIError)), filled_store.changing("assets") as tx:
        tx.remove(record)
    with filled_store.reading() as tx:
        assert tx.get(kind, id="x1") == record


# Atomicity


def test_an_exception_rolls_back_everything(filled_store: Store) -> None:
    volume = make(VolumeRecord, "v1")
    add_records(filled_store, volume)
    with filled_store.reading() as tx:
        before = tx.generation
    for part in (None, "organization"):
        transaction = filled_store.recording() if part is None else filled_store.changing("organization", "assets")
        with pytest.raises(KeyError), transaction as tx:  # noqa: PT012  # the whole block is tested
            tx.add(make(VolumeRecord, "v2"))
            tx.save(replace(volume, size="2Gi", revision=2))
            tx.rename_scope("project/forest", "project/wood")
            tx.remove_all(GrantRecord)
            raise KeyError
    with filled_store.reading() as tx:
        assert tx.find(VolumeRecord) == [volume]
        assert tx.get(ScopeRecord, scope="project/forest") is not None
        assert tx.generation == before


def test_a_conflict_rolls_back_earlier_changes(filled_store: Store) -> None:
    with pytest.raises(Conflict), filled_store.changing("assets") as tx:  # noqa: PT012  # both calls are tested
        tx.add(make(VolumeRecord, "v1"))
        tx.add(make(VolumeRecord, "v1"))
    with filled_store.reading() as tx:
        assert tx.count(VolumeRecord) == 0


def test_a_transaction_in_which_a_conflict_was_caught_is_not_committed(filled_store: Store) -> None:
    with pytest.raises(RuntimeError), filled_store.changing("assets") as tx:  # noqa: PT012  # the commit raises the error
        tx.add(make(VolumeRecord, "v1"))
        with pytest.raises(Conflict):
            tx.add(make(VolumeRecord, "v1"))
    with filled_store.reading() as tx:
        assert tx.count(VolumeRecord) == 0


def test_a_transaction_sees_its_own_changes_and_others_do_not(filled_store: Store) -> None:
    with filled_store.changing("assets") as tx:
        tx.add(make(SettingsRecord, "settings", defaults={"a": 1}))
        assert tx.count(SettingsRecord) == 1
        with filled_store.reading() as other:
            assert other.count(SettingsRecord) == 0


def test_a_read_transaction_is_a_snapshot(filled_store: Store) -> None:
    with filled_store.reading() as tx:
        before = tx.generation
        add_records(filled_store, make(RunRecord, "r1"))
        assert tx.count(RunRecord) == 0
        assert tx.generation == before
    with filled_store.reading() as tx:
        assert tx.count(RunRecord) == 1


def test_a_read_transaction_cannot_write(filled_store: Store) -> None:
    with pytest.raises(Exception), filled_store.reading() as tx:  # noqa: B017, PT011  # the error type depends on the store
        tx.add(make(RunRecord, "r1"))
    with filled_store.reading() as tx:
        assert tx.count(RunRecord) == 0


def test_records_are_counted_by_the_values_of_some_fields(filled_store: Store) -> None:
    runs = (("platform", 1, True), ("platform", 1, True), ("platform", 2, True), ("project/forest", 1, False))
    add_records(
        filled_store,
        *(
            make(RunRecord, f"r{n}", scope=scope, gpus=gpus, active=is_active)
            for n, (scope, gpus, is_active) in enumerate(runs)
        ),
    )
    with filled_store.reading() as tx:
        assert tx.tally(RunRecord, ("scope", "gpus")) == {
            ("platform", 1): 2,
            ("platform", 2): 1,
            ("project/forest", 1): 1,
        }
        assert tx.tally(RunRecord, ("gpus",), Condition("active", "=", True)) == {(1,): 2, (2,): 1}
        assert tx.tally(RunRecord, ("gpus",), Condition("scope", "=", "project/meadow")) == {}


def test_the_first_record_of_each_group_is_found(filled_store: Store) -> None:
    runs = (
        ("platform", None, 3),
        ("platform", None, 1),
        ("platform", "cluster/main", 2),
        ("platform", "department/vision", 4),
        ("project/forest", None, 0),
    )
    add_records(
        filled_store,
        *(
            make(RunRecord, f"r{at}", scope=scope, cluster=cluster, queue_key=f"k{key}")
            for at, (scope, cluster, key) in enumerate(runs)
        ),
    )
    groups = ("scope", "cluster")
    with filled_store.reading() as tx:

        def find(*conditions: Condition, most: int = 9) -> list[str]:
            found = tx.first_of_groups(RunRecord, groups, *conditions, by="queue_key", most=most)
            return sorted(run.id for run in found)

        assert find() == ["r1", "r2", "r3", "r4"]
        assert find(Condition("queue_key", ">", "k1")) == ["r0", "r2", "r3"]
        # The limit applies to each scope, and the first groups count.
        assert find(most=2) == ["r1", "r2", "r4"]
        assert find(Condition("scope", "=", "project/meadow")) == []


def test_the_time_of_the_database_has_a_time_zone(store: Store) -> None:
    otherwise = datetime(2000, 1, 1, tzinfo=UTC)
    with store.reading() as tx:
        now = tx.now(otherwise)
    assert now == otherwise or abs(datetime.now(UTC) - now) < timedelta(minutes=1)


def test_generations_count_the_changes_of_their_part(store: Store) -> None:
    generations = []
    parts: tuple[tuple[ConfigPart, ...], ...] = (("organization",), ("assets",), ("assets", "organization"))
    for part, *more in parts:
        with store.changing(part, *more) as tx:
            generations.append(tx.generation)
        with store.reading() as tx:
            assert tx.generation == generations[-1]
    with store.recording() as tx:
        assert tx.generation == generations[-1]
    assert generations == [Generation(2, 1), Generation(2, 2), Generation(3, 3)]
