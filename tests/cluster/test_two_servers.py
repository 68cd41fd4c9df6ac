"""Several servers on one cluster: servers on one platform share its runs, and platforms do not affect each other."""

import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from fairlead.adapters.database.tables import servers
from fairlead.controllers.run_state import LEASE
from tests.cluster.clients import Client, until
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform
from tests.cluster.proxies import Proxy
from tests.cluster.trials import Trial
from tests.processes.machines import Machine

Pair = tuple[Platform, Platform]


@pytest.fixture
def pair(
    machine: Machine,
    control_plane: ControlPlane,
    kubelet: FakeKubelet,
    admin: Client,
    proxy: Proxy,
    postgresql_url: str,
) -> Pair:
    """Two servers on one database."""
    kubeconfig = proxy.write_kubeconfig(machine.folder / "proxy.kubeconfig")
    first = Platform(machine, control_plane, admin, kubeconfig, "--database", postgresql_url)
    return first, first.join()


def expire_lease(url: str, server: Platform) -> None:
    """Backdate a server's last heartbeat so that its lease has expired."""
    long_ago = datetime.now(UTC) - 2 * LEASE
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.update(servers).where(servers.c.url == server.server.url).values(seen_at=long_ago))


def test_two_servers_share_twenty_runs_and_each_runs_once(pair: Pair, tmp_path: Path) -> None:
    executions = tmp_path / "executions"
    runs = [pair[index % 2].shell(f"echo $FAIRLEAD_RUN >> {executions}") for index in range(20)]
    for run in runs:
        assert pair[0].until(run, "completed", "failed")["state"] == "completed"
    assert Counter(executions.read_text("utf-8").split()) == Counter(run.id for run in runs)
    assert len(pair[0].objects("jobs", "/apis/batch/v1")) == 20
    assert len({pair[0].get_run(run)["server_id"] for run in runs}) == 2


def test_runs_of_a_killed_server_are_finished_by_the_other(
    pair: Pair, proxy: Proxy, tmp_path: Path, postgresql_url: str
) -> None:
    first, second = pair
    executions, go = tmp_path / "executions", tmp_path / "go"
    running = [
        first.shell(f"echo $FAIRLEAD_RUN >> {executions}; until [ -e {go} ]; do sleep 0.05; done") for _ in range(5)
    ]
    for run in running:
        first.until(run, "running")
    trial = Trial(first)
    fault = trial.make_kill_fault("POST", "/{}/secrets", "after")
    with proxy.injecting(fault):
        starting = trial.submit()
        first.server.process.wait()
    assert fault.hits == 1
    go.touch()
    affected = {
        run.id
        for run in (*running, starting)
        if second.get_run(run)["server_id"] == second.get_run(starting)["server_id"]
    }
    assert len(affected) > 1
    expire_lease(postgresql_url, first)
    for run in (*running, starting):
        assert second.until(run, "completed", "failed")["state"] == "completed"
    assert Counter(executions.read_text("utf-8").split()) == Counter(run.id for run in running)
    first.restart()
    trial.check_all(starting)


def test_frozen_server_repeats_nothing_after_another_took_over_its_runs(
    pair: Pair, proxy: Proxy, postgresql_url: str
) -> None:
    first, second = pair
    trial = Trial(first)
    freeze_fault = trial.make_kill_fault("POST", "/{}/secrets", "before", signal.SIGSTOP)
    with proxy.injecting(freeze_fault):
        run = trial.submit()
        until(lambda: freeze_fault.hits)
    expire_lease(postgresql_url, first)
    assert second.until(run, "completed", "failed")["state"] == "completed"
    first.server.process.send(signal.SIGCONT)
    until(
        lambda: proxy.count("PATCH", f"/namespaces/{trial.namespace}/jobs/") == 2
    )  # both servers have released the Job
    assert first.get_run(run)["state"] == "completed"
    trial.check_all(run)


def test_platforms_on_one_cluster_do_not_touch_runs_of_each_other(
    machine: Machine, shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client
) -> None:
    first, second = Platform(machine, control_plane, admin), Platform(shared_machine, control_plane, admin)
    trials = [Trial(platform) for platform in (first, second) for _ in range(5)]
    runs = [trial.submit() for trial in trials]
    for trial, run in zip(trials, runs, strict=True):
        trial.wait_for_result(run)
    first.restart()  # it lists all objects again and removes orphans
    for trial, run in zip(trials, runs, strict=True):
        assert trial.read_log(run) == "started\n"
        trial.check_all(run)
