"""Run uploads over HTTP: each run with its own token, and only files."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from httpx2 import Response

from fairlead import run_files
from fairlead.adapters import keyrings
from fairlead.model.records import RunRecord
from fairlead.run_tokens import seal_run_token
from fairlead.server.http import parameters
from fairlead.services.runs.executions import MAX_FILE_BYTES
from tests.server.conftest import Lines
from tests.server.samples import CODE, DIGEST, SCRIPT, address_of, body_of, fill
from tests.server.sites import KEY, Operation, Site, decode, problem_of

KEYRING = keyrings.AesKeyring(keyrings.parse_keys(KEY))


def start(site: Site, name: str = "alpha") -> tuple[str, str]:
    """Start a run, and return its ID and token."""
    created = site.post(f"/projects/{name}/runs", {"function": SCRIPT | {"code": DIGEST}})
    mark(site, created["id"], server_id="s1", state="running")
    return created["id"], seal_run_token(KEYRING, created["id"])


def mark(site: Site, run_id: str, **fields: Any) -> None:
    """Change fields in a stored run."""
    with site.store.recording() as tx:
        run = tx.get(RunRecord, id=run_id)
        assert run is not None
        tx.save(replace(run, revision=run.revision + 1, **fields))


def upload_file(site: Site, run_id: str, path: str, content: Any, token: str | None, **headers: str) -> Response:
    """Upload a file."""
    return site.request("PUT", f"/runs/{run_id}/uploads/{path}", content=content, token=token, headers=headers)


def stored_files(site: Site, run_id: str) -> dict[str, int]:
    """The stored files of a run with their sizes."""
    with site.store.reading() as tx:
        return {file.path: file.size for file in run_files.list_files(tx, run_id)}


@pytest.fixture
def run(filled_site: Site) -> tuple[Site, str, str]:
    """A server, the ID of a run in progress, and that run's token."""
    return (filled_site, *start(filled_site))


