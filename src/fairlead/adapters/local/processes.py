"""Starts a run's process under an init process, and measures, finds and kills the processes of runs.

Standard library only. Process tree: supervisor, init, run. Init reaps its children and reports the exit status. If the
supervisor is killed, the kernel also kills init, and with init all processes in its PID namespace, if it has one.
"""

import contextlib
import os
import resource
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fairlead.adapters.local import landlock, namespaces, seccomp
from fairlead.adapters.local.cgroups import Cgroup
from fairlead.adapters.local.specs import Spec, UserMapping

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

NICENESS = 5  # so that the server stays responsive while runs use all cores
MAP_IDS = b"?"
RESTART = b"again"
KILL_ALL = signal.SIGUSR1  # tells init to kill all other processes in its PID namespace
OOM_SCORE_ADJ = 500  # if the machine runs out of memory, the kernel kills runs first


class Process(NamedTuple):
    """A process, from /proc/<pid>/stat."""

    pid: int
    parent: int
    cpu_seconds: float
    resident: int


def list_tree(proc: str, root_pid: int) -> list[Process]:
    """List a process and its descendants; empty if the process has ended."""
    children: dict[int, list[Process]] = {}
    tree: list[Process] = []
    try:
        names = os.listdir(proc)
    except OSError:
        return []
    for name in names:
        if name.isdigit() and (process := _read_process(proc, name)) is not None:
            children.setdefault(process.parent, []).append(process)
            if process.pid == root_pid:
                tree.append(process)
    for process in tree:  # the list grows during iteration, to include children of children
        tree += children.get(process.pid, [])
    return tree


def measure_memory(proc: str, processes: list[Process], limit: int | None = None, mounted: int = 0) -> int:
    """Return the memory of all processes and of tmpfs mounts. Above `limit`, shared memory is counted only once."""
    # The sum counts shared pages once per process, so it is an upper bound, which is good enough below the limit.
    resident = sum(process.resident for process in processes) + mounted
    if limit is None or resident <= limit or (len(processes) < 2 and not mounted):
        return resident
    sizes = [_read_pss(proc, process) for process in processes]
    # Files on tmpfs that are mapped are part of both amounts, so count the larger one.
    return sum(private for private, _ in sizes) + max(mounted, sum(shared for _, shared in sizes))


def measure_mount(path: str) -> int:
    """Return the number of bytes used on the file system mounted at a path."""
    try:
        file_system = os.statvfs(path)
    except OSError:
        return 0
    return (file_system.f_blocks - file_system.f_bfree) * file_system.f_frsize


def count_oom_kills() -> int:
    """Return how many processes this machine's kernel has killed because memory ran out."""
    try:
        for line in Path("/proc/vmstat").read_text("ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def _read_process(proc: str, name: str) -> Process | None:
    try:
        with open(f"{proc}/{name}/stat", "rb") as file:
            # The program name is in parentheses and may contain any character.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # The first two fields were cut off. Numbers in proc(5): parent 4, user and system time 14, 15, resident pages 24.
    return Process(
        int(name), int(fields[1]), (int(fields[11]) + int(fields[12])) / CLOCK_TICKS, int(fields[21]) * PAGE_SIZE
    )


def _read_pss(proc: str, process: Process) -> tuple[int, int]:
    """Return a process's proportional set size (PSS) in two parts: tmpfs files and shared memory are the second."""
    sizes = {}
    try:
        with open(f"{proc}/{process.pid}/smaps_rollup", "rb") as file:
            sizes = {words[0]: int(words[1]) * 1024 for line in file if len(words := line.split()) == 3}
    except OSError:
        pass  # the process has ended, or belongs to another user
    shared = sizes.get(b"Pss_Shmem:", 0)
    return sizes.get(b"Pss:", process.resident) - shared, shared


@dataclass
class RunProcess:
    """A started run: its init process and the pipes to it."""

    init_pid: int
    streams: dict[str, int]
    report: int
    isolated: bool
    cgroup: Cgroup
    restart_fd: int = -1  # tells init to start the run again; closed to let it exit
    proc: str = field(init=False)  # the proc file system with the run's processes
    root_pid: int = field(init=False)  # the PID of init in it

    def __post_init__(self) -> None:
        self.proc = f"/proc/{self.init_pid}/root/proc" if self.isolated else "/proc"
        self.root_pid = 1 if self.isolated else self.init_pid

    def terminate(self) -> None:
        """Send SIGTERM to the run."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the run and all of its processes."""
        if self.isolated:
            self._signal(signal.SIGKILL)
        else:
            self.kill_processes()  # init reaps them, reports the exit status, and exits when released

    def kill_processes(self) -> None:
        """Kill all processes of the run but not init, so that the run can be restarted."""
        if self.isolated:
            self._signal(KILL_ALL)
            return
        if self.cgroup.folders:
            self.cgroup.kill(keep=self.init_pid)
            return
        for process in reversed(list_tree("/proc", self.init_pid)):
            if process.pid != self.init_pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def restart(self) -> None:
        """Start the run again after it has exited."""
        with contextlib.suppress(BrokenPipeError):  # init was killed, as the end of its report pipe shows
            os.write(self.restart_fd, RESTART)

    def release(self) -> None:
        """Let init exit after the run has ended."""
        if self.restart_fd >= 0:
            os.close(self.restart_fd)
            self.restart_fd = -1

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init_pid, number)


