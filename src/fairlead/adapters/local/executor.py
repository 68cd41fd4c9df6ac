"""Executes runs as processes on this machine, each with a supervisor that survives server restarts.

Linux only: epoll and inotify report changes, instead of polling.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import fairlead
from fairlead.adapters.local import allocation, folders, machines
from fairlead.adapters.local.allocation import Runtime
from fairlead.adapters.local.cgroups import Cgroup, create_cgroup
from fairlead.adapters.local.folders import RunFolder, observe_active, observe_ended, remove_tree
from fairlead.adapters.local.id_table import DEFAULT_FILE, IdTable
from fairlead.adapters.local.machines import Machine
from fairlead.adapters.local.orphans import kill_processes_of
from fairlead.adapters.local.specs import ERRORS, SOCKET, SPEC, Spec
from fairlead.errors import NotFound, StartFailed, Unavailable
from fairlead.lifecycle.attempts import run_id_of
from fairlead.model.nodes import Node, NodeTable, ScheduledPod
from fairlead.model.runs import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile, Phase
from fairlead.run_events import RunEvent, RunEvents

IN_MOVED_TO = 0x80  # files are replaced by renaming, so they are always complete
INOTIFY_EVENT = struct.Struct("iIII")  # watch descriptor, mask, cookie, and length of the name that follows

_libc = ctypes.CDLL(None, use_errno=True)

RECHECK_SECONDS = 0.2
SUPERVISOR = "fairlead.adapters.local.supervisor"
PACKAGES = str(Path(fairlead.__file__).parent.parent)


class RunWatcher:
    """Publishes an event when a run may have changed. One thread watches all runs."""

    def __init__(self, run_events: RunEvents) -> None:
        self._run_events = run_events
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._folders: dict[int, str] = {}  # run IDs by inotify watch descriptor
        self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # -1 if the limit on instances is reached
        if self._inotify >= 0:
            self._selector.register(self._inotify, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._loop, name="watch", daemon=True)
        self._thread.start()

    def add(self, run_id: str, fd: int, close: Callable[[], None]) -> None:
        """Notify once when a file descriptor becomes readable."""
        with self._lock:
            self._selector.register(fd, selectors.EVENT_READ, (run_id, close))
        os.write(self._waker, b".")

    def add_process(self, run_id: str, pid: int) -> None:
        """Notify when a process ends, even one that another server started."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            self.add(run_id, pidfd, lambda: os.close(pidfd))

    def add_folder(self, run_id: str, folder: Path) -> None:
        """Notify each time a file in a folder is replaced, for as long as the folder exists.

        If inotify is not available, the controller's periodic check finds the change later.
        """
        with self._lock:
            descriptor = _libc.inotify_add_watch(self._inotify, os.fsencode(folder), IN_MOVED_TO)
            if descriptor >= 0:
                self._folders[descriptor] = run_id

    def remove_folder(self, run_id: str) -> None:
        """Stop watching a folder."""
        with self._lock:
            for descriptor in [descriptor for descriptor, known in self._folders.items() if known == run_id]:
                del self._folders[descriptor]
                _libc.inotify_rm_watch(self._inotify, descriptor)

    def notify(self, run_id: str) -> None:
        """Publish that a run may have changed."""
        self._run_events.publish(RunEvent.OBSERVED, run_id_of(run_id))

    def close(self) -> None:
        """Stop watching."""
        os.write(self._waker, b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[1]()
        self._selector.close()
        if self._inotify >= 0:
            os.close(self._inotify)
        os.close(self._wake)
        os.close(self._waker)

    def _loop(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._inotify:
                    self._read_inotify()
                    continue
                if key.data is None:
                    if b"x" in os.read(self._wake, 4096):
                        return
                    continue
                run_id, close = key.data
                # Notify only once, because a pipe at its end and the pidfd of an ended process stay readable.
                with self._lock:
                    self._selector.unregister(key.fd)
                close()
                self.notify(run_id)

    def _read_inotify(self) -> None:
        data, at, descriptors = os.read(self._inotify, 1 << 16), 0, set()
        while at < len(data):
            descriptor, _, _, length = INOTIFY_EVENT.unpack_from(data, at)
            at += INOTIFY_EVENT.size + length
            descriptors.add(descriptor)
        # Send one notification per run, however many files were replaced.
        with self._lock:
            run_ids = [self._folders[descriptor] for descriptor in descriptors & self._folders.keys()]
        for run_id in run_ids:
            self.notify(run_id)


class LocalExecutor:
    """Executes runs on this machine, as a cluster with a single node."""

    has_scheduler = False

    def __init__(
        self,
        data: Path,
        machine: Machine,
        runtime: Runtime,
        run_events: RunEvents,
        id_table: Path = DEFAULT_FILE,
    ) -> None:
        self.machine, self.runtime = machine, runtime
        self.runs, self.volumes = data / "runs", data / "volumes"
        self.is_root = os.getuid() == 0
        self.capabilities = machines.find_capabilities(machine, is_root=self.is_root)
        for folder in (self.runs, self.volumes):
            allocation.make_traversable(folder)
        if self.is_root and machine.isolation_error is not None:
            allocation.make_traversable(data)  # a run's user must be able to reach the run's home; files stay private
        self._ids = IdTable(id_table, data) if self.is_root else None
        self._runs_fd = os.open(self.runs, os.O_PATH | os.O_DIRECTORY)
        self._lock = threading.Lock()
        self._supervisors: dict[str, subprocess.Popen[bytes]] = {}  # children of this process, which it must reap
        self._active: dict[str, Spec] = {}  # runs that occupy resources
        self._watched: set[str] = set()
        self._watcher = RunWatcher(run_events)
        for folder in self.runs.iterdir():
            self._adopt(RunFolder(folder))
        for folder in machine.cgroups.list_runs(self.runs):
            if not folder.exists() or RunFolder(folder).has_ended:
                Cgroup(machine.cgroups.folders_of(folder)).remove(kill=True)

    def close(self) -> None:
        """Stop watching runs. The runs keep running."""
        self._watcher.close()
        os.close(self._runs_fd)

    def start(self, launch: LaunchSpec) -> None:
        """Start the run. Idempotent. If the start fails, `observe` reports it."""
        folder = self._folder(launch.execution_id)
        # One start at a time, so that no two runs are allocated the same cores, GPUs or port.
        with self._lock:
            if launch.execution_id in self._supervisors or folder.was_started:
                return
            try:
                active = self._active.values()
                allocated = allocation.allocate(launch, folder.path, self.volumes, self.machine, active, self._ids)
                spec = allocation.prepare_run(launch, allocated, self.machine, self.runtime)
                create_cgroup(spec)
                self._supervisors[launch.execution_id] = self._spawn(folder.path, dict(launch.secrets))
                self._active[launch.execution_id] = spec
                self._watch_folder(launch.execution_id, spec)
            except StartFailed as error:
                folder.fail("StartFailed", f"{error}" + (f": {error.hint}" if error.hint else ""))
                self._watcher.notify(launch.execution_id)
                return
            except OSError as error:  # for example a full disk: a later attempt may succeed
                folder.delete()
                Cgroup(self.machine.cgroups.folders_of(folder.path)).remove(kill=True)
                raise Unavailable(f"cannot start run {launch.execution_id}: {error}") from error

    def stop(self, run_id: str) -> None:
        """Stop the run. Does nothing if the run has ended or does not exist."""
        folder = self._folder(run_id)
        state = folder.state
        if state is None:
            if (supervisor := self._supervisors.get(run_id)) is not None:
                supervisor.terminate()  # it exits at once, or has already installed its handler and stops the run
            return
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(state["pid"])
            try:
                if folder.is_supervised:  # checked after opening, so the pidfd cannot belong to a reused PID
                    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
            finally:
                os.close(pidfd)

    def observe(self, run_id: str) -> Observation | None:
        """Return the current state of the run; None if it does not exist."""
        folder = self._folder(run_id)
        if (outcome := folder.outcome) is None:
            state = folder.state
            if state is None:
                return self._observe_starting(run_id, folder)
            if folder.is_supervised:
                self._watch_supervisor(run_id, state["pid"])
                return observe_active(state)
            # The supervisor may have written the outcome and exited since the outcome was read above.
            outcome = folder.outcome or self._fail_lost_run(folder, state)
        self._release(run_id)
        return observe_ended(outcome)

    def clean_up(self, run_id: str) -> None:
        """Remove the work files of a run that has ended. The log, usage and output are kept."""
        self._folder(run_id).clean_up()

    def delete_run(self, run_id: str) -> None:
        """Remove all data of the run."""
        self._release(run_id)
        self._folder(run_id).delete()

    def list_volumes(self) -> list[str]:
        """Return the IDs of the shared volumes that exist."""
        return sorted(folder.name for folder in self.volumes.iterdir())

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume and its contents."""
        remove_tree(self.volumes / volume_id)

    def list_runs(self) -> list[str]:
        """Return the IDs of the runs that have a folder."""
        return sorted(folder.name for folder in self.runs.iterdir())

    def nodes(self) -> NodeTable:
        """Return this machine as a node, with the resources allocated to active runs."""
        with self._lock:
            active = list(self._active.values())
        holdings = tuple(
            ScheduledPod(run_id_of(spec.run_id), spec.name, spec.amounts, spec.project_id) for spec in active
        )
        return NodeTable([Node(self.machine.name, self.machine.capacity, self.machine.labels, holdings)])

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """Return the log starting at `cursor`. Raises `NotFound` if it was deleted."""
        return self._folder(run_id).read_log(cursor, max_bytes)

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """Return the usage samples of a run, oldest first."""
        return self._folder(run_id).read_usage()

    def list_files(self, run_id: str) -> list[OutputFile]:
        """List the files in the run's output folder."""
        return folders.list_outputs(self.runs / run_id / "home" / "output")

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """Open an output file. Raises `NotFound` if it does not exist."""
        try:
            return folders.open_output(self.runs / run_id / "home" / "output", path)
        except OSError:
            raise NotFound(f"run {run_id} has no output file {path!r}", "list the run's output files") from None

    def find_endpoint(self, run_id: str) -> Endpoint:
        """Return the address of a served run. The run cannot replace the socket at this path with a symbolic link."""
        folder = self._folder(run_id)
        spec = self._active.get(run_id)
        if spec is None or not spec.serves or folder.has_ended:
            raise NotFound(f"run {run_id} does not exist or does not serve requests")
        address = (folder.state or {}).get("address")
        if address is None:
            raise Unavailable(f"run {run_id} is not accepting connections yet")
        if address == SOCKET:  # relative to the open folder: a Unix socket path is limited to 107 bytes
            return Endpoint("http://localhost", f"/proc/self/fd/{self._runs_fd}/{run_id}/{SOCKET}")
        return Endpoint(f"http://{address}")

    def check(self, projects: Sequence[str]) -> list[Check]:  # noqa: ARG002
        """Report the resources of this machine and how it isolates runs, which is the same for all projects."""
        return list(machines.check_machine(self.machine, is_root=self.is_root))

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.runs / run_id)

    def _spawn(self, folder: Path, secrets: dict[str, str]) -> subprocess.Popen[bytes]:
        with (folder / ERRORS).open("wb") as errors:
            supervisor = subprocess.Popen(
                # Skip site-packages, which the supervisor does not need. This halves its start time.
                [sys.executable, "-S", "-s", "-P", "-m", SUPERVISOR, str(folder)],
                stdin=subprocess.PIPE,  # for the secrets, because other users could read arguments
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"PYTHONPATH": PACKAGES},  # the server's variables may contain its own secrets
                start_new_session=True,  # Ctrl+C in the server's terminal must not reach runs
                cwd="/",
            )
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        # The supervisor exits without reading stdin if the run already has a supervisor.
        with contextlib.suppress(BrokenPipeError), supervisor.stdin:
            supervisor.stdin.write(json.dumps(secrets).encode())
        # The supervisor closes stdout when the run has started, which notifies the controller.
        self._watcher.add(folder.name, supervisor.stdout.fileno(), lambda: supervisor.stdout.close())  # type: ignore[union-attr]
        self._watch_supervisor(folder.name, supervisor.pid)
        return supervisor

    def _adopt(self, folder: RunFolder) -> None:
        """Watch a run that was started before this server."""
        if folder.has_ended:
            return
        state, run_id = folder.state, folder.path.name
        if state is not None or folder.is_supervised:
            self._active[run_id] = spec = Spec.load(folder.path)
            self._watch_folder(run_id, spec)
        if state is not None:
            self._watch_supervisor(run_id, state["pid"])

    def _watch_folder(self, run_id: str, spec: Spec) -> None:
        """Watch a served run's state file, which changes more than once."""
        if spec.serves:
            self._watcher.add_folder(run_id, self.runs / run_id)

    def _watch_supervisor(self, run_id: str, pid: int) -> None:
        if run_id not in self._watched:
            self._watched.add(run_id)
            self._watcher.add_process(run_id, pid)

    def _observe_starting(self, run_id: str, folder: RunFolder) -> Observation | None:
        """Return the state of a run whose supervisor, possibly started by another server, has not written any state."""
        supervisor = self._supervisors.get(run_id)
        if supervisor is not None and supervisor.poll() is None:
            return Observation(Phase.STARTING)
        if folder.is_supervised:
            # Check again when the supervisor has had time to write its state.
            threading.Timer(RECHECK_SECONDS, self._watcher.notify, [run_id]).start()
            return Observation(Phase.STARTING)
        if folder.state is not None:  # written since `observe` read it
            return self.observe(run_id)
        spec = self._active.get(run_id)
        if spec is not None and not (folder.path / SPEC).exists():
            # The supervisor has noticed this and killed the run, unless it was itself killed.
            kill_processes_of(spec.env["FAIRLEAD_RUN"])
            self._release(run_id)
            # Without the path: members of a project must not learn where the server stores its data.
            message = "the run's folder was deleted while the run was active, so the run was killed"
            return Observation(Phase.FAILED, "FolderDeleted", message)
        # There was already a supervisor, this one was stopped early, or the disk was full: the run has not started, and
        # the controller decides whether to start it again.
        if supervisor is None or supervisor.returncode in (0, -signal.SIGTERM, os.EX_TEMPFAIL):
            self._release(run_id)
            return None
        error = folder.supervisor_error or f"it exited with {supervisor.returncode}"
        folder.fail("StartFailed", f"the run's supervisor did not start: {error}")
        return self.observe(run_id)

    def _fail_lost_run(self, folder: RunFolder, state: dict[str, Any]) -> dict[str, Any]:
        """Fail a run whose supervisor died without writing an outcome, after killing its remaining processes."""
        # Without a PID namespace, the run's descendants may survive the supervisor.
        spec = Spec.load(folder.path)
        if spec.cgroup:
            Cgroup(spec.cgroup).kill()
        else:
            kill_processes_of(spec.env["FAIRLEAD_RUN"])
        reason, message = "SupervisorLost", "the run's supervisor was killed, and the run was killed with it"
        if state["boot_id"] != self.machine.boot_id:
            reason, message = "NodeLost", "this machine was rebooted while the run was active"
        elif error := folder.supervisor_error:
            message = f"the run's supervisor failed, and the run was killed with it: {error}"
        return folder.fail(reason, message, state["started_at"])

    def _release(self, run_id: str) -> None:
        self._watcher.remove_folder(run_id)
        with self._lock:
            spec = self._active.pop(run_id, None)
            self._watched.discard(run_id)
            supervisor = self._supervisors.pop(run_id, None)
        if supervisor is not None:
            supervisor.wait()  # reap it; it exits right after it has written the outcome
        if spec is not None:
            Cgroup(spec.cgroup).remove(kill=True)  # the supervisor does this, unless it was killed
