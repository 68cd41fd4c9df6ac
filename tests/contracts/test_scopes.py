"""The contract of stores for scopes: a scope in use cannot be deleted, and a rename updates all references."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.errors import Conflict
from fairlead.model.queries import Condition
from fairlead.model.records import AssetRecord, AuditRecord, ComputeResourceRecord, ScopeRecord, TemplateRecord
from fairlead.ports import Store
from tests.contracts.memory import REFERENCES
from tests.contracts.samples import KINDS, PLACES, keep, make

pytestmark = pytest.mark.every_store

INHABITANTS = [
    make(ScopeRecord, "x1", parent="project/forest"),
    make(ComputeResourceRecord, "x1", cluster="project/forest"),
    *(make(kind, "x1", scope="project/forest") for kind in KINDS if "scope" in REFERENCES[kind]),
]


@pytest.mark.parametrize("record", INHABITANTS, ids=[type(record).__name__ for record in INHABITANTS])
def test_a_place_with_something_in_it_stays(kept: Store, record: Any) -> None:
    keep(kept, record)
    with pytest.raises(Conflict, match="still uses"), kept.changing("organization") as tx:
        tx.remove_all(ScopeRecord, Condition("scope", "=", "project/forest"))
    with kept.changing("organization") as tx:
        tx.remove(record)
        assert tx.remove_all(ScopeRecord, Condition("scope", "=", "project/forest")) == 1


def test_a_place_may_go_together_with_what_is_below_it(kept: Store) -> None:
    with kept.changing("organization") as tx:
        assert tx.remove_all(ScopeRecord, Condition("scope", "in", PLACES)) == 4
    with kept.reading() as tx:
        assert [place.scope for place in tx.find(ScopeRecord)] == ["platform"]


@pytest.mark.parametrize("record", INHABITANTS, ids=[type(record).__name__ for record in INHABITANTS])
def test_whatever_names_a_place_follows_when_it_is_renamed(kept: Store, record: Any) -> None:
    keep(kept, record)
    with kept.changing("organization", "assets") as tx:
        tx.rename_scope("project/forest", "project/wood")
    followed = {name: "project/wood" for name in REFERENCES[type(record)] if getattr(record, name) == "project/forest"}
    with kept.reading() as tx:
        assert tx.get(type(record), id="x1") == replace(record, **followed)
        assert tx.get(ScopeRecord, scope="project/forest") is None
        place = tx.get(ScopeRecord, scope="project/wood")
    assert place is not None
    assert (place.name, place.revision) == ("forest", 1)


def test_a_place_that_is_saved_under_another_name_takes_along_what_is_there(kept: Store) -> None:
    with kept.changing("organization") as tx:
        place = tx.get(ScopeRecord, scope="department/vision")
        assert place is not None
        tx.save(replace(place, name="sight", scope="department/sight", revision=2))
        assert tx.count(ScopeRecord, Condition("parent", "=", "department/sight")) == 2
        assert tx.count(ScopeRecord, Condition("parent", "=", "department/vision")) == 0


def test_the_audit_says_where_things_were(kept: Store) -> None:
    keep(kept, make(AuditRecord, "a1", scope="project/forest"), make(AuditRecord, "a2", scope="project/gone"))
    with kept.changing("organization") as tx:
        tx.rename_scope("project/forest", "project/wood")
        tx.remove_all(ScopeRecord, Condition("scope", "=", "project/wood"))
        assert [entry.scope for entry in tx.find(AuditRecord)] == ["project/forest", "project/gone"]


def test_a_place_cannot_take_the_name_of_another(kept: Store) -> None:
    with pytest.raises(Conflict, match="project/meadow already exists"), kept.changing("organization") as tx:
        tx.rename_scope("project/forest", "project/meadow")
    with kept.changing("organization") as tx:
        tx.rename_scope("project/forest", "project/forest")
        tx.rename_scope("project/gone", "project/other")
        assert tx.count(ScopeRecord) == 5


@pytest.mark.parametrize("kind", [ComputeResourceRecord, TemplateRecord])
def test_assets_are_on_another_cluster_without_being_changed(kept: Store, kind: type[AssetRecord]) -> None:
    assets = [make(kind, f"a{number}", scope=scope, cluster=None) for number, scope in enumerate(PLACES)]
    keep(kept, *assets)
    many = tuple(f"project/{number}" for number in range(5_000))
    for cluster in ("cluster/main", None):
        with kept.changing("organization", "assets") as tx:
            tx.move_to_cluster((*many, *PLACES[2:]), cluster)
            tx.move_to_cluster((), "cluster/gone")
        with kept.reading() as tx:
            assert tx.find(kind) == [*assets[:2], *(replace(asset, cluster=cluster) for asset in assets[2:])]
