"""The contract of executors: start each run once, observe it, stop it, and delete its data on request."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.errors import NotFound, Unavailable
from fairlead.model.observations import Phase
from fairlead.ports import Executor
from tests.adapters.local.making import this_machine
from tests.contracts.executors import (
    ENDED,
    FAILS,
    RETURNS,
    SERVES,
    WAITS,
    Bench,
    LocalBench,
    MemoryBench,
    find_holdings,
    read_all,
)
from tests.core.nodes import make_amounts
from tests.databases import wait_until

SHARED = {"name": "data", "volume_type": "shared_volume", "mount_path": "/data", "spec": {"claim_name": "sets"}}


@pytest.fixture(params=["memory", "local"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """An executor of every kind in turn, without any runs."""
    made: Bench = MemoryBench()
    if request.param == "local":
        made = LocalBench(tmp_path, this_machine())
    yield made
    made.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_nothing_is_there_of_a_run_that_was_never_started(bench: Bench) -> None:
    executor = bench.executor
    for change in (executor.stop, executor.clean_up, executor.delete_run):
        change("none")
    assert executor.observe("none") is None
    assert executor.list_runs() == []
    assert executor.list_files("none") == []
    assert executor.read_usage("none") == []
    with pytest.raises(NotFound):
        executor.read_log("none", 0, 100)
    with pytest.raises(NotFound):
        executor.open_file("none", "model.bin")
    with pytest.raises(NotFound):
        executor.find_endpoint("none")


def test_what_was_started_is_seen_at_once(bench: Bench) -> None:
    """Otherwise a run that is stopped at that moment would be taken for one that never was, and go on."""
    bench.start("r1", WAITS)
    seen = bench.executor.observe("r1")
    assert seen is not None
    assert seen.phase in (Phase.PENDING, Phase.STARTING, Phase.RUNNING)
    assert bench.executor.list_runs() == ["r1"]


def test_a_run_that_returns_has_succeeded_with_what_it_returned(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    seen = bench.until("r1", *ENDED)
    assert (seen.phase, seen.exit_code, seen.stopped, seen.error) == (Phase.SUCCEEDED, 0, False, None), seen
    assert seen.result is not None
    assert seen.result["value"] == {"n": 7}
    assert seen.started_at is not None
    assert seen.finished_at is not None
    assert seen.started_at <= seen.finished_at
    assert not bench.measures or seen.usage["mem"] > 0


def test_a_run_that_raises_has_failed_with_what_it_raised(bench: Bench) -> None:
    bench.start("r1", FAILS)
    seen = bench.until("r1", *ENDED)
    assert (seen.phase, seen.reason, seen.exit_code, seen.stopped) == (Phase.FAILED, "ExitCode", 1, False)
    assert seen.message == "ValueError: bad"
    assert seen.error is not None
    assert "ValueError" in seen.error["traceback"]
    assert seen.result is None


def test_nothing_starts_twice(bench: Bench) -> None:
    work = bench.start("r1", RETURNS)
    bench.executor.start(work)
    bench.until("r1", *ENDED)
    bench.executor.start(work)
    bench.executor.clean_up("r1")
    bench.executor.start(work)
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    assert read_all(bench.executor, "r1") == bench.said
    with bench.executor.open_file("r1", "model.bin") as file:
        assert file.read() == b"once"


def test_nothing_starts_twice_when_the_server_is_another(bench: Bench) -> None:
    work = bench.start("r1", RETURNS)
    other = bench.again()
    other.start(work)
    bench.until("r1", *ENDED)
    bench.again().start(work)
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    assert read_all(other, "r1") == bench.said
    wait_until(lambda: (seen := other.observe("r1")) is not None and seen.phase is Phase.SUCCEEDED)


def test_a_run_is_stopped_and_that_is_told_however_often_it_is_said(bench: Bench) -> None:
    bench.start("r1", WAITS)
    assert bench.until("r1", Phase.RUNNING).phase is Phase.RUNNING
    bench.executor.stop("r1")
    bench.executor.stop("r1")
    seen = bench.until("r1", *ENDED)
    assert (seen.phase, seen.stopped) == (Phase.FAILED, True)
    bench.executor.stop("r1")
    assert bench.executor.observe("r1") == seen


def test_a_run_that_is_stopped_while_it_starts_does_not_go_on(bench: Bench) -> None:
    work = bench.start("r1", RETURNS)
    bench.executor.stop("r1")

    def over() -> bool:
        seen = bench.executor.observe("r1")
        return seen is None or (seen.phase is Phase.FAILED and seen.stopped)

    wait_until(over)
    assert bench.executor.list_files("r1") == []
    wait_until(lambda: not find_holdings(bench.executor))
    assert work.run_id == "r1"


def test_a_run_that_has_ended_cannot_be_stopped(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    before = bench.until("r1", *ENDED)
    bench.executor.stop("r1")
    assert bench.executor.observe("r1") == before


def test_the_log_is_read_page_by_page_and_complete_at_its_end(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    bench.until("r1", *ENDED)
    assert read_all(bench.executor, "r1", max_bytes=1) == bench.said
    whole = bench.executor.read_log("r1", 0, 1 << 20)
    assert whole.complete
    assert whole.entries[-1].end == whole.cursor
    first = bench.executor.read_log("r1", 0, 1)
    assert (first.complete, first.entries) == (False, whole.entries[:1])
    assert bench.executor.read_log("r1", first.cursor, 1 << 20).entries == whole.entries[1:]
    assert bench.executor.read_log("r1", whole.cursor, 100) == type(whole)([], whole.cursor, complete=True)


def test_the_log_of_a_run_that_goes_on_is_not_complete(bench: Bench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    wait_until(lambda: bool(bench.executor.read_log("r1", 0, 100).entries))
    page = bench.executor.read_log("r1", 0, 100)
    assert ([entry.data for entry in page.entries], page.complete) == ([b"up\n"], False)
    assert bench.executor.read_log("r1", page.cursor, 100) == type(page)([], page.cursor, complete=False)


@pytest.mark.parametrize("cursor", [-1, 1 << 40])
def test_a_cursor_that_no_page_gave_out_is_refused(bench: Bench, cursor: int) -> None:
    bench.start("r1", RETURNS)
    bench.until("r1", *ENDED)
    with pytest.raises(ValueError, match="log"):
        bench.executor.read_log("r1", cursor, 100)


def test_the_files_that_a_run_left_are_listed_and_read(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    bench.until("r1", *ENDED)
    assert [(file.path, file.size) for file in bench.executor.list_files("r1")] == [
        ("deep/notes.txt", 4),
        ("model.bin", 4),
    ]
    with bench.executor.open_file("r1", "deep/notes.txt") as file:
        assert file.read() == b"once"
    for path in ("none", "deep", "../../spec.json", "/etc/passwd", ""):
        with pytest.raises(NotFound):
            bench.executor.open_file("r1", path)


def test_what_is_tidied_keeps_how_it_ended_and_its_log_and_files(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    before = bench.until("r1", *ENDED)
    files, log = bench.executor.list_files("r1"), read_all(bench.executor, "r1")
    usage = bench.executor.read_usage("r1")
    for _ in range(2):
        bench.executor.clean_up("r1")
    assert bench.executor.observe("r1") == before
    assert bench.executor.list_files("r1") == files
    assert read_all(bench.executor, "r1") == log
    assert bench.executor.read_usage("r1") == usage


def test_what_is_forgotten_leaves_nothing(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    bench.start("r2", FAILS)
    bench.until("r1", *ENDED)
    kept = bench.until("r2", *ENDED)
    for _ in range(2):
        bench.executor.delete_run("r1")
    assert bench.executor.observe("r1") is None
    assert bench.executor.list_runs() == ["r2"]
    assert bench.executor.list_files("r1") == []
    with pytest.raises(NotFound):
        bench.executor.read_log("r1", 0, 100)
    assert bench.executor.observe("r2") == kept


def test_a_run_holds_what_it_asked_for_until_it_has_ended(bench: Bench) -> None:
    assert not find_holdings(bench.executor)
    work = bench.start("r1", WAITS, resources={"cpu": "500m", "mem": "64Mi"})
    wait_until(lambda: bool(find_holdings(bench.executor)))
    (holding,) = find_holdings(bench.executor)
    assert (holding.run_id, holding.name, holding.project) == ("r1", work.name, "forest")
    assert holding.amounts == make_amounts(cpu="500m", mem="64Mi", pods=1)
    bench.until("r1", Phase.RUNNING)
    bench.executor.stop("r1")
    bench.until("r1", *ENDED)
    wait_until(lambda: not find_holdings(bench.executor))


def test_tries_of_a_run_are_apart_and_what_the_last_one_holds_is_held_by_the_run(bench: Bench) -> None:
    bench.start("r1", FAILS)
    first = bench.until("r1", *ENDED)
    bench.start("r1-2", WAITS, resources={"cpu": 1})
    assert bench.until("r1-2", Phase.RUNNING).phase is Phase.RUNNING
    assert bench.executor.list_runs() == ["r1", "r1-2"]
    assert [holding.run_id for holding in find_holdings(bench.executor)] == ["r1"]
    assert bench.executor.observe("r1") == first
    wait_until(lambda: read_all(bench.executor, "r1-2")["stdout"] == b"up\n")
    assert b"up" not in read_all(bench.executor, "r1")["stdout"]
    bench.executor.delete_run("r1")
    seen = bench.executor.observe("r1-2")
    assert seen is not None
    assert seen.phase is Phase.RUNNING


def test_another_executor_on_the_same_machine_takes_over_what_runs(bench: Bench) -> None:
    bench.start("r1", WAITS, resources={"cpu": 1})
    bench.until("r1", Phase.RUNNING)
    other = bench.again()
    seen = other.observe("r1")
    assert seen is not None
    assert seen.phase is Phase.RUNNING
    assert [holding.run_id for holding in find_holdings(other)] == ["r1"]
    wait_until(lambda: read_all(other, "r1")["stdout"] == b"up\n")
    other.stop("r1")
    wait_until(lambda: (ended := other.observe("r1")) is not None and ended.stopped)
    wait_until(lambda: clean_up(other, "r1"))
    wait_until(lambda: not find_holdings(other))
    assert bench.until("r1", *ENDED).stopped


def test_another_executor_sees_how_a_run_ended(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    seen = bench.until("r1", *ENDED)
    other = bench.again()
    assert other.observe("r1") == seen
    wait_until(lambda: not find_holdings(other))


def test_what_keeps_a_run_from_starting_is_seen(bench: Bench) -> None:
    bench.start("r1", RETURNS, volumes=[SHARED])
    seen = bench.until("r1", *ENDED)
    assert (seen.phase, seen.reason, seen.stopped) == (Phase.FAILED, "StartFailed", False)
    assert "sets" in seen.message
    assert bench.executor.read_log("r1", 0, 100).complete
    wait_until(lambda: not find_holdings(bench.executor))


def test_a_shared_volume_is_there_until_it_is_removed(bench: Bench) -> None:
    assert bench.executor.list_volumes() == []
    bench.start("r1", RETURNS, volumes=[SHARED], shared={"sets": "v1"})
    bench.until("r1", *ENDED)
    bench.executor.delete_run("r1")
    assert bench.executor.list_volumes() == ["v1"]
    for _ in range(2):
        bench.executor.remove_volume("v1")
    assert bench.executor.list_volumes() == []


def test_what_serves_nothing_cannot_be_reached(bench: Bench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    with pytest.raises(NotFound):
        bench.executor.find_endpoint("r1")


def test_what_serves_is_ready_once_it_can_be_reached_until_it_is_stopped(bench: Bench) -> None:
    bench.start("r1", SERVES, action="serve")
    with contextlib.suppress(Unavailable):
        bench.executor.find_endpoint("r1")
    seen = bench.until("r1", Phase.RUNNING)
    assert (seen.phase, seen.reason) == (Phase.RUNNING, "Ready")
    assert seen.started_at is not None
    assert bench.executor.find_endpoint("r1").url.startswith("http")
    bench.executor.stop("r1")
    wait_until(lambda: (ended := bench.executor.observe("r1")) is not None and ended.stopped, seconds=60)
    with pytest.raises(NotFound):
        bench.executor.find_endpoint("r1")


def test_secrets_are_not_in_the_log(bench: Bench) -> None:
    tells = "import os\ndef main():\n    print(os.environ['TOKEN'])\n    print(os.environ['TOKEN'][:3])\n"
    bench.start("r1", tells, secrets={"TOKEN": "hunter2"})
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    log = read_all(bench.executor, "r1")
    assert b"***" in log["stdout"]
    assert b"hunter2" not in b"".join(log.values())


def test_what_is_there_is_told_in_words(bench: Bench) -> None:
    checks = bench.executor.check(["forest"])
    assert "ok" in [check.state for check in checks]
    assert [check for check in checks if not check.message or (check.state != "ok" and not check.hint)] == []


def clean_up(executor: Executor, run_id: str) -> bool:
    """Whether all is tidied up after a run: an executor raises `Unavailable` as long as the log is still being read."""
    try:
        executor.clean_up(run_id)
    except Unavailable:
        return False
    return True
