"""Where an address leads: to this machine, or to others."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine answers under a host's name or number."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
