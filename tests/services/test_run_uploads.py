"""A run's downloads and uploads: with its own token, while it is active."""

import io
from dataclasses import replace

import pytest

from fairlead import run_files
from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.errors import FairleadError, Forbidden, NotFound, RequestRejected, Unauthenticated
from fairlead.model.records import RunFileRecord
from fairlead.model.runs import Phase
from fairlead.ports import Sealed
from fairlead.run_tokens import PREFIX, PURPOSE, seal_run_token
from fairlead.services.runs import executions
from fairlead.services.runs.executions import RunUploads, UploadedFile, check_path
from fairlead.services.transactions.unit_of_work import TOKEN_PREFIX, Call, UnitOfWorkFactory
from tests.making import PYTHON
from tests.services.executing import CODE, DIGEST, HOME, Platform
from tests.services.worlds import KEY, OTHER_KEY, error_text, rejection_rules

RESULT = b'{"kind": "json", "value": 7}'
ERROR = b'{"type": "ValueError", "message": "too hot", "traceback": ""}'


def start(platform: Platform) -> tuple[str, Call]:
    """Start a run with code, and return its ID and a call with its token."""
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    run, controller = platform.submit(function={**PYTHON, "code": DIGEST}), platform.control()
    controller.sync(set())
    platform.executor.set_running(run.id)
    controller.sync({run.id})
    return run.id, call_of(platform, run.id)


def call_of(platform: Platform, run_id: str) -> Call:
    """A call with a run token."""
    return Call(bearer=seal_run_token(platform.world.keyring, run_id))


def put(platform: Platform, call: Call, run_id: str, path: str, content: bytes = b"x") -> UploadedFile:
    """Upload a file."""
    return platform.world.services.run_uploads.put(call, run_id, path, io.BytesIO(content))


def stored_files(platform: Platform, run_id: str) -> dict[str, bytes | None]:
    """The stored files of a run."""
    with platform.world.store.reading() as tx:
        files = run_files.list_files(tx, run_id)
        return {file.path: run_files.load_file(tx, run_id, file.path) for file in files}


def with_keys(platform: Platform, *keys: str) -> RunUploads:
    """Use cases with different encryption keys."""
    return RunUploads(platform.world.services.units, AesKeyring(parse_keys(",".join(keys))))


def test_run_downloads_its_code_and_uploads_its_files(platform: Platform) -> None:
    run, call = start(platform)
    assert platform.world.services.run_uploads.code(call, run) == CODE
    assert put(platform, call, run, "output/models/é.bin", b"\x00" * 3_000_000) == UploadedFile(
        "output/models/é.bin", 3_000_000
    )
    assert put(platform, call, run, "error.json", ERROR).size == len(ERROR)
    put(platform, call, run, "result.json", b'{"kind": "json", "value": null}')
    put(platform, call, run, "result.json", RESULT)
    assert stored_files(platform, run) == {
        "output/models/é.bin": b"\x00" * 3_000_000,
        "error.json": ERROR,
        "result.json": RESULT,
    }


def test_uploads_are_not_audited(platform: Platform) -> None:
    run, call = start(platform)
    before = platform.world.audit_actions()
    put(platform, call, run, "output/a")
    assert platform.world.audit_actions() == before


def test_run_without_code_has_none(platform: Platform) -> None:
    run, controller = platform.submit(), platform.control()
    controller.sync(set())
    with pytest.raises(NotFound, match="has no code"):
        platform.world.services.run_uploads.code(call_of(platform, run.id), run.id)


# Tokens


def test_token_of_another_run_grants_no_access(platform: Platform) -> None:
    run, _ = start(platform)
    other, call = start(platform)
    with pytest.raises(NotFound) as other_run:
        put(platform, call, run, "output/a")
    with pytest.raises(NotFound) as missing:
        put(platform, call, "f" * 32, "output/a")
    assert str(other_run.value).replace(run, "") == str(missing.value).replace("f" * 32, "")
    with pytest.raises(NotFound):
        platform.world.services.run_uploads.code(call, run)
    put(platform, call, other, "output/a")
    assert stored_files(platform, run) == {}


def test_deleted_run_cannot_upload(platform: Platform) -> None:
    call = call_of(platform, "f" * 32)
    with pytest.raises(NotFound):
        put(platform, call, "f" * 32, "output/a")


@pytest.mark.parametrize("end", ["completed", "stopped", "waiting"])
def test_token_is_valid_only_while_the_run_is_executed(platform: Platform, end: str) -> None:
    run, call = start(platform)
    if end == "completed":
        platform.executor.end(run, phase=Phase.SUCCEEDED)
        platform.control().sync({run})
    elif end == "stopped":
        platform.stop(run)
        platform.executor.end(run, phase=Phase.FAILED, stopped=True)
        platform.control().sync({run})
    else:
        run = platform.submit().id
        call = call_of(platform, run)
    for operation in (
        lambda: put(platform, call, run, "output/a"),
        lambda: platform.world.services.run_uploads.code(call, run),
    ):
        with pytest.raises(Unauthenticated, match="so its token has expired") as caught:
            operation()
        assert platform.run(run).state in error_text(caught)
    assert stored_files(platform, run) == {}