@pytest.mark.every_store
def test_run_downloads_its_code_and_uploads_its_files(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run
    code = site.request("GET", f"/runs/{run_id}/code", token=token)
    assert (code.status_code, code.content, code.headers["content-type"]) == (200, CODE, "application/gzip")
    size = 3 * parameters.SPOOL_BYTES + 5
    for path, content in (("output/a%20b/%C3%A9%3F", b"x" * size), ("result.json", b'{"kind": "json", "value": 1}')):
        response = upload_file(site, run_id, path, content, token)
        assert decode(response)["size"] == len(content)
        assert "etag" not in response.headers
    assert stored_files(site, run_id) == {"output/a b/é?": size, "result.json": 28}
    with site.store.reading() as tx:
        assert run_files.load_file(tx, run_id, "output/a b/é?") == b"x" * size


def test_file_can_be_uploaded_in_chunks_of_any_size(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run

    def chunks() -> Iterator[bytes]:
        yield from (b"a" * 10, b"", b"b" * 1_500_000, b"c")

    assert decode(upload_file(site, run_id, "output/a", chunks(), token)) == {"path": "output/a", "size": 1_500_011}


def test_users_can_still_download_the_code(run: tuple[Site, str, str]) -> None:
    site, run_id, _ = run
    assert site.request("GET", f"/runs/{run_id}/code").content == CODE
    assert (
        site.request("GET", f"/runs/{run_id}/code", token=site.token_of("vic", viewer="project/alpha")).content == CODE
    )
    problem_of(site.request("GET", f"/runs/{run_id}/code", token=site.token_of("eve")), 404)
    problem_of(site.request("GET", f"/runs/{run_id}/code", token=None), 401)


def test_only_the_run_itself_can_upload(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run
    other, _ = start(site)
    for status, bearer in ((403, ""), (401, None), (401, "fl_nobody"), (401, f"{token}x"), (404, site.token_of("eve"))):
        problem_of(upload_file(site, run_id, "output/a", b"x", bearer), status)
    problem_of(upload_file(site, other, "output/a", b"x", token), 404)
    problem_of(site.request("GET", f"/runs/{other}/code", token=token), 404)
    problem_of(upload_file(site, "f" * 32, "output/a", b"x", token), 404)
    assert (stored_files(site, run_id), stored_files(site, other)) == ({}, {})


@pytest.mark.parametrize("change", [{"active": False, "state": "completed"}, {"server_id": None, "state": "queued"}])
def test_run_token_ends_with_the_run(run: tuple[Site, str, str], change: dict[str, Any]) -> None:
    site, run_id, token = run
    mark(site, run_id, **change)
    for response in (
        upload_file(site, run_id, "output/a", b"x", token),
        site.request("GET", f"/runs/{run_id}/code", token=token),
    ):
        assert str(change["state"]) in problem_of(response, 401)["detail"]
        assert response.headers["www-authenticate"] == "Bearer"


def test_run_token_grants_nothing_else(common_site: Site, operations: list[Operation]) -> None:
    objects = fill(common_site, "gamma")
    run_id, token = start(common_site, "gamma")
    objects |= {"run": run_id, "ended": run_id}
    for item in operations:
        response = common_site.request(item.method, address_of(item, objects), body_of(item), token=token)
        if item.is_public:
            assert response.status_code < 300, item.key
        elif item.id == "read_run_code":
            assert response.content == CODE
        elif item.id == "upload_run_file":
            problem_of(response, 422)  # the sample path is not valid here
        else:
            problem_of(response, 401)


def test_unauthorized_upload_is_rejected_before_the_body_is_read(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run
    for bearer, status in ((None, 401), ("", 403), (f"{token}x", 401), (token, 415)):
        problem_of(upload_file(site, run_id, "output/a", b"x", bearer, **{"Content-Type": "text/html"}), status)


def test_oversized_file_is_rejected_by_its_content_length(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run
    headers = {"Content-Length": str(MAX_FILE_BYTES + 1)}
    problem = problem_of(upload_file(site, run_id, "output/a", b"", token, **headers), 413)
    assert problem["detail"] == "the body has more than 67,108,864 bytes"
    assert problem["hint"] == "write it to a volume"


def test_file_that_grows_beyond_the_limit_is_rejected(run: tuple[Site, str, str]) -> None:
    site, run_id, token = run
    chunks = (b"x" * 1024 * 1024 for _ in range(65))
    assert problem_of(upload_file(site, run_id, "output/a", chunks, token), 413)["hint"] == "write it to a volume"
    assert stored_files(site, run_id) == {}


def test_largest_allowed_file_is_stored(site: Site) -> None:
    fill(site, "alpha")
    run_id, token = start(site)
    assert decode(upload_file(site, run_id, "output/a", b"\x00" * MAX_FILE_BYTES, token))["size"] == MAX_FILE_BYTES


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 422),
        ("output", 422),
        ("output/", 422),
        ("output//a", 422),
        ("%2e%2e/a", 422),
        ("output/%2e%2e/%2e%2e/a", 422),
        ("output/..%2fresult.json", 422),
        ("%2foutput/a", 422),
        ("output/a%00", 400),
        ("output/" + "x" * 1000, 422),
        ("output/" + "x" * 20_000, 414),
        ("log", 422),
        ("output/a?x=1", 422),
    ],
)
def test_path_traversal_is_rejected(run: tuple[Site, str, str], path: str, status: int) -> None:
    site, run_id, token = run
    problem_of(upload_file(site, run_id, path, b"x", token), status)
    assert stored_files(site, run_id) == {}


def test_run_token_is_never_logged(run: tuple[Site, str, str], log: Lines) -> None:
    site, run_id, token = run
    upload_file(site, run_id, "output/a", b"x", token)
    upload_file(site, run_id, "output/a", b"x", f"{token}x")
    assert len(log) >= 2
    assert token.rpartition(".")[2] not in str(log)
