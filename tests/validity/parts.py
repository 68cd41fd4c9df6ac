"""The Kubernetes rules for names, labels, quantities and claims, implemented independently of the product."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

MAX_ANNOTATION_BYTES = 2**18
DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
SUFFIXES = {
    **{suffix: Fraction(1000) ** power for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Fraction:
    """Parse a quantity as Kubernetes does. Raises ValueError if it is invalid."""
    match = re.fullmatch(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))", text, re.ASCII)
    if match is None or (match[4] is not None and match[4] not in SUFFIXES):
        raise ValueError(f"{text!r} is not a valid quantity")
    # Larger exponents are limited, because they would only waste time: the amount is too large or below one nano.
    scale = SUFFIXES[match[4]] if match[4] is not None else Fraction(10) ** max(-200, min(200, int(match[3])))
    integer, _, fraction = match[2].partition(".")
    return Fraction(int(f"{match[1]}{integer}{fraction}" or 0), 10 ** len(fraction)) * scale


def check_amounts(where: str, amounts: Mapping[str, str]) -> Iterator[str]:
    for name, text in amounts.items():
        try:
            value = parse_quantity(text)
        except ValueError as error:
            yield f"{where}.{name}: {error}"
            continue
        if not 0 <= value <= 2**63 - 1:
            yield f"{where}.{name}: {text} is out of range"
        if name in ("memory", "ephemeral-storage", "storage", "sizeLimit") and value.denominator != 1:
            yield f"{where}.{name}: {text} is a fraction of a byte"
        if name == "cpu" and (value * 1000).denominator != 1:
            yield f"{where}.cpu: {text} is finer than a millicore"


def check_unique(where: str, names: Sequence[str]) -> Iterator[str]:
    yield from (f"{where}: {name} occurs {count} times" for name, count in Counter(names).items() if count > 1)


def check_dns_label(where: str, name: str) -> Iterator[str]:
    yield from check_name(where, name, DNS_LABEL, 63)


def check_name(where: str, name: str, pattern: str, max_length: int) -> Iterator[str]:
    if len(name) > max_length or not re.fullmatch(pattern, name, re.ASCII):
        yield f"{where}: {name!r} is not a valid name of at most {max_length} characters"


def check_key(where: str, name: str) -> Iterator[str]:
    yield from check_name(where, name, r"[-._a-zA-Z0-9]+", 253)
    if name == "." or name.startswith(".."):
        yield f"{where}: {name!r} is not a valid key"


def check_qualified(where: str, name: str) -> Iterator[str]:
    prefix, slash, rest = name.rpartition("/")
    if slash:
        yield from check_name(where, prefix, SUBDOMAIN, 253)
    yield from check_name(where, rest, QUALIFIED, 63)


def check_label_value(where: str, value: str) -> Iterator[str]:
    yield from check_name(where, value, rf"({QUALIFIED})?", 63)


def check_claim_spec(where: str, spec: Mapping[str, Any]) -> Iterator[str]:
    if not spec.get("accessModes"):
        yield f"{where}.accessModes: must not be empty"
    storage = spec.get("resources", {}).get("requests", {}).get("storage")
    errors = list(check_amounts(where, {"storage": storage or ""}))
    yield from errors
    if not errors and parse_quantity(storage) <= 0:
        yield f"{where}.resources.requests.storage: {storage} is not more than 0"
    if "storageClassName" in spec:
        yield from check_name(f"{where}.storageClassName", spec["storageClassName"], SUBDOMAIN, 253)


def check_labels(where: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    for key, value in metadata.get("labels", {}).items():
        yield from check_qualified(f"{where}.labels", key)
        yield from check_label_value(f"{where}.labels.{key}", value)
    annotations = metadata.get("annotations", {})
    for key in annotations:
        yield from check_qualified(f"{where}.annotations", key)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        yield f"{where}.annotations: too large"
