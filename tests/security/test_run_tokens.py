"""The token of a run is good for two operations on that run while it is executed, and for nothing else at all."""

from collections.abc import Iterator
from typing import Any

import pytest
from httpx2 import Response

from fairlead.run_tokens import seal_run_token
from tests.server.samples import CODE, address_of, body_of, fill
from tests.server.sites import COOKIE, Operation, Site, problem_of
from tests.server.test_run_uploads import KEYRING, mark, start

# The operations that a run token allows, and their paths.
OWN = {"read_run_code", "upload_run_file"}
LEFT = "output/left.bin"

Things = dict[str, str]


@pytest.fixture(scope="module")
def runs(common_site: Site) -> dict[str, Things]:
    """Objects of three runs: our own, another one in our project, and one in another project."""
    ours, theirs = fill(common_site, "alpha"), fill(common_site, "bravo")
    mine, beside, there = (start(common_site, project)[0] for project in ("alpha", "alpha", "bravo"))
    return {"own": ours | _one(mine), "beside": ours | _one(beside), "there": theirs | _one(there)}


def _one(run_id: str) -> Things:
    return {"run": run_id, "ended": run_id}


def list_requests(operations: list[Operation], things: Things) -> Iterator[tuple[Operation, str, str]]:
    """All operations on some objects; read operations without a body."""
    for item in operations:
        path = address_of(item, things)
        if item.id == "upload_run_file":
            path = path.partition("/uploads/")[0] + f"/uploads/{LEFT}"
        yield item, item.method, path
        if item.method == "GET":
            yield item, "HEAD", path


def token_of(things: Things) -> str:
    """The token of a run, sealed as the server seals it."""
    return seal_run_token(KEYRING, things["run"])


def refuse(answer: Response, *statuses: int) -> None:
    """Hold an answer to be a refusal; one to HEAD says nothing more."""
    if answer.request.method == "HEAD":
        assert answer.status_code in statuses, answer.request.url
    else:
        problem_of(answer, *statuses)


@pytest.mark.parametrize("whose", ["own", "beside", "there"])
def test_run_token_allows_only_requests_of_its_own_run(
    common_site: Site, operations: list[Operation], runs: dict[str, Things], whose: str
) -> None:
    token, allowed = token_of(runs["own"]), set()
    for item, method, path in list_requests(operations, runs[whose]):
        answer = common_site.request(method, path, body_of(item), token=token)
        if item.is_public:
            assert answer.status_code < 500, item.key
        elif answer.status_code < 300:
            allowed.add(item.id)
            assert item.id != "read_run_code" or method == "HEAD" or answer.content == CODE
        else:
            refuse(answer, 404 if item.id in OWN else 401)
    assert allowed == (OWN if whose == "own" else set())


def test_run_token_cannot_sign_in_or_create_tokens(common_site: Site, runs: dict[str, Things]) -> None:
    token, run = token_of(runs["own"]), runs["own"]["run"]
    cookie = {"Cookie": f"{COOKIE}={token}", "Origin": "http://fairlead.test"}
    for method, path in (("GET", "/me"), ("GET", f"/runs/{run}"), ("POST", f"/runs/{run}/stop"), ("GET", "/tokens")):
        problem_of(common_site.request(method, path, token=None, headers=cookie), 401)
    problem_of(common_site.request("POST", "/sessions", {"token": token}, token=None), 401)
    problem_of(common_site.request("POST", "/sessions/link", {}, token=token), 401)
    problem_of(common_site.request("GET", f"/login?code={token}", token=None), 401, 404, 410)
    problem_of(common_site.request("POST", "/tokens", {"name": "mine"}, token=token), 401)
    for spelled in (token.upper(), f" {token}x", token.removeprefix("fl_run."), token.replace("fl_run.", "fl_")):
        problem_of(common_site.request("GET", f"/runs/{run}/code", token=spelled), 401)


ENDS: dict[str, dict[str, Any]] = {
    "completed": {"active": False, "state": "completed"},
    "failed": {"active": False, "state": "failed"},
    "stopped": {"active": False, "state": "stopped"},
    "given back": {"server_id": None, "state": "queued"},
}


@pytest.mark.parametrize("ended", ENDS)
def test_run_token_expires_with_the_run(
    common_site: Site, operations: list[Operation], runs: dict[str, Things], ended: str
) -> None:
    things = runs["own"] | _one(start(common_site, "alpha")[0])
    token = token_of(things)
    mark(common_site, things["run"], **ENDS[ended])
    for item, method, path in list_requests(operations, things):
        if not item.is_public:
            refuse(common_site.request(method, path, body_of(item), token=token), 401)


def test_run_token_is_invalid_after_the_run_is_deleted(
    common_site: Site, operations: list[Operation], runs: dict[str, Things]
) -> None:
    things = runs["own"] | _one(start(common_site, "alpha")[0])
    token = token_of(things)
    mark(common_site, things["run"], **ENDS["completed"])
    assert common_site.request("DELETE", f"/runs/{things['run']}").status_code == 204
    for item, method, path in list_requests(operations, things):
        if not item.is_public:
            refuse(common_site.request(method, path, body_of(item), token=token), 404 if item.id in OWN else 401)
