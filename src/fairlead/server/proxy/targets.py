"""Finds the run that a request is for, by its Host header or by a path under /served."""

import re
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

from starlette.types import Scope

from fairlead.server.problem_details import Problem
from fairlead.services.runs.serving import RUN_ID, ServedHosts

SERVED = b"/served/"
PRINTABLE = bytes(range(0x21, 0x7F))  # other bytes are percent-encoded, because h11 rejects them


@dataclass(frozen=True)
class Target:
    """A run and the path requested from it. `prefix` is the run's path on this server; empty on its own host."""

    run_id: str
    path: bytes  # percent-encoded, as received
    query: bytes
    host: str  # as in the Host header
    prefix: str = ""

    @property
    def is_own_host(self) -> bool:
        """Whether the request uses the run's own host, as browsers do."""
        return not self.prefix


def find_target(scope: Scope, hosts: ServedHosts) -> Target | None:
    """The run that a request is for, or None if it is for the server itself."""
    host_headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    path, query = scope.get("raw_path") or scope["path"].encode(), scope["query_string"]
    # The host takes precedence: on a run's own host, all paths belong to the run, including /served.
    for host in host_headers:
        if (run_id := hosts.find_run(host)) is not None:
            return Target(run_id, path, query, host)
    if not path.startswith(SERVED):
        return None
    run_id, _, rest = path.removeprefix(SERVED).decode("latin-1").partition("/")
    if not RUN_ID.fullmatch(run_id):
        return None
    run_path = b"/" + rest.encode("latin-1")
    return Target(run_id, run_path, query, host_headers[0] if host_headers else "", f"{SERVED.decode()}{run_id}")


def format_target(target: Target, base_path: str) -> bytes:
    """The request target under a run's base path.

    Rejects dot segments, because a proxy in front of a cluster's API server could resolve them and leave the base path.
    """
    # Percent-encoded dots and backslashes also count, because some servers decode them first.
    parts = re.split(rb"[/\\]", unquote_to_bytes(target.path))
    if b".." in parts or b"." in parts:
        message = "the URL path contains . or .."
        raise Problem(400, "address", message, "use the resolved path")
    request_target = base_path.encode() + target.path + (b"?" + target.query if target.query else b"")
    return quote_from_bytes(request_target, safe=PRINTABLE).encode("ascii")
