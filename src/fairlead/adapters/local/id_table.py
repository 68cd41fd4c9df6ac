"""The table of user and group IDs that runs have on the host. All servers on this machine share it.

No ID is assigned twice, because files and processes of a run may outlive it.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from fairlead.errors import FairleadError, StartFailed, Unavailable

DEFAULT_FILE = Path("/var/lib/fairlead-ids/ids.db")
# Above the ranges of system-wide directories (sssd), subordinate IDs, Kubernetes, LXD and systemd-nspawn, and below the
# IDs that systemd reserves for foreign images.
IDS = range(2_000_200_000, 2_147_352_576)
CONTAINER_IDS = range(1_000_000, 1_000_000_000)  # an LXD container has only a billion IDs, but shares none of them
BLOCK = 100  # user IDs that a server reserves at once, because each reservation waits for the disk
TIMEOUT_SECONDS = 10
COUNTER = "next-user-id"  # in the data folder, which may be moved to a machine with another table
SCHEMA = """
CREATE TABLE IF NOT EXISTS users (next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS groups (
    id INTEGER PRIMARY KEY, project_id TEXT NOT NULL, gid INTEGER NOT NULL, UNIQUE (project_id, gid)
);
"""


class IdTable:
    """Assigns user IDs in ascending order, and a group ID to each group of a project."""

    def __init__(self, file: Path, data: Path) -> None:
        self.file, self.counter = file, data / COUNTER
        self._ids = find_ids()
        self._block = iter(range(0))
        self._groups: dict[tuple[str, int], int] = {}
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = file.parent.stat()
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                raise PermissionError(f"users other than the server's can write to {file.parent}")
            with contextlib.closing(self._connect()) as connection:
                connection.executescript(SCHEMA)
            file.chmod(0o600)
        except (OSError, sqlite3.Error) as error:
            message = f"cannot write {file}, which contains the user IDs of runs: {error}"
            raise FairleadError(message, "set id_table to a file in a folder that only root can write to") from error

    def take_user(self) -> int:
        """Return a user ID that no run has had. Raises `StartFailed` if there is none left."""
        uid = next(self._block, None)
        if uid is None:
            self._block = iter(self._reserve_users())
            uid = next(self._block)
        return uid

    def find_group(self, project_id: str, gid: int) -> int:
        """Return the group ID on the host for a group ID inside a project's runs. It never changes."""
        key = (project_id, gid)
        if key not in self._groups:
            with self._changing() as connection:
                self._groups[key] = _load_group(connection, self._ids, *key)
        return self._groups[key]

    def _reserve_users(self) -> range:
        with self._changing() as connection:
            row = connection.execute("SELECT next FROM users").fetchone()
            block = _skip_subordinate(
                range(max(self._ids.start, row[0] if row else 0, self._read_counter()), self._ids.stop)
            )
            if not block:
                raise StartFailed(f"all user IDs up to {self._ids[-1]} on this machine have been used")
            connection.execute("DELETE FROM users")
            connection.execute("INSERT INTO users VALUES (?)", (block.stop,))
            self._write_counter(block.stop)
        return block

    def _read_counter(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return int(self.counter.read_text("ascii") or 0)
        return 0

    def _write_counter(self, number: int) -> None:
        temporary = self.counter.with_name(f".{COUNTER}")
        with temporary.open("w", encoding="ascii") as file:
            file.write(str(number))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.counter)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, timeout=TIMEOUT_SECONDS, isolation_level=None)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that excludes those of other servers, and write it to the disk at its end."""
        try:
            with contextlib.closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise Unavailable(f"cannot use {self.file}, which contains the user IDs of runs: {error}") from error


def find_ids(maps: tuple[str, str] = ("/proc/self/uid_map", "/proc/self/gid_map")) -> range:
    """Return the IDs for runs. In a user namespace, for example in a container, not all of them exist."""
    mapped = [[range(start, start + count) for start, _, count in _read_numbers(file)] for file in maps]
    for ids in (IDS, CONTAINER_IDS):
        if all(any(ids.start in each and ids[-1] in each for each in ranges) for ranges in mapped):
            return ids
    message = f"this container has no user IDs from {CONTAINER_IDS.start} to {CONTAINER_IDS[-1]} for runs"
    raise FairleadError(message, "start the server as a user other than root, or map these IDs to the container")


def _read_numbers(file: str) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in Path(file).read_text("ascii").splitlines()]


def _load_group(connection: sqlite3.Connection, ids: range, project_id: str, gid: int) -> int:
    """Return the host's group ID for a project's group. Stores it if it is new."""
    row = connection.execute("SELECT id FROM groups WHERE project_id = ? AND gid = ?", (project_id, gid)).fetchone()
    if row is not None:
        return int(row[0])
    # The first choice depends only on the project, so that volumes moved to another machine almost always keep their
    # group. The table prevents two groups from getting the same ID.
    digest = hashlib.sha256(f"{project_id}/{gid}".encode()).digest()
    first, subordinate = int.from_bytes(digest[:8]), _read_subordinate("/etc/subgid")
    for offset in range(len(ids)):
        number = ids[(first + offset) % len(ids)]
        taken = connection.execute("SELECT 1 FROM groups WHERE id = ?", (number,)).fetchone()
        if taken is None and not any(number in each for each in subordinate):
            connection.execute("INSERT INTO groups VALUES (?, ?, ?)", (number, project_id, gid))
            return number
    raise StartFailed(f"all group IDs up to {ids[-1]} on this machine have been used")


def _skip_subordinate(free: range) -> range:
    """Return the first block of free IDs that are not subordinate IDs of a user."""
    start = free.start
    for each in sorted(_read_subordinate("/etc/subuid"), key=lambda each: each.start):
        if start + BLOCK > each.start and start < each.stop:
            start = each.stop
    return range(start, min(start + BLOCK, free.stop))


def _read_subordinate(file: str) -> list[range]:
    """Read the ranges of IDs that users may use in their namespaces."""
    ranges = []
    with contextlib.suppress(OSError):
        for line in Path(file).read_text("utf-8", "replace").splitlines():
            _, _, numbers = line.partition(":")
            start, _, count = numbers.partition(":")
            if start.isdecimal() and count.isdecimal():
                ranges.append(range(int(start), int(start) + int(count)))
    return ranges
