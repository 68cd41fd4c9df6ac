"""Ports of this machine: runs that listen on one must not be in each other's way."""

import socket
import zlib
from collections.abc import Collection

from fairlead.adapters.local.specs import Spec
from fairlead.errors import Unavailable
from fairlead.model.observations import LaunchSpec

# Below those that the kernel gives to whoever calls from here, so that none of them is in the way by chance.
FIRST_PORT, PORTS = 20_000, 10_000


def choose_port(work: LaunchSpec, said: int | None, live: Collection[Spec]) -> int:
    """The port that a run is to listen on: the one that it says, else a free one. Raise `Unavailable`."""
    taken = {spec.port: spec for spec in live if spec.port is not None}
    if said is not None:
        if said not in taken and is_free(said):
            return said
        holder = taken.get(said)
        mine = holder is not None and holder.project == work.project  # who others are is none of its business
        by = f"run {holder.run_id}" if holder and mine else "another run" if holder else "another program"
        raise Unavailable(f"port {said} of this machine is taken by {by}")
    first = zlib.crc32(work.run_id.encode()) % PORTS
    for number in range(PORTS):
        port = FIRST_PORT + (first + number) % PORTS
        if port not in taken and is_free(port):
            return port
    raise Unavailable(f"all ports of this machine from {FIRST_PORT} to {FIRST_PORT + PORTS - 1} are taken")


def is_free(port: int) -> bool:
    """Whether nobody listens on a port, at any address."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except PermissionError:  # of those that belong to root: that is for the run to find out
        return True
    except OSError:
        return False
    return True
