"""Compares Fairlead with alternatives: start, memory, running functions and listing runs.

Peers are installed once from PyPI into folders outside the repository. They are measured one after the other in one
run, on loopback, each with an empty folder and without telemetry. Compare numbers within a run, on an otherwise idle
machine. The function does nothing (`1 + 1`), so the overhead of each peer is measured.

cold start   from starting the server to its first page of runs over HTTP; the fastest of several starts. Other
             processes needed to run functions are started afterward
memory idle  of all processes, a few seconds after the start; shared memory counts once (PSS, or RSS without access)
run          from the call of the peer's own client until the client knows that the run is done, one run after
             another, after a warm-up run. Clients poll every 50 ms
at once      from the first submission to the end of the last run, with eight clients, or until the limit. Memory is
             sampled: of the processes that existed before, and of all
list         a page of 50 of all runs so far, over one connection. Ray has no pages: it lists all of them

Ratios are peer : Fairlead, if Fairlead is also measured.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import environments
from bench.fairlead_peer import Fairlead
from bench.peer_measurements import Figure, Options, Peer, PeerResults, measure
from bench.prefect_peer import Prefect
from bench.ray_peer import Ray

# Keyed by the name on the command line, in column order. Each is called with its environment and a folder.
PEERS: Mapping[str, Callable[[Path, Path], Peer]] = {"fairlead": Fairlead, "prefect": Prefect, "ray": Ray}
OURS = "Fairlead"


def main() -> None:
    """Measure and print."""
    arguments, options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # stop the peer and print the table
    started, measured = time.perf_counter(), list[PeerResults]()
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        try:
            for name in arguments.peers:
                peer = PEERS[name](arguments.environments / name, Path(folder) / name)
                print(f"measuring {peer.name}", flush=True)
                measured.append(PeerResults(peer.name))
                measure(peer, options, measured[-1])
        finally:  # print what was measured so far, which took minutes
            print_table(measured)
    print(f"\n{time.perf_counter() - started:.0f} s in total")


def print_table(measured: Sequence[PeerResults]) -> None:
    """Print a row per figure and a column per peer, with ratios to Fairlead if it was measured; then notes."""
    ours = next((results for results in measured if results.name.startswith(OURS)), None)
    heads = [f"{results.name:>14}" + ("" if ours in (None, results) else f"{'ratio':>8}") for results in measured]
    print(f"\n{'':46}{''.join(heads)}")
    figures = sorted((figure for results in measured for figure in results.figures), key=lambda figure: figure.step)
    for label in dict.fromkeys(figure.label for figure in figures):
        print(f"{label:46}{''.join(_cells(results, ours, label) for results in measured)}".rstrip())
    for note in (note for results in measured for note in results.notes):
        print(f"\n{note}")


def _cells(results: PeerResults, ours: PeerResults | None, label: str) -> str:
    figure = _figure(results, label)
    text = "" if figure is None else f"{figure.value:,.{figure.digits}f}"
    if ours in (None, results):
        return f"{text:>14}"
    base = None if figure is None else _figure(ours, label) or _figure(ours, figure.baseline)
    ratio = "" if figure is None or base is None or not base.value else f"{figure.value / base.value:.3g}"
    return f"{text:>14}{ratio:>8}"


def _figure(results: PeerResults, label: str) -> Figure | None:
    return next((figure for figure in results.figures if figure.label == label), None)


def _parse() -> tuple[argparse.Namespace, Options]:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Compare peers.")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="peers to measure; default: all")
    parser.add_argument("--environments", type=Path, default=environments.FOLDER, help="folder for installed peers")
    defaults = Options()
    for name, help_text in {
        "starts": "number of starts of each peer",
        "samples": "number of sequential runs, and of page requests",
        "many": "number of runs submitted at once",
        "limit_seconds": "time limit for runs submitted at once",
    }.items():
        value = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=help_text)
    arguments = parser.parse_args()
    chosen = {name: getattr(arguments, name) for name in ("starts", "samples", "many", "limit_seconds")}
    return arguments, Options(**chosen)


if __name__ == "__main__":
    main()
