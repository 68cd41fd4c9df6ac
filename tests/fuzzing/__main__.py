"""Fuzz for ten minutes, or for a given duration: `make fuzz`."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator

from tests.fuzzing.operations import fuzz_operations, open_fuzzed_server
from tests.fuzzing.requests import fuzz_planning, fuzz_previews, open_fuzzed_site
from tests.fuzzing.rounds import choose_seed, fuzz_for

SECONDS = 600.0
LIFETIME = 100.0  # seconds until a new server with fresh data is started

Fuzz = Callable[[int], int]


def main() -> int:
    """Fuzz one target after another, and return 1 if something failed."""
    arguments = _read_arguments()
    seed = choose_seed(arguments.seed)
    chosen = [arguments.only] if arguments.only else list(TARGETS)
    failed = False
    for name in chosen:
        remaining = arguments.seconds / len(chosen)
        while remaining >= 0:
            with TARGETS[name]() as fuzz:
                tally = fuzz_for(name, min(remaining, LIFETIME), seed, fuzz)
            remaining, seed, failed = remaining - LIFETIME, seed + tally.rounds, failed or bool(tally.failed_seeds)
            if remaining <= 0:
                break
    return int(failed)


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


TARGETS = {"planning": _planning, "previews": _previews, "operations": _operations}


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the requirements language and the API.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="total time (%(default)g)")
    parser.add_argument("--seed", type=int, help="the seed of a failed round, to reproduce it")
    parser.add_argument("--only", choices=list(TARGETS), help="a single target for the total time")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
