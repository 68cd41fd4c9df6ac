"""Attempts of hostile runs to escape, in each mode of isolation: see hostile_runs/.

An attempt must be prevented if the mode guarantees it, or if the server's table of protections says so.
"""

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from fairlead.settings import Settings
from tests.processes.execution import Platform, find_processes, wait_for_all, wait_for_end, wait_for_output
from tests.processes.machines import Launcher
from tests.processes.test_runs_users import AS_USER, PROGRAM, PROGRAM_WITHOUT_NAMESPACES, USER_ID, open_platform_as
from tests.security import hostile_runs
from tests.security.hostile_runs import LIMITS, TARGETS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root can start servers of several users"),
]

SOURCE = Path(hostile_runs.__file__).parent
PACKAGE = "tests.security.hostile_runs"
MAX_PROCESSES = 200
WEAK = ("", "polling", "affinity")  # mechanisms that a run can evade, as the table says
ISOLATION = {"files", "processes", "users", "devices", "system_calls", "addresses"}
SECRETS = {
    *("read_files_of_the_server", "list_the_data_folder", "write_into_the_data_folder", "rename_the_data_folder"),
    *("link_to_files_of_the_server", "read_files_of_other_runs", "listen_on_the_port_of_the_server"),
    *("read_the_environment_of_other_processes", "read_the_memory_of_other_processes", "trace_other_processes"),
}
# The gaps of Landlock, as the table says: it restricts neither sockets in files, nor what processes of the same user
# may do except tracing and signals.
BEYOND_LANDLOCK = {
    *("connect_to_a_socket_of_the_machine", "see_other_processes", "list_open_files_of_other_processes"),
    *("change_limits_of_other_processes", "change_priorities_of_other_processes"),
    *("move_other_processes_to_another_core", "let_other_processes_be_killed_first"),
}
# What is guaranteed in each mode: as root everything, also all limits.
PROTECTIONS = {protection for protection, _ in (*TARGETS.values(), *LIMITS.values())}
GUARANTEED = {"root": PROTECTIONS, "user": ISOLATION, "user_without_namespaces": set[str]()}
PROGRAMS = {
    "root": (sys.executable, *PROGRAM),
    "user": (*AS_USER, *PROGRAM),
    "user_without_namespaces": (*AS_USER, *PROGRAM_WITHOUT_NAMESPACES),
}
# Attempts that succeed, and do no harm, if they are made by root outside a run.
UNPREVENTED = (
    *("read_files_of_the_server", "list_the_data_folder", "write_into_the_data_folder", "link_to_files_of_the_server"),
    *("read_files_of_other_runs", "read_the_home_of_the_server_user", "write_into_system_folders"),
    *("connect_to_a_socket_of_the_machine", "connect_to_a_socket_in_the_temporary_folder"),
    *("see_other_processes", "read_the_environment_of_other_processes", "trace_other_processes"),
    *("read_the_memory_of_other_processes", "copy_the_memory_of_other_processes", "take_files_of_other_processes"),
    *("list_open_files_of_other_processes", "change_limits_of_other_processes", "send_signals_to_other_processes"),
    *("change_priorities_of_other_processes", "move_other_processes_to_another_core", "send_signals_to_threads"),
    *("let_other_processes_be_killed_first", "get_a_higher_priority", "become_another_user"),
    *("send_signals_through_descriptors", "send_signals_through_file_owners", "join_other_groups"),
    *("give_files_to_another_user", "hold_capabilities", "execute_programs_with_privileges", "read_packets"),
    *("connect_to_an_abstract_socket", "create_a_user_namespace", "create_a_network_namespace"),
    *("clone_into_a_user_namespace", "clone3_into_a_user_namespace", "join_the_namespaces_of_other_processes"),
    *("change_the_root_folder", "make_dangerous_system_calls", "change_settings_of_the_kernel", "raise_own_limits"),
)
LIMITED: dict[str, Any] = {"resources": {"mem": {"limits": "64Mi"}, "disk": {"limits": "32Mi"}, "cpu": {"limits": "1"}}}
VICTIM = """
import ctypes, os, time
from pathlib import Path

def main(mark, key):
    for path in (Path.home() / "notes", Path(os.environ["FAIRLEAD_OUTPUT"], "notes"), Path("/tmp", mark),
                 Path("/var/tmp", mark), Path("/dev/shm", mark)):
        try:
            path.write_text(mark)
            path.chmod(0o666)
        except OSError as error:
            print(error)
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    ctypes.memmove(libc.shmat(libc.shmget(key, 4096, 0o1666), None, 0), mark.encode(), len(mark))
    print(mark, "ready", flush=True)
    time.sleep(600)
"""
# A process of the server's user that has nothing to do with Fairlead.
BYSTANDER = """
import os, select, signal, socket, sys
mark, temporary, file = sys.argv[1:4]
signal.signal(signal.SIGWINCH, lambda *_: open(file, "w").write("signal"))
listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for listener, address in zip(listeners, ("\\0" + mark, temporary)):
    listener.bind(address)
    listener.listen()
os.chmod(temporary, 0o666)
print("ready", flush=True)
while True:
    for listener in select.select(listeners, [], [])[0]:
        listener.accept()[0].send(b"hello")
"""


