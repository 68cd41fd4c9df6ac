"""Clients for a server that may crash: they retry until they get a response, and record what was acknowledged."""

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

RECORD = "echo $FAIRLEAD_RUN:${{FAIRLEAD_ATTEMPT:-1}} >> {executions}"
WAIT_FOR_GO_FILE = "until [ -e {executions}.go ]; do sleep 0.05; done"
# The shell script of each kind of run.
SCRIPTS = {
    "succeeding": RECORD,
    "slow": f"{RECORD}; sleep 5",
    "large": f"{RECORD}; sleep 0.5",  # two of these do not fit at the same time
    "with secret": f"{RECORD}; [ $PASSWORD = secret ]",
    "failing": f"{RECORD}; exit 3",
    "stopped": f"{RECORD}; sleep 300",
    "stopped at once": f"{RECORD}; sleep 300",
    "deleted": RECORD,
    "supervisor killed": f"{RECORD}; sleep 300",
    "retried": f"{RECORD}; [ ${{{{FAIRLEAD_ATTEMPT:-1}}}} != 1 ] || sleep 300",  # the supervisor of attempt 1 is killed
    "long deadline": f"{RECORD}; {WAIT_FOR_GO_FILE}",
    "short deadline": f"{RECORD}; sleep 300",
    # These two write when the go file exists.
    "logging": f"{RECORD}; {WAIT_FOR_GO_FILE}; head -c 1000000 /dev/zero | tr '\\0' x",
    "writing": f"{RECORD}; {WAIT_FOR_GO_FILE}; head -c 1000000 /dev/zero > $FAIRLEAD_OUTPUT/large",
}
# Additional request parameters for each kind of run.
PARAMETERS: dict[str, dict[str, Any]] = {
    "large": {"resources": {"cpu": 600}},
    "with secret": {"secrets": ["PASSWORD"]},
    "retried": {"retries": 1},
    "long deadline": {"deadline": "2h"},
    "short deadline": {"deadline": "2s"},
}
FINAL = ("completed", "failed", "stopped")
RETRY_SECONDS = 0.05


@dataclass
class RequestRecord:
    """The acknowledged requests, which must not be lost, and the temporary errors."""

    kinds: dict[str, str] = field(default_factory=dict)  # the kind of each run, by run ID
    stopped: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    rejections: list[dict[str, Any]] = field(default_factory=list)


class RetryingClient:
    """A client that retries requests until it gets a response."""

    def __init__(self, site: Site, record: RequestRecord, timed_out: Callable[[], bool] = lambda: False) -> None:
        self.site, self.record, self.timed_out = site, record, timed_out
        self.http = site.client()

    def __enter__(self) -> "RetryingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request repeatedly until there is a response, and return the response."""
        while True:
            with contextlib.suppress(httpx2.TransportError):
                response = self.http.request(method, path, **options)
                if response.status_code < 500:
                    return response
                self.record.rejections.append(read_rejection(response))
            assert not self.timed_out(), f"no response to {method} {path}"
            time.sleep(RETRY_SECONDS)

    def submit(self, kind: str) -> str:
        """Submit a run of a kind exactly once, with retries, and return its ID."""
        function = {"name": kind.replace(" ", "-"), "command": ["bash", "-c", self._script(kind)]}
        key, body = {"Idempotency-Key": uuid.uuid4().hex}, PARAMETERS.get(kind, {}) | {"function": function}
        response = self.request("POST", "/projects/default/runs", json=body, headers=key)
        assert response.status_code == 201, response.text
        run_id = str(response.json()["id"])
        self.record.kinds[run_id] = kind
        return run_id

    def apply_kind(self, run_id: str) -> None:
        """Stop or delete a run, or kill its supervisor, as its kind requires."""
        match self.record.kinds[run_id]:
            case "stopped":
                self.wait(run_id, "running", *FINAL)
                self.stop(run_id)
            case "stopped at once":
                self.stop(run_id)
            case "deleted":
                self.wait(run_id, *FINAL)
                self.delete(run_id)
            case "supervisor killed" | "retried":
                self.wait(run_id, "running", *FINAL)
                kill_supervisor(self.site.data / "runs" / run_id)

    def stop(self, run_id: str) -> None:
        """Stop a run. Retries if the run changes concurrently."""
        while (response := self.request("POST", f"/runs/{run_id}/stop")).status_code == 412:
            time.sleep(RETRY_SECONDS)
        assert response.status_code == 200, response.text
        self.record.stopped.add(run_id)

    def delete(self, run_id: str) -> None:
        """Delete a run. A retry may find that it is already deleted."""
        response = self.request("DELETE", f"/runs/{run_id}")
        assert response.status_code in (204, 404), response.text
        self.record.deleted.add(run_id)

    def get(self, run_id: str) -> dict[str, Any]:
        """The current data of a run."""
        response = self.request("GET", f"/runs/{run_id}")
        assert response.status_code == 200, response.text
        run: dict[str, Any] = response.json()
        return run

    def wait(self, run_id: str, *states: str) -> None:
        """Wait until a run is in one of the given states."""
        while self.get(run_id)["state"] not in states:
            assert not self.timed_out(), f"run {run_id} is {self.get(run_id)}"
            time.sleep(RETRY_SECONDS)

    def _script(self, kind: str) -> str:
        return SCRIPTS[kind].format(executions=self.site.executions)


def read_rejection(response: httpx2.Response) -> dict[str, Any]:
    """The problem in a 503 response. Any other server error is a bug."""
    assert response.status_code == 503, f"{response.request.method} {response.request.url.path}: {response.text}"
    assert response.headers["content-type"] == "application/problem+json", response.headers
    assert "retry-after" in response.headers, response.headers
    problem: dict[str, Any] = response.json()
    return problem


@contextlib.contextmanager
def submitting_runs(
    site: Site, record: RequestRecord, kinds: list[str], *, client_count: int, minimum: int
) -> Iterator[None]:
    """Run concurrent clients that submit runs during the block, at least `minimum` runs in total."""
    finished, failed, numbers = threading.Event(), threading.Event(), itertools.count()

    def submit_runs() -> None:
        with RetryingClient(site, record, failed.is_set) as client:
            while (number := next(numbers)) < minimum or not finished.is_set():
                client.apply_kind(client.submit(kinds[number % len(kinds)]))

    with ThreadPoolExecutor(client_count) as threads:
        futures = [threads.submit(submit_runs) for _ in range(client_count)]
        try:
            yield
            finished.set()
            for future in futures:
                future.result(5 * TIMEOUT)
        finally:
            finished.set()
            failed.set()


def kill_supervisor(folder: Path) -> None:
    """Kill a run's supervisor, if it exists."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        pid = json.loads((folder / "state.json").read_text())["pid"]
        if folder.name.encode() in Path("/proc", str(pid), "cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
