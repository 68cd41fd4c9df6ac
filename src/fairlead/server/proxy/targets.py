"""Which run a request is for: by the host of its own that it names, or by a path below the server's own."""

import re
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

from starlette.types import Scope

from fairlead.server.problem_details import Problem
from fairlead.services.serving import RUN_ID, ServedHosts

SERVED = b"/served/"
PRINTABLE = bytes(range(0x21, 0x7F))


@dataclass(frozen=True)
class Target:
    """A run, and what it is asked for. `prefix`: what stands before that in the address; nothing at its own host."""

    run_id: str
    path: bytes  # as it was written, and so passed on
    query: bytes
    host: str  # as it was written
    prefix: str = ""

    @property
    def is_own_host(self) -> bool:
        """Whether the address is one of the run alone, in which a browser has it open."""
        return not self.prefix


def find_target(scope: Scope, hosts: ServedHosts) -> Target | None:
    """The run that a request is for; None where it is for the server itself."""
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    for host in named:
        if (run_id := hosts.find_run(host)) is not None:
            return Target(run_id, path, query, host)
    if not path.startswith(SERVED):
        return None
    run_id, _, rest = path.removeprefix(SERVED).decode("latin-1").partition("/")
    if not RUN_ID.fullmatch(run_id):
        return None
    inner = b"/" + rest.encode("latin-1")
    return Target(run_id, inner, query, named[0] if named else "", f"{SERVED.decode()}{run_id}")


def write_target(target: Target, above: str) -> bytes:
    """What a run is asked for, below the path under which it is reached.

    Raise where it leaves that path: on the way to a cluster's API server others may stand who resolve dots.
    """
    parts = re.split(rb"[/\\]", unquote_to_bytes(target.path))
    if b".." in parts or b"." in parts:
        message = "the address has . or .. in its path"
        raise Problem(400, "address", message, "write the path that it stands for")
    asked = above.encode() + target.path + (b"?" + target.query if target.query else b"")
    return quote_from_bytes(asked, safe=PRINTABLE).encode("ascii")
