"""The list of compute resources: sorting, filters, search and pagination."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.errors import RequestRejected
from fairlead.model.columns import COLUMNS
from fairlead.model.plans import Violation
from fairlead.model.records import ComputeResourceRecord
from tests.services.worlds import FOREST, VISION, World, call_as, listing, names, rejection_rules
from tests.suites import examples

SORTED = sorted(COLUMNS[ComputeResourceRecord])
QUERIES: list[tuple[dict[str, str], str]] = [
    ({}, "Alpha beta delta_x deltaXx gamma"),
    ({"sort": "-name"}, "gamma deltaXx delta_x beta Alpha"),
    ({"search": "ALPH"}, "Alpha"),
    ({"search": "first"}, "Alpha"),
    ({"search": "50%"}, "beta"),
    ({"search": "a_x"}, "delta_x"),
    ({"search": "project/"}, "delta_x deltaXx"),
    ({"search": "eve"}, "gamma"),
    ({"name": "a"}, "Alpha beta delta_x deltaXx gamma"),
    ({"name": "=beta"}, "beta"),
    ({"name": "!beta"}, "Alpha delta_x deltaXx gamma"),
    ({"scope": FOREST}, "delta_x deltaXx"),
    ({"scope": f"{FOREST},{VISION}"}, "delta_x deltaXx gamma"),
    ({"scope": "!platform"}, "delta_x deltaXx gamma"),
    ({"cluster": "cluster/main"}, "delta_x deltaXx gamma"),
    ({"cluster": "none"}, "Alpha beta"),
    ({"created_by": "eve"}, "gamma"),
    ({"created_at": "<2026-11-16"}, "Alpha beta"),
    ({"created_at": ">=2026-11-16T00:00:00Z"}, "delta_x deltaXx gamma"),
    ({"updated_at": "<2026-11-16"}, "Alpha beta"),
    ({"updated_by": "root"}, "Alpha beta delta_x deltaXx"),
    ({"revision": "1"}, "Alpha beta delta_x deltaXx gamma"),
    ({"revision": ">1"}, ""),
    ({"gpu_devices": "1"}, "beta delta_x"),
    ({"gpu_devices": ">=1"}, "beta delta_x gamma"),
    ({"gpu_devices": "0"}, "deltaXx"),
    ({"gpu_devices": "none"}, "Alpha"),
    ({"gpu_memory": "50%"}, "beta"),
    ({"gpu_memory": ">=10GB"}, "delta_x"),
    ({"cpu_request": "0.5"}, "Alpha"),
    ({"cpu_request": ">500m"}, "gamma"),
    ({"cpu_limit": "16"}, "gamma"),
    ({"mem_request": "1Gi"}, "Alpha deltaXx"),
    ({"mem_request": ">=2Gi"}, "beta"),
    ({"mem_limit": "<=2Gi"}, "Alpha"),
    ({"mem_limit": "none"}, "beta delta_x deltaXx gamma"),
    ({"workloads": "1"}, "beta gamma"),
    ({"templates": ">0"}, "gamma"),
    ({"last_used_at": "none"}, "Alpha delta_x deltaXx"),
    ({"managed_by": "none"}, "Alpha beta delta_x deltaXx gamma"),
    ({"archived": "true"}, ""),
    ({"gpu_devices": ">=1", "scope": FOREST}, "delta_x"),
    ({"sort": "mem_request", "scope": "platform"}, "Alpha beta"),
    ({"sort": "-gpu_devices", "scope": FOREST}, "delta_x deltaXx"),
    ({"sort": "mem_limit", "mem_limit": "!none"}, "Alpha"),
    ({"sort": "-workloads", "scope": "platform"}, "beta Alpha"),
    ({"description": "FIRST"}, "Alpha"),
]
NAMES = {"Alpha", "beta", "delta_x", "deltaXx", "gamma"}
FORGED: list[tuple[str, Any, str]] = [
    ("name", "a", "\0"),
    ("name", "\0", "x"),
    ("gpu_devices", 2**63, "x"),
    ("gpu_devices", -(2**63) - 1, "x"),
    ("mem_limit", 2**63, "x"),
    ("created_at", "0001-01-01T00:00:00+14:00", "x"),
    ("created_at", "soon", "x"),
    ("archived", 7, "x"),
    ("name", None, "x"),
    ("name", [1], "x"),
    ("gpu_devices", 1.5, "x"),
]


@pytest.fixture
def filled_world(world: World) -> World:
    """A platform with a few compute resources that differ in every column."""
    world.grant("eve", "editor", VISION)
    world.add_compute_resource(
        "Alpha", description="first", resources={"cpu": "500m", "mem": {"requests": "1Gi", "limits": "2Gi"}}
    )
    world.add_compute_resource(
        "beta", description="50% done", resources={"gpu": {"devices": 1, "memory": "50%"}, "mem": "64Gi"}
    )
    world.clock.pass_by(days=1)
    world.add_compute_resource(
        "gamma", scope=VISION, call=call_as("eve"), resources={"gpu": 4, "cpu": {"requests": 8, "limits": 16}}
    )
    world.add_compute_resource("delta_x", scope=FOREST, resources={"gpu": {"devices": 1, "memory": "10GB"}})
    world.add_compute_resource(
        "deltaXx", scope=FOREST, resources={"gpu": 0, "mem": {"limits": "unlimited", "requests": "1024Mi"}}
    )
    world.add_template("t", scope=VISION, profile="gamma")
    world.submit(profile="gamma")
    world.submit(profile="beta")
    return world


@pytest.mark.every_store
def test_list_shows_the_requested_items(filled_world: World) -> None:
    page = filled_world.services.compute_resources.page
    listed = [(query, " ".join(names(page(filled_world.root, listing(**query)).items))) for query, _ in QUERIES]
    assert listed == QUERIES


@pytest.mark.every_store
@pytest.mark.parametrize("direction", ["", "-"])
def test_pages_in_any_sort_order_make_up_the_complete_list(filled_world: World, direction: str) -> None:
    page = filled_world.services.compute_resources.page
    for column in SORTED:
        expected = names(page(filled_world.root, listing(sort=f"{direction}{column}")).items)
        received: list[str] = []
        cursor = None
        while True:
            part = page(filled_world.root, listing(sort=f"{direction}{column}", limit=2, cursor=cursor, total=True))
            received += names(part.items)
            cursor = part.next_cursor
            assert part.total == 5
            if cursor is None:
                break
        assert received == expected, column
        assert len(set(received)) == 5


@pytest.mark.every_store
def test_items_added_between_two_pages_shift_nothing(world: World) -> None:
    for name in "bdf":
        world.add_compute_resource(name)
    first = world.services.compute_resources.page(world.root, listing(limit=2))
    world.add_compute_resource("a")
    world.add_compute_resource("e")
    second = world.services.compute_resources.page(world.root, listing(limit=9, cursor=first.next_cursor))
    assert names([*first.items, *second.items]) == ["b", "d", "e", "f"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"sort": "size"}, [("sort", "unknown_column")]),
        ({"sort": "--name"}, [("sort", "unknown_column")]),
        ({"name": ">a"}, [("name", "operator")]),
        ({"gpu_devices": "many"}, [("gpu_devices", "whole_number")]),
        ({"gpu_devices": "99999999999999999999"}, [("gpu_devices", "range")]),
        ({"created_at": "yesterday"}, [("created_at", "time")]),
        ({"created_at": "0001-01-01T00:00:00+14:00"}, [("created_at", "time")]),
        ({"archived": "maybe"}, [("archived", "type")]),
        ({"mem_request": "1Zi", "cpu_request": "x"}, [("mem_request", "quantity"), ("cpu_request", "quantity")]),
        ({"gpu_memory": "200%"}, [("gpu_memory", "range")]),
        ({"cursor": "nonsense"}, [("cursor", "cursor")]),
        ({"cursor": "é"}, [("cursor", "cursor")]),
    ],
)
def test_invalid_list_request_is_rejected(filled_world: World, query: dict[str, str], expected: Any) -> None:
    page = filled_world.services.compute_resources.page
    with pytest.raises(RequestRejected) as caught:
        page(filled_world.root, listing(**query))
    assert rejection_rules(caught) == expected
    assert all(violation.hint for violation in caught.value.violations)


def test_cursor_is_valid_only_for_its_sort_order(filled_world: World) -> None:
    cursor = filled_world.services.compute_resources.page(filled_world.root, listing(limit=1)).next_cursor
    with pytest.raises(RequestRejected, match="sort order"):
        filled_world.services.compute_resources.page(filled_world.root, listing(sort="-name", cursor=cursor))
    with pytest.raises(RequestRejected, match="another list"):
        filled_world.services.templates.page(filled_world.root, listing(cursor=cursor))


def test_forged_cursor_is_rejected(filled_world: World) -> None:
    for sort, value, last in FORGED:
        with pytest.raises(RequestRejected) as caught:
            filled_world.services.compute_resources.page(
                filled_world.root, listing(sort=sort, cursor=forge(sort, value, last))
            )
        assert rejection_rules(caught) == [("cursor", "cursor")], (sort, value, last)
        assert "another" not in str(caught.value)  # it is rejected for its value, not for its list or order


@pytest.mark.every_store
def test_forged_cursor_after_the_last_record_gives_an_empty_page(filled_world: World) -> None:
    assert list_names(filled_world, sort="revision", cursor=forge("revision", 2**31 - 1, "x")) == ([], ())
    # PostgreSQL rejects a number that is too large for the column, and the other stores find nothing.
    assert list_names(filled_world, sort="revision", cursor=forge("revision", 2**40, "x"))[0] == []


@settings(
    max_examples=examples(fast=25, all=100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(sort=st.sampled_from(SORTED), text=st.text(max_size=20), column=st.sampled_from(SORTED))
def test_any_text_in_a_list_request_gives_a_page_or_a_violation(
    filled_world: World, sort: str, text: str, column: str
) -> None:
    for query in ({"search": text}, {"cursor": text}, {column: text}, {"cursor": forge(sort, text, text)}):
        listed, violations = list_names(filled_world, sort=sort, **query)
        assert set(listed) <= NAMES
        assert [violation.path for violation in violations] in ([], list(query))
        assert all(violation.message and violation.hint for violation in violations)


def list_names(filled_world: World, **query: str) -> tuple[list[str], Sequence[Violation]]:
    """The names on a page, or the violations in a rejected request."""
    try:
        return names(filled_world.services.compute_resources.page(filled_world.root, listing(**query)).items), ()
    except RequestRejected as error:
        return [], error.violations


def forge(sort: str, value: Any, last: str) -> str:
    """A cursor for this list and order that the server did not create."""
    cursor = [f"{ComputeResourceRecord.__name__}:{sort}", value, last]
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")
