"""The process of a run, and the one next to it that starts it, reaps what it leaves and tells how it ended.

Standard library only. supervisor > keeper > the run: when the supervisor is killed the keeper dies with it, and takes
its process namespace along, where there is one.
"""

import contextlib
import os
import resource
import signal
from dataclasses import dataclass
from pathlib import Path

from fairlead.adapters.local import namespaces, procfs
from fairlead.adapters.local.specs import Spec, UserMapping

NICENESS = 5
MAP_MY_IDS = b"?"
AGAIN = b"again"
KILL_ALL = signal.SIGUSR1  # asks the keeper, who is the first process there, to end all others
FIRST_TO_GO = 500  # where the machine has no memory left, the kernel ends runs before anything else


@dataclass
class RunProcess:
    """A run that was started: what it writes, and what its keeper tells of it."""

    init_pid: int
    streams: dict[str, int]
    report: int
    isolated: bool
    restart_fd: int = -1  # to the keeper: whether it starts the run again when it has ended

    @property
    def proc(self) -> str:
        """Where its processes are told of: those of its own namespace, or all of them."""
        return f"/proc/{self.init_pid}/root/proc" if self.isolated else "/proc"

    @property
    def root_pid(self) -> int:
        """The keeper, as it is numbered there."""
        return 1 if self.isolated else self.init_pid

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all that it started, for good."""
        if self.isolated:
            self._signal(signal.SIGKILL)
        else:
            self.kill_processes()  # the keeper reaps them, tells of it, and ends when told to

    def kill_processes(self) -> None:
        """End all its processes, so that it can be started again."""
        if self.isolated:
            self._signal(KILL_ALL)
            return
        for process in reversed(procfs.list_tree("/proc", self.init_pid)):
            if process.pid != self.init_pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def restart(self) -> None:
        """Start it again, after it told that it has ended."""
        with contextlib.suppress(BrokenPipeError):  # the keeper was killed, which is heard of
            os.write(self.restart_fd, AGAIN)

    def release(self) -> None:
        """Let the keeper end once the run has."""
        if self.restart_fd >= 0:
            os.close(self.restart_fd)
            self.restart_fd = -1

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init_pid, number)


def start(spec: Spec, folder: Path, secrets: dict[str, str], lock: int) -> RunProcess:
    """Start a run. What goes wrong on the way is told in the report. The lock is the supervisor's alone."""
    pipes = {name: os.pipe() for name in ("stdout", "stderr", "report")}
    restart_fd = os.pipe()
    if spec.isolated:
        flags = namespaces.CLONE_NEWPID | (0 if os.getuid() == 0 else namespaces.CLONE_NEWUSER)
        namespaces.unshare(flags)
        if flags & namespaces.CLONE_NEWUSER:
            namespaces.map_ids("self", spec.identity)
    # The keeper hears no signal before it can pass it on.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    parent = os.getpid()
    init_pid = os.fork()
    if init_pid == 0:
        writing = {name: ends[1] for name, ends in pipes.items()}
        os.close(restart_fd[1])
        os.close(lock)
        try:
            if _die_with(parent, isolated=spec.isolated):
                _keep(spec, folder, secrets, writing, restart_fd[0])
        except BaseException as error:
            _tell(writing["report"], f"trouble {_describe(error)}")
        finally:
            os._exit(0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for end in (*(ends[1] for ends in pipes.values()), restart_fd[0]):
        os.close(end)
    streams = {name: pipes[name][0] for name in ("stdout", "stderr")}
    return RunProcess(init_pid, streams, pipes["report"][0], spec.isolated, restart_fd[1])


def _keep(spec: Spec, folder: Path, secrets: dict[str, str], pipes: dict[str, int], restart_fd: int) -> None:
    """Start the run and wait for its end, as its parent; again as often as told."""
    signal.set_wakeup_fd(-1)
    os.umask(0o022)
    namespaces.prctl(namespaces.PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(pipes["stdout"], 1)
    os.dup2(pipes["stderr"], 2)
    if spec.isolated:
        namespaces.unshare(namespaces.CLONE_NEWNS | namespaces.CLONE_NEWIPC)
        namespaces.enter_root(spec, str(folder / "root"), secrets)
        signal.signal(KILL_ALL, lambda *_: _kill_all())
    while True:
        _keep_once(spec, secrets, pipes["report"])
        if not os.read(restart_fd, len(AGAIN)):
            return


def _keep_once(spec: Spec, secrets: dict[str, str], report: int) -> None:
    asks, answers = os.pipe(), os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    payload = os.fork()
    if payload == 0:
        try:
            _become(spec, secrets, asked=asks[1], answered=answers[0])
        except BaseException as error:
            _tell(asks[1], _describe(error))
        finally:
            os._exit(126)
    signal.signal(signal.SIGTERM, lambda *_: _pass_on(payload))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    os.close(asks[1])
    trouble = os.read(asks[0], 4096)  # nothing, once another program runs there
    if trouble == MAP_MY_IDS:
        namespaces.map_ids(payload, spec.identity)
        os.write(answers[1], b"!")
        trouble = os.read(asks[0], 4096)
    for end in (asks[0], *answers):
        os.close(end)
    _tell(report, f"trouble {trouble.decode('utf-8', 'replace').strip()}" if trouble else "running")
    status = _reap_until(payload)
    signal.signal(signal.SIGTERM, lambda *_: None)  # its number may be that of another one from now on
    if not spec.isolated or spec.serves:
        _reap_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    _tell(report, f"used {used.ru_utime + used.ru_stime:.3f} {used.ru_maxrss * 1024}")
    _tell(report, f"ended {status}")


def _become(spec: Spec, secrets: dict[str, str], asked: int, answered: int) -> None:
    """Become the run: its ids, its limits, its environment, its program."""
    os.setsid()
    if _has_own_ids(spec):
        namespaces.unshare(namespaces.CLONE_NEWUSER)
        os.write(asked, MAP_MY_IDS)
        os.read(answered, 1)
    namespaces.drop_capabilities()
    identity = spec.identity
    if identity.outer_uid is not None and identity.outer_gid is not None:
        inside = spec.isolated
        os.setgroups(identity.groups if inside else identity.outer_groups)
        gid, uid = (identity.gid, identity.uid) if inside else (identity.outer_gid, identity.outer_uid)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _die_with(os.getppid(), isolated=True)
    namespaces.prctl(namespaces.PR_SET_NO_NEW_PRIVS, 1)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO), "ascii")
    os.nice(NICENESS)
    if spec.cpus:
        os.sched_setaffinity(0, spec.cpus)
    os.umask(0o002)  # the other runs of the project may write to what this one leaves on a shared volume
    _enter(spec.cwd)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    env = {**spec.env, **{name: secrets[name] for name in spec.secret_envs}}
    try:
        os.execvpe(spec.command[0], spec.command, env)
    except OSError as error:
        told = f"cannot run {spec.command[0]}: {os.strerror(error.errno or 0).lower()}"
        if isinstance(error, PermissionError):
            told += "; set python to an interpreter that every user can run"
        raise OSError(error.errno, told) from None


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        suggestion = "set data to a folder that every user can pass through, such as /var/lib/fairlead"
        told = f"cannot enter {folder}: {os.strerror(error.errno or 0).lower()}; {suggestion}"
        raise OSError(error.errno, told) from None


