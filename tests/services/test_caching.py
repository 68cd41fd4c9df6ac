"""Caches of two servers with one database: changes are visible immediately, and rolled-back changes never are."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.errors import FairleadError, NotFound, RequestRejected, Unauthenticated
from fairlead.files.documents import read_library
from fairlead.model.assets import Defaults
from fairlead.model.project_objects import TokenRequest
from fairlead.model.scopes import Project
from fairlead.services.config_files import ApplyOptions
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork
from tests.services.worlds import (
    FOREST,
    LAKE,
    MAIN,
    VISION,
    World,
    finding_rules,
    initialize_world,
    listing,
    make_request,
    make_world,
    setting,
)

pytestmark = pytest.mark.every_store


@pytest.fixture
def pair(database_store: DatabaseStore, monkeypatch: pytest.MonkeyPatch) -> tuple[World, World]:
    """Two servers with one database and filled caches."""
    one = initialize_world(database_store, monkeypatch)
    one.add_compute_resource("big", resources={"cpu": 1})
    one.add_template("t", profile="big")
    one.services.secrets.put(one.root, FOREST, "TOKEN", "x")
    two = make_world(database_store, monkeypatch)
    warm(one)
    warm(two)
    return one, two


def warm(world: World) -> None:
    """Fill every cache of a server."""
    for request in ({}, {"profile": "big"}, {"template": "t"}, {"profile": "none"}, {"secrets": ["TOKEN"]}):
        world.preview(**request)
        world.preview(LAKE, **request)


Change = Callable[[World], Any]
Read = Callable[[World], Any]


def cpu(world: World, **request: Any) -> Any:
    """The CPU request that a run would get."""
    return setting(world.preview(**request), "resources.cpu.requests")


def violated_rules(world: World, **request: Any) -> list[str]:
    """The rules that a run would violate."""
    return [rule for _, rule in finding_rules(world.preview(**request)["violations"])]


def narrow(world: World) -> None:
    """Move a compute resource to one project, which hides it from all others."""
    world.services.templates.delete(world.root, "t")
    world.services.compute_resources.edit(world.root, "big", {"scope": LAKE})


CASES: dict[str, tuple[Change, Read, Any]] = {
    "an edited compute resource": (
        lambda w: w.services.compute_resources.edit(w.root, "big", {"requirements": {"resources": {"cpu": 7}}}),
        lambda w: (cpu(w, profile="big"), cpu(w, template="t")),
        ("7", "7"),
    ),
    "a new compute resource": (
        lambda w: w.add_compute_resource("none"),
        lambda w: violated_rules(w, profile="none"),
        [],
    ),
    "a renamed compute resource": (
        lambda w: w.services.compute_resources.edit(w.root, "big", {"name": "large"}),
        lambda w: (
            violated_rules(w, profile="big"),
            violated_rules(w, profile="large"),
            violated_rules(w, template="t"),
        ),
        (["unknown_profile"], [], []),
    ),
    "an archived compute resource": (
        lambda w: w.services.compute_resources.archive(w.root, "big", None),
        lambda w: violated_rules(w, profile="big"),
        ["archived"],
    ),
    "a narrowed compute resource": (
        narrow,
        lambda w: violated_rules(w, profile="big"),
        ["unknown_profile"],
    ),
    "an edited template": (
        lambda w: w.services.templates.edit(w.root, "t", {"requirements": {"resources": {"cpu": 9}}}),
        lambda w: cpu(w, template="t"),
        "9",
    ),
    "a policy": (
        lambda w: w.put_policy(VISION, rules={"resources.cpu": {"max": "500m"}}, defaults={"fs_group": 7}),
        lambda w: (violated_rules(w, profile="big"), setting(w.preview(), "fs_group")),
        (["max"], 7),
    ),
    "the settings": (
        lambda w: w.services.settings.put(w.root, Defaults.model_validate({"resources": {"cpu": 3}})),
        cpu,
        "3",
    ),
    "a deleted secret": (
        lambda w: w.services.secrets.delete(w.root, FOREST, "TOKEN"),
        lambda w: violated_rules(w, secrets=["TOKEN"]),
        ["unknown_secret"],
    ),
    "a new secret": (
        lambda w: w.services.secrets.put(w.root, FOREST, "MORE", "x"),
        lambda w: violated_rules(w, secrets=["MORE"]),
        [],
    ),
    "a cluster without sharing": (
        lambda w: w.services.scopes.edit(w.root, MAIN, {"gpu_sharing": "none"}),
        lambda w: violated_rules(w, resources={"gpu": {"memory": "50%"}}),
        ["gpu_sharing"],
    ),
    "a new project": (
        lambda w: w.services.scopes.create(w.root, Project(name="new", parent=VISION)),
        lambda w: w.preview("project/new")["violations"],
        [],
    ),
    "applied files": (
        lambda w: w.services.config_files.apply(
            w.root,
            read_library([{"kind": "Policy", "scope": "platform", "rules": {"resources.gpu": {"max": 0}}}]),
            ApplyOptions(),
        ),
        lambda w: violated_rules(w, resources={"gpu": 1}),
        ["max"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_change_on_one_server_is_visible_on_the_other_immediately(pair: tuple[World, World], case: str) -> None:
    change, read, expected = CASES[case]
    change(pair[0])
    assert read(pair[1]) == expected
    assert read(pair[0]) == expected


def test_role_revoked_on_one_server_is_revoked_on_the_other(pair: tuple[World, World]) -> None:
    one, two = pair
    mia = one.grant("mia", "member", FOREST)
    assert two.submit(call=mia).created_by == "mia"
    grant = two.services.grants.page(two.root, listing(subject="mia")).items[0]
    two.services.grants.delete(two.root, grant.id)
    with pytest.raises(NotFound):
        one.submit(call=mia)


def test_token_revoked_on_one_server_is_revoked_on_the_other(pair: tuple[World, World]) -> None:
    one, two = pair
    view = one.services.tokens.create(one.root, TokenRequest(name="x"))
    call = Call(bearer=view.token)
    for world in pair:
        assert world.services.tokens.me(call).user == "root"
    two.services.tokens.delete(two.root, view.id)
    for world in pair:
        with pytest.raises(Unauthenticated):
            world.services.tokens.me(call)


def test_plan_token_of_one_server_is_accepted_by_the_other(pair: tuple[World, World]) -> None:
    one, two = pair
    plan = one.preview(profile="big", secrets=["TOKEN"])
    assert two.submit(profile="big", secrets=["TOKEN"], plan_token=plan["token"]).state == "queued"


def test_rolled_back_change_is_never_visible(pair: tuple[World, World]) -> None:
    one, _ = pair
    documents = [
        {"kind": "Policy", "scope": "platform", "rules": {"resources.gpu": {"max": 0}}},
        {"kind": "Project", "name": "new", "parent": VISION},
        {"kind": "ComputeResource", "name": "lost", "scope": "project/none"},
    ]
    for _ in range(2):
        with pytest.raises(RequestRejected):
            one.services.config_files.apply(one.root, read_library(documents), ApplyOptions())
        one.services.config_files.apply(one.root, read_library(documents[:2]), ApplyOptions(dry_run=True))
        for world in pair:
            assert violated_rules(world, resources={"gpu": 1}) == []
            with pytest.raises(NotFound):
                world.services.scopes.get(world.root, "project/new")


def test_change_after_a_rollback_is_visible(pair: tuple[World, World]) -> None:
    """A rolled-back change's generation is reused, so nothing may be cached under it."""
    one, two = pair
    with pytest.raises(FairleadError):
        one.services.scopes.create(one.root, Project(name="forest", parent=VISION))
    documents = [
        {"kind": "Policy", "scope": VISION, "rules": {"resources.gpu": {"max": 0}}},
        {"kind": "Project", "name": "x", "parent": "department/none"},
    ]
    with pytest.raises(RequestRejected):
        one.services.config_files.apply(one.root, read_library(documents), ApplyOptions())
    two.put_policy(VISION, rules={"resources.gpu": {"max": 5}})
    for world in pair:
        assert violated_rules(world, resources={"gpu": 4}) == []
        assert violated_rules(world, resources={"gpu": 6}) == ["max"]


