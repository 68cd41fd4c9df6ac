"""Lists: search, order, filters and pages."""

import itertools
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from fairlead.model.columns import COLUMNS
from fairlead.model.records import ComputeResourceRecord
from tests.server.samples import CONTAINER, fill
from tests.server.sites import Operation, Site, operations_of, paths_of, problem_of
from tests.suites import SUITE

KIND_OF = {name: column.kind for columns in COLUMNS.values() for name, column in columns.items()}
REQUIREMENTS: Sequence[dict[str, Any]] = [
    {"resources": {"cpu": "500m", "mem": "1Gi"}},
    {"resources": {"cpu": {"requests": "2", "limits": "4"}, "mem": {"requests": "8Gi", "limits": "16Gi"}, "gpu": 1}},
    {"resources": {"cpu": {"requests": "8", "limits": "unlimited"}, "mem": {"requests": "64G"}, "gpu": 4}},
    {"resources": {"gpu": {"devices": 1, "memory": "50%"}}},
]


@pytest.fixture
def filled(site: Site) -> Site:
    """A server with four compute resources, one of them archived."""
    site.request("PATCH", "/clusters/local", {"executor": "kubernetes", "gpu_sharing": "kai"})
    for number, requirements in enumerate(REQUIREMENTS):
        body = {"name": f"r{number}", "description": f"Number {number}", "requirements": requirements}
        site.post("/compute-resources", body)
    site.post("/compute-resources/r0/archive", {"successor": "r1"})
    return site


FILTERS = [
    ("", "r1 r2 r3"),
    ("archived=true", "r0"),
    ("archived=false", "r1 r2 r3"),
    ("archived=!false", "r0"),
    ("name=R1", "r1"),
    ("name==r1", "r1"),
    ("name=!r1", "r2 r3"),
    ("description=number", "r1 r2 r3"),
    ("description=ber 3", "r3"),
    ("description=%25", ""),
    ("description=_", ""),
    ("scope=platform", "r1 r2 r3"),
    ("scope=project/default,platform", "r1 r2 r3"),
    ("scope=!platform", ""),
    ("cluster=none", "r1 r2 r3"),
    ("created_by=ann", "r1 r2 r3"),
    ("updated_by==nobody", ""),
    ("created_at=%3E2020-01-01", "r1 r2 r3"),
    ("created_at=%3C2020-01-01T00:00:00Z", ""),
    ("updated_at=%3E%3D2020-01-01T00:00:00%2B02:00", "r1 r2 r3"),
    ("revision=1", "r1 r2 r3"),
    ("revision=%3E1", ""),
    ("revision=%3E1&archived=true", "r0"),
    ("successor=r1&archived=true", "r0"),
    ("managed_by=none", "r1 r2 r3"),
    ("managed_by=files", ""),
    ("gpu_devices=1", "r1 r3"),
    ("gpu_devices=%3E1", "r2"),
    ("gpu_devices=!1", "r2"),
    ("gpu_devices=none&archived=true", "r0"),
    ("gpu_memory=50%25", "r3"),
    ("gpu_memory=none", "r1 r2"),
    ("cpu_request=2", "r1"),
    ("cpu_request=2000m", "r1"),
    ("cpu_request=%3C=500m&archived=true", "r0"),
    ("cpu_limit=4", "r1"),
    ("mem_request=8Gi", "r1"),
    ("mem_request=%3E8Gi", "r2"),
    ("mem_limit=16Gi", "r1"),
    ("workloads=0", "r1 r2 r3"),
    ("templates=%3E=1", ""),
    ("last_used_at=none", "r1 r2 r3"),
    ("search=r2", "r2"),
    ("search=NUMBER 1", "r1"),
    ("search=%25", ""),
    ("search=' OR 1=1 --", ""),
    ("search=number&gpu_devices=1", "r1 r3"),
    ("sort=-name", "r3 r2 r1"),
    ("sort=mem_request", "r3 r1 r2"),
    ("sort=-mem_request", "r2 r1 r3"),
    ("sort=-gpu_devices&limit=1", "r2"),
    ("limit=2", "r1 r2"),
]


@pytest.mark.every_store
def test_filters_select_the_expected_items(filled: Site) -> None:
    failures = {}
    for query, expected in FILTERS:
        items = filled.get(f"/compute-resources?{query}")["items"]
        names = " ".join(item["name"] for item in items)
        if names != expected:
            failures[query] = f"{names!r}, not {expected!r}"
    assert failures == {}


def test_every_column_has_a_filter_in_the_table_above(filled: Site) -> None:
    columns = {name for name in _queries_of(filled, "GET /compute-resources") if name not in LIST_PARAMETERS}
    assert columns == {query.partition("=")[0] for query, _ in FILTERS} - {*LIST_PARAMETERS, ""}


