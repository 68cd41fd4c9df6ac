"""A server that tests can kill and restart with the same data folder and port, and a record of executed runs."""

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
        arguments, pipe = [sys.executable, "-m", "tests.faults.launcher"], subprocess.PIPE
        env = environment(home, {"PYTHONPATH": python_path})
        self._process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True, env=env, cwd=home)
        self._lock = threading.Lock()


class Site:
    """A data folder with a server, and a file in which every run records its execution."""

    def __init__(self, machine: Machine, shared: Path, options: tuple[str, ...], variables: Variables) -> None:
        self.machine, self.shared, self.options = machine, shared, options
        self.variables = {**CAPACITY, **(variables or {})}
        self.executions = shared / "executions"
        self.executions.touch()
        self.executions.chmod(0o666)
        self.server = machine.up(*options, variables=self.variables)
        self.port = self.server.url.rpartition(":")[2]
        self.data, self.token = self.server.data, self.server.token

    def up(self, **variables: str) -> RunningServer:
        """Start the server again, and wait until it is ready."""
        arguments = ("--port", self.port, *self.options)
        self.server = self.machine.up(*arguments, variables={**self.variables, **variables})
        return self.server

    def start(self, **variables: str) -> Process:
        """Start the server again without waiting. It may crash before it is ready."""
        arguments = ["up", "--data", str(self.data), "--port", self.port, *self.options]
        return self.machine._launch("fairlead.app", arguments, {**self.variables, **variables})

    def client(self, seconds: float = 60.0) -> httpx2.Client:
        """A client for the current server."""
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"http://127.0.0.1:{self.port}/api/v1"
        return httpx2.Client(base_url=url, headers=headers, **{**CLIENT_OPTIONS, "timeout": seconds})


@contextlib.contextmanager
def open_site(machine: Machine, *options: str, variables: Variables = None) -> Iterator[Site]:
    """Start a site. On exit, kill its runs' remaining processes."""
    with execution.open_folder(0o777) as shared:
        try:
            yield Site(machine, shared, options, variables)
        finally:
            machine.close()
            for run_id in execution.list_run_ids(machine.folder):
                execution.kill_processes(run_id)
