"""Capacity over HTTP: permissions, clusters and query parameters."""

from collections.abc import Iterator

import pytest

from tests.contracts.memory import MemoryStore
from tests.server.samples import fill
from tests.server.sites import Site, open_site, problem_of


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server with two clusters that execute runs, and one that does not."""
    with open_site(MemoryStore()) as opened:
        fill(opened, "alpha")
        fill(opened, "bravo")
        yield opened


def clusters(site: Site, query: str = "", token: str = "") -> list[str]:
    """The clusters in the response."""
    return [entry["cluster"] for entry in site.get(f"/capacity{query}", token=token)]


def test_capacity_is_filtered_by_cluster_and_project(site: Site) -> None:
    assert clusters(site) == ["alpha-cluster", "bravo-cluster", "local"]
    assert clusters(site, "?cluster=bravo-cluster") == clusters(site, "?project=bravo") == ["bravo-cluster"]
    assert clusters(site, "?project=bravo&cluster=alpha-cluster") == []


def test_capacity_shows_free_amounts_and_compute_resources_that_fit(site: Site) -> None:
    (entry,) = site.get("/capacity?project=alpha")
    assert (entry["reachable"], entry["total"]["nodes"], entry["groups"]) == (True, 1, [])
    assert entry["total"]["largest"]["cpu"]["node"] == "machine"
    assert [(resource["name"], resource["more"]) for resource in entry["compute_resources"]] == [
        ("alpha-resource", True)
    ]
    (local,) = site.get("/capacity?cluster=local")
    assert (local["reachable"], local["total"], local["gpu_types"]) == (False, None, [])


def test_user_with_a_project_role_sees_only_its_cluster(site: Site) -> None:
    viewer, stranger = site.token_of("vic", viewer="project/alpha"), site.token_of("sam")
    assert clusters(site, token=viewer) == clusters(site, "?project=alpha", viewer) == ["alpha-cluster"]
    assert {node["cluster"] for node in site.get("/nodes", token=viewer)} == {"alpha-cluster"}
    assert clusters(site, token=stranger) == site.get("/nodes", token=stranger) == []


@pytest.mark.parametrize("path", ["/capacity?cluster={}-cluster", "/capacity?project={}", "/nodes?cluster={}-cluster"])
def test_invisible_objects_are_reported_like_missing_ones(site: Site, path: str) -> None:
    viewer = site.token_of(f"val of {path}", viewer="project/alpha")
    problems = [problem_of(site.request("GET", path.format(name), token=viewer), 404) for name in ("bravo", "nobody")]
    assert [problem["detail"].replace("bravo", "nobody") for problem in problems] == [problems[1]["detail"]] * 2
