"""Measures requests to a server while other clients attack it, in a run of a minute.

Each attack is a process of its own, and so is the client that measures `GET /me` 100 times per second. For the
baseline, the same attack is aimed at a program that discards what it receives, so that the CPU time of the attacking
process affects both figures alike. Compare figures only within a run.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path

from bench.http_load import HOST, fetch, write_request
from bench.sites import Site

SECONDS = 6.0
WARMUP_SECONDS = 1.0
PROBES_PER_SECOND = 100
SLOW_CONNECTIONS = 2000
SIGN_INS_PER_SECOND = 500
SIGN_IN_CONNECTIONS = 10
HEADER_BYTES = 400 << 20
PART = b"a" * 65536
GOAL_SECONDS, GOAL_RATIO = 0.100, 3.0
UNAUTHENTICATED = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"


def main() -> None:
    """Measure and print, or run one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", choices=tuple(ATTACKS), help=argparse.SUPPRESS)
    parser.add_argument("--discard", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20_000)), hard))
    if options.attack:
        with contextlib.suppress(TimeoutError):
            asyncio.run(asyncio.wait_for(ATTACKS[options.attack](options.port), SECONDS))
    elif options.discard:
        asyncio.run(_discard())
    elif options.probe:
        print(json.dumps(_probe(options.port, options.probe)))
    else:
        _measure()


def _measure() -> None:
    started = time.perf_counter()
    failed = []
    with tempfile.TemporaryDirectory() as folder, _running_site(Path(folder)) as site, _start("--discard") as sink:
        assert sink.stdout is not None
        sink_port = int(sink.stdout.readline())
        print(f"p99 of GET /me at {PROBES_PER_SECOND} per second, with each attack on this server or on a baseline")
        print(f"{'attack':<22} {'baseline':>10} {'server':>10} {'ratio':>7} {'maximum':>10} {'answers':>8}")
        for attack in ATTACKS:
            figures = [_measure_attack(site, attack, port) for port in (sink_port, site.port)]
            baseline, p99 = (_percentile(latencies, 0.99) for latencies in figures)
            maximum = max(figures[1])
            row = f"{attack:<22} {baseline * 1000:>7.1f} ms {p99 * 1000:>7.1f} ms {p99 / baseline:>7.2f}"
            print(f"{row} {maximum * 1000:>7.1f} ms {len(figures[1]):>8}", flush=True)
            if p99 > max(GOAL_SECONDS, GOAL_RATIO * baseline):
                failed.append(attack)
    goal = f"p99 under {GOAL_SECONDS * 1000:.0f} ms or {GOAL_RATIO:g} times the baseline"
    print(f"\ngoal: {goal}: {'missed by ' + ', '.join(failed) if failed else 'reached'}")
    print(f"{time.perf_counter() - started:.0f} s in total")


def _measure_attack(site: Site, attack: str, port: int) -> list[float]:
    """The latencies of requests to the server while an attack is aimed at a port."""
    with _start("--attack", attack, "--port", str(port)) as attacker:
        time.sleep(WARMUP_SECONDS)
        with _start("--probe", site.token, "--port", str(site.port)) as probe:
            latencies: list[float] = json.loads(probe.communicate()[0])
        attacker.wait()
    return sorted(latencies)


def _percentile(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))]


@contextlib.contextmanager
def _running_site(folder: Path) -> Iterator[Site]:
    url = f"sqlite:///{folder / 'fairlead.db'}"
    site = Site("sqlite", 0, url, folder / "data", folder / "bytecode")
    site.up("empty")
    try:
        yield site
    finally:
        site.down()


@contextlib.contextmanager
def _start(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "bench.hostile_clients", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _probe(port: int, token: str) -> list[float]:
    """Send requests at a fixed rate, each on a new connection, and return their latencies."""
    request = write_request("GET", "/api/v1/me", token)
    latencies: list[float] = []
    started = time.perf_counter()
    for number in itertools.count():
        due = started + number / PROBES_PER_SECOND
        if due - started > SECONDS - 2 * WARMUP_SECONDS:
            return latencies
        time.sleep(max(0.0, due - time.perf_counter()))
        before = time.perf_counter()
        fetch(port, request)
        latencies.append(time.perf_counter() - before)
    raise AssertionError("the loop has no end")


async def _discard() -> None:
    """Discard what clients send, and respond to sign-ins at once."""

    class Discarding(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if data.startswith(b"POST"):
                self.transport.write(UNAUTHENTICATED)

    server = await asyncio.get_running_loop().create_server(Discarding, HOST, 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _send_huge_header(port: int) -> None:
    """Send a header of 400 MiB, twice per second at most."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            with contextlib.closing(writer):
                writer.write(b"GET / HTTP/1.1\r\nHost: bench\r\nX: ")
                for _ in range(HEADER_BYTES // len(PART)):
                    writer.write(PART)
                    await writer.drain()
        await asyncio.sleep(0.5)


async def _hold_connections(port: int) -> None:
    """Keep 2,000 connections open, each with a request head that grows by one byte per second."""

    async def hold(number: int) -> None:
        await asyncio.sleep(number / SLOW_CONNECTIONS)
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, port)
                with contextlib.closing(writer):
                    writer.write(b"GET / HTTP/1.1\r\nHost: bench\r\nX: ")
                    while True:
                        await asyncio.sleep(1)
                        writer.write(b"a")
                        await writer.drain()
            await asyncio.sleep(0.5)

    await asyncio.gather(*map(hold, range(SLOW_CONNECTIONS)))


async def _guess_tokens(port: int) -> None:
    """Sign in with a wrong token, 500 times per second."""
    body = b'{"token": "fl_wrong"}'
    request = write_request("POST", "/api/v1/sessions", "none", body)

    async def guess() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        reading = asyncio.create_task(_read_all(reader))
        while not reading.done():
            writer.write(request)
            await asyncio.sleep(SIGN_IN_CONNECTIONS / SIGN_INS_PER_SECOND)

    await asyncio.gather(*(guess() for _ in range(SIGN_IN_CONNECTIONS)))


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


ATTACKS: Mapping[str, Callable[[int], Coroutine[None, None, None]]] = {
    "400 MiB header": _send_huge_header,
    "2,000 slow connections": _hold_connections,
    "500 sign-ins/s": _guess_tokens,
}

if __name__ == "__main__":
    main()
