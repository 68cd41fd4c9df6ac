"""Rounds of fuzzing: each with a seed of its own that repeats it, one after the other until the time is over."""

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
ENOUGH = 20  # findings: the same mistake is found again and again


class Hang(KeyboardInterrupt):
    """A request hangs, which ends the fuzzing."""


@dataclass
class Tally:
    """The results of all rounds: the number of requests, and the seeds of failed rounds."""

    rounds: int = 0
    tried: int = 0
    seconds: float = 0.0
    found: list[int] = field(default_factory=list)


def choose_seed(said: int | None) -> int:
    """The seed that was given, or any other one."""
    return secrets.randbelow(LARGEST_SEED) if said is None else said


def fuzz_for(name: str, seconds: float, seed: int, fuzz: Callable[[int], int]) -> Tally:
    """Run rounds until the time is over, at least one. Prints failures with the seed that reproduces them."""
    tally, began = Tally(), time.monotonic()
    print(f"{name}: {seconds:g} seconds, from seed {seed} on", flush=True)
    for number in itertools.count(seed):
        try:
            tally.tried += fuzz(number)
        except (Exception, Hang) as error:
            tally.found.append(number)
            print(traceback.format_exc(), flush=True)
            print(
                f'{name}: seed {number}. Again: make fuzz ARGS="--only {name} --seed {number} --seconds 0"', flush=True
            )
            if isinstance(error, Hang):
                os._exit(1)  # what hangs in another thread would keep this process from ending
        tally.rounds += 1
        tally.seconds = time.monotonic() - began
        if tally.seconds >= seconds or len(tally.found) >= ENOUGH:
            break
    told = f"found something with the seeds {tally.found}" if tally.found else "found nothing"
    print(f"{name}: {tally.rounds} rounds, {tally.tried:,} tried, {tally.seconds:.0f} s: {told}", flush=True)
    return tally


@contextlib.contextmanager
def waiting(seconds: float, what: Any) -> Iterator[None]:
    """Raise `Hang` in the middle of what takes longer."""

    def give_up(*_: Any) -> None:
        raise Hang(f"takes longer than {seconds:g} s: {str(what)[:5000]}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
