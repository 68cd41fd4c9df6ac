"""The store contract for scopes: a scope in use cannot be deleted, and a rename updates all references."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import Conflict
from fairlead.model.columns import Condition
from fairlead.model.records import AssetRecord, AuditRecord, ComputeResourceRecord, ScopeRecord, TemplateRecord
from fairlead.ports import Store
from tests.contracts.memory import REFERENCES
from tests.contracts.samples import KINDS, SCOPES, add_records, make

pytestmark = pytest.mark.every_store

REFERENCING_RECORDS = [
    make(ScopeRecord, "x1", parent="project/forest"),
    make(ComputeResourceRecord, "x1", cluster="project/forest"),
    *(make(kind, "x1", scope="project/forest") for kind in KINDS if "scope" in REFERENCES[kind]),
]


@pytest.mark.parametrize("record", REFERENCING_RECORDS, ids=[type(record).__name__ for record in REFERENCING_RECORDS])
def test_a_scope_in_use_cannot_be_deleted(filled_store: Store, record: Any) -> None:
    add_records(filled_store, record)
    with pytest.raises(Conflict, match="still in use"), filled_store.changing("organization") as tx:
        tx.remove_all(ScopeRecord, Condition("scope", "=", "project/forest"))
    with filled_store.changing("organization") as tx:
        tx.remove(record)
        assert tx.remove_all(ScopeRecord, Condition("scope", "=", "project/forest")) == 1


def test_a_scope_can_be_deleted_together_with_its_children(filled_store: Store) -> None:
    with filled_store.changing("organization") as tx:
        assert tx.remove_all(ScopeRecord, Condition("scope", "in", SCOPES)) == 4
    with filled_store.reading() as tx:
        assert [scope_record.scope for scope_record in tx.find(ScopeRecord)] == ["platform"]


@pytest.mark.parametrize("record", REFERENCING_RECORDS, ids=[type(record).__name__ for record in REFERENCING_RECORDS])
def test_references_are_updated_when_a_scope_is_renamed(filled_store: Store, record: Any) -> None:
    add_records(filled_store, record)
    with filled_store.changing("organization", "assets") as tx:
        tx.rename_scope("project/forest", "project/wood")
    updated = {name: "project/wood" for name in REFERENCES[type(record)] if getattr(record, name) == "project/forest"}
    with filled_store.reading() as tx:
        assert tx.get(type(record), id="x1") == replace(record, **updated)
        assert tx.get(ScopeRecord, scope="project/forest") is None
        scope_record = tx.get(ScopeRecord, scope="project/wood")
    assert scope_record is not None
    assert (scope_record.name, scope_record.revision) == ("forest", 1)


def test_saving_a_scope_with_a_new_name_updates_its_children(filled_store: Store) -> None:
    with filled_store.changing("organization") as tx:
        scope_record = tx.get(ScopeRecord, scope="department/vision")
        assert scope_record is not None
        tx.save(replace(scope_record, name="sight", scope="department/sight", revision=2))
        assert tx.count(ScopeRecord, Condition("parent", "=", "department/sight")) == 2
        assert tx.count(ScopeRecord, Condition("parent", "=", "department/vision")) == 0


def test_the_audit_keeps_former_scopes(filled_store: Store) -> None:
    add_records(
        filled_store, make(AuditRecord, "a1", scope="project/forest"), make(AuditRecord, "a2", scope="project/gone")
    )
    with filled_store.changing("organization") as tx:
        tx.rename_scope("project/forest", "project/wood")
        tx.remove_all(ScopeRecord, Condition("scope", "=", "project/wood"))
        assert [entry.scope for entry in tx.find(AuditRecord)] == ["project/forest", "project/gone"]


def test_a_scope_cannot_take_the_name_of_another(filled_store: Store) -> None:
    with (
        pytest.raises(Conflict, match="project name meadow is not available"),
        filled_store.changing("organization") as tx,
    ):
        tx.rename_scope("project/forest", "project/meadow")
    with filled_store.changing("organization") as tx:
        tx.rename_scope("project/forest", "project/forest")
        tx.rename_scope("project/gone", "project/other")
        assert tx.count(ScopeRecord) == 5


@pytest.mark.parametrize("kind", [ComputeResourceRecord, TemplateRecord])
def test_moving_assets_to_another_cluster_creates_no_revision(filled_store: Store, kind: type[AssetRecord]) -> None:
    assets = [make(kind, f"a{number}", scope=scope, cluster=None) for number, scope in enumerate(SCOPES)]
    add_records(filled_store, *assets)
    many = tuple(f"project/{number}" for number in range(5_000))
    for cluster in ("cluster/main", None):
        with filled_store.changing("organization", "assets") as tx:
            tx.move_to_cluster((*many, *SCOPES[2:]), cluster)
            tx.move_to_cluster((), "cluster/gone")
        with filled_store.reading() as tx:
            assert tx.find(kind) == [*assets[:2], *(replace(asset, cluster=cluster) for asset in assets[2:])]
