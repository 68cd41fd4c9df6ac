"""Attempts to get IDs, capabilities and priorities."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from tests.security.hostile_runs.attempts import (
    Known,
    targets,
)


@targets("users")
def become_root(known: Known) -> Any:
    del known
    with contextlib.suppress(OSError):  # in a user namespace, user 0 does not exist
        os.setresuid(0, 0, 0)
    return is_privileged()


@targets("users")
def become_another_user(known: Known) -> Any:
    changed = []
    for uid in known["uids"]:
        with contextlib.suppress(OSError):
            if uid != os.getuid():
                os.setresuid(uid, uid, uid)
                changed.append(uid)
    return changed


@targets("users")
def join_other_groups(known: Known) -> Any:
    del known
    os.setgroups([0, 6, 42])
    return os.getgroups()


@targets("users")
def give_files_to_another_user(known: Known) -> Any:
    path = Path(os.environ["FAIRLEAD_HOME"], "given")
    path.touch()
    for uid in known["uids"]:
        with contextlib.suppress(OSError):
            if uid != os.getuid():
                os.chown(path, uid, -1)
                return uid
    return None


@targets("users")
def hold_capabilities(known: Known) -> Any:
    del known
    return is_privileged()


@targets("users")
def execute_programs_with_privileges(known: Known) -> Any:
    del known
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return None if status["NoNewPrivs"].strip() == "1" else "setuid programs get their privileges"


@targets("users")
def map_other_users(known: Known) -> Any:
    del known
    Path("/proc/self/uid_map").write_text("0 0 4294967295\n", "ascii")
    return "mapped"


def is_privileged() -> str | None:
    """The capabilities of this process, if it has any."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held = {name: status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return None if all(int(value, 16) == 0 for value in held.values()) else json.dumps(held)
