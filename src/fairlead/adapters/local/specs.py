"""What the supervisor of a run is told, as a file between it and the server. Standard library only."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SPEC, STATE, OUTCOME, LOCK = "spec.json", "state.json", "outcome.json", "lock"
LOG, USAGE, ERRORS = "log", "usage.jsonl", "supervisor.err"
SOCKET = "serve.sock"  # of what is served: at the run's home, and in its folder once it was looked at


@dataclass(frozen=True)
class Mount:
    """A folder that the run finds under a path; in memory where it has no source."""

    target: str
    source: str | None = None
    sub_path: str = ""  # below the source, which others may have changed: no link in it is followed
    read_only: bool = False
    size: int | None = None  # of one in memory
    secrets: dict[str, str] = field(default_factory=dict)  # files in it, each with the secret that it holds


@dataclass(frozen=True)
class UserMapping:
    """Who a run is: the ids that it sees, and those that it has outside."""

    uid: int
    gid: int
    groups: list[int] = field(default_factory=list)
    outer_uid: int | None = None  # None: that of the server
    outer_gid: int | None = None
    outer_groups: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Spec:
    """Everything about a run that its supervisor needs, save its secrets, which never lie in a file."""

    run_id: str
    project: str
    name: str
    boot_id: str
    command: list[str]
    env: dict[str, str]
    cwd: str
    home: str
    identity: UserMapping
    secret_envs: list[str] = field(default_factory=list)
    isolated: bool = False
    mounts: list[Mount] = field(default_factory=list)
    revealed: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    memory: int | None = None
    disk: int | None = None
    cpus: list[int] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    deadline: float | None = None
    grace: float = 10.0
    serves: bool = False  # so it is started again when it ends
    port: int | None = None  # where it is to listen; None: on its socket
    nvml: str | None = None  # where the library for GPUs is installed
    amounts: dict[str, int] = field(default_factory=dict)  # what the run holds of the machine

    def save(self, folder: Path) -> None:
        """Write it for the supervisor."""
        write_json(folder / SPEC, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> "Spec":
        """Read it."""
        said = json.loads((folder / SPEC).read_text("utf-8"))
        said["identity"] = UserMapping(**said["identity"])
        said["mounts"] = [Mount(**mount) for mount in said["mounts"]]
        return cls(**said)


def write_json(file: Path, value: Any) -> None:
    """Write a file that is there with all of its content, or not at all."""
    aside = file.with_name(f".{file.name}")
    aside.write_text(json.dumps(value), "utf-8")
    aside.replace(file)


def read_json(file: Path) -> Any:
    """What a file says; None where it is not there."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
