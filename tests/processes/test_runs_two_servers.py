"""Two servers on one PostgreSQL database share their runs. Each run stays on the server that started it."""

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fairlead.errors import Conflict
from fairlead.sdk.api_client import ApiClient
from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, until, wait_for_all, wait_for_end, wait_for_state
from tests.processes.machines import Machine

Pair = tuple[Platform, Platform]
VARIABLES = {"FAIRLEAD_CAPACITY": "cpu=64,runs=3"}


@pytest.fixture
def pair(machine: Machine, postgresql_url: str) -> Iterator[Pair]:
    """Two servers with capacity for three runs each."""
    with execution.open_platform(machine, "--database", postgresql_url, variables=VARIABLES) as first:
        keys = (first.server.data / "secret.key").read_text().split()[0]
        variables = VARIABLES | {"FAIRLEAD_SECRET_KEYS": keys}
        second = machine.up("--database", postgresql_url, data="other", variables=variables)
        yield first, replace(first, server=second)


def server_of(run: Run) -> str:
    """The server that executes a run."""
    return str(run.refresh().data["server_id"])


def test_two_servers_share_twenty_runs_and_each_runs_once(pair: Pair) -> None:
    executions = pair[0].file("executions")
    runs = [pair[index % 2].shell(f"sleep 0.3; echo $FAIRLEAD_RUN >> {executions}") for index in range(20)]
    assert [run["state"] for run in wait_for_all(runs, 60)] == ["completed"] * 20
    assert Counter(executions.read_text().split()) == Counter(run.id for run in runs)
    shares = Counter(map(server_of, runs))
    assert len(shares) == 2
    assert min(shares.values()) >= 3


def test_run_is_stopped_by_either_server_and_logs_name_the_executing_server(pair: Pair) -> None:
    runs = [pair[0].shell("echo up; sleep 60") for _ in range(6)]
    for run in runs:
        wait_for_state(run, "running")
    remote_run = next(run for run in runs if server_of(run) != server_of(runs[0]))
    runs_of_server = [run for run in runs if server_of(run) == server_of(remote_run)]
    other = pair[0] if not (pair[0].server.data / "runs" / remote_run.id).exists() else pair[1]
    with pytest.raises(Conflict, match=f"run {remote_run.id} belongs to .* at http://127.0.0.1:"):
        Run(other.project.api, remote_run.data).logs()
    for run in runs:
        Run(other.project.api, run.data).stop()
    assert {run["state"] for run in wait_for_all(runs)} == {"stopped"}
    assert len(runs_of_server) == 3
    until(lambda: not any(find_processes(run.id) for run in runs), 5)


def test_runs_of_a_killed_server_finish_after_it_restarts(pair: Pair, machine: Machine, postgresql_url: str) -> None:
    first, second = pair
    executions = first.file("executions")
    text = f"echo $FAIRLEAD_RUN >> {executions}; until [ -e {first.shared}/go ]; do sleep 0.05; done"
    runs = [first.shell(text) for _ in range(6)]
    for run in runs:
        wait_for_state(run, "running")
    affected = [run for run in runs if first.folder_of(run).exists()]
    unaffected = [run for run in runs if run not in affected]
    assert len(affected) == len(unaffected) == 3
    first.server.stop(signal.SIGKILL)
    (first.shared / "go").touch()
    client = ApiClient(second.server.url, second.server.token)
    assert [wait_for_end(Run(client, run.data))["state"] for run in unaffected] == ["completed"] * 3
    until(lambda: not any(find_processes(run.id) for run in affected))
    assert {str(Run(client, run.data).state) for run in affected} == {"running"}
    machine.up("--database", postgresql_url, variables=VARIABLES)
    assert [wait_for_end(Run(client, run.data))["state"] for run in affected] == ["completed"] * 3
    assert Counter(executions.read_text().split()) == Counter(run.id for run in runs)


def test_invalid_text_from_a_run_does_not_block_other_runs(pair: Pair) -> None:
    platform = pair[0]
    runs = [
        platform.shell("printf 'a\\0b' >&2; exit 3"),
        platform.python("def f(): return 'a\\0b'", "f"),
        platform.python("def f(): return {'a\\0': ['\\0']}", "f"),
        platform.python("def f(): return '\\ud800'", "f"),
        platform.python("def f(): return 10 ** 400", "f"),
        platform.python("def f(): raise ValueError('a\\0b \\ud800')", "f"),
        platform.shell(
            """printf '{"kind": "json", "value": [NaN, "\\\\u0000", 1e999]}' > $FAIRLEAD_HOME/result.json"""
        ),
        platform.shell("printf 'a\\0b' >&2; kill -9 $$"),
    ]
    assert {wait_for_end(run)["state"] for run in runs} <= {"completed", "failed"}
    for run in runs:
        assert platform.project.api.get(f"/runs/{run.id}/result")["state"] in ("completed", "failed")
    assert wait_for_end(platform.shell("true"))["state"] == "completed"
