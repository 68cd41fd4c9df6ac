"""Parses Kubernetes quantities."""

import re
from decimal import Decimal

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
QUANTITY = re.compile(r"([+-]?[0-9]*\.?[0-9]+\.?(?:[eE][+-]?[0-9]+)?)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)")


def parse_quantity(text: str) -> Decimal:
    """Parse a quantity. Raises ValueError if it is invalid."""
    match = QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid quantity {text!r}")
    number, suffix = match.groups()
    return Decimal(number) * (Decimal(2) ** BINARY[suffix] if suffix in BINARY else Decimal(10) ** DECIMAL[suffix])
