"""Two servers are killed, frozen and restarted while they share a stream of runs: nothing is lost or repeated."""

import contextlib
import random
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import sqlalchemy as sa

from fairlead.adapters.database.tables import runs, servers
from fairlead.sdk.runs import Run
from tests.cluster.clients import until
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.ledgers import AT_MOST_ONCE, Ledger
from tests.cluster.platforms import Platform
from tests.cluster.storms import make_seed
from tests.cluster.test_random_faults import FAIL, SLEEP, SUCCEED, WITH_OBJECTS
from tests.cluster.test_two_servers import Pair, expire_lease, pair  # noqa: F401

FAULT_COUNT = 6
CLIENT_TIMEOUT = 5.0  # seconds before the client tries the other server
FROZEN_SECONDS = 10.0  # upper limit, because a server that is frozen during a transaction blocks the other one


class User:
    """A client that tries the other server if one does not respond."""

    def __init__(self, platforms: Pair, ledger: Ledger, rng: random.Random) -> None:
        self.platforms, self.ledger, self.rng = platforms, ledger, rng
        self.sleeping_runs: list[Run] = []

    def submit(self) -> None:
        """Submit one run of a random kind."""
        image = self.rng.choice((SUCCEED, FAIL, SLEEP))
        function = {"name": image, "kind": "container", "image": f"example.test/{image}"}
        request = {"function": function, **(WITH_OBJECTS if self.rng.random() < 0.5 else {})}
        run = Run(self.platforms[0].project.api, self.send("/projects/forest/runs", request))
        outcome = {SUCCEED: "completed", FAIL: "failed ExitCode", SLEEP: "stopped"}[image]
        self.ledger.expect(run, outcome, pods=AT_MOST_ONCE if image == SLEEP else (1,))
        if image == SLEEP:
            self.sleeping_runs.append(run)

    def stop_one(self) -> None:
        """Stop a random sleeping run, if there is one."""
        if self.sleeping_runs:
            run = self.sleeping_runs.pop(self.rng.randrange(len(self.sleeping_runs)))
            self.send(f"/runs/{run.id}/stop", None)

    def send(self, path: str, body: Any) -> Any:
        """Send an idempotent POST request to either server."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        while True:
            with contextlib.suppress(httpx2.TransportError):
                with self.rng.choice(self.platforms).server.client() as client:
                    response = client.post(path, json=body, headers=headers, timeout=CLIENT_TIMEOUT)
                if response.status_code < 300:
                    return response.json()
                assert response.status_code >= 500, response.text
            time.sleep(0.1)


@contextlib.contextmanager
def using(user: User) -> Iterator[None]:
    """Submit and stop runs during the block. At the end, stop all sleeping runs."""
    finished, errors = threading.Event(), list[Exception]()

    def submit_and_stop() -> None:
        try:
            while not finished.wait(user.rng.uniform(0, 0.4)):
                user.submit()
                if user.rng.random() < 0.4:
                    user.stop_one()
            while user.sleeping_runs:
                user.stop_one()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=submit_and_stop)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
    assert errors == []


def kill(victim: Platform, _url: str) -> None:
    """Kill a server, and restart it immediately."""
    victim.restart()


def replace(victim: Platform, url: str) -> None:
    """Kill a server, and restart it after the other one has taken over its runs."""
    victim.server.stop(signal.SIGKILL)
    expire_lease(url, victim)
    until(lambda: not count_owned_runs(url, victim))
    victim.restart()


def freeze(victim: Platform, url: str) -> None:
    """Freeze a server, and resume it after the other one has taken over its runs."""
    victim.server.process.send(signal.SIGSTOP)
    expire_lease(url, victim)
    with contextlib.suppress(AssertionError):
        until(lambda: not count_owned_runs(url, victim), FROZEN_SECONDS)
    victim.server.process.send(signal.SIGCONT)


def count_owned_runs(url: str, server: Platform) -> int:
    """The number of a server's active runs."""
    server_id = sa.select(servers.c.id).where(servers.c.url == server.server.url).scalar_subquery()
    query = sa.select(sa.func.count()).where(runs.c.active, runs.c.server_id == server_id)
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return int(connection.execute(query).scalar_one())


def test_two_servers_killed_repeatedly_lose_and_repeat_nothing(
    pair: Pair,  # noqa: F811
    kubelet: FakeKubelet,
    postgresql_url: str,
) -> None:
    seed = make_seed()
    rng, ledger = random.Random(seed), Ledger(pair[0], kubelet)
    for server in pair:
        server.variables |= {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
        server.restart()
    pair[0].project.set_secret("TOKEN", "hunter2hunter2")
    faults = [kill, replace, freeze] * (FAULT_COUNT // 3)
    rng.shuffle(faults)
    with using(User(pair, ledger, random.Random(seed + 1))):
        for fault in faults:
            time.sleep(rng.uniform(0.5, 3))
            fault(rng.choice(pair), postgresql_url)
    assert len(ledger.entries) > 20
    ledger.check()
