"""Protections: how a machine limits runs and isolates them from each other and from the server."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    """One limit or boundary of runs, and how the machine enforces it."""

    name: ProtectionName
    mechanism: str = ""  # for example "cgroup v2", "Landlock" or "polling"; empty: not enforced
    gap: str = ""  # what is not covered, or why there is no stronger mechanism; empty: nothing to know

    @property
    def is_enforced(self) -> bool:
        """Whether the machine enforces this protection."""
        return bool(self.mechanism)


Protections = Mapping[ProtectionName, Protection]
