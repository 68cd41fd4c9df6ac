"""The executor contract: start each run once, observe it, stop it, and delete its data on request."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.errors import NotFound, Unavailable
from fairlead.model.runs import Phase
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
    find_scheduled_pods,
    read_all,
)
from tests.databases import wait_until
from tests.scheduling.nodes import make_amounts

SHARED = {"name": "data", "volume_type": "shared_volume", "mount_path": "/data", "spec": {"claim_name": "sets"}}


@pytest.fixture(params=["memory", "local"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """An executor of every kind in turn, without any runs."""
    new_bench: Bench = MemoryBench()
    if request.param == "local":
        new_bench = LocalBench(tmp_path, this_machine())
    yield new_bench
    new_bench.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_run_that_was_never_started_has_no_data(bench: Bench) -> None:
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


def test_a_started_run_is_observed_immediately(bench: Bench) -> None:
    """Otherwise a run that is stopped at that moment would count as never started, and would continue."""
    bench.start("r1", WAITS)
    observation = bench.executor.observe("r1")
    assert observation is not None
    assert observation.phase in (Phase.PENDING, Phase.STARTING, Phase.RUNNING)
    assert bench.executor.list_runs() == ["r1"]


def test_a_run_that_returns_succeeds_with_its_result(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    observation = bench.until("r1", *ENDED)
    assert (observation.phase, observation.exit_code, observation.stopped, observation.error) == (
        Phase.SUCCEEDED,
        0,
        False,
        None,
    ), observation
    assert observation.result is not None
    assert observation.result["value"] == {"n": 7}
    assert observation.started_at is not None
    assert observation.finished_at is not None
    assert observation.started_at <= observation.finished_at
    assert not bench.measures_usage or observation.usage["mem"] > 0


def test_a_run_that_raises_fails_with_its_error(bench: Bench) -> None:
    bench.start("r1", FAILS)
    observation = bench.until("r1", *ENDED)
    assert (observation.phase, observation.reason, observation.exit_code, observation.stopped) == (
        Phase.FAILED,
        "ExitCode",
        1,
        False,
    )
    assert observation.message == "ValueError: bad"
    assert observation.error is not None
    assert "ValueError" in observation.error["traceback"]
    assert observation.result is None


def test_start_is_idempotent(bench: Bench) -> None:
    launch = bench.start("r1", RETURNS)
    bench.executor.start(launch)
    bench.until("r1", *ENDED)
    bench.executor.start(launch)
    bench.executor.clean_up("r1")
    bench.executor.start(launch)
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    assert read_all(bench.executor, "r1") == bench.output
    with bench.executor.open_file("r1", "model.bin") as file:
        assert file.read() == b"once"


def test_start_is_idempotent_across_servers(bench: Bench) -> None:
    launch = bench.start("r1", RETURNS)
    other = bench.another_executor()
    other.start(launch)
    bench.until("r1", *ENDED)
    bench.another_executor().start(launch)
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    assert read_all(other, "r1") == bench.output
    wait_until(lambda: (observation := other.observe("r1")) is not None and observation.phase is Phase.SUCCEEDED)


def test_stop_is_idempotent_and_observed(bench: Bench) -> None:
    bench.start("r1", WAITS)
    assert bench.until("r1", Phase.RUNNING).phase is Phase.RUNNING
    bench.executor.stop("r1")
    bench.executor.stop("r1")
    observation = bench.until("r1", *ENDED)
    assert (observation.phase, observation.stopped) == (Phase.FAILED, True)
    bench.executor.stop("r1")
    assert bench.executor.observe("r1") == observation


def test_a_run_stopped_while_starting_does_not_run(bench: Bench) -> None:
    launch = bench.start("r1", RETURNS)
    bench.executor.stop("r1")

    def has_ended() -> bool:
        observation = bench.executor.observe("r1")
        return observation is None or (observation.phase is Phase.FAILED and observation.stopped)

    wait_until(has_ended)
    assert bench.executor.list_files("r1") == []
    wait_until(lambda: not find_scheduled_pods(bench.executor))
    assert launch.execution_id == "r1"


def test_stopping_an_ended_run_changes_nothing(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    before = bench.until("r1", *ENDED)
    bench.executor.stop("r1")
    assert bench.executor.observe("r1") == before


def test_the_log_is_read_in_pages_and_complete_at_its_end(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    bench.until("r1", *ENDED)
    assert read_all(bench.executor, "r1", max_bytes=1) == bench.output
    complete = bench.executor.read_log("r1", 0, 1 << 20)
    assert complete.complete
    assert complete.entries[-1].end == complete.cursor
    first = bench.executor.read_log("r1", 0, 1)
    assert (first.complete, first.entries) == (False, complete.entries[:1])
    assert bench.executor.read_log("r1", first.cursor, 1 << 20).entries == complete.entries[1:]
    assert bench.executor.read_log("r1", complete.cursor, 100) == type(complete)([], complete.cursor, complete=True)


def test_the_log_of_a_running_run_is_not_complete(bench: Bench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    wait_until(lambda: bool(bench.executor.read_log("r1", 0, 100).entries))
    page = bench.executor.read_log("r1", 0, 100)
    assert ([entry.data for entry in page.entries], page.complete) == ([b"up\n"], False)
    assert bench.executor.read_log("r1", page.cursor, 100) == type(page)([], page.cursor, complete=False)


@pytest.mark.parametrize("cursor", [-1, 1 << 40])
def test_invalid_cursors_are_rejected(bench: Bench, cursor: int) -> None:
    bench.start("r1", RETURNS)
    bench.until("r1", *ENDED)
    with pytest.raises(ValueError, match="log"):
        bench.executor.read_log("r1", cursor, 100)


def test_output_files_are_listed_and_read(bench: Bench) -> None:
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


def test_clean_up_keeps_outcome_log_and_files(bench: Bench) -> None:
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


def test_deleting_a_run_removes_all_its_data(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    bench.start("r2", FAILS)
    bench.until("r1", *ENDED)
    other = bench.until("r2", *ENDED)
    for _ in range(2):
        bench.executor.delete_run("r1")
    assert bench.executor.observe("r1") is None
    assert bench.executor.list_runs() == ["r2"]
    assert bench.executor.list_files("r1") == []
    with pytest.raises(NotFound):
        bench.executor.read_log("r1", 0, 100)
    assert bench.executor.observe("r2") == other


def test_a_run_uses_its_resources_until_it_ends(bench: Bench) -> None:
    assert not find_scheduled_pods(bench.executor)
    launch = bench.start("r1", WAITS, resources={"cpu": "500m", "mem": "64Mi"})
    wait_until(lambda: bool(find_scheduled_pods(bench.executor)))
    (pod,) = find_scheduled_pods(bench.executor)
    assert (pod.run_id, pod.name, pod.project_id) == ("r1", launch.name, "id-forest")
    assert pod.amounts == make_amounts(cpu="500m", mem="64Mi", pods=1)
    bench.until("r1", Phase.RUNNING)
    bench.executor.stop("r1")
    bench.until("r1", *ENDED)
    wait_until(lambda: not find_scheduled_pods(bench.executor))


def test_attempts_of_a_run_are_separate_and_share_its_run_id(bench: Bench) -> None:
    bench.start("r1", FAILS)
    first = bench.until("r1", *ENDED)
    bench.start("r1-2", WAITS, resources={"cpu": 1})
    assert bench.until("r1-2", Phase.RUNNING).phase is Phase.RUNNING
    assert bench.executor.list_runs() == ["r1", "r1-2"]
    assert [pod.run_id for pod in find_scheduled_pods(bench.executor)] == ["r1"]
    assert bench.executor.observe("r1") == first
    wait_until(lambda: read_all(bench.executor, "r1-2")["stdout"] == b"up\n")
    assert b"up" not in read_all(bench.executor, "r1")["stdout"]
    bench.executor.delete_run("r1")
    observation = bench.executor.observe("r1-2")
    assert observation is not None
    assert observation.phase is Phase.RUNNING


def test_another_executor_on_the_same_machine_takes_over_runs(bench: Bench) -> None:
    bench.start("r1", WAITS, resources={"cpu": 1})
    bench.until("r1", Phase.RUNNING)
    other = bench.another_executor()
    observation = other.observe("r1")
    assert observation is not None
    assert observation.phase is Phase.RUNNING
    assert [pod.run_id for pod in find_scheduled_pods(other)] == ["r1"]
    wait_until(lambda: read_all(other, "r1")["stdout"] == b"up\n")
    other.stop("r1")
    wait_until(lambda: (ended := other.observe("r1")) is not None and ended.stopped)
    wait_until(lambda: clean_up(other, "r1"))
    wait_until(lambda: not find_scheduled_pods(other))
    assert bench.until("r1", *ENDED).stopped


def test_another_executor_observes_the_same_outcome(bench: Bench) -> None:
    bench.start("r1", RETURNS)
    observation = bench.until("r1", *ENDED)
    other = bench.another_executor()
    assert other.observe("r1") == observation
    wait_until(lambda: not find_scheduled_pods(other))


def test_start_failures_are_observed(bench: Bench) -> None:
    bench.start("r1", RETURNS, volumes=[SHARED])
    observation = bench.until("r1", *ENDED)
    assert (observation.phase, observation.reason, observation.stopped) == (Phase.FAILED, "StartFailed", False)
    assert "sets" in observation.message
    assert bench.executor.read_log("r1", 0, 100).complete
    wait_until(lambda: not find_scheduled_pods(bench.executor))


def test_a_shared_volume_exists_until_it_is_removed(bench: Bench) -> None:
    assert bench.executor.list_volumes() == []
    bench.start("r1", RETURNS, volumes=[SHARED], shared={"sets": "v1"})
    bench.until("r1", *ENDED)
    bench.executor.delete_run("r1")
    assert bench.executor.list_volumes() == ["v1"]
    for _ in range(2):
        bench.executor.remove_volume("v1")
    assert bench.executor.list_volumes() == []


def test_a_job_has_no_endpoint(bench: Bench) -> None:
    bench.start("r1", WAITS)
    bench.until("r1", Phase.RUNNING)
    with pytest.raises(NotFound):
        bench.executor.find_endpoint("r1")


def test_a_served_run_has_an_endpoint_until_it_is_stopped(bench: Bench) -> None:
    bench.start("r1", SERVES, action="serve")
    with contextlib.suppress(Unavailable):
        bench.executor.find_endpoint("r1")
    observation = bench.until("r1", Phase.RUNNING)
    assert (observation.phase, observation.reason) == (Phase.RUNNING, "Ready")
    assert observation.started_at is not None
    assert bench.executor.find_endpoint("r1").url.startswith("http")
    bench.executor.stop("r1")
    wait_until(lambda: (ended := bench.executor.observe("r1")) is not None and ended.stopped, seconds=60)
    with pytest.raises(NotFound):
        bench.executor.find_endpoint("r1")


def test_secrets_are_not_in_the_log(bench: Bench) -> None:
    program = "import os\ndef main():\n    print(os.environ['TOKEN'])\n    print(os.environ['TOKEN'][:3])\n"
    bench.start("r1", program, secrets={"TOKEN": "hunter2"})
    assert bench.until("r1", *ENDED).phase is Phase.SUCCEEDED
    log = read_all(bench.executor, "r1")
    assert b"***" in log["stdout"]
    assert b"hunter2" not in b"".join(log.values())


def test_checks_have_messages_and_hints(bench: Bench) -> None:
    checks = bench.executor.check(["forest"])
    assert "ok" in [check.state for check in checks]
    assert [check for check in checks if not check.message or (check.state != "ok" and not check.hint)] == []


def clean_up(executor: Executor, run_id: str) -> bool:
    """Whether cleanup is done: an executor raises `Unavailable` while the log is still being read."""
    try:
        executor.clean_up(run_id)
    except Unavailable:
        return False
    return True
