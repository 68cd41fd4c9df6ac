"""Host names and IP addresses."""

import ipaddress
import re

MAX_LENGTH = 253  # the limit for a DNS name
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
MAX_PORT = 65535


def is_host(text: str) -> bool:
    """Whether the text is a valid host name or IP address."""
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
        return True
    except ValueError:
        labels = text.removesuffix(".").split(".")
        numeric = labels[-1].isdecimal()  # looks like an IPv4 address, but is not a valid one
        return len(text) <= MAX_LENGTH and not numeric and all(LABEL.fullmatch(label) for label in labels)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    # Other names are not resolved: the model does no I/O, and a name's address can change.
    except ValueError:
        return host.lower() == "localhost"
