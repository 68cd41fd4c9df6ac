"""Cluster kubeconfigs and checks, over HTTP."""

import json

from tests.kubeconfigs import SERVER, TOKEN, make_kubeconfig
from tests.server.sites import Site, paths_of, problem_of

PATH = "/clusters/main/kubeconfig"
BODY = {"kubeconfig": json.dumps(make_kubeconfig())}


def test_kubeconfig_is_set_shown_and_deleted_with_its_revision(site: Site) -> None:
    site.post("/clusters", {"name": "main"})
    assert "clusters connect" in problem_of(site.request("GET", PATH), 404)["hint"]
    created = site.request("PUT", PATH, BODY)
    assert (created.status_code, created.json()["server"], created.json()["context"]) == (201, SERVER, "main")
    updated = site.request("PUT", PATH, BODY | {"context": "main"}, headers={"If-Match": created.headers["etag"]})
    assert (updated.status_code, updated.json()["revision"]) == (200, 2)
    problem_of(site.request("PUT", PATH, BODY, headers={"If-Match": created.headers["etag"]}), 412)
    problem_of(site.request("DELETE", PATH, headers={"If-Match": created.headers["etag"]}), 412)
    fetched = site.request("GET", PATH)
    assert fetched.headers["etag"] == updated.headers["etag"]
    assert TOKEN not in fetched.text
    assert site.request("DELETE", PATH, headers={"If-Match": fetched.headers["etag"]}).status_code == 204
    problem_of(site.request("DELETE", PATH), 404)


def test_invalid_kubeconfig_is_reported_with_its_path(site: Site) -> None:
    site.post("/clusters", {"name": "main"})
    problem = problem_of(site.request("PUT", PATH, BODY | {"context": "other"}), 422)
    assert paths_of(problem) == ["kubeconfig.users[0].user.exec"]
    assert "fairlead clusters rbac" in problem["violations"][0]["hint"]
    assert paths_of(problem_of(site.request("PUT", PATH, BODY | {"context": "none"}), 422)) == ["context"]
    assert paths_of(problem_of(site.request("PUT", PATH, {"kubeconfig": "a: ["}), 422)) == ["kubeconfig"]


def test_kubeconfig_cannot_be_deleted_while_the_cluster_has_active_runs(site: Site) -> None:
    site.post("/clusters", {"name": "main"})
    site.post("/projects", {"name": "forest", "parent": "cluster/main"})
    site.put(PATH, BODY)
    function = {"name": "train", "kind": "container", "image": "registry.example/train:1"}
    run = site.post("/projects/forest/runs", {"function": function})
    problem = problem_of(site.request("DELETE", PATH), 409)
    assert [item["name"] for item in problem["used_by"]] == [run["id"]]
    site.post(f"/runs/{run['id']}/stop", None)
    assert site.request("DELETE", PATH).status_code == 204


def test_cluster_check_returns_all_results(site: Site) -> None:
    site.post("/clusters", {"name": "main"})
    assert site.post("/clusters/main/check", None) == [
        {"name": "machine", "state": "ok", "message": "there is one", "hint": None},
        {"name": "gpus", "state": "problem", "message": "there is none", "hint": "buy one"},
    ]
    problem_of(site.request("POST", "/clusters/none/check"), 404)
