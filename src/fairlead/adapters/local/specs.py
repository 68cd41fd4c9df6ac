"""The specification of a run that the server writes to a file for its supervisor. Standard library only."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SPEC, STATE, OUTCOME, LOCK = "spec.json", "state.json", "outcome.json", "lock"
LOG, USAGE, ERRORS = "log", "usage.jsonl", "supervisor.err"
MAX_PROCESSES = 4096
SOCKET = "serve.sock"  # the supervisor moves it from the run's home to the run's folder after checking it
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")
SHARED_MEMORY = "/dev/shm"
# The entries of /dev that every run may use, and the prefixes of those for runs with GPUs.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
PREFIXES_OF_DEVICES = ("nvidia", "dri", "kfd", "infiniband", "gdrdrv")
HOST, NONE = "host", "none"  # network modes


@dataclass(frozen=True)
class Mount:
    """A volume mount of the run; a tmpfs if it has no source."""

    target: str
    source: str | None = None
    sub_path: str = ""  # relative to the source; other runs can write there, so symbolic links are not followed
    read_only: bool = False
    size: int | None = None  # size limit of a tmpfs in bytes
    secrets: dict[str, str] = field(default_factory=dict)  # secret name for each file in the mount


@dataclass(frozen=True)
class UserMapping:
    """The user and groups of a run: the IDs inside its user namespace, and the IDs on the host."""

    uid: int
    gid: int
    groups: list[int] = field(default_factory=list)
    outer_uid: int | None = None  # None: the server's user
    outer_gid: int | None = None
    outer_groups: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Spec:
    """Everything a run's supervisor needs, except secrets, which are never written to disk."""

    run_id: str
    project_id: str
    name: str
    boot_id: str  # the machine's boot ID at the start; if it differs later, the machine was rebooted
    command: list[str]
    env: dict[str, str]
    cwd: str  # as the run sees it
    home: str  # on the host
    identity: UserMapping
    secret_envs: list[str] = field(default_factory=list)  # variables whose values are secrets with the same name
    isolated: bool = False
    network: str = HOST  # or NONE: a network namespace of its own, with a loopback interface only
    mounts: list[Mount] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list)  # Python's and configured paths, made readable for the run
    hidden: list[str] = field(default_factory=list)  # folders that appear empty to the run
    memory: int | None = None  # limits in bytes
    disk: int | None = None
    cpu: int | None = None  # limit in thousandths of a core
    max_processes: int = MAX_PROCESSES  # including threads
    cgroup: dict[str, str] = field(default_factory=dict)  # folder of the run's cgroup for each controller
    disk_folders: list[str] = field(default_factory=list)  # host folders of the run that count as its disk usage
    cpus: list[int] = field(default_factory=list)  # empty: all cores
    devices: list[str] = field(default_factory=list)  # IDs of its GPUs
    deadline: float | None = None  # seconds after the start
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL
    serves: bool = False  # restart it when it exits
    port: int | None = None  # the port to listen on; None: its socket
    nvml: str | None = None  # folder of the pynvml package
    amounts: dict[str, int] = field(default_factory=dict)  # resources allocated to the run

    def list_devices(self) -> list[str]:
        """List the entries of /dev that the run may use."""
        names = [name for name in DEVICES if os.path.exists(f"/dev/{name}")]
        if self.devices:
            names += [name for name in sorted(os.listdir("/dev")) if name.startswith(PREFIXES_OF_DEVICES)]
        return names

    def save(self, folder: Path) -> None:
        """Write the specification to the run's folder."""
        write_json(folder / SPEC, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "Spec":
        """Read the specification from the run's folder."""
        fields = json.loads((folder / SPEC).read_text("utf-8"))
        fields["identity"] = UserMapping(**fields["identity"])
        fields["mounts"] = [Mount(**mount) for mount in fields["mounts"]]
        return cls(**fields)


def link_to_temporary(folder: Path) -> Path:
    """Return the short path of a run's temporary folder on a machine without namespaces, in the server's data folder.

    The path of the folder itself is too long for the sockets that programs create there: Unix socket paths are limited
    to 107 bytes. A link in /tmp could be replaced by other runs.
    """
    return folder.parent.parent / "tmp" / folder.name[-16:]  # the end of a run ID is random


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    temporary = file.with_name(f".{file.name}")
    temporary.write_text(json.dumps(value), "utf-8")
    temporary.replace(file)


def read_json(file: Path) -> Any:
    """Read a JSON file; None if it does not exist."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
