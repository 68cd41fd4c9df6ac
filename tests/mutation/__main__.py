"""Mutation testing: insert faults into the source one at a time, and count those that no test detects.

It needs the data of `make coverage`, which records the tests that execute each line. A fault is killed if one of the
tests that execute its line fails, and survives if none does within 90 seconds.
"""

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import coverage

from tests.architecture.modules import ROOT
from tests.mutation.contexts import DURATIONS
from tests.mutation.mutants import Mutant, choose_mutants, find_again

SECONDS = 90
TIMED_OUT = f"no test failed within {SECONDS} s"
MAX_TESTS = 300
IGNORED = shutil.ignore_patterns(".git", ".venv", "node_modules", ".*_cache", "__pycache__", "dist")
RUNS = "tests/processes/test_runs_"
# Tests in these folders start processes, so they run last.
PROCESSES = ("processes", "faults", "security", "docs", "cli", "fuzzing")


class Tests:
    """Which tests execute a line, fastest first."""

    def __init__(self, data_file: Path, durations: Mapping[str, float]) -> None:
        self._data = coverage.CoverageData(str(data_file))
        self._data.read()
        self._durations = durations
        self._files = {name.partition("/src/")[2]: name for name in self._data.measured_files()}
        self._lock = threading.Lock()  # SQLite's connection is shared

    def covering(self, mutant: Mutant) -> list[str]:
        """The tests to run for a mutant.

        A line that is executed during import gets the tests of the whole file. The supervisor of a run and its child
        processes run without site-packages, so their coverage is not measured. Therefore the local executor also gets
        all tests that execute runs. Browser tests are excluded, because a copy of the repository has no node_modules.
        """
        with self._lock:
            by_line = self._data.contexts_by_lineno(self._files.get(mutant.file, mutant.file))
        line_tests = set(by_line.get(mutant.line, ())) - {""}
        file_tests = set(chain.from_iterable(by_line.values())) - {""}
        runs = {test for test in self._durations if test.startswith(RUNS)} if "adapters/local" in mutant.file else set()
        return self._order({test for test in (line_tests or file_tests) | runs if not test.startswith("tests/ui/")})

    def _order(self, tests: set[str]) -> list[str]:
        """Interleave the tests of all files, so that many kinds of tests run early. Fast tests come first."""
        by_file = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self._durations.get(test, 1.0), test)):
            by_file[test.partition("::")[0]].append(test)
        files = sorted(by_file.values(), key=lambda tests_of_file: self._durations.get(tests_of_file[0], 1.0))
        fast = [tests_of_file for tests_of_file in files if not _starts_processes(tests_of_file[0])]
        slow = [tests_of_file for tests_of_file in files if _starts_processes(tests_of_file[0])]
        interleaved = [*chain.from_iterable(zip_longest(*fast)), *chain.from_iterable(zip_longest(*slow))]
        return [test for test in interleaved if test is not None][:MAX_TESTS]


def main() -> None:
    """Test all mutants, print each verdict, and write all of them to a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=150, help="the number of faults")
    parser.add_argument("--seed", type=int, default=17, help="the same seed gives the same faults")
    parser.add_argument(
        "--again", type=Path, help="test the mutants of an earlier report again, even if their lines have moved"
    )
    parser.add_argument("--report", type=Path, default=ROOT / ".pytest_cache" / "mutants.json")
    parser.add_argument("--data", type=Path, default=ROOT / ".coverage", help="the data of `make coverage`")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    mutants = choose_mutants(arguments.count, arguments.seed)
    killers: dict[Any, str | None] = {}
    if arguments.again:
        earlier = json.loads(arguments.again.read_text("utf-8"))
        mutants = find_again([Mutant(**entry["mutant"]) for entry in earlier])
        killers = {Mutant(**entry["mutant"]).key: entry["killer"] for entry in earlier}
    tests = Tests(arguments.data, json.loads(DURATIONS.read_text("utf-8")))
    verdicts: list[dict[str, Any]] = []
    copies: queue.Queue[Path] = queue.Queue()  # copies of the repository, one per worker

    def judge(mutant: Mutant) -> None:
        covering = tests.covering(mutant)
        if (killer := killers.get(mutant.key)) in covering:
            covering = [str(killer), *(test for test in covering if test != killer)]
        copy = copies.get()
        result = _find_killer(mutant, covering, copy) if covering else None
        copies.put(copy)
        killed_by = result if result != TIMED_OUT else None
        verdicts.append({"mutant": asdict(mutant), "killer": killed_by, "tests": len(covering)})
        explanation = result or f"{len(covering)} tests passed"
        print(f"{'killed  ' if killed_by else 'SURVIVED'} {mutant}  ({explanation})", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="fairlead-mutants-") as folder,
        ThreadPoolExecutor(arguments.workers) as pool,
    ):
        for number in range(arguments.workers):
            copies.put(Path(shutil.copytree(ROOT, Path(folder) / f"{number}", ignore=IGNORED, symlinks=True)))
        list(pool.map(judge, mutants))
    arguments.report.write_text(json.dumps(verdicts, indent=1), "utf-8")
    killed = sum(verdict["killer"] is not None for verdict in verdicts)
    print(f"{killed} of {len(verdicts)} mutants killed ({killed / len(verdicts):.1%})")


def _find_killer(mutant: Mutant, tests: list[str], copy: Path) -> str | None:
    """The first test that fails on a mutant, in a copy of the repository; TIMED_OUT if that takes too long."""
    source = copy / "src" / mutant.file
    original = source.read_bytes()
    source.write_bytes(mutant.apply(original))
    try:
        return _run_tests(tests, copy)
    finally:
        source.write_bytes(original)


def _run_tests(tests: list[str], copy: Path) -> str | None:
    """The first of the given tests that fails, TIMED_OUT, or None if they all pass."""
    list_file = copy.with_suffix(".tests")
    list_file.write_text("\n".join(tests), "utf-8")
    variables = {**os.environ, "PYTHONPATH": str(copy / "src"), "FAIRLEAD_SUITE": "all"}
    variables |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(copy.with_suffix(".bytecode"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", f"@{list_file}"],
        cwd=copy,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return TIMED_OUT
    if process.returncode == 0:
        return None
    if "ERROR: not found: " in output:
        # The names of parametrized tests contain their values, which the fault may have changed.
        functions = list(dict.fromkeys(test.partition("[")[0] for test in tests))
        if functions == tests:
            sys.exit("Tests were renamed or removed since they were measured. Run `make coverage` again.")
        return _run_tests(functions, copy)
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return failed[1] if failed else "import"


def _starts_processes(test: str) -> bool:
    return test.split("/")[1] in PROCESSES


if __name__ == "__main__":
    main()
