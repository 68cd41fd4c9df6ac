"""Function code: uploaded once, stored under its digest, and referenced by runs."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fairlead.errors import Forbidden, NotFound, RequestRejected
from fairlead.model.records import BlobRecord, CodeRecord
from fairlead.services.runs.functions import StoredCode
from tests.making import PYTHON
from tests.services.executing import CODE, DIGEST, FAR, HOME, OTHER, Platform
from tests.services.worlds import call_as, finding_rules, rejection_rules


def count(platform: Platform) -> tuple[int, int]:
    """The number of code records and of stored blobs."""
    with platform.world.store.reading() as tx:
        return tx.count(CodeRecord), tx.count(BlobRecord)


@pytest.mark.every_store
def test_code_is_stored_once_under_its_digest(platform: Platform) -> None:
    codes, root = platform.world.services.stored_code, platform.world.root
    with pytest.raises(NotFound, match=r"code .* does not exist"):
        codes.find(root, HOME, DIGEST)
    for _ in range(2):
        stored = codes.put(root, HOME, DIGEST, CODE)
        assert (stored.digest, stored.size) == (DIGEST, len(CODE))
    assert codes.find(root, HOME, DIGEST) == stored
    assert count(platform) == (1, 1)


def test_each_project_uploads_its_own_code_and_it_is_stored_once(platform: Platform) -> None:
    """A digest from another project does not give access to its code."""
    codes, root = platform.world.services.stored_code, platform.world.root
    codes.put(root, HOME, DIGEST, CODE)
    with pytest.raises(NotFound):
        codes.find(root, OTHER, DIGEST)
    with pytest.raises(RequestRejected) as caught:
        platform.submit(OTHER, function={**PYTHON, "code": DIGEST})
    assert rejection_rules(caught) == [("function.code", "unknown_code")]
    codes.put(root, OTHER, DIGEST, CODE)
    assert count(platform) == (2, 1)
    platform.submit(OTHER, function={**PYTHON, "code": DIGEST})


@pytest.mark.every_store
def test_concurrent_uploads_of_the_same_code_are_stored_once_per_project(platform: Platform) -> None:
    codes, root = platform.world.services.stored_code, platform.world.root
    barrier = threading.Barrier(8)

    def send(scope: str) -> StoredCode:
        barrier.wait(10)
        return codes.put(root, scope, DIGEST, CODE)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(send, [HOME, OTHER] * 4)) == {StoredCode(DIGEST, len(CODE))}
    assert count(platform) == (2, 1)


@pytest.mark.parametrize("content", [b"", CODE[:-1], CODE + b"\0", b"other"])
def test_content_that_does_not_match_its_digest_is_rejected(platform: Platform, content: bytes) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, content)
    assert rejection_rules(caught) == [("digest", "digest")]
    assert count(platform) == (0, 0)


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:" + "g" * 64, DIGEST.upper(), "md5:" + "0" * 64])
def test_invalid_digest_is_rejected(platform: Platform, digest: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.world.services.stored_code.put(platform.world.root, HOME, digest, CODE)
    assert rejection_rules(caught) == [("digest", "digest")]


def test_only_members_can_upload_code(platform: Platform) -> None:
    world, codes = platform.world, platform.world.services.stored_code
    vic, mia = world.grant("vic", "viewer", HOME), world.grant("mia", "member", HOME)
    for call, error in ((vic, Forbidden), (call_as("sam"), NotFound), (world.grant("eva", "editor", HOME), Forbidden)):
        with pytest.raises(error):
            codes.put(call, HOME, DIGEST, CODE)
        with pytest.raises(error):
            codes.find(call, HOME, DIGEST)
    with pytest.raises(NotFound):
        codes.put(mia, OTHER, DIGEST, CODE)
    codes.put(mia, HOME, DIGEST, CODE)
    assert codes.find(mia, HOME, DIGEST).digest == DIGEST


def test_run_with_code_requires_the_uploaded_code(platform: Platform) -> None:
    function = {**PYTHON, "code": DIGEST}
    plan = platform.world.preview(HOME, function=function)
    assert (finding_rules(plan["violations"]), plan["token"]) == ([("function.code", "unknown_code")], None)
    with pytest.raises(RequestRejected) as caught:
        platform.submit(function=function)
    assert rejection_rules(caught) == [("function.code", "unknown_code")]
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    run = platform.submit(function=function)
    assert run.code == DIGEST
    assert platform.world.services.executions.code(platform.world.root, run.id) == CODE


def test_missing_code_is_reported_with_all_other_violations(platform: Platform) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.submit(function={**PYTHON, "code": DIGEST}, secrets=["NONE"], replicas=2)
    assert sorted(rejection_rules(caught)) == [
        ("function.code", "unknown_code"),
        ("replicas", "local"),
        ("secrets.NONE", "unknown_secret"),
    ]


def test_submitted_run_has_its_cluster_and_first_event(platform: Platform) -> None:
    run = platform.submit()
    assert (run.cluster, run.server_id, run.reason) == ("cluster/here", None, "Queued")
    assert platform.events(run.id) == [("queued", "Queued")]
    assert platform.notified == [run.id]


def test_run_that_never_fits_the_machine_is_rejected(platform: Platform) -> None:
    with pytest.raises(RequestRejected) as caught:
        platform.submit(resources={"cpu": 99, "gpu": 9})
    assert rejection_rules(caught) == [("resources.cpu", "never_fits"), ("resources.gpu", "never_fits")]


def test_code_too_large_for_the_pods_of_a_cluster_is_rejected_at_submission(platform: Platform) -> None:
    world, large = platform.world, bytes(1_000_001)
    function = {**PYTHON, "code": f"sha256:{hashlib.sha256(large).hexdigest()}"}
    for scope in (HOME, FAR):
        world.services.stored_code.put(world.root, scope, function["code"], large)
    platform.submit(HOME, function=function)
    with pytest.raises(RequestRejected, match="1000001 bytes") as caught:
        platform.submit(FAR, function=function)
    assert rejection_rules(caught) == [("function.source", "size")]
    world.services.scopes.edit(world.root, "cluster/far", {"server_url": "https://fairlead.example.org"})
    platform.submit(FAR, function=function)
