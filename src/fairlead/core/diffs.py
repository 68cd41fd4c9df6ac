"""What is different between two versions of the same data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """A path that has another value, or none, before and after."""

    path: str
    before: Any
    after: Any


def compare(before: Any, after: Any) -> list[Difference]:
    """Every path that differs, in order. Entries of lists that have a name are compared by it."""
    return sorted(_walk("", before, after), key=lambda difference: difference.path)


def _walk(path: str, before: Any, after: Any) -> Iterator[Difference]:
    old, new = _named(before), _named(after)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _walk(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif isinstance(old, Mapping) and new is None:
        yield from _walk(path, old, {})
    elif isinstance(new, Mapping) and old is None:
        yield from _walk(path, {}, new)
    elif before != after:
        yield Difference(path, before, after)


def _named(value: Any) -> Any:
    """A list of entries with names as a mapping by name."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        for key in ("name", "key"):
            if all(isinstance(item.get(key), str) for item in value):
                return {item[key]: {name: said for name, said in item.items() if name != key} for item in value}
    return value