@dataclass(frozen=True)
class Scene:
    """A server with a victim's run, and a bystander: a process of the server's user."""

    mode: str
    platform: Platform
    pieces: tuple[str, str]
    bystander: int

    @property
    def mark(self) -> str:
        """The text that a hostile run must not see."""
        return "".join(self.pieces)

    @cached_property
    def protections(self) -> dict[str, str]:
        """The server's table of protections: the mechanism of each."""
        (node,) = self.platform.project.api.get("/nodes")
        return {row["name"]: row["mechanism"] for row in node["protections"]}

    @cached_property
    def victim(self) -> Run:
        """The run of another project."""
        run = self.submit(
            "bravo", VICTIM, inputs={"mark": self.mark, "key": self.segment_key}, envs={"MARK": self.mark}
        )
        wait_for_output(run, "ready")
        return run

    @property
    def segment_key(self) -> int:
        """The key of the victim's shared memory segment."""
        return int(self.mark[-6:], 16)

    @cached_property
    def known(self) -> dict[str, Any]:
        """What a hostile run knows; not the mark itself, which it must find."""
        server = self.platform.server
        data, folder = server.data, self.platform.folder_of(self.victim)
        pids = [
            self.bystander,
            server.process.pid,
            self.platform.supervisor_of(self.victim),
            *find_processes(self.victim.id),
        ]
        home = data.parent
        return {
            "pieces": list(self.pieces),
            "data": str(data),
            "data_inode": data.stat().st_ino,
            "home_inode": home.stat().st_ino,
            "home_files": [str(home / "notes")],
            "server_files": [str(data / name) for name in ("token", "secret.key", "fairlead.db", "server.id")],
            "victim_files": [*(str(folder / name) for name in ("log", "home/notes", "home/output/notes"))],
            "victim_temporary_files": [f"/tmp/{self.mark}", f"/var/tmp/{self.mark}"],
            "victim_shared_memory": [f"/dev/shm/{self.mark}"],
            "segment_key": self.segment_key,
            "pids": sorted(set(pids)),
            "pid_namespace": os.readlink("/proc/self/ns/pid"),
            "bystander": f"bystander-{self.pieces[0]}",
            "bystander_pid": self.bystander,
            "bystander_file": str(home / "signals"),
            "abstract_socket": self.mark,
            "temporary_socket": f"/tmp/{self.mark}.sock",
            "machine_socket": f"/run/{self.mark}.sock",
            "uids": sorted({0, 1, USER_ID, *(Path("/proc", str(pid)).stat().st_uid for pid in pids)}),
            "port": int(server.url.rpartition(":")[2]),
            "max_processes": MAX_PROCESSES,
        }

    def submit(self, project: str, source: str, handler: str = "main", **parameters: Any) -> Run:
        """Submit a run of a Python file in a project."""
        file = self.platform.shared / f"{secrets.token_hex(4)}.py"
        file.write_text(source)
        api = self.platform.project.api
        run: Run = Project(api, project).function("python", source=str(file), handler=handler).run(**parameters)
        return run

    def exceed(self, attempt: str, **parameters: Any) -> Run:
        """Submit a run that tries to exceed one limit."""
        inputs = {"attempt": attempt, "known": self.known}
        return self.submit_attempts("exceed", inputs=inputs, **parameters)

    def submit_attempts(self, handler: str, **parameters: Any) -> Run:
        """Submit a run with the code of the attempts."""
        folder = self.platform.shared / "attempts"
        package = folder.joinpath(*PACKAGE.split("."))
        if not folder.exists():
            shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
            for parent in (package.parent, package.parent.parent):
                (parent / "__init__.py").touch()
        project = Project(self.platform.project.api, "alpha")
        run: Run = project.function("python", source=str(folder), handler=f"{PACKAGE}:{handler}").run(**parameters)
        return run

    def is_guaranteed(self, protection: str, attempt: str) -> bool:
        """Whether an attempt must be prevented."""
        if protection in GUARANTEED[self.mode] or attempt in SECRETS:
            return True
        name = {"cpu_fraction": "cpu", "devices": "files", "addresses": "network"}.get(protection, protection)
        mechanism = self.protections[name]
        return mechanism not in WEAK and not (mechanism == "Landlock" and attempt in BEYOND_LANDLOCK)

    @cached_property
    def achieved(self) -> dict[str, Any]:
        """What the attempts on targets achieved."""
        inputs = {"attempts": list(TARGETS), "known": self.known}
        run = self.submit_attempts("main", inputs=inputs)
        ended = wait_for_end(run, 240)
        assert ended["state"] == "completed", f"{ended} {run.logs()}"
        return dict(run.result)

    @cached_property
    def exceeding(self) -> dict[str, dict[str, Any]]:
        """How the runs ended that tried to exceed their limits, and what they achieved."""
        names = [name for name, (protection, _) in LIMITS.items() if self.is_guaranteed(protection, name)]
        ended: dict[str, dict[str, Any]] = {}
        for start in range(0, len(names), 6):
            runs = {}
            for name in names[start : start + 6]:
                limits = dict(LIMITED["resources"])
                if LIMITS[name][0] == "cpu_fraction":
                    limits["cpu"] = {"limits": "500m"}
                if LIMITS[name][0] not in ("memory", "disk", "temporary_files"):
                    del limits["mem"]
                runs[name] = self.exceed(name, resources=limits)
            for (name, run), data in zip(runs.items(), wait_for_all(list(runs.values()), 120), strict=True):
                ended[name] = {**data, "achieved": run.result if data["state"] == "completed" else None}
        return ended


