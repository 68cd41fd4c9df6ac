"""Runs as processes of this machine: each in a folder of its own, with a supervisor that outlives the server."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import fairlead
from fairlead.adapters.local import allocation, machine_checks, orphans, outputs
from fairlead.adapters.local.folders import RunFolder, observe_active, observe_ended
from fairlead.adapters.local.machines import Machine
from fairlead.adapters.local.pod_to_spec import Runtime
from fairlead.adapters.local.run_watcher import RunWatcher
from fairlead.adapters.local.specs import ERRORS, SOCKET, Spec
from fairlead.core.attempts import run_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.errors import NotFound, StartFailed, Unavailable
from fairlead.model.nodes import Holding, Node
from fairlead.model.observations import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile, Phase

SOON_SECONDS = 0.2
SUPERVISOR = "fairlead.adapters.local.supervisor"
PACKAGES = str(Path(fairlead.__file__).parent.parent)


class LocalExecutor:
    """This machine as a cluster of one node."""

    has_scheduler = False

    def __init__(self, data: Path, machine: Machine, runtime: Runtime) -> None:
        self.machine, self.runtime = machine, runtime
        self.runs, self.volumes = data / "runs", data / "volumes"
        self.is_root = os.getuid() == 0
        for folder in (self.runs, self.volumes):
            allocation.make_traversable(folder)
        if self.is_root and machine.isolation_error is not None:
            allocation.make_traversable(data)  # a run with an id of its own must get to its home; files stay closed
        self._opened = os.open(self.runs, os.O_PATH | os.O_DIRECTORY)
        self._lock = threading.Lock()
        self._spawned: dict[str, subprocess.Popen[bytes]] = {}
        self._live: dict[str, Spec] = {}
        self._watched: set[str] = set()
        self._watch = RunWatcher()
        for folder in self.runs.iterdir():
            self._adopt(RunFolder(folder))

    def subscribe(self, notify: Callable[[str], None]) -> None:
        """Whom to tell that something has changed about a run."""
        self._watch.notify = notify

    def close(self) -> None:
        """Look after nothing any more. Runs go on."""
        self._watch.close()
        os.close(self._opened)

    def start(self, work: LaunchSpec) -> None:
        """See to it that a run executes, unless it does or did. What keeps it from starting is observed."""
        folder = self._folder(work.run_id)
        with self._lock:
            if work.run_id in self._spawned or folder.state is not None or folder.has_ended:
                return
            try:
                place = allocation.allocate(work, folder.path, self.volumes, self.machine, self._live.values())
                spec = allocation.prepare_run(work, place, self.machine, self.runtime)
                self._spawned[work.run_id] = self._spawn(folder.path, dict(work.secrets))
                self._live[work.run_id] = spec
                self._follow(work.run_id, spec)
            except StartFailed as error:
                folder.fail("StartFailed", f"{error}" + (f": {error.hint}" if error.hint else ""))
                self._watch.notify(work.run_id)
                return
            except OSError as error:  # the disk is full, say: it may go better later
                shutil.rmtree(folder.path, ignore_errors=True)
                raise Unavailable(f"run {work.run_id} cannot be started: {error}") from error

    def stop(self, run_id: str) -> None:
        """See to it that a run ends. One that is not there, or has ended, stays so."""
        folder = self._folder(run_id)
        state = folder.state
        if state is None:
            if (spawned := self._spawned.get(run_id)) is not None:
                spawned.terminate()  # it ends at once, or has begun by now and ends the run
            return
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(state["pid"])
            try:
                if folder.is_supervised:  # asked after it was opened: so it is the supervisor, and not its number
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            finally:
                os.close(pidfd)

    def observe(self, run_id: str) -> Observation | None:
        """What is seen of a run; None where nothing is there."""
        folder = self._folder(run_id)
        if (outcome := folder.outcome) is None:
            state = folder.state
            if state is None:
                return self._observe_spawn(run_id, folder)
            if folder.is_supervised:
                self._watch_once(run_id, state["pid"])
                return observe_active(state)
            outcome = folder.outcome or self._bury(folder, state)
        self._let_go(run_id)
        return observe_ended(outcome)

    def clean_up(self, run_id: str) -> None:
        """Remove what a run that has ended needs no longer. Log, usage and output stay."""
        self._folder(run_id).clean_up()

    def delete_run(self, run_id: str) -> None:
        """Remove everything of a run."""
        self._let_go(run_id)
        shutil.rmtree(self.runs / run_id, ignore_errors=True)

    def list_volumes(self) -> list[str]:
        """The ids of shared volumes of which something is there."""
        return sorted(folder.name for folder in self.volumes.iterdir())

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume with all that is on it."""
        shutil.rmtree(self.volumes / volume_id, ignore_errors=True)

    def list_runs(self) -> list[str]:
        """The runs of which something is there."""
        return sorted(folder.name for folder in self.runs.iterdir())

    def nodes(self) -> NodeTable:
        """This machine, with what the runs hold that have not ended."""
        with self._lock:
            live = list(self._live.values())
        holdings = tuple(Holding(run_of(spec.run_id), spec.name, spec.amounts, spec.project) for spec in live)
        return NodeTable([Node(self.machine.name, self.machine.capacity, self.machine.labels, holdings)])

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """The log from a cursor on. Raise `NotFound` where it is not there any more."""
        return self._folder(run_id).read_log(cursor, max_bytes)

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """What a run used over time, the oldest sample first."""
        return self._folder(run_id).read_usage()

    def list_files(self, run_id: str) -> list[OutputFile]:
        """The files that a run left in its output folder."""
        return outputs.list_outputs(self.runs / run_id / "home" / "output")

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """One of those files. Raise `NotFound` where there is none."""
        try:
            return outputs.open_output(self.runs / run_id / "home" / "output", path)
        except OSError:
            raise NotFound(f"run {run_id} left no file {path!r}", "list its files to see what it left") from None

    def find_endpoint(self, run_id: str) -> Endpoint:
        """How to speak to what a run serves, on a path that the run cannot have put a link into."""
        folder = self._folder(run_id)
        spec = self._live.get(run_id)
        if spec is None or not spec.serves or folder.has_ended:
            raise NotFound(f"run {run_id} serves nothing, or is not there any more")
        address = (folder.state or {}).get("address")
        if address is None:
            raise Unavailable(f"run {run_id} does not answer yet")
        if address == SOCKET:  # through the folder that is open here: the address of a socket has at most 107 bytes
            return Endpoint("http://localhost", f"/proc/self/fd/{self._opened}/{run_id}/{SOCKET}")
        return Endpoint(f"http://{address}")

    def check(self, projects: Sequence[str]) -> list[Check]:  # noqa: ARG002
        """What this machine has, and how it keeps runs apart: the same for all projects."""
        return list(machine_checks.check_machine(self.machine, is_root=self.is_root))

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.runs / run_id)

    def _spawn(self, folder: Path, secrets: dict[str, str]) -> subprocess.Popen[bytes]:
        with (folder / ERRORS).open("wb") as errors:
            spawned = subprocess.Popen(
                # Without what is installed: it needs nothing of that, and starts in half the time.
                [sys.executable, "-S", "-s", "-P", "-m", SUPERVISOR, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"PYTHONPATH": PACKAGES},
                start_new_session=True,
                cwd="/",
            )
        assert spawned.stdin is not None
        assert spawned.stdout is not None
        with contextlib.suppress(BrokenPipeError), spawned.stdin:
            spawned.stdin.write(json.dumps(secrets).encode())
        self._watch.add(folder.name, spawned.stdout.fileno(), lambda: spawned.stdout.close())  # type: ignore[union-attr]
        self._watch_once(folder.name, spawned.pid)
        return spawned

    def _adopt(self, folder: RunFolder) -> None:
        """Look after a run that was started before this server."""
        if folder.has_ended:
            return
        state, run_id = folder.state, folder.path.name
        if state is not None or folder.is_supervised:
            self._live[run_id] = spec = Spec.load(folder.path)
            self._follow(run_id, spec)
        if state is not None:
            self._watch_once(run_id, state["pid"])

    def _follow(self, run_id: str, spec: Spec) -> None:
        """Hear of what becomes of a run that serves, which is told time and again."""
        if spec.serves:
            self._watch.add_folder(run_id, self.runs / run_id)

    def _watch_once(self, run_id: str, pid: int) -> None:
        """Hear of the end of a supervisor."""
        if run_id not in self._watched:
            self._watched.add(run_id)
            self._watch.add_process(run_id, pid)

    def _observe_spawn(self, run_id: str, folder: RunFolder) -> Observation | None:
        """What is seen of a run that has not begun: its supervisor may be about to, also one of another server."""
        spawned = self._spawned.get(run_id)
        if spawned is not None and spawned.poll() is None:
            return Observation(Phase.STARTING)
        if folder.is_supervised:
            threading.Timer(SOON_SECONDS, self._watch.notify, [run_id]).start()  # by then it has said who it is
            return Observation(Phase.STARTING)
        if folder.state is not None:
            return self.observe(run_id)
        if spawned is None or spawned.returncode in (0, -signal.SIGTERM, os.EX_TEMPFAIL):
            self._let_go(run_id)
            return None
        told = folder.supervisor_error or f"it exited with {spawned.returncode}"
        folder.fail("StartFailed", f"its supervisor did not start: {told}")
        return self.observe(run_id)

    def _bury(self, folder: RunFolder, state: dict[str, Any]) -> dict[str, Any]:
        """A run whose supervisor is gone and has not told how it ended: end what is left of it, and say so."""
        orphans.kill_processes_of(Spec.load(folder.path).env["FAIRLEAD_RUN"])
        reason, message = "SupervisorLost", "the process that looked after it was killed, and it was ended with it"
        if state["boot_id"] != self.machine.boot_id:
            reason, message = "NodeLost", "this machine was started anew while it ran"
        elif told := folder.supervisor_error:
            message = f"the process that looked after it failed, and it was ended with it: {told}"
        return folder.fail(reason, message, state["started_at"])

    def _let_go(self, run_id: str) -> None:
        self._watch.remove_folder(run_id)
        with self._lock:
            self._live.pop(run_id, None)
            self._watched.discard(run_id)
            spawned = self._spawned.pop(run_id, None)
        if spawned is not None:
            spawned.wait()
