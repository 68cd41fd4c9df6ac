"""Fuzz for ten minutes, or for a given time: `make fuzz`."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from tests.fuzzing.operations import fuzz_operations, open_fuzzed_server
from tests.fuzzing.requests import fuzz_planning, fuzz_previews, open_fuzzed_site
from tests.fuzzing.rounds import choose_seed, fuzz_for

SECONDS = 600.0
LIFETIME = 100.0  # seconds until a new server with fresh data

Fuzz = Callable[[int], int]


def main() -> int:
    """Fuzz one after the other; 1 where something was found."""
    asked = _read_arguments()
    seed = choose_seed(asked.seed)
    chosen = [asked.only] if asked.only else list(FUZZED)
    found = False
    for name in chosen:
        left = asked.seconds / len(chosen)
        while left >= 0:
            with FUZZED[name]() as fuzz:
                tally = fuzz_for(name, min(left, LIFETIME), seed, fuzz)
            left, seed, found = left - LIFETIME, seed + tally.rounds, found or bool(tally.found)
            if left <= 0:
                break
    return int(found)


@contextlib.contextmanager
def _planning() -> Iterator[Fuzz]:
    yield fuzz_planning


@contextlib.contextmanager
def _previews() -> Iterator[Fuzz]:
    with open_fuzzed_site() as site:
        yield lambda seed: fuzz_previews(site, seed)


@contextlib.contextmanager
def _operations() -> Iterator[Fuzz]:
    with open_fuzzed_server() as server:
        yield lambda seed: fuzz_operations(server, seed)


FUZZED = {"planning": _planning, "previews": _previews, "operations": _operations}


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the requirements language and the API.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for how long in all (%(default)g)")
    parser.add_argument("--seed", type=int, help="what a round said that found something, to find it again")
    parser.add_argument("--only", choices=list(FUZZED), help="one of them, for all of the time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