LIST_PARAMETERS = {"search", "sort", "cursor", "limit", "total"}
INVALID = [
    ("gpu_devices=many", "gpu_devices"),
    ("gpu_devices=-1", "gpu_devices"),
    ("gpu_devices=1.5", "gpu_devices"),
    ("gpu_devices=99999999999999999999", "gpu_devices"),
    ("cpu_request=fast", "cpu_request"),
    ("mem_request=8Gig", "mem_request"),
    ("mem_request=", "mem_request"),
    ("created_at=yesterday", "created_at"),
    ("created_at=", "created_at"),
    ("created_at=9999-12-31T23:59:59-23:00", "created_at"),
    ("created_at=0001-01-01T00:00:00%2B23:00", "created_at"),
    ("archived=yes", "archived"),
    ("archived=%3Etrue", "archived"),
    ("name=%3Er", "name"),
    ("scope=%3C=platform", "scope"),
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=-1", "limit"),
    ("limit=ten", "limit"),
    ("limit=", "limit"),
    ("limit=1&limit=2", "limit"),
    ("total=yes", "total"),
    ("total=True", "total"),
    ("sort=size", "sort"),
    ("sort=--name", "sort"),
    ("sort=", "sort"),
    ("sort=name&sort=-name", "sort"),
    ("sort=name,scope", "sort"),
    ("sort=name;DROP TABLE places", "sort"),
    ("cursor=", "cursor"),
    ("cursor=nonsense", "cursor"),
    ("nam=r1", "nam"),
    ("Name=r1", "Name"),
    ("name[]=r1", "name[]"),
    ("search=" + "x" * 1001, "search"),
    ("name=" + "x" * 1001, "name"),
]


def test_invalid_list_parameter_is_rejected_with_a_hint(filled: Site) -> None:
    for query, path in INVALID:
        problem = problem_of(filled.request("GET", f"/compute-resources?{query}"), 422)
        assert paths_of(problem) == [path], f"{query}: {problem}"
        assert problem["violations"][0]["hint"], f"{query}: {problem}"


def test_all_errors_of_a_query_are_reported_together(filled: Site) -> None:
    problem = problem_of(
        filled.request("GET", "/compute-resources?limit=0&total=maybe&archived=2&sort=x&cpu_limit=y"), 422
    )
    assert set(paths_of(problem)) == {"limit", "total", "archived", "sort", "cpu_limit"}


def test_nearest_parameter_and_column_are_suggested(filled: Site) -> None:
    problem = problem_of(filled.request("GET", "/compute-resources?serach=x"), 422)
    assert problem["violations"][0]["hint"] == "did you mean search?"
    problem = problem_of(filled.request("GET", "/compute-resources?sort=descripton"), 422)
    assert problem["violations"][0]["hint"] == "did you mean description?"


@pytest.mark.every_store
def test_total_counts_all_matches_not_only_the_page(filled: Site) -> None:
    assert filled.get("/compute-resources?limit=1&total=true")["total"] == 3
    assert filled.get("/compute-resources?limit=1&total=true&gpu_devices=1")["total"] == 2
    assert filled.get("/compute-resources?total=true&search=nothing")["total"] == 0
    assert filled.get("/compute-resources?total=false")["total"] is None


@pytest.mark.every_store
def test_pages_of_every_list_make_up_the_complete_list(site: Site) -> None:
    """Three pages of each list, sorted by each column: the fast suite tests one column of each type.

    Most records have the same value in most columns, so the ID decides the order.
    """
    objects = _fill_twice(site)
    lists = [item for item in operations_of(site.document) if item.is_list and "export" not in item.path]
    failures = []
    for item in lists:
        path = _path(item, objects)
        for column, direction in zip(_columns_of(site, item), itertools.cycle(("", "-"))):
            expected = site.get(f"{path}?sort={direction}{column}&limit=500")["items"]
            assert len(expected) > 1, f"{path} has too few records for two pages"
            if _read_pages(site, f"{path}?sort={direction}{column}&limit={math.ceil(len(expected) / 3)}") != expected:
                failures.append(f"{path} by {direction}{column}")
    assert len(lists) > 15
    assert not failures, "\n".join(failures)