@pytest.mark.parametrize("key", ["name", "Name"])
def test_rename_is_visible_in_previews_with_a_policy_default(pair: tuple[World, World], key: str) -> None:
    one, two = pair
    one.put_policy(VISION, defaults={"profile": "big"})
    warm(one)
    warm(two)
    one.services.compute_resources.edit(one.root, "big", {key: "large"})
    for world in pair:
        assert setting(world.preview(), "profile") == "large"
        assert violated_rules(world) == []


def test_exactly_one_of_many_writers_succeeds_per_revision(pair: tuple[World, World]) -> None:
    outcomes: list[str] = []

    def write(world: World, number: int) -> None:
        call = Call(principal=world.root.principal, revision=1)
        try:
            world.services.compute_resources.edit(call, "big", {"description": str(number)})
        except FairleadError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("done")

    threads = [threading.Thread(target=write, args=(pair[number % 2], number)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["changed"] * 5 + ["done"]
    assert [item.number for item in pair[0].services.compute_resources.revisions(pair[0].root, "big")] == [2, 1]


def test_exactly_one_of_many_submissions_of_a_plan_succeeds(pair: tuple[World, World]) -> None:
    token = pair[0].preview()["token"]
    outcomes: list[str] = []

    def submit(world: World) -> None:
        try:
            world.submit(plan_token=token)
        except FairleadError as error:
            outcomes.append(error.code)
        else:
            outcomes.append("done")

    threads = [threading.Thread(target=submit, args=(pair[number % 2],)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict"] * 5 + ["done"]


def test_only_one_of_two_concurrent_requests_with_one_idempotency_key_is_stored(
    pair: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    both_read = threading.Barrier(2, timeout=0.2)  # fails if the second request waits for the first
    find_response, outcomes = UnitOfWork.find_response, list[str]()

    def find_and_wait(unit: UnitOfWork, response_type: type[Any]) -> Any:
        response = find_response(unit, response_type)
        with contextlib.suppress(threading.BrokenBarrierError):
            both_read.wait()
        return response

    def submit(world: World) -> None:
        call = Call(principal=world.root.principal, key="k", fingerprint="f")
        try:
            outcomes.append(world.submit(call=call).id)
        except FairleadError as error:
            outcomes.append(str(error))

    monkeypatch.setattr(UnitOfWork, "find_response", find_and_wait)
    threads = [threading.Thread(target=submit, args=(world,)) for world in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = pair[0].services.runs.page(pair[0].root, listing()).items
    assert len(stored) == 1
    assert all(text == stored[0].id or "Idempotency-Key" in text for text in outcomes), outcomes


def test_a_snapshot_contains_only_the_assets_that_its_request_names_and_never_changes(
    pair: tuple[World, World],
) -> None:
    world, snapshots = pair[0], pair[0].services.runs.snapshots
    world.add_compute_resource("small", resources={"cpu": 1})
    with world.services.runs.units.reading(world.root) as unit:
        big = snapshots.load(unit, FOREST, make_request(profile="big"))
        for request in ({"profile": "small"}, {"template": "t"}, {"profile": "none"}):
            snapshots.load(unit, FOREST, make_request(**request))
        assert snapshots.load(unit, FOREST, make_request(profile="big")) is big
        assert sorted(big.snapshot.compute_resources) == ["big"]
        assert not big.snapshot.templates
        unknown = snapshots.load(unit, FOREST, make_request(profile="none"))
        assert sorted(unknown.snapshot.compute_resources) == ["big", "small"]
        # A context with the assets to suggest is large, and users can misspell names in many ways.
        assert snapshots.load(unit, FOREST, make_request(profile="none")) is not unknown
