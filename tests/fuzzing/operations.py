"""Fuzzes the API of a real server with all that its OpenAPI document allows, and with much that it does not.

No answer is a mistake of the server, none is waited for without end, and no traceback is in any, nor in the log.
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
from tests.security.neighbors import Neighbors, open_neighbours
from tests.server.samples import names_of
from tests.server.sites import CHECKED, PROBLEM, REQUIRED, Operation

SECONDS = 20.0  # for an answer: longer than any takes on a busy machine, and less than for ever
EXAMPLES = 4  # of an operation in a round, in each mode
OPERATIONS = 12  # of a round
# Streams and long polls, which would block.
ENDLESS = ("/api/v1/events",)
PATIENT = ("follow", "wait")


@dataclass(frozen=True)
class Fuzzed:
    """A server that is fuzzed, and something of every kind to ask for."""

    neighbors: Neighbors

    @cached_property
    def schema(self) -> Any:
        """The operations as schemathesis knows them."""
        return schemathesis.openapi.from_url(f"{self.url}/api/v1/openapi.json")

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self.neighbors.platform.server.url

    @cached_property
    def operations(self) -> list[Operation]:
        """The target of the fuzzer."""
        return [item for item in self.neighbors.operations if item.path not in ENDLESS]


def fuzz_operations(fuzzed: Fuzzed, seed: int, operations: int = OPERATIONS, examples: int = EXAMPLES) -> int:
    """One round: some operations in any order, each with some examples; how many were sent."""
    chance, sent = random.Random(seed), 0
    log = fuzzed.neighbors.platform.server.process.err
    before = log.stat().st_size
    for item in chance.choices(fuzzed.operations, k=operations):
        for mode in GenerationMode:
            if mode is GenerationMode.POSITIVE or item.body is not None or item.said.get("parameters"):
                sent += _fuzz_operation(fuzzed, item, mode, chance.randrange(1 << 30), examples)
    check_server(fuzzed, before)
    return sent


def _fuzz_operation(fuzzed: Fuzzed, item: Operation, mode: GenerationMode, seed: int, examples: int) -> int:
    load_all_checks()
    checks: list[Any] = [CHECKS.get_one(name) for name in CHECKED]
    chance, sent = random.Random(seed), 0

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # a server that has changed since does not answer the same again
        suppress_health_check=list(HealthCheck),
    )
    @given(case=fuzzed.schema[item.path][item.method].as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        nonlocal sent
        sent += 1
        _aim(case, item, fuzzed.neighbors.things, chance)
        headers = {} if item.is_public else {"Authorization": f"Bearer {fuzzed.neighbors.platform.server.token}"}
        began = time.monotonic()
        answer = case.call(headers=headers, timeout=SECONDS)
        check_answer(answer, time.monotonic() - began)
        case.validate_response(answer, checks=checks)

    ask()
    return sent


def _aim(case: Case[Any], item: Operation, things: dict[str, str], chance: random.Random) -> None:
    """Let a case be about something that is there, more often than not; and let its answer end."""
    if item.parameters("path") and chance.random() < 0.6:
        case.path_parameters = names_of(item, things, chance.choice(["project", "department", "cluster"]))
    for name in PATIENT:
        if case.query and name in case.query:
            case.query[name] = "false" if name == "follow" else 0


def check_answer(answer: Any, seconds: float) -> None:
    """Raise AssertionError for an unexpected response."""
    asked = f"{answer.request.method} {answer.request.url} {str(answer.request.body)[:2000]}"
    assert answer.status_code < 500, f"{asked}: {answer.status_code} {answer.content[:2000]!r}"
    assert b"Traceback (most recent call last)" not in answer.content, asked
    assert seconds < SECONDS, f"{asked}: {seconds:.1f} s"
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert answer.headers["content-type"] == [PROBLEM], asked
        told = answer.json()
        assert told.keys() >= REQUIRED, f"{asked}: {told}"
        check_violations(told.get("violations", ()))


def check_server(fuzzed: Fuzzed, since: int) -> None:
    """Raise AssertionError unless the server goes on, and its log says of no mistake."""
    process = fuzzed.neighbors.platform.server.process
    assert process.poll() is None, process.output[1][-5000:]
    assert fuzzed.neighbors.root.get("/me")["user"]
    with process.err.open("rb") as log:
        log.seek(since)
        told = [line.decode() for line in log.read().splitlines() if _tells_of_a_mistake(line)]
    assert not told, "\n".join(told)


def _tells_of_a_mistake(line: bytes) -> bool:
    with contextlib.suppress(ValueError):
        return "exception" in json.loads(line) or b"Traceback" in line
    return bool(line.strip())  # anything that is not a log line is unexpected


@contextlib.contextmanager
def open_fuzzed_server() -> Iterator[Fuzzed]:
    """A real server, in a folder of its own, with something of every kind."""
    with tempfile.TemporaryDirectory() as home, execution.open_folder(0o755) as folder:
        launcher = Launcher(Path(home))
        try:
            with open_neighbours(Machine(folder, launcher)) as neighbors:
                yield Fuzzed(neighbors)
        finally:
            launcher.close()
