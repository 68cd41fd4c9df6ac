"""A run token allows two operations on its own run while it is active, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from fairlead.run_tokens import seal_run_token
from tests.server.samples import CODE, address_of, body_of, fill
from tests.server.sites import COOKIE, Operation, Site, problem_of
from tests.server.test_run_uploads import KEYRING, mark, start

# The operations that a run token allows, and their paths.
ALLOWED = {"read_run_code", "upload_run_file"}
FILE_PATH = "output/file.bin"

ObjectNames = dict[str, str]


@pytest.fixture(scope="module")
def runs(common_site: Site) -> dict[str, ObjectNames]:
    """Objects of three runs: our own, another in our project, and one in another project."""
    ours, theirs = fill(common_site, "alpha"), fill(common_site, "bravo")
    own, same_project, other_project = (start(common_site, project)[0] for project in ("alpha", "alpha", "bravo"))
    return {
        "own": ours | _run_names(own),
        "same project": ours | _run_names(same_project),
        "other project": theirs | _run_names(other_project),
    }


def _run_names(run_id: str) -> ObjectNames:
    return {"run": run_id, "ended": run_id}


def list_requests(operations: list[Operation], object_names: ObjectNames) -> Iterator[tuple[Operation, str, str]]:
    """All operations on the given objects, as method and path. Each GET is also sent as HEAD."""
    for item in operations:
        path = address_of(item, object_names)
        if item.id == "upload_run_file":
            path = path.partition("/uploads/")[0] + f"/uploads/{FILE_PATH}"
        yield item, item.method, path
        if item.method == "GET":
            yield item, "HEAD", path


def token_of(object_names: ObjectNames) -> str:
    """Create a run token, as the server does."""
    return seal_run_token(KEYRING, object_names["run"])


def check_rejected(response: Response, *statuses: int) -> None:
    """Check that a response is an error. A response to HEAD has no body."""
    if response.request.method == "HEAD":
        assert response.status_code in statuses, response.request.url
    else:
        problem_of(response, *statuses)


@pytest.mark.parametrize("target", ["own", "same project", "other project"])
def test_run_token_allows_only_requests_of_its_own_run(
    common_site: Site, operations: list[Operation], runs: dict[str, ObjectNames], target: str
) -> None:
    token, allowed = token_of(runs["own"]), set()
    for item, method, path in list_requests(operations, runs[target]):
        response = common_site.request(method, path, body_of(item), token=token)
        if item.is_public:
            assert response.status_code < 500, item.key
        elif response.status_code < 300:
            allowed.add(item.id)
            assert item.id != "read_run_code" or method == "HEAD" or response.content == CODE
        else:
            check_rejected(response, 404 if item.id in ALLOWED else 401)
    assert allowed == (ALLOWED if target == "own" else set())


def test_run_token_cannot_sign_in_or_create_tokens(common_site: Site, runs: dict[str, ObjectNames]) -> None:
    token, run = token_of(runs["own"]), runs["own"]["run"]
    cookie = {"Cookie": f"{COOKIE}={token}", "Origin": "http://fairlead.test"}
    for method, path in (("GET", "/me"), ("GET", f"/runs/{run}"), ("POST", f"/runs/{run}/stop"), ("GET", "/tokens")):
        problem_of(common_site.request(method, path, token=None, headers=cookie), 401)
    problem_of(common_site.request("POST", "/sessions", {"token": token}, token=None), 401)
    problem_of(common_site.request("POST", "/sessions/link", {}, token=token), 401)
    problem_of(common_site.request("GET", f"/login?code={token}", token=None), 401, 404, 410)
    problem_of(common_site.request("POST", "/tokens", {"name": "mine"}, token=token), 401)
    for variant in (token.upper(), f" {token}x", token.removeprefix("fl_run."), token.replace("fl_run.", "fl_")):
        problem_of(common_site.request("GET", f"/runs/{run}/code", token=variant), 401)


ENDED_STATES: dict[str, dict[str, Any]] = {
    "completed": {"active": False, "state": "completed"},
    "failed": {"active": False, "state": "failed"},
    "stopped": {"active": False, "state": "stopped"},
    "released by its server": {"server_id": None, "state": "queued"},
}


@pytest.mark.parametrize("ended_state", ENDED_STATES)
def test_run_token_expires_with_the_run(
    common_site: Site, operations: list[Operation], runs: dict[str, ObjectNames], ended_state: str
) -> None:
    object_names = runs["own"] | _run_names(start(common_site, "alpha")[0])
    token = token_of(object_names)
    mark(common_site, object_names["run"], **ENDED_STATES[ended_state])
    for item, method, path in list_requests(operations, object_names):
        if not item.is_public:
            check_rejected(common_site.request(method, path, body_of(item), token=token), 401)


def test_run_token_is_invalid_after_the_run_is_deleted(
    common_site: Site, operations: list[Operation], runs: dict[str, ObjectNames]
) -> None:
    object_names = runs["own"] | _run_names(start(common_site, "alpha")[0])
    token = token_of(object_names)
    mark(common_site, object_names["run"], **ENDED_STATES["completed"])
    assert common_site.request("DELETE", f"/runs/{object_names['run']}").status_code == 204
    for item, method, path in list_requests(operations, object_names):
        if not item.is_public:
            check_rejected(
                common_site.request(method, path, body_of(item), token=token), 404 if item.id in ALLOWED else 401
            )
