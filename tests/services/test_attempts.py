"""A run's attempts: logs, usage, files, outcomes and permissions."""

from typing import Any
from unittest.mock import Mock

import pytest

from fairlead.errors import Conflict, NotFound, RequestRejected, Unauthenticated, Unavailable
from fairlead.lifecycle import attempts
from fairlead.model.records import RunFileRecord
from fairlead.model.runs import LogPage, Phase
from fairlead.run_files import save_file
from fairlead.run_tokens import seal_run_token
from fairlead.services.runs.executions import Executions
from fairlead.services.transactions.unit_of_work import Call
from tests.contracts.executors import MemoryExecutor
from tests.making import PYTHON
from tests.services.executing import CODE, DIGEST, HOME, OTHER, Platform
from tests.services.test_run_uploads import put, stored_files
from tests.services.worlds import call_as, error_text, rejection_rules


def begin(platform: Platform, **request: Any) -> str:
    """Submit a run, let its first attempt run, and return the run ID."""
    run = platform.submit(**{"retries": 2, **request})
    platform.control().sync(set())
    go(platform, run.id)
    return run.id


def go(platform: Platform, execution: str) -> None:
    """Let an attempt run, write a log line and create a file."""
    platform.executor.set_running(execution)
    platform.executor.write(execution, f"hello from {execution[32:] or '-1'}\n".encode())
    platform.executor.runs[execution].files["model.bin"] = execution.encode()
    platform.control().sync({execution[:32]})


def fail(platform: Platform, execution: str, *, retry: bool = True) -> None:
    """Fail an attempt and, if `retry`, let the next one run."""
    run, number = execution[:32], int(execution[33:] or 1)
    outcome = {"reason": "NodeLost", "message": "its node went away", "usage": {"mem": number}}
    platform.executor.end(execution, Phase.FAILED, **outcome)
    controller = platform.control()
    controller.sync({run})
    if retry:
        controller.sync({run})
        go(platform, f"{run}-{number + 1}")


def read(platform: Platform, run: str, cursor: int | None = None, attempt: int | None = None) -> LogPage:
    """A page of a log."""
    page: LogPage = platform.world.services.executions.log(platform.world.root, run, cursor, 10_000, attempt)
    return page


def read_all(platform: Platform, run: str, cursor: int | None = None, attempt: int | None = None) -> list[str]:
    """The log lines from a cursor to the end of the log, or to the last line so far."""
    lines: list[str] = []
    while True:
        page = read(platform, run, cursor, attempt)
        lines += [entry.data.decode() for entry in page.entries]
        if page.complete or not page.entries:
            return lines
        cursor = page.cursor


LINES = ["hello from -1\n", "hello from -2\n", "hello from -3\n"]
SEPARATORS = [
    "attempt 1 failed (NodeLost): its node went away; attempt 2 follows\n",
    "attempt 2 failed (NodeLost): its node went away; attempt 3 follows\n",
]


# Logs


def test_log_of_a_run_is_that_of_its_last_attempt(platform: Platform) -> None:
    run = begin(platform)
    assert read_all(platform, run) == LINES[:1]
    fail(platform, run)
    assert read_all(platform, run) == LINES[1:2]
    platform.executor.end(f"{run}-2")
    platform.control().sync({run})
    assert read_all(platform, run) == LINES[1:2]
    assert read(platform, run, read(platform, run).cursor).complete


def test_log_of_a_run_that_waits_for_a_retry_is_that_of_the_previous_attempt(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run, retry=False)
    page = read(platform, run)
    assert ([entry.data.decode() for entry in page.entries], page.complete) == ([LINES[0], SEPARATORS[0]], False)
    assert read(platform, run, page.cursor) == LogPage([], page.cursor, complete=False)