def start_process(spec: Spec, folder: Path, secrets: dict[str, str], lock: int) -> RunProcess:
    """Start a run. Errors are reported through the pipe. `lock` is closed in init, so only the supervisor holds it."""
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "report")}
    restart_pipe = os.pipe()
    if spec.isolated:
        _enter_pid_namespace(spec.identity)
    # Block SIGTERM until init can forward it. Otherwise it would be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    parent = os.getpid()
    cgroup = Cgroup(spec.cgroup)
    init_pid = os.fork()
    if init_pid == 0:
        write_ends = {name: ends[1] for name, ends in pipes.items()}
        os.close(restart_pipe[1])
        os.close(lock)
        try:
            if _set_parent_death_signal(parent, isolated=spec.isolated):
                cgroup.enter()
                _run_init(spec, folder, secrets, write_ends, restart_pipe[0])
        except BaseException as error:
            _report(write_ends["report"], f"error {_describe_error(error)}")
        finally:
            os._exit(0)  # never return to the supervisor's code
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for end in (*(ends[1] for ends in pipes.values()), restart_pipe[0]):
        os.close(end)
    streams = {name: pipes[name][0] for name in ("stdout", "stderr")}
    return RunProcess(init_pid, streams, pipes["report"][0], spec.isolated, cgroup, restart_pipe[1])


def check_namespaces() -> None:
    """Check that this machine supports namespaces for runs. Raises `OSError` if it does not."""
    root = os.getuid() == 0
    _enter_pid_namespace(UserMapping(1000, 1000))
    child = os.fork()
    if child == 0:
        try:
            namespaces.unshare(namespaces.CLONE_NEWNS | namespaces.CLONE_NEWIPC)
            namespaces.mount(None, "/", flags=namespaces.MS_REC | namespaces.MS_PRIVATE)
            namespaces.mount("tmpfs", "/tmp", "tmpfs")
            os.mkdir("/tmp/proc")
            namespaces.mount("proc", "/tmp/proc", "proc")
            if root:
                namespaces.unshare(namespaces.CLONE_NEWUSER)
        except OSError as error:
            os.write(2, f"{_describe_error(error)}\n".encode())
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(1)


def _enter_pid_namespace(identity: UserMapping) -> None:
    """Create a PID namespace, whose process 1 will be the next child. Users other than root need a user namespace."""
    if os.getuid() == 0:
        namespaces.unshare(namespaces.CLONE_NEWPID)
    else:
        namespaces.enter_user_namespace(identity, namespaces.CLONE_NEWPID)


