"""Where an address leads: to this machine, or to others."""

import ipaddress
import re

LONGEST = 253
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
LARGEST_PORT = 65535


def is_host(text: str) -> bool:
    """Whether it is a name or a number under which a machine can be found."""
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
        return True
    except ValueError:
        labels = text.removesuffix(".").split(".")
        numeric = labels[-1].isdecimal()  # so it is meant as a number, and is none
        return len(text) <= LONGEST and not numeric and all(LABEL.fullmatch(label) for label in labels)


def is_loopback(host: str) -> bool:
    """Whether only this machine answers under a host's name or number."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
