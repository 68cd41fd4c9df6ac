"""How Fairlead compares with what people would use in its place: starting, weighing, running functions, listing runs.

Peers are installed from PyPI into folders outside the repository (once) and measured one after the other in one run,
on loopback, each on an empty folder and without telemetry. Compare within a run, on a machine that does nothing else:
what is measured is what a peer itself costs, for the function does nothing (`1 + 1`).

cold start   from starting the server to its first page of runs over HTTP; the fastest of some starts. What else it
             needs to run functions is started afterwards
memory idle  of all processes, some seconds after the start: what they share counts once (PSS, or RSS where hidden)
run          from the call of the peer's own client until that knows that the run is done, one run after the other,
             after one that does not count. Clients look every 50 ms
at once      from the first submit to the last end, with eight clients, or until the limit. Memory is sampled: of the
             processes that were there before, and of all
list         a page of 50 of all runs so far, over one connection. Ray has no pages: it lists all of them

Ratios are peer : Fairlead, where Fairlead is measured too.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import environments
from bench.comparing import Figure, Measures, Options, Peer, measure
from bench.fairlead_peer import Fairlead
from bench.prefect_peer import Prefect
from bench.ray_peer import Ray

# By the name that people type, in the order of the columns; each is given its environment and a folder.
PEERS: Mapping[str, Callable[[Path, Path], Peer]] = {"fairlead": Fairlead, "prefect": Prefect, "ray": Ray}
OURS = "Fairlead"


def main() -> None:
    """Measure and print."""
    arguments, options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that peers stop, and figures are printed
    started, measured = time.perf_counter(), list[Measures]()
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        try:
            for name in arguments.peers:
                peer = PEERS[name](arguments.environments / name, Path(folder) / name)
                print(f"measuring {peer.name}", flush=True)
                measured.append(Measures(peer.name))
                measure(peer, options, measured[-1])
        finally:  # what was measured already took minutes
            print_table(measured)
    print(f"\n{time.perf_counter() - started:.0f} s in all")


def print_table(measured: Sequence[Measures]) -> None:
    """A row for each figure, a column for each peer, ratios beside it where Fairlead was measured too; then notes."""
    ours = next((found for found in measured if found.name.startswith(OURS)), None)
    heads = [f"{found.name:>14}" + ("" if ours in (None, found) else f"{'ratio':>8}") for found in measured]
    print(f"\n{'':46}{''.join(heads)}")
    figures = sorted((figure for found in measured for figure in found.figures), key=lambda figure: figure.step)
    for label in dict.fromkeys(figure.label for figure in figures):
        print(f"{label:46}{''.join(_cells(found, ours, label) for found in measured)}".rstrip())
    for note in (note for found in measured for note in found.notes):
        print(f"\n{note}")


def _cells(found: Measures, ours: Measures | None, label: str) -> str:
    figure = _figure(found, label)
    shown = "" if figure is None else f"{figure.value:,.{figure.digits}f}"
    if ours in (None, found):
        return f"{shown:>14}"
    base = None if figure is None else _figure(ours, label) or _figure(ours, figure.beside)
    ratio = "" if figure is None or base is None or not base.value else f"{figure.value / base.value:.3g}"
    return f"{shown:>14}{ratio:>8}"


def _figure(found: Measures, label: str) -> Figure | None:
    return next((figure for figure in found.figures if figure.label == label), None)


def _parse() -> tuple[argparse.Namespace, Options]:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure peers beside each other.")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="which; all by default")
    parser.add_argument("--environments", type=Path, default=environments.FOLDER, help="where peers are installed")
    standard = Options()
    for name, told in {
        "starts": "how often each is started",
        "samples": "how many runs one after the other, and how many pages",
        "many": "how many runs at once",
        "limit_seconds": "how long to wait for those",
    }.items():
        value = getattr(standard, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=told)
    found = parser.parse_args()
    chosen = {name: getattr(found, name) for name in ("starts", "samples", "many", "limit_seconds")}
    return found, Options(**chosen)


if __name__ == "__main__":
    main()
