"""Clients of a server that may crash: they retry until they get a response, and record what was acknowledged."""

import contextlib
import itertools
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.faults.sites import Site
from tests.processes.machines import TIMEOUT

NOTE = "echo $FAIRLEAD_RUN:${{FAIRLEAD_ATTEMPT:-1}} >> {ran}"
UNTIL_TOLD = "until [ -e {ran}.go ]; do sleep 0.05; done"
# The programs of runs, and the requests for each.
SCRIPTS = {
    "fine": NOTE,
    "slow": f"{NOTE}; sleep 5",
    "large": f"{NOTE}; sleep 0.5",  # two of them do not fit at once
    "equipped": f"{NOTE}; [ $WORD = secret ]",
    "failing": f"{NOTE}; exit 3",
    "stopped": f"{NOTE}; sleep 300",
    "stopped at once": f"{NOTE}; sleep 300",
    "deleted": NOTE,
    "bereft": f"{NOTE}; sleep 300",  # its supervisor is killed
    "tried again": f"{NOTE}; [ ${{{{FAIRLEAD_ATTEMPT:-1}}}} != 1 ] || sleep 300",  # the supervisor of the first try is
    "unhurried": f"{NOTE}; {UNTIL_TOLD}",  # its deadline is far away
    "late": f"{NOTE}; sleep 300",  # its deadline is not
    # These two write when they receive a signal.
    "logging": f"{NOTE}; {UNTIL_TOLD}; head -c 1000000 /dev/zero | tr '\\0' x",
    "writing": f"{NOTE}; {UNTIL_TOLD}; head -c 1000000 /dev/zero > $FAIRLEAD_OUTPUT/much",
}
ASKED: dict[str, dict[str, Any]] = {
    "large": {"resources": {"cpu": 600}},
    "equipped": {"secrets": ["WORD"]},
    "tried again": {"retries": 1},
    "unhurried": {"deadline": "2h"},
    "late": {"deadline": "2s"},
}
FINAL = ("completed", "failed", "stopped")
AGAIN_SECONDS = 0.05


@dataclass
class Noted:
    """The acknowledged requests, which must not be lost, and the temporary errors."""

    kinds: dict[str, str] = field(default_factory=dict)  # of each run, by its id
    stopped: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    refused: list[dict[str, Any]] = field(default_factory=list)


class Caller:
    """One of them."""

    def __init__(self, site: Site, noted: Noted, gives_up: Callable[[], bool] = lambda: False) -> None:
        self.site, self.noted, self.gives_up = site, noted, gives_up
        self.client = site.client()

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """The answer, asked for until there is one."""
        while True:
            with contextlib.suppress(httpx2.TransportError):
                answer = self.client.request(method, path, **options)
                if answer.status_code < 500:
                    return answer
                self.noted.refused.append(read_refusal(answer))
            assert not self.gives_up(), f"no answer to {method} {path}"
            time.sleep(AGAIN_SECONDS)

    def submit(self, kind: str) -> str:
        """Submit a run of a kind, once, however often that takes; its id."""
        function = {"name": kind.replace(" ", "-"), "command": ["bash", "-c", self._script(kind)]}
        key, request = {"Idempotency-Key": uuid.uuid4().hex}, ASKED.get(kind, {}) | {"function": function}
        answer = self.ask("POST", "/projects/default/runs", json=request, headers=key)
        assert answer.status_code == 201, answer.text
        run_id = str(answer.json()["id"])
        self.noted.kinds[run_id] = kind
        return run_id

    def see_through(self, run_id: str) -> None:
        """Do to a run what is done to those of its kind."""
        match self.noted.kinds[run_id]:
            case "stopped":
                self.wait(run_id, "running", *FINAL)
                self.stop(run_id)
            case "stopped at once":
                self.stop(run_id)
            case "deleted":
                self.wait(run_id, *FINAL)
                self.delete(run_id)
            case "bereft" | "tried again":
                self.wait(run_id, "running", *FINAL)
                kill_supervisor(self.site.data / "runs" / run_id)

    def stop(self, run_id: str) -> None:
        """Stop a run. Retries if the run changes concurrently."""
        while (answer := self.ask("POST", f"/runs/{run_id}/stop")).status_code == 412:
            time.sleep(AGAIN_SECONDS)
        assert answer.status_code == 200, answer.text
        self.noted.stopped.add(run_id)

    def delete(self, run_id: str) -> None:
        """Delete a run. A retry may find that it is already deleted."""
        answer = self.ask("DELETE", f"/runs/{run_id}")
        assert answer.status_code in (204, 404), answer.text
        self.noted.deleted.add(run_id)

    def get(self, run_id: str) -> dict[str, Any]:
        """A run as it is now."""
        answer = self.ask("GET", f"/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        return run

    def wait(self, run_id: str, *states: str) -> None:
        """Wait until a run is in one of some states."""
        while self.get(run_id)["state"] not in states:
            assert not self.gives_up(), f"run {run_id} is {self.get(run_id)}"
            time.sleep(AGAIN_SECONDS)

    def _script(self, kind: str) -> str:
        return SCRIPTS[kind].format(ran=self.site.ran)


def read_refusal(answer: httpx2.Response) -> dict[str, Any]:
    """The expected errors of a temporary fault. Any other server error is a bug."""
    assert answer.status_code == 503, f"{answer.request.method} {answer.request.url.path}: {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json", answer.headers
    assert "retry-after" in answer.headers, answer.headers
    problem: dict[str, Any] = answer.json()
    return problem


@contextlib.contextmanager
def calling(site: Site, noted: Noted, kinds: list[str], *, callers: int, least: int) -> Iterator[None]:
    """Run concurrent clients that submit runs and follow them, at least `least` runs in total."""
    ended, failed, numbers = threading.Event(), threading.Event(), itertools.count()

    def work() -> None:
        with Caller(site, noted, failed.is_set) as caller:
            while (number := next(numbers)) < least or not ended.is_set():
                caller.see_through(caller.submit(kinds[number % len(kinds)]))

    with ThreadPoolExecutor(callers) as threads:
        working = [threads.submit(work) for _ in range(callers)]
        try:
            yield
            ended.set()
            for each in working:
                each.result(5 * TIMEOUT)
        finally:
            ended.set()
            failed.set()


def kill_supervisor(folder: Path) -> None:
    """Kill the supervisor of a run, if it exists."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        pid = json.loads((folder / "state.json").read_text())["pid"]
        if folder.name.encode() in Path("/proc", str(pid), "cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
