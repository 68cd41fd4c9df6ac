"""Two servers that are killed, frozen and started again while they share a stream of runs: nothing is lost or twice."""

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
from tests.cluster.test_random_faults import FAIL, SLEEP, SUCCEED, WHOLE
from tests.cluster.test_two_servers import Pair, pair, silence  # noqa: F401

BLOWS = 6
PATIENCE_SECONDS = 5.0  # timeout before the client tries the other server
FROZEN_SECONDS = 10.0  # at most: one that is frozen in the middle of a transaction keeps the other waiting


class User:
    """A client that tries the other server if one does not respond."""

    def __init__(self, platforms: Pair, ledger: Ledger, dice: random.Random) -> None:
        self.platforms, self.ledger, self.dice = platforms, ledger, dice
        self.asleep: list[Run] = []

    def submit(self) -> None:
        """Submit one run of a kind that dice choose."""
        image = self.dice.choice((SUCCEED, FAIL, SLEEP))
        function = {"name": image, "kind": "container", "image": f"example.test/{image}"}
        request = {"function": function, **(WHOLE if self.dice.random() < 0.5 else {})}
        run = Run(self.platforms[0].project.api, self.send("/projects/forest/runs", request))
        ends = {SUCCEED: "completed", FAIL: "failed ExitCode", SLEEP: "stopped"}[image]
        self.ledger.note(run, ends, pods=AT_MOST_ONCE if image == SLEEP else (1,))
        if image == SLEEP:
            self.asleep.append(run)

    def stop_one(self) -> None:
        """Stop one of those that would not end, if there is one."""
        if self.asleep:
            run = self.asleep.pop(self.dice.randrange(len(self.asleep)))
            self.send(f"/runs/{run.id}/stop", None)

    def send(self, path: str, body: Any) -> Any:
        """Send an idempotent POST request to either server."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        while True:
            with contextlib.suppress(httpx2.TransportError):
                with self.dice.choice(self.platforms).server.client() as client:
                    answer = client.post(path, json=body, headers=headers, timeout=PATIENCE_SECONDS)
                if answer.status_code < 300:
                    return answer.json()
                assert answer.status_code >= 500, answer.text
            time.sleep(0.1)


@contextlib.contextmanager
def busy(user: User) -> Iterator[None]:
    """Meanwhile, runs are submitted and stopped; at the end, all that would not end."""
    ended, failed = threading.Event(), list[Exception]()

    def live() -> None:
        try:
            while not ended.wait(user.dice.uniform(0, 0.4)):
                user.submit()
                if user.dice.random() < 0.4:
                    user.stop_one()
            while user.asleep:
                user.stop_one()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert failed == []


def kill(victim: Platform, _url: str) -> None:
    """Kill a server, and start it again at once."""
    victim.restart()


def replace(victim: Platform, url: str) -> None:
    """Kill a server, and start it again once the other one has taken its runs over."""
    victim.server.stop(signal.SIGKILL)
    silence(url, victim)
    until(lambda: not count_held(url, victim))
    victim.restart()


def freeze(victim: Platform, url: str) -> None:
    """Freeze a server, and let it go on once the other one has taken its runs over."""
    victim.server.process.send(signal.SIGSTOP)
    silence(url, victim)
    with contextlib.suppress(AssertionError):
        until(lambda: not count_held(url, victim), FROZEN_SECONDS)
    victim.server.process.send(signal.SIGCONT)


def count_held(url: str, server: Platform) -> int:
    """How many runs that live a server looks after."""
    own = sa.select(servers.c.id).where(servers.c.url == server.server.url).scalar_subquery()
    held = sa.select(sa.func.count()).where(runs.c.active, runs.c.server_id == own)
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return int(connection.execute(held).scalar_one())


def test_two_servers_killed_repeatedly_lose_and_repeat_nothing(
    pair: Pair,  # noqa: F811
    kubelet: FakeKubelet,
    postgresql_url: str,
) -> None:
    seed = make_seed()
    dice, ledger = random.Random(seed), Ledger(pair[0], kubelet)
    for server in pair:
        server.variables |= {"FAIRLEAD_KEEP_OBJECTS_MINUTES": "0"}
        server.restart()
    pair[0].project.set_secret("TOKEN", "hunter2hunter2")
    blows = [kill, replace, freeze] * (BLOWS // 3)
    dice.shuffle(blows)
    with busy(User(pair, ledger, random.Random(seed + 1))):
        for blow in blows:
            time.sleep(dice.uniform(0.5, 3))
            blow(dice.choice(pair), postgresql_url)
    assert len(ledger.entries) > 20
    ledger.check()