def _run_init(spec: Spec, folder: Path, secrets: dict[str, str], pipes: dict[str, int], restart_fd: int) -> None:
    """As init, start the run and wait until it exits; repeat on request."""
    signal.set_wakeup_fd(-1)  # the pipe belongs to the supervisor
    os.umask(0o022)
    # Without a PID namespace, the run's orphans become children of this process, so that it can kill them.
    namespaces.prctl(namespaces.PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(pipes["stdout"], 1)
    os.dup2(pipes["stderr"], 2)
    if spec.isolated:
        namespaces.enter_namespaces(spec, str(folder / "root"), secrets)
        signal.signal(KILL_ALL, lambda *_: _kill_all())
    while True:
        _run_once(spec, secrets, pipes["report"])
        if not os.read(restart_fd, len(RESTART)):
            return


def _run_once(spec: Spec, secrets: dict[str, str], report: int) -> None:
    requests, replies = os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid == 0:
        try:
            _exec_run(spec, secrets, request_fd=requests[1], reply_fd=replies[0])
        except BaseException as error:
            _report(requests[1], _describe_error(error))
        finally:
            os._exit(126)
    signal.signal(signal.SIGTERM, lambda *_: _forward_sigterm(pid))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(requests[1])
    start_error = os.read(requests[0], 4096)  # empty after a successful exec, which closes the pipe
    # The child is in a new user namespace. Only a privileged process outside it can map it to other IDs.
    if start_error == MAP_IDS:
        namespaces.map_ids(pid, spec.identity)
        os.write(replies[1], b"!")
        start_error = os.read(requests[0], 4096)
    for end in (requests[0], *replies):
        os.close(end)
    _report(report, f"error {start_error.decode('utf-8', 'replace').strip()}" if start_error else "running")
    status = _reap_until(pid)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the PID may be reused from now on
    # In a job's PID namespace, the kernel kills the remaining processes when init exits.
    if not spec.isolated or spec.serves:
        _kill_and_reap_children()
    rusage = resource.getrusage(resource.RUSAGE_CHILDREN)
    _report(report, f"used {rusage.ru_utime + rusage.ru_stime:.3f} {rusage.ru_maxrss * 1024}")
    _report(report, f"ended {status}")


def _exec_run(spec: Spec, secrets: dict[str, str], request_fd: int, reply_fd: int) -> None:
    """Apply the run's user, limits and environment, then replace this process with its program."""
    os.setsid()
    # Write this before the IDs change: afterwards the file belongs to root, and the process may not write to it.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJ), "ascii")
    if _has_own_ids(spec):
        namespaces.unshare(namespaces.CLONE_NEWUSER)
        os.write(request_fd, MAP_IDS)
        os.read(reply_fd, 1)
    namespaces.drop_capabilities()
    identity = spec.identity
    if identity.outer_uid is not None and identity.outer_gid is not None:
        if "pids" not in spec.cgroup:  # the kernel counts per user, and this user has no other processes
            resource.setrlimit(resource.RLIMIT_NPROC, (spec.max_processes, spec.max_processes))
        inside = spec.isolated
        # Set the user last, because this process can no longer change its groups after that.
        os.setgroups(identity.groups if inside else identity.outer_groups)
        gid, uid = (identity.gid, identity.uid) if inside else (identity.outer_gid, identity.outer_uid)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    # Must be set here: it is not inherited from init, and the kernel clears it when the user changes.
    _set_parent_death_signal(os.getppid(), isolated=True)
    namespaces.prctl(namespaces.PR_SET_NO_NEW_PRIVS, 1)
    os.nice(NICENESS)
    if spec.cpus:
        os.sched_setaffinity(0, spec.cpus)
    os.umask(0o002)  # other runs of the project may write to this run's files on shared volumes
    _enter_folder(spec.cwd)
    # Ignored and blocked signals survive exec, and Python ignores SIGPIPE: `yes | head` would never end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    env = {**spec.env, **{name: secrets[name] for name in spec.secret_envs}}
    landlock.restrict(spec)
    seccomp.install()  # last, because it denies system calls that the lines above make
    try:
        os.execvpe(spec.command[0], spec.command, env)
    except OSError as error:
        message = f"cannot run {spec.command[0]}: {os.strerror(error.errno or 0).lower()}"
        if isinstance(error, PermissionError):
            message += "; set FAIRLEAD_PYTHON to an interpreter that every user can run"
        raise OSError(error.errno, message) from None


def _enter_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        hint = "set FAIRLEAD_DATA to a folder that every user can traverse, such as /var/lib/fairlead"
        message = f"cannot enter {folder}: {os.strerror(error.errno or 0).lower()}; {hint}"
        raise OSError(error.errno, message) from None


def _has_own_ids(spec: Spec) -> bool:
    """Whether the run has a user namespace with the IDs of a different host user, which only root can map."""
    return spec.isolated and spec.identity.outer_uid is not None


def _set_parent_death_signal(parent: int, *, isolated: bool) -> bool:
    """Have the kernel kill this process when its parent ends; return False if the parent has already ended.

    In a new PID namespace the parent is outside, so its PID cannot be checked.
    """
    namespaces.prctl(namespaces.PR_SET_PDEATHSIG, signal.SIGKILL)
    return isolated or os.getppid() == parent


def _forward_sigterm(pid: int) -> None:
    """Send SIGTERM to the run's process group, or to the run itself before it has called setsid."""
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def _kill_all() -> None:
    """Kill all processes in this PID namespace except init."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _reap_until(run_pid: int) -> int:
    """Reap children until the run has exited; return its status."""
    while True:
        pid, status = os.wait()
        if pid == run_pid:
            return status


def _kill_and_reap_children() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            for process in list_tree("/proc", os.getpid())[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            os.wait()


def _report(pipe: int, line: str) -> None:
    os.write(pipe, f"{line[:4000]}\n".encode("utf-8", "replace"))


def _describe_error(error: BaseException) -> str:
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(f"{message}".split()) or type(error).__name__