def test_token_is_valid_while_its_run_is_stopping(platform: Platform) -> None:
    run, call = start(platform)
    platform.stop(run)
    assert platform.state(run)[0] == "stopping"
    put(platform, call, run, "output/a")


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-9] + ("A" if token[-9] != "A" else "B") + token[-8:],
        lambda token: token[:-5],
        lambda token: token + "AAAA",
        lambda _: PREFIX,
        lambda _: PREFIX + "x",
        lambda _: f"{PREFIX}.",
        lambda _: f"{PREFIX}é.é",
        lambda token: f"{PREFIX}{'a' * 16}.{token.rpartition('.')[2]}",
        lambda token: token.rpartition(".")[0] + ".!!!!",
        lambda token: token.upper(),
        lambda token: token.removeprefix(TOKEN_PREFIX),
        lambda token: token.replace(PREFIX, TOKEN_PREFIX),
    ],
)
def test_forged_token_is_rejected(platform: Platform, change: object) -> None:
    run, call = start(platform)
    assert callable(change)
    forged = replace(call, bearer=change(call.bearer))
    with pytest.raises(Unauthenticated):
        put(platform, forged, run, "output/a")


def test_value_sealed_for_another_purpose_is_not_a_token(platform: Platform) -> None:
    run, _ = start(platform)
    sealed = platform.world.keyring.seal(run.encode(), "some secret")
    keyring = AesKeyring(parse_keys(KEY))

    class MisleadingKeyring:
        key_id = keyring.key_id

        def seal(self, value: bytes, purpose: str) -> Sealed:
            """Return a value that was sealed for another purpose."""
            assert (value, purpose) == (run.encode(), PURPOSE)
            return sealed

        open = keyring.open

    with pytest.raises(Unauthenticated):
        put(platform, Call(bearer=seal_run_token(MisleadingKeyring(), run)), run, "output/a")


def test_token_is_valid_after_a_key_rotation_until_its_key_is_deleted(platform: Platform) -> None:
    run, call = start(platform)
    with_keys(platform, OTHER_KEY, KEY).put(call, run, "output/a", io.BytesIO(b"1"))
    with pytest.raises(Unauthenticated, match="or its key was deleted"):
        with_keys(platform, OTHER_KEY).put(call, run, "output/b", io.BytesIO(b"1"))
    assert list(stored_files(platform, run)) == ["output/a"]


def test_run_token_grants_no_other_access(platform: Platform) -> None:
    """The server accepts a run token neither as one of its own tokens nor as one from the issuer."""
    run, call = start(platform)
    services = platform.world.services

    class Issuer:
        def authenticate(self, bearer: str) -> object:
            """Fail, because the issuer must not be called."""
            raise AssertionError(bearer)

    units = UnitOfWorkFactory(platform.world.store, platform.world.clock, lambda: "x", Issuer())  # type: ignore[arg-type]
    with pytest.raises(Unauthenticated):
        units.authenticate(call)
    for use_case in (services.runs.get, services.executions.code, services.executions.files, services.runs.stop):
        with pytest.raises(Unauthenticated):
            use_case(call, run)
    with pytest.raises(Unauthenticated):
        services.tokens.sign_in(call, call.bearer or "")


def test_users_cannot_upload(platform: Platform) -> None:
    run, _ = start(platform)
    world = platform.world
    for call, error in ((world.root, Forbidden), (world.grant("vic", "viewer", HOME), Forbidden)):
        with pytest.raises(error, match="only run"):
            put(platform, call, run, "output/a")
    for call, expected_error in ((world.grant("sam", "admin", "project/other"), NotFound), (Call(), Unauthenticated)):
        with pytest.raises(expected_error):
            put(platform, call, run, "output/a")
    assert stored_files(platform, run) == {}


def test_tokens_are_unique_and_hidden_in_repr(platform: Platform) -> None:
    first, second = (seal_run_token(platform.world.keyring, "r1") for _ in range(2))
    assert first != second
    assert first.startswith(TOKEN_PREFIX)
    assert first.isascii()
    assert first not in repr(Call(bearer=first))


