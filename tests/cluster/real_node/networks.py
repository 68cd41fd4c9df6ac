"""How a real node is reached: a link from this machine to the network of its pods, which goes with the node."""

import ipaddress
import random
from dataclasses import dataclass
from pathlib import Path

RANGE = ipaddress.IPv4Network("198.18.0.0/15")  # reserved for benchmarks (RFC 2544), so unused
NAMESPACE = "pods"


@dataclass(frozen=True)
class Network:
    """Addresses of one node: its first eight are the link's, its second half the pods'."""

    addresses: ipaddress.IPv4Network
    link: str

    @property
    def here(self) -> str:
        """This machine, as pods reach it."""
        return str(self.addresses[1])

    @property
    def there(self) -> str:
        """The other end of the link."""
        return str(self.addresses[2])

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """Where pods are."""
        return list(self.addresses.subnets())[1]

    def commands(self) -> list[str]:
        """The `ip` commands that connect this machine and the pods."""
        return [
            f"netns add {NAMESPACE}",
            f"link add {self.link} type veth peer name eth0 netns {NAMESPACE}",
            f"address add {self.here}/29 dev {self.link}",
            f"link set {self.link} up",
            f"-n {NAMESPACE} link set lo up",
            f"-n {NAMESPACE} address add {self.there}/29 dev eth0",
            f"-n {NAMESPACE} link set eth0 up",
            f"-n {NAMESPACE} route add default via {self.here}",
            f"route add {self.pods} via {self.there}",
        ]


def take(process: int) -> Network:
    """Addresses that this machine has no way to yet, for the node of a process."""
    routes = [line.split() for line in Path("/proc/net/route").read_text("ascii").splitlines()[1:]]
    known = {ipaddress.ip_address(bytes.fromhex(route[1])[::-1]) for route in routes}
    free = [part for part in RANGE.subnets(new_prefix=24) if not any(address in part for address in known)]
    return Network(random.choice(free), f"fairlead{process}"[:15])
