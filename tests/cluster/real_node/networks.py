"""The network of a real node: a veth link between this machine and its pods, removed with the node."""

import ipaddress
import random
from dataclasses import dataclass
from pathlib import Path

RANGE = ipaddress.IPv4Network("198.18.0.0/15")  # reserved for benchmarks (RFC 2544), so not in use
NAMESPACE = "pods"


@dataclass(frozen=True)
class Network:
    """The addresses of one node: the first eight for the link, the second half for pods."""

    addresses: ipaddress.IPv4Network
    link: str

    @property
    def host_address(self) -> str:
        """The address at which pods reach this machine."""
        return str(self.addresses[1])

    @property
    def node_address(self) -> str:
        """The address of the node, at the other end of the link."""
        return str(self.addresses[2])

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """The pod subnet."""
        return list(self.addresses.subnets())[1]

    def commands(self) -> list[str]:
        """The `ip` commands that connect this machine and the pods."""
        return [
            f"netns add {NAMESPACE}",
            f"link add {self.link} type veth peer name eth0 netns {NAMESPACE}",
            f"address add {self.host_address}/29 dev {self.link}",
            f"link set {self.link} up",
            f"-n {NAMESPACE} link set lo up",
            f"-n {NAMESPACE} address add {self.node_address}/29 dev eth0",
            f"-n {NAMESPACE} link set eth0 up",
            f"-n {NAMESPACE} route add default via {self.host_address}",
            f"route add {self.pods} via {self.node_address}",
        ]


def choose_network(process: int) -> Network:
    """Choose addresses that this machine has no route to, for a process's node."""
    routes = [line.split() for line in Path("/proc/net/route").read_text("ascii").splitlines()[1:]]
    routed = {ipaddress.ip_address(bytes.fromhex(route[1])[::-1]) for route in routes}
    free = [subnet for subnet in RANGE.subnets(new_prefix=24) if not any(address in subnet for address in routed)]
    return Network(random.choice(free), f"fairlead{process}"[:15])