@pytest.fixture(scope="module")
def open_scene(launcher: Launcher) -> Iterator[Callable[[str], Scene]]:
    """Return a function that starts the server of a mode. Only one runs at a time."""
    opened: dict[str, Iterator[Scene]] = {}
    scenes: dict[str, Scene] = {}

    def start(mode: str) -> Scene:
        if mode not in scenes:
            close_all(opened)
            opened[mode] = make_scene(launcher, mode)
            scenes.clear()
            scenes[mode] = next(opened[mode])
        return scenes[mode]

    yield start
    close_all(opened)


def close_all(opened: dict[str, Iterator[Scene]]) -> None:
    """Close all scenes."""
    for scene in opened.values():
        next(scene, None)
    opened.clear()


def make_scene(launcher: Launcher, mode: str) -> Iterator[Scene]:
    """Start a server as root or as an ordinary user, with a victim and a bystander."""
    owner = 0 if mode == "root" else USER_ID
    pieces = secrets.token_hex(6), secrets.token_hex(6)
    mark = "".join(pieces)
    setting = [f"FAIRLEAD_MAX_PROCESSES={MAX_PROCESSES}"] if "max_processes" in Settings.model_fields else []
    for platform in open_platform_as(launcher, ("env", *setting, *PROGRAMS[mode]), owner):
        home = platform.server.data.parent
        (home / "notes").write_text(mark)
        (home / "notes").chmod(0o600)
        os.chown(home / "notes", owner, owner)
        machine_socket, temporary = Path("/run", f"{mark}.sock"), Path("/tmp", f"{mark}.sock")
        name = f"bystander-{pieces[0]}"
        arguments = [sys.executable, "-S", "-c", BYSTANDER, mark, str(temporary), str(home / "signals"), name]
        as_owner = ("setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups") if owner else ()
        process = subprocess.Popen(
            [*as_owner, *arguments], env={"MARK": mark, "PATH": os.defpath}, stdout=subprocess.PIPE
        )
        server = subprocess.Popen(
            [sys.executable, "-S", "-c", BYSTANDER, f"{mark}-root", str(machine_socket), "/dev/null"],
            stdout=subprocess.PIPE,
        )
        try:
            for each in (process, server):
                assert each.stdout is not None
                assert each.stdout.readline() == b"ready\n"
            for name in ("alpha", "bravo"):
                platform.project.api.post("/projects", {"name": name})
            yield Scene(mode, platform, pieces, process.pid)
        finally:
            for each in (process, server):
                each.kill()
                each.communicate()
            for path in (
                machine_socket,
                temporary,
                *(Path(folder, mark) for folder in ("/tmp", "/var/tmp", "/dev/shm")),
            ):
                path.unlink(missing_ok=True)


