"""Fuzz the API of a real server with valid and invalid requests for its OpenAPI document.

No response is a server error, every response arrives in time, and neither responses nor the log contain tracebacks.
"""

import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from tests.fuzzing.requests import check_violations
from tests.processes import execution
from tests.processes.machines import Launcher, Machine
from tests.security.neighbors import Neighbors, open_neighbors
from tests.server.samples import names_of
from tests.server.sites import CHECKED, PROBLEM, REQUIRED, Operation

SECONDS = 20.0  # for a response, even on a busy machine
EXAMPLES = 4  # per operation in a round, in each mode
OPERATIONS = 12  # per round
# Streams and long polls, which would block.
ENDLESS_PATHS = ("/api/v1/events",)
BLOCKING_PARAMETERS = ("follow", "wait")


@dataclass(frozen=True)
class FuzzedServer:
    """A server to fuzz, with an object of every kind."""

    neighbors: Neighbors

    @cached_property
    def schema(self) -> Any:
        """The operations, for schemathesis."""
        return schemathesis.openapi.from_url(f"{self.url}/api/v1/openapi.json")

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.neighbors.platform.server.url

    @cached_property
    def operations(self) -> list[Operation]:
        """The operations to fuzz. Endless streams are excluded."""
        return [item for item in self.neighbors.operations if item.path not in ENDLESS_PATHS]


def fuzz_operations(fuzzed: FuzzedServer, seed: int, operations: int = OPERATIONS, examples: int = EXAMPLES) -> int:
    """Run one round of random operations, and return the number of requests."""
    rng, sent = random.Random(seed), 0
    log = fuzzed.neighbors.platform.server.process.err
    before = log.stat().st_size
    for item in rng.choices(fuzzed.operations, k=operations):
        for mode in GenerationMode:
            if mode is GenerationMode.POSITIVE or item.body is not None or item.spec.get("parameters"):
                sent += _fuzz_operation(fuzzed, item, mode, rng.randrange(1 << 30), examples)
    check_server(fuzzed, before)
    return sent


def _fuzz_operation(fuzzed: FuzzedServer, item: Operation, mode: GenerationMode, seed: int, examples: int) -> int:
    load_all_checks()
    checks: list[Any] = [CHECKS.get_one(name) for name in CHECKED]
    rng, sent = random.Random(seed), 0

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # the state of the server changes, so shrinking does not work
        suppress_health_check=list(HealthCheck),
    )
    @given(case=fuzzed.schema[item.path][item.method].as_strategy(generation_mode=mode))
    def send(case: Case[Any]) -> None:
        nonlocal sent
        sent += 1
        _adjust_case(case, item, fuzzed.neighbors.object_names, rng)
        headers = {} if item.is_public else {"Authorization": f"Bearer {fuzzed.neighbors.platform.server.token}"}
        started = time.monotonic()
        response = case.call(headers=headers, timeout=SECONDS)
        check_response(response, time.monotonic() - started)
        case.validate_response(response, checks=checks)

    send()
    return sent


def _adjust_case(case: Case[Any], item: Operation, object_names: dict[str, str], rng: random.Random) -> None:
    """Use names of existing objects in most cases, and disable blocking parameters."""
    if item.parameters("path") and rng.random() < 0.6:
        case.path_parameters = names_of(item, object_names, rng.choice(["project", "department", "cluster"]))
    for name in BLOCKING_PARAMETERS:
        if case.query and name in case.query:
            case.query[name] = "false" if name == "follow" else 0


def check_response(response: Any, seconds: float) -> None:
    """Raise AssertionError for an unexpected response."""
    request = f"{response.request.method} {response.request.url} {str(response.request.body)[:2000]}"
    assert response.status_code < 500, f"{request}: {response.status_code} {response.content[:2000]!r}"
    assert b"Traceback (most recent call last)" not in response.content, request
    assert seconds < SECONDS, f"{request}: {seconds:.1f} s"
    if response.status_code >= 400 and response.request.method != "HEAD":
        assert response.headers["content-type"] == [PROBLEM], request
        problem = response.json()
        assert problem.keys() >= REQUIRED, f"{request}: {problem}"
        check_violations(problem.get("violations", ()))


def check_server(fuzzed: FuzzedServer, since: int) -> None:
    """Raise AssertionError if the server stopped or logged an error."""
    process = fuzzed.neighbors.platform.server.process
    assert process.poll() is None, process.output[1][-5000:]
    assert fuzzed.neighbors.root.get("/me")["user"]
    with process.err.open("rb") as log:
        log.seek(since)
        error_lines = [line.decode() for line in log.read().splitlines() if _is_error(line)]
    assert not error_lines, "\n".join(error_lines)


def _is_error(line: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return "exception" in json.loads(line) or b"Traceback" in line
    return bool(line.strip())  # anything that is not a log line is unexpected


@contextlib.contextmanager
def open_fuzzed_server() -> Iterator[FuzzedServer]:
    """A real server in its own folder, with an object of every kind."""
    with tempfile.TemporaryDirectory() as home, execution.open_folder(0o755) as folder:
        launcher = Launcher(Path(home))
        try:
            with open_neighbors(Machine(folder, launcher)) as neighbors:
                yield FuzzedServer(neighbors)
        finally:
            launcher.close()
