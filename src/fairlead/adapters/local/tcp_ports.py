"""Chooses TCP ports for runs so that no two runs use the same one."""

import socket
import zlib
from collections.abc import Collection

from fairlead.adapters.local.specs import Spec
from fairlead.errors import Unavailable
from fairlead.model.runs import LaunchSpec

# This range is below the kernel's ephemeral ports, so that no outgoing connection takes one of them.
FIRST_PORT, PORTS = 20_000, 10_000


def choose_port(launch: LaunchSpec, requested: int | None, active: Collection[Spec]) -> int:
    """Return the requested port, or a free one if none is requested. Raises `Unavailable` if it is taken."""
    taken = {spec.port: spec for spec in active if spec.port is not None}
    if requested is not None:
        if requested not in taken and is_free(requested):
            return requested
        holder = taken.get(requested)
        is_visible = holder is not None and holder.project == launch.project  # do not reveal runs of other projects
        by = f"run {holder.run_id}" if holder and is_visible else "another run" if holder else "another program"
        raise Unavailable(f"port {requested} on this machine is in use by {by}")
    first = zlib.crc32(launch.run_id.encode()) % PORTS
    for number in range(PORTS):
        port = FIRST_PORT + (first + number) % PORTS
        if port not in taken and is_free(port):
            return port
    raise Unavailable(f"all ports from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} on this machine are in use")


def is_free(port: int) -> bool:
    """Whether no program is listening on a port, on any address."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except PermissionError:  # a privileged port; the run will report the error itself
        return True
    except OSError:
        return False
    return True