@pytest.mark.every_store
@pytest.mark.parametrize("sort", ["name", "-name", "created_at", "-created_at", "gpu_devices", "-updated_at"])
def test_pages_include_every_item_that_existed_throughout(site: Site, sort: str) -> None:
    """120 items, while others are added and deleted between the pages."""
    _add_many(site, [f"kept-{number:03}" for number in range(120)])
    names: list[str] = []
    cursor, page_number = "", 0
    while True:
        page = site.get(f"/compute-resources?sort={sort}&limit=13{cursor}")
        names += [item["name"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor, page_number = f"&cursor={page['next_cursor']}", page_number + 1
        for name in (f"aaa-{page_number}", f"kept-050-{page_number}", f"zzz-{page_number}"):
            site.post("/compute-resources", {"name": name})
        site.request("DELETE", f"/compute-resources/aaa-{page_number}")
    remaining = [name for name in names if name.startswith("kept-") and len(name) == 8]
    assert sorted(remaining) == [f"kept-{number:03}" for number in range(120)]
    assert len(names) == len(set(names))


def test_cursor_is_valid_only_for_its_sort_order(site: Site) -> None:
    _add_many(site, ["a", "b", "c"])
    cursor = site.get("/compute-resources?sort=name&limit=1")["next_cursor"]
    problem = problem_of(site.request("GET", f"/compute-resources?sort=-name&cursor={cursor}"), 422)
    assert paths_of(problem) == ["cursor"]
    problem = problem_of(site.request("GET", f"/compute-resources?sort=created_at&cursor={cursor}"), 422)
    assert problem["violations"][0]["message"] == "belongs to another list or sort order"


def test_default_page_size_is_fifty(site: Site) -> None:
    _add_many(site, [f"n{number:03}" for number in range(60)])
    assert len(site.get("/compute-resources")["items"]) == 50
    assert len(site.get("/compute-resources?limit=500")["items"]) == 60


@pytest.mark.every_store
def test_search_ignores_case_and_matches_special_characters_literally(site: Site) -> None:
    for name, description in (("plain", "100% of a_b"), ("Big.One", "Über GROSS"), ("other", "back\\slash 'quoted'")):
        site.post("/compute-resources", {"name": name, "description": description})
    for search, expected in (
        ("BIG", "Big.One"),
        ("big.", "Big.One"),
        ("100%25", "plain"),
        ("a_b", "plain"),
        ("a%25b", ""),
        ("gross", "Big.One"),
        ("%C3%9Cber", "Big.One"),
        ("back\\slash", "other"),
        ("'quoted'", "other"),
    ):
        names = " ".join(item["name"] for item in site.get(f"/compute-resources?search={search}")["items"])
        assert names == expected, search


def _fill_twice(site: Site) -> dict[str, str]:
    """Create a project in which every list has at least two records, and return the name of one record from each."""
    objects = fill(site, "alpha")
    project = f"/projects/{objects['project']}"
    site.post("/departments", {"name": "second", "parent": "cluster/local"})
    site.post("/compute-resources", {"name": "second", "scope": "project/alpha"})
    site.post("/templates", {"name": "second", "scope": "project/alpha"})
    site.put(f"{project}/secrets/SECOND", {"value": "x"})
    site.post(f"{project}/volumes", {"name": "second", "size": "1Gi"})
    function = CONTAINER | {"name": "second"}
    site.post(f"{project}/schedules", {"function": function, "schedule": "0 6 * * *"})
    site.post(f"{project}/runs", {"function": function, "template": objects["template"]})
    return objects


def _columns_of(site: Site, item: Operation) -> list[str]:
    """The columns by which a list can be sorted, or one of each type in the fast suite."""
    columns = [name for name in _queries_of(site, item.key) if name not in LIST_PARAMETERS]
    if SUITE == "all":
        return columns
    first = {KIND_OF[name]: name for name in reversed(columns)}
    return list(first.values())


def _path(item: Operation, objects: dict[str, str]) -> str:
    names = {"{project}": objects["project"], "{name}": objects["compute_resource"]}
    if item.path.startswith("/api/v1/templates/"):
        names["{name}"] = objects["template"]
    path = item.path
    for name, value in names.items():
        path = path.replace(name, value)
    return path


def _queries_of(site: Site, key: str) -> list[str]:
    (operation,) = (item for item in operations_of(site.document) if item.key == key)
    return [parameter["name"] for parameter in operation.parameters("query")]


def _read_pages(site: Site, path: str) -> list[Any]:
    items: list[Any] = []
    cursor = ""
    for _ in range(500):
        page = site.get(path + cursor)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError(f"{path} has no last page")


def _add_many(site: Site, names: Sequence[str]) -> None:
    """Add records directly to the store, in one transaction."""
    cluster = site.get("/clusters/local")
    at = datetime.fromisoformat(cluster["created_at"])
    with site.store.changing("assets") as tx:
        for number, name in enumerate(names):
            gpus = {"resources": {"gpu": {"devices": number % 3}}}
            audit_fields: dict[str, Any] = {
                "created_by": "ann",
                "created_at": at,
                "updated_by": "ann",
                "updated_at": at,
            }
            tx.add(
                ComputeResourceRecord(
                    id=f"id-{number:04}", name=name, scope="platform", requirements=gpus, **audit_fields
                )
            )