def _has_own_ids(spec: Spec) -> bool:
    """Whether ids inside stand for other ids outside that only root can give away."""
    return spec.isolated and spec.identity.outer_uid is not None


def _die_with(parent: int, *, isolated: bool) -> bool:
    """Be killed when the parent ends; False where it has already. In a namespace of its own a parent has no number."""
    namespaces.prctl(namespaces.PR_SET_PDEATHSIG, signal.SIGKILL)
    return isolated or os.getppid() == parent


def _pass_on(payload: int) -> None:
    """Ask the run to end, and what it started; before it has a group of its own, it alone."""
    try:
        os.killpg(payload, signal.SIGTERM)
    except ProcessLookupError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(payload, signal.SIGTERM)


def _kill_all() -> None:
    """End all processes of this namespace but this one, which is its first."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)


def _reap_until(payload: int) -> int:
    """Wait for the end of the run, and of whatever ends before it; how it ended."""
    while True:
        pid, status = os.wait()
        if pid == payload:
            return status


def _reap_rest() -> None:
    """End whatever the run left behind."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for process in procfs.list_tree("/proc", os.getpid())[1:]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            os.wait()


def _tell(pipe: int, line: str) -> None:
    os.write(pipe, f"{line[:4000]}\n".encode("utf-8", "replace"))


def _describe(error: BaseException) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(f"{told}".split()) or type(error).__name__


def probe() -> None:
    """Try whether this machine lets a run have its own view of it. Raise `OSError` where it does not."""
    root = os.getuid() == 0
    namespaces.unshare(namespaces.CLONE_NEWPID | (0 if root else namespaces.CLONE_NEWUSER))
    if not root:
        namespaces.map_ids("self", UserMapping(1000, 1000))
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
            os.write(2, f"{_describe(error)}\n".encode())
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit(1)
