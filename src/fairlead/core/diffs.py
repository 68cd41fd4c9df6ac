"""Differences between two versions of the same data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """A path whose value was changed, added or removed."""

    path: str
    before: Any
    after: Any


def compare(before: Any, after: Any) -> list[Difference]:
    """All differences, sorted by path. List entries with a name are matched by name."""
    return sorted(_walk("", before, after), key=lambda difference: difference.path)


def _walk(path: str, before: Any, after: Any) -> Iterator[Difference]:
    old, new = _by_name(before), _by_name(after)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _walk(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif isinstance(old, Mapping) and new is None:
        # The value is compared with an empty mapping, so that each field that was added or removed has its own path.
        yield from _walk(path, old, {})
    elif isinstance(new, Mapping) and old is None:
        yield from _walk(path, {}, new)
    elif before != after:
        yield Difference(path, before, after)


def _by_name(value: Any) -> Any:
    """Convert a list of named entries to a mapping by name. Other values are returned unchanged."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        # If entries were matched by position, inserting one at the start would change all the others.
        for key in ("name", "key"):
            if all(isinstance(item.get(key), str) for item in value):
                return {item[key]: {name: part for name, part in item.items() if name != key} for item in value}
    return value
