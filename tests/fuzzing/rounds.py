"""Rounds of fuzzing until time runs out, each with a seed that reproduces it."""

import contextlib
import itertools
import os
import secrets
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

LARGEST_SEED = 1_000_000_000
MAX_FINDINGS = 20  # later findings are often the same failure


class Hang(KeyboardInterrupt):
    """A request hangs, which ends the fuzzing."""


@dataclass
class Tally:
    """The results of all rounds: the number of requests, and the seeds of failed rounds."""

    rounds: int = 0
    request_count: int = 0
    seconds: float = 0.0
    failed_seeds: list[int] = field(default_factory=list)


def choose_seed(given: int | None) -> int:
    """The given seed, or a random one."""
    return secrets.randbelow(LARGEST_SEED) if given is None else given


def fuzz_for(name: str, seconds: float, seed: int, fuzz: Callable[[int], int]) -> Tally:
    """Run rounds until time runs out, but at least one. Prints failures with the seed that reproduces them."""
    tally, started = Tally(), time.monotonic()
    print(f"{name}: {seconds:g} seconds, from seed {seed} on", flush=True)
    for number in itertools.count(seed):
        try:
            tally.request_count += fuzz(number)
        except (Exception, Hang) as error:
            tally.failed_seeds.append(number)
            print(traceback.format_exc(), flush=True)
            print(
                f'{name}: seed {number}. Again: make fuzz ARGS="--only {name} --seed {number} --seconds 0"', flush=True
            )
            if isinstance(error, Hang):
                os._exit(1)  # a hanging thread would keep this process alive
        tally.rounds += 1
        tally.seconds = time.monotonic() - started
        if tally.seconds >= seconds or len(tally.failed_seeds) >= MAX_FINDINGS:
            break
    summary = f"failed with the seeds {tally.failed_seeds}" if tally.failed_seeds else "no failures"
    print(
        f"{name}: {tally.rounds} rounds, {tally.request_count:,} requests, {tally.seconds:.0f} s: {summary}", flush=True
    )
    return tally


@contextlib.contextmanager
def time_limit(seconds: float, subject: Any) -> Iterator[None]:
    """Raise `Hang` in a block that takes longer than this."""

    def give_up(*_: Any) -> None:
        raise Hang(f"takes longer than {seconds:g} s: {str(subject)[:5000]}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
