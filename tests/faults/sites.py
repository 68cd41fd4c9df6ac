"""A server for tests that may die and come back: the same folder, the same address, and runs that can tell they ran."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2

from tests.architecture.modules import ROOT
from tests.processes import execution
from tests.processes.machines import CLIENT_OPTIONS, Launcher, Machine, Process, RunningServer, Variables, environment

CAPACITY = {"FAIRLEAD_CAPACITY": "cpu=1000,mem=1000Gi,disk=1000Gi,runs=8"}


class FaultyLauncher(Launcher):
    """Starts servers with the faults that their environment variables describe."""

    def __init__(self, home: Path) -> None:
        python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        words, pipe = [sys.executable, "-m", "tests.faults.launcher"], subprocess.PIPE
        given = environment(home, {"PYTHONPATH": python_path})
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=given, cwd=home)
        self._one = threading.Lock()


class Site:
    """A data folder with a server, and a folder in which every run notes that it ran."""

    def __init__(self, machine: Machine, shared: Path, options: tuple[str, ...], variables: Variables) -> None:
        self.machine, self.shared, self.options = machine, shared, options
        self.variables = {**CAPACITY, **(variables or {})}
        self.ran = shared / "ran"
        self.ran.touch()
        self.ran.chmod(0o666)
        self.server = machine.up(*options, variables=self.variables)
        self.port = self.server.url.rpartition(":")[2]
        self.data, self.token = self.server.data, self.server.token

    def up(self, **variables: str) -> RunningServer:
        """Start the server again, and wait until it answers."""
        words = ("--port", self.port, *self.options)
        self.server = self.machine.up(*words, variables={**self.variables, **variables})
        return self.server

    def start(self, **variables: str) -> Process:
        """Start the server again, which may die before it answers."""
        words = ["up", "--data", str(self.data), "--port", self.port, *self.options]
        return self.machine._launch("fairlead.app", words, {**self.variables, **variables})

    def client(self, seconds: float = 60.0) -> httpx2.Client:
        """A client of the current server."""
        sent = {"Authorization": f"Bearer {self.token}"}
        url = f"http://127.0.0.1:{self.port}/api/v1"
        return httpx2.Client(base_url=url, headers=sent, **{**CLIENT_OPTIONS, "timeout": seconds})


@contextlib.contextmanager
def open_site(machine: Machine, *options: str, variables: Variables = None) -> Iterator[Site]:
    """A site; what is left of its runs is ended, by its ids."""
    with execution.open_folder(0o777) as shared:
        try:
            yield Site(machine, shared, options, variables)
        finally:
            machine.close()
            for run_id in execution.list_run_ids(machine.folder):
                execution.kill_processes(run_id)