@pytest.mark.parametrize("attempt", TARGETS)
@pytest.mark.parametrize("mode", GUARANTEED)
def test_attempt_of_a_hostile_run_is_prevented(open_scene: Callable[[str], Scene], mode: str, attempt: str) -> None:
    scene = open_scene(mode)
    if not scene.is_guaranteed(TARGETS[attempt][0], attempt):
        pytest.skip("the table of protections says that it is not enforced in this mode")
    assert not scene.achieved[attempt]
    left = [Path(folder, f"left-{scene.mark}") for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    assert [path for path in left if attempt.startswith("leave_") and path.exists()] == []


@pytest.mark.parametrize("attempt", LIMITS)
@pytest.mark.parametrize("mode", ["root", "user"])
def test_limit_is_not_exceeded(open_scene: Callable[[str], Scene], mode: str, attempt: str) -> None:
    scene = open_scene(mode)
    if not scene.is_guaranteed(LIMITS[attempt][0], attempt):
        pytest.skip("the table of protections says that it is not enforced in this mode")
    ended = scene.exceeding[attempt]
    assert not ended["achieved"], ended
    assert ended["state"] == "completed" or ended["reason"] in ("OOMKilled", "Evicted"), ended
    if attempt == "outlive_the_run":
        time.sleep(0.5)
        found = subprocess.run(["pgrep", "-f", f"outlives-{scene.mark}"], check=False, capture_output=True, text=True)
        assert found.stdout == ""


def test_attempts_succeed_outside_a_run(open_scene: Callable[[str], Scene]) -> None:
    """Ensures that attempts fail because they are prevented, and not because there is nothing to achieve."""
    scene = open_scene("root")
    os.environ["FAIRLEAD_HOME"] = str(scene.platform.shared)
    try:
        achieved = hostile_runs.main(list(UNPREVENTED), {**scene.known, "pids": [scene.bystander]})
    finally:
        del os.environ["FAIRLEAD_HOME"]
    assert [name for name in UNPREVENTED if not achieved[name]] == []


def test_limits_are_exceeded_by_runs_without_limits(open_scene: Callable[[str], Scene]) -> None:
    scene = open_scene("root")
    names = ("fill_a_memfd", "fill_shared_memory", "fill_pipes", "share_memory_among_processes")
    runs = [scene.exceed(name) for name in names]
    assert [data["state"] for data in wait_for_all(runs, 120)] == ["completed"] * len(runs)
    assert [name for name, run in zip(names, runs, strict=True) if not run.result] == []


def test_there_are_at_least_sixty_attempts() -> None:
    assert len(TARGETS) + len(LIMITS) >= 60
