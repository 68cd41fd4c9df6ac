"""Policies of the queue over HTTP: a full queue, and weights that only editors of the platform can change."""

import pytest

from tests.server.samples import SCRIPT
from tests.server.sites import Site, problem_of

RUNS = "/projects/default/runs"


@pytest.mark.every_store
def test_a_full_queue_is_a_conflict_with_the_number_and_the_fix(site: Site) -> None:
    site.put("/policies/platform/platform", {"queue": {"max_waiting_runs": 1}})
    run = site.post(RUNS, {"function": SCRIPT})
    problem = problem_of(site.request("POST", RUNS, {"function": SCRIPT}), 409)
    assert (problem["code"], problem["title"]) == ("queue_full", "Conflict")
    assert problem["detail"] == "project/default has 1 waiting run; the platform policy allows 1"
    assert problem["hint"] == "stop waiting runs, or wait until some have started"
    site.post("/projects/default/schedules", {"function": SCRIPT, "schedule": "0 6 * * *"})
    name = SCRIPT["name"]
    assert problem_of(site.request("POST", f"/projects/default/schedules/{name}/run"), 409)["code"] == "queue_full"
    assert site.request("POST", f"/runs/{run['id']}/change", {"change": {"priority": 1}}).status_code == 201


def test_a_weight_is_refused_at_its_field(site: Site) -> None:
    policy = "/policies/project/default"
    editor = site.token_of("eve", editor="project/default")
    for method, path in (("PUT", policy), ("POST", f"{policy}/validate")):
        problem = problem_of(site.request(method, path, {"queue": {"weight": 1000}}, token=editor), 422)
        (violation,) = problem["violations"]
        assert (violation["path"], violation["rule"]) == ("queue.weight", "weight")
    assert site.request("PUT", policy, {"queue": {"max_waiting_runs": 5}}, token=editor).status_code == 200
    assert site.get(f"{policy}/effective")["queue"]["max_waiting_runs"]["value"] == 5
