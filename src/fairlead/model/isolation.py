"""What executors can do for runs: mounts, user IDs, network modes, and how they limit and isolate runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

ProtectionName = Literal[
    "memory",
    "swap",
    "cpu",
    "process_count",
    "disk",
    "temporary_files",  # /tmp and /var/tmp
    "shared_memory",  # /dev/shm
    "files",
    "users",
    "processes",  # visibility of other processes, and signals to them
    "network",
    "system_calls",
]
PROTECTION_NAMES: tuple[ProtectionName, ...] = get_args(ProtectionName)


@dataclass(frozen=True)
class Protection:
    """One limit or boundary of runs, and how the machine enforces it. Without a mechanism it is not enforced."""

    name: ProtectionName
    mechanism: str = ""  # for example "cgroup v2", "Landlock" or "polling"; empty: not enforced
    gap: str = ""  # what is not covered, or why there is no stronger mechanism; empty: no gap

    @property
    def is_enforced(self) -> bool:
        """Whether the machine enforces this protection."""
        return bool(self.mechanism)


Protections = Mapping[ProtectionName, Protection]
Network = Literal["host", "none"]  # host: the network of the machine or pod; none: only a loopback interface


@dataclass(frozen=True)
class Capabilities:
    """What an executor can do. Planning rejects what it cannot do, and warns about what it does not enforce."""

    mount_error: str | None = None  # why runs cannot have mounts of their own; None if they can
    user_ids: bool = True  # whether runs get the user and group ID that they request
    more_groups: bool = True  # whether runs can be in a second group, for fs_group
    networks: tuple[Network, ...] = ("host",)
    # Only for the local executor: Kubernetes enforces limits and isolation itself.
    protections: Protections = field(default_factory=dict)


KUBERNETES = Capabilities()