# Limits


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "output",
        "output/",
        "output//a",
        "output/a/",
        "/output/a",
        "output/../result.json",
        "output/..",
        "output/a/../../b",
        "output/./a",
        "../output/a",
        "output/a\0b",
        "output/\ud800",
        "log",
        "usage.json",
        "result.json/a",
        "Result.json",
        "outputs/a",
        "output/" + "x" * 994,
        "output/" + "é" * 500,
        "output" + "/x" * 600,
    ],
)
def test_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(RequestRejected) as caught:
        check_path(path)
    assert rejection_rules(caught) == [("path", "path")]
    assert "use result.json or error.json, or a path in output/" in str(caught.value.violations[0].hint)


@pytest.mark.every_store
@pytest.mark.parametrize(
    "path", ["output/a", "output/...", "output/..a", "output/ ", "output/a\\..\\b", "output/" + "x" * 993]
)
def test_any_valid_path_is_accepted(platform: Platform, path: str) -> None:
    run, call = start(platform)
    put(platform, call, run, path)
    assert list(stored_files(platform, run)) == [path]


@pytest.mark.parametrize("path", ["result.json", "error.json"])
@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"null", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_content_that_is_not_a_json_object_is_rejected(platform: Platform, path: str, content: bytes) -> None:
    run, call = start(platform)
    with pytest.raises(RequestRejected) as caught:
        put(platform, call, run, path, content)
    assert rejection_rules(caught) == [("body", "json")]
    assert stored_files(platform, run) == {}


@pytest.mark.parametrize("content", [b"{}", b'{"kind": "json"}', b'{"kind": "json", "value": 1, "more": 2}', ERROR])
def test_invalid_result_is_rejected(platform: Platform, content: bytes) -> None:
    run, call = start(platform)
    with pytest.raises(RequestRejected) as caught:
        put(platform, call, run, "result.json", content)
    assert rejection_rules(caught) == [("body", "json")]


def test_oversized_result_is_rejected_with_sizes_and_a_hint(platform: Platform) -> None:
    run, call = start(platform)
    overhead = len(b'{"kind": "json", "value": ""}')
    put(platform, call, run, "result.json", b'{"kind": "json", "value": "%b"}' % (b"x" * (512 * 1024 - overhead)))
    with pytest.raises(RequestRejected) as caught:
        put(
            platform,
            call,
            run,
            "result.json",
            b'{"kind": "json", "value": "%b"}' % (b"x" * (512 * 1024 - overhead + 1)),
        )
    assert rejection_rules(caught) == [("body", "max")]
    assert caught.value.violations[0].message == "result.json has 524,289 bytes; at most 524,288 are allowed"
    assert "a volume" in str(caught.value.violations[0].hint)


@pytest.mark.every_store
def test_total_upload_size_per_run_is_limited(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "MAX_OUTPUT_BYTES", 100)
    run, call = start(platform)
    put(platform, call, run, "output/a", b"x" * 60)
    put(platform, call, run, "output/a", b"x" * 70)  # replaces the first file
    put(platform, call, run, "result.json", RESULT)  # result.json does not count
    with pytest.raises(RequestRejected) as caught:
        put(platform, call, run, "output/b", b"x" * 31)
    assert rejection_rules(caught) == [("body", "max")]
    violation = caught.value.violations[0]
    assert violation.message == f"has 31 bytes, and run {run} has uploaded 70; at most 100 are allowed"
    assert violation.hint == "write it to a volume"
    put(platform, call, run, "output/b", b"x" * 30)
    other, other_call = start(platform)
    put(platform, other_call, other, "output/b", b"x" * 100)


def test_number_of_uploaded_files_per_run_is_limited(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executions, "MAX_OUTPUT_FILES", 2)
    run, call = start(platform)
    for path in ("output/a", "output/b", "output/b"):
        put(platform, call, run, path)
    with pytest.raises(RequestRejected) as caught:
        put(platform, call, run, "output/c")
    assert rejection_rules(caught) == [("path", "max")]
    assert "has already uploaded 2 files; at most 2 are allowed" in caught.value.violations[0].message
    assert len(stored_files(platform, run)) == 2


@pytest.mark.every_store
def test_uploads_are_deleted_with_the_run(platform: Platform) -> None:
    run, call = start(platform)
    put(platform, call, run, "output/a")
    platform.executor.end(run, phase=Phase.SUCCEEDED)
    platform.control().sync({run})
    platform.world.services.runs.delete(platform.world.root, run)
    with platform.world.store.reading() as tx:
        assert tx.count(RunFileRecord) == 0


@pytest.mark.every_store
def test_rejected_upload_stores_nothing(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    run, call = start(platform)
    monkeypatch.setattr(executions, "MAX_OUTPUT_BYTES", 10)
    put(platform, call, run, "output/a", b"first")
    for content in (b"x" * 11, b"x" * 3_000_000):
        with pytest.raises(FairleadError):
            put(platform, call, run, "output/a", content)
    assert stored_files(platform, run) == {"output/a": b"first"}