def test_logs_of_all_attempts_follow_each_other_from_cursor_zero(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    fail(platform, f"{run}-2")
    assert read_all(platform, run, cursor=0) == [LINES[0], SEPARATORS[0], LINES[1], SEPARATORS[1], LINES[2]]


def test_log_is_complete_only_after_the_run_has_ended(platform: Platform) -> None:
    run = begin(platform)
    at_end = read(platform, run).cursor
    platform.executor.end(run, Phase.FAILED, reason="NodeLost", message="its node went away")
    assert not read(platform, run, at_end).complete  # the retry has not been decided yet
    platform.control().sync({run})
    assert not read(platform, run, at_end).complete
    platform.stop(run)
    assert [entry.data.decode() for entry in read(platform, run, at_end).entries] == SEPARATORS[:1]
    assert read(platform, run, attempts.join_cursor(2, 0)).complete


def test_log_of_one_attempt_can_be_read_to_its_end(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    for number, complete in ((1, True), (2, False)):
        page = read(platform, run, attempt=number)
        assert [entry.data.decode() for entry in page.entries] == [LINES[number - 1]]
        assert page.complete is complete
        assert attempts.split_cursor(page.cursor)[0] == number
        assert read(platform, run, page.cursor, attempt=number) == LogPage([], page.cursor, complete)
        assert read(platform, run, 0, attempt=number) == page


def test_cursor_identifies_the_attempt_and_the_position(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    fail(platform, f"{run}-2")
    lines, ends = read_all(platform, run, cursor=0), list[int]()
    cursor: int | None = 0
    while len(ends) < len(lines):
        page = read(platform, run, cursor)
        ends += [entry.end for entry in page.entries]
        assert page.cursor == page.entries[-1].end
        cursor = page.cursor
    assert ends == sorted(set(ends))
    for index, cursor in enumerate(ends, start=1):
        assert read_all(platform, run, cursor) == lines[index:]


@pytest.mark.parametrize("cursor", [-1, 999, attempts.join_cursor(2, 0), attempts.join_cursor(3, 5), 2**62])
def test_unknown_cursor_is_a_violation(platform: Platform, cursor: int) -> None:
    run = begin(platform)
    with pytest.raises(RequestRejected) as caught:
        read(platform, run, cursor)
    assert rejection_rules(caught) == [("cursor", "cursor")]


def test_cursor_of_another_attempt_is_a_violation(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    with pytest.raises(RequestRejected, match="the cursor belongs to attempt 2, not to attempt 1"):
        read(platform, run, read(platform, run).cursor, attempt=1)


def test_deleted_log_is_reported_or_skipped(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    platform.executor.delete_run(run)
    with pytest.raises(NotFound, match=f"the log of run {run} has been deleted"):
        read(platform, run, attempt=1)
    assert read_all(platform, run, cursor=0) == [SEPARATORS[0], LINES[1]]
    platform.executor.end(f"{run}-2")
    platform.control().sync({run})
    platform.executor.delete_run(f"{run}-2")
    with pytest.raises(NotFound, match=f"the log of attempt 2 of run {run} has been deleted"):
        read(platform, run)


def test_run_stopped_before_its_start_has_an_empty_log(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    run = platform.submit().id
    monkeypatch.setattr(platform.executor, "start", Mock(side_effect=Unavailable("no room")))
    platform.control().sync(set())
    assert platform.state(run) == ("pending", "StartDelayed")
    platform.world.services.runs.stop(platform.world.root, run)
    platform.control().sync({run})
    assert platform.state(run)[0] == "stopped"
    assert read(platform, run) == LogPage([], 0, complete=True)


# Files, usage, and the list of attempts


def test_files_and_usage_are_those_of_the_last_or_the_requested_attempt(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run)
    executions, root = platform.world.services.executions, platform.world.root
    for attempt, execution in ((None, f"{run}-2"), (2, f"{run}-2"), (1, run)):
        assert [file.path for file in executions.files(root, run, attempt)] == ["model.bin"]
        with executions.open_file(root, run, "model.bin", attempt) as file:
            assert file.read().decode() == execution
    assert executions.usage(root, run, 1).peaks == {"mem": 1}
    assert executions.usage(root, run).peaks == {"cpu": 0.5, "mem": 1000}
    with pytest.raises(NotFound, match=f"output file 'other.bin' of attempt 2 of run {run} does not exist"):
        executions.open_file(root, run, "other.bin")


@pytest.mark.parametrize("attempt", [0, 3, 99])
def test_unknown_attempt_is_not_found(platform: Platform, attempt: int) -> None:
    run = begin(platform)
    fail(platform, run)
    executions, root = platform.world.services.executions, platform.world.root
    for operation in (
        lambda: executions.log(root, run, None, 100, attempt),
        lambda: executions.usage(root, run, attempt),
        lambda: executions.files(root, run, attempt),
        lambda: executions.open_file(root, run, "model.bin", attempt),
    ):
        with pytest.raises(NotFound, match=f"attempt {attempt} of run {run} does not exist"):
            operation()


@pytest.mark.every_store
def test_attempts_are_listed_with_the_current_one(platform: Platform) -> None:
    executions, root = platform.world.services.executions, platform.world.root
    run = begin(platform, resources={"mem": "1Gi"})
    (only,) = executions.attempts(root, run)
    assert (only.number, only.state, only.mem_bytes, only.usage) == (1, "running", 2**30, {})
    fail(platform, run, retry=False)
    first, waiting = executions.attempts(root, run)
    assert (first.number, first.state, first.reason, first.usage) == (1, "failed", "NodeLost", {"mem": 1})
    assert first.started_at is not None
    assert first.finished_at is not None
    assert (waiting.number, waiting.state, waiting.reason, waiting.started_at) == (2, "queued", "Retrying", None)
    platform.control().sync({run})
    go(platform, f"{run}-2")
    error = {"type": "ValueError"}
    platform.executor.end(f"{run}-2", Phase.FAILED, reason="DeadlineExceeded", message="too long", error=error)
    platform.control().sync({run})
    _, last = executions.attempts(root, run)
    assert (last.number, last.state, last.reason, last.error) == (2, "failed", "DeadlineExceeded", error)
    assert last.usage == {"mem": 1000}


def test_many_attempts_are_listed_in_order(platform: Platform) -> None:
    run = begin(platform, retries=11)
    for number in range(1, 12):
        fail(platform, run if number == 1 else f"{run}-{number}")
    attempts = platform.world.services.executions.attempts(platform.world.root, run)
    assert [attempt.number for attempt in attempts] == list(range(1, 13))


def test_attempts_are_visible_only_with_their_run(platform: Platform) -> None:
    run, executions = begin(platform), platform.world.services.executions
    assert executions.attempts(platform.world.grant("vic", "viewer", HOME), run)
    for call in (platform.world.grant("sam", "admin", OTHER), call_as("nobody")):
        with pytest.raises(NotFound, match=r"run .* does not exist"):
            executions.attempts(call, run)


def test_attempt_on_another_machine_is_reported_with_its_server(platform: Platform) -> None:
    run = begin(platform)
    fail(platform, run, retry=False)
    other_executor = MemoryExecutor()
    platform.control("s2", other_executor).sync(set())
    assert platform.run(run).server_id == "s2"
    platform.control("s2", other_executor).sync(set())
    assert read_all(platform, run, attempt=1) == LINES[:1]
    with pytest.raises(Conflict, match=f"attempt 2 of run {run} belongs to host-s2 at http://s2"):
        read(platform, run)
    services = platform.world.services
    other_server = Executions(services.units, services.executions.executors, "s2")
    with pytest.raises(Conflict, match=f"attempt 1 of run {run} belongs to host-s1"):
        other_server.files(platform.world.root, run, 1)


def test_nodes_show_the_run_id_of_a_later_attempt(platform: Platform) -> None:
    run = begin(platform, resources={"cpu": 6})
    fail(platform, run)
    (node,) = platform.world.services.executions.nodes(platform.world.root, "here")
    assert node.runs == [run]


# Uploads by attempts


def call_of(platform: Platform, execution: str) -> Call:
    """A call with an attempt's token."""
    return Call(bearer=seal_run_token(platform.world.keyring, execution))


def test_token_of_an_attempt_expires_with_it(platform: Platform) -> None:
    platform.world.services.stored_code.put(platform.world.root, HOME, DIGEST, CODE)
    run = begin(platform, function={**PYTHON, "code": DIGEST})
    first, second = call_of(platform, run), call_of(platform, f"{run}-2")
    put(platform, first, run, "output/a", b"first")
    with pytest.raises(Unauthenticated):
        put(platform, second, run, "output/a")  # the second attempt has not started yet
    fail(platform, run, retry=False)
    for call in (first, second):
        with pytest.raises(Unauthenticated):
            put(platform, call, run, "output/b")
    platform.control().sync({run})
    with pytest.raises(Unauthenticated) as caught:
        put(platform, first, run, "output/b")
    assert f"attempt 1 of run {run} has ended" in error_text(caught)
    with pytest.raises(Unauthenticated):
        platform.world.services.run_uploads.code(first, run)
    assert platform.world.services.run_uploads.code(second, run) == CODE
    put(platform, second, run, "output/a", b"second")
    assert (stored_files(platform, run), stored_files(platform, f"{run}-2")) == (
        {"output/a": b"first"},
        {"output/a": b"second"},
    )


@pytest.mark.every_store
def test_files_are_deleted_with_their_run_or_with_one_attempt(platform: Platform) -> None:
    store, now = platform.world.store, platform.world.clock()
    run, other = begin(platform), begin(platform)
    executions = [run, f"{run}-2", f"{run}-20", other]
    for execution in executions:
        with store.recording() as tx:
            save_file(tx, execution, "output/a", execution.encode(), now)
    assert [stored_files(platform, execution) for execution in executions] == [
        {"output/a": execution.encode()} for execution in executions
    ]
    platform.executor.end(run)
    platform.control().sync({run})
    platform.world.services.runs.delete(platform.world.root, run)
    with store.reading() as tx:
        assert [file.run_id for file in tx.find(RunFileRecord)] == [other]
