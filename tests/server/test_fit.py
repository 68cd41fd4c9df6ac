"""`POST /fit`: the documented response, and all of a request's errors at once."""

from typing import Any

import pytest

from tests.server.samples import CONTAINER
from tests.server.sites import Site, paths_of, problem_of


@pytest.fixture
def project(site: Site) -> str:
    """A project on a cluster with one very large node."""
    site.post("/clusters", {"name": "main"})
    site.post("/projects", {"name": "alpha", "parent": "cluster/main"})
    return "alpha"


def check_fit(site: Site, project: str, **fields: Any) -> Any:
    return site.post("/fit", {"project": project, "request": {"function": CONTAINER}, **fields})


def test_response_has_all_its_parts(site: Site, project: str) -> None:
    report = check_fit(site, project)
    nodes = [{"name": "machine", "fits": True, "reasons": []}]
    assert report == {
        "verdict": "now",
        "reasons": [],
        "counts": {"now": 1, "later": 0, "never": 0},
        "room": 1000,
        "nodes": nodes,
        "suggestions": [],
        "violations": [],
        "what_if": {"added_nodes": [], "removed_nodes": [], "removed_pods": 0, "sentences": []},
    }


def test_nodes_can_be_added_and_removed(site: Site, project: str) -> None:
    report = check_fit(site, project, add_nodes=["2xmachine"], without=["machine"], all_nodes=True)
    assert [node["name"] for node in report["nodes"]] == ["machine+1", "machine+2"]
    assert report["what_if"]["added_nodes"] == [{"like": "machine", "names": ["machine+1", "machine+2"]}]
    assert report["what_if"]["sentences"] == [
        "2 empty nodes like machine: machine+1 and machine+2",
        "without 1 node: machine (empty)",
    ]


def test_request_that_violates_rules_gets_a_response(site: Site, project: str) -> None:
    report = check_fit(site, project, request={"function": CONTAINER, "run_as_user": 0})
    assert (report["verdict"], report["room"]) == ("unknown", None)
    assert [violation["path"] for violation in report["violations"]] == ["run_as_user"]


def test_all_errors_of_a_request_are_reported_together(site: Site, project: str) -> None:
    body = {
        "project": "no name",
        "request": {"function": CONTAINER, "resources": {"cpu": "x"}},
        "add_nodes": [1],
        "no": 1,
    }
    problem = problem_of(site.request("POST", "/fit", body), 422)
    assert {"project", "add_nodes.0", "no"} <= set(paths_of(problem))
    assert any(path.startswith("request.resources") for path in paths_of(problem))
    many = {"project": project, "request": {"function": CONTAINER}, "without": ["machine"] * 101}
    assert paths_of(problem_of(site.request("POST", "/fit", many), 422)) == ["without"]


def test_unknown_node_is_reported_with_the_nearest_name(site: Site, project: str) -> None:
    body = {"project": project, "request": {"function": CONTAINER}, "add_nodes": ["3xmachin"]}
    problem = problem_of(site.request("POST", "/fit", body), 422)
    assert [(violation["path"], violation["hint"]) for violation in problem["violations"]] == [
        ("add_nodes.0", "did you mean machine?")
    ]


def test_invisible_project_is_not_found(site: Site, project: str) -> None:
    site.post("/projects", {"name": "other"})
    token = site.token_of("sam", admin="project/other")
    body = {"project": project, "request": {"function": CONTAINER}}
    problem_of(site.request("POST", "/fit", body, token=token), 404)
    problem_of(site.request("POST", "/fit", {**body, "project": "none"}), 404)
