"""Several servers and one cluster: those of one platform share its runs, those of two leave each other's alone."""

import signal
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from fairlead.adapters.database.tables import servers
from fairlead.controllers.runs import LEASE
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


def silence(url: str, server: Platform) -> None:
    """Make it so that a server was last heard of before its lease ended."""
    long_ago = datetime.now(UTC) - 2 * LEASE
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.execute(sa.update(servers).where(servers.c.url == server.server.url).values(seen_at=long_ago))


def test_two_servers_share_twenty_runs_and_each_runs_once(pair: Pair, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    runs = [pair[index % 2].shell(f"echo $FAIRLEAD_RUN >> {ran}") for index in range(20)]
    for run in runs:
        assert pair[0].until(run, "completed", "failed")["state"] == "completed"
    assert Counter(ran.read_text("utf-8").split()) == Counter(run.id for run in runs)
    assert len(pair[0].objects("jobs", "/apis/batch/v1")) == 20
    assert len({pair[0].show(run)["server_id"] for run in runs}) == 2


def test_runs_of_a_killed_server_are_finished_by_the_other(
    pair: Pair, proxy: Proxy, tmp_path: Path, postgresql_url: str
) -> None:
    first, second = pair
    ran, go = tmp_path / "ran", tmp_path / "go"
    running = [first.shell(f"echo $FAIRLEAD_RUN >> {ran}; until [ -e {go} ]; do sleep 0.05; done") for _ in range(5)]
    for run in running:
        first.until(run, "running")
    trial = Trial(first)
    fault = trial.killing("POST", "/{}/secrets", "after")
    with proxy.doing(fault):
        begun = trial.submit()
        first.server.process.wait()
    assert fault.befell == 1
    go.touch()
    lost = {run.id for run in (*running, begun) if second.show(run)["server_id"] == second.show(begun)["server_id"]}
    assert len(lost) > 1
    silence(postgresql_url, first)
    for run in (*running, begun):
        assert second.until(run, "completed", "failed")["state"] == "completed"
    assert Counter(ran.read_text("utf-8").split()) == Counter(run.id for run in running)
    first.restart()
    trial.check_all(begun)


def test_frozen_server_repeats_nothing_after_another_took_over_its_runs(
    pair: Pair, proxy: Proxy, postgresql_url: str
) -> None:
    first, second = pair
    trial = Trial(first)
    freeze = trial.killing("POST", "/{}/secrets", "before", signal.SIGSTOP)
    with proxy.doing(freeze):
        run = trial.submit()
        until(lambda: freeze.befell)
    silence(postgresql_url, first)
    assert second.until(run, "completed", "failed")["state"] == "completed"
    first.server.process.send(signal.SIGCONT)
    until(lambda: proxy.count("PATCH", f"/namespaces/{trial.namespace}/jobs/") == 2)  # both have released it
    assert first.show(run)["state"] == "completed"
    trial.check_all(run)


def test_platforms_on_one_cluster_do_not_touch_runs_of_each_other(
    machine: Machine, shared_machine: Machine, control_plane: ControlPlane, kubelet: FakeKubelet, admin: Client
) -> None:
    mine, theirs = Platform(machine, control_plane, admin), Platform(shared_machine, control_plane, admin)
    trials = [Trial(platform) for platform in (mine, theirs) for _ in range(5)]
    runs = [trial.submit() for trial in trials]
    for trial, run in zip(trials, runs, strict=True):
        trial.complete(run)
    mine.restart()  # to look at all that is there once more, and sweep
    for trial, run in zip(trials, runs, strict=True):
        assert trial.read_log(run) == "begun\n"
        trial.check_all(run)
