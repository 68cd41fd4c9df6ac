"""Concurrency and tools of the standard library work inside a run, despite its restrictions."""

import pytest

from fairlead.sdk.runs import Run
from tests.processes.execution import Platform, wait_for_end
from tests.processes.test_runs_users import bare_user, user  # noqa: F401

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, concurrent.futures, multiprocessing, os, sqlite3, subprocess, sys, tempfile
from multiprocessing import shared_memory

def double(n):
    return n * 2

async def echo():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    return (await reader.readline()).decode().strip()

def main():
    results = {}
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            results[method] = pool.map(double, [1, 2])
        with context.Manager() as manager:
            results[f"{method} manager"] = list(manager.list([1]))
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[0] = 7
    attached = shared_memory.SharedMemory(block.name)
    results["shared_memory"] = attached.buf[0]
    attached.close()
    block.close()
    block.unlink()
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        results["futures"] = list(executor.map(double, [3]))
    with sqlite3.connect("notes.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("create table notes (text)")
    results["sqlite"] = database.execute("select count(*) from notes").fetchone()[0]
    results["asyncio"] = asyncio.run(echo())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["sh", "-c", f"cd {folder} && mkfifo p && (echo x > p &) && cat p > y && mv y z"], check=True)
        results["files"] = os.listdir(folder)
    return results
"""
EXPECTED = {
    **{method: [2, 4] for method in ("fork", "spawn", "forkserver")},
    **{f"{method} manager": [1] for method in ("fork", "spawn", "forkserver")},
    "shared_memory": 7,
    "futures": [6],
    "sqlite": 0,
    "asyncio": "hello",
}


@pytest.mark.parametrize("server", ["platform", "user", "bare_user"])
def test_processes_and_servers_of_the_standard_library_work(request: pytest.FixtureRequest, server: str) -> None:
    platform: Platform = request.getfixturevalue(server)
    run: Run = platform.python(PROGRAM, "main")
    ended = wait_for_end(run, 120)
    assert ended["state"] == "completed", run.logs()
    assert {name: run.result[name] for name in EXPECTED} == EXPECTED
    assert sorted(run.result["files"]) == ["p", "z"]
