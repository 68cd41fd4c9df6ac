"""Minimizes a case: removes everything that is not needed to reproduce a disagreement."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.filtering.comparing import OUR_ERROR, PARTS, Scheduler, find_disagreements

JSON = dict[str, Any]
Path = tuple[str | int, ...]


def shrink(case: JSON, scheduler: Scheduler) -> JSON:
    """Find a small case that is valid and still disagrees. Needs a scheduler with --check."""

    def compare(smaller: JSON) -> list[str]:
        result = scheduler.evaluate(smaller)
        return [] if result.get("invalid") or result["error"] else find_disagreements(smaller, result)

    disagreements = compare(case)
    if not disagreements:  # the scheduler returned a different result before
        return case
    has_error = any(line.startswith(OUR_ERROR) for line in disagreements)

    def disagrees(smaller: JSON) -> bool:
        smaller_disagreements = compare(smaller)
        return bool(smaller_disagreements) and has_error == any(
            line.startswith(OUR_ERROR) for line in smaller_disagreements
        )

    return minimize(case, disagrees)


def minimize(case: JSON, condition: Callable[[JSON], bool]) -> JSON:
    """Remove parts of a case one by one while a condition holds, until nothing more can be removed."""
    found = True
    while found:
        found = False
        for path in _list_paths(case):
            smaller = _without(case, path)
            if smaller is not None and condition(smaller):
                case, found = smaller, True
    return case


def show(case: JSON) -> str:
    """Format a case with one line per object."""
    lines = [f"pod: {json.dumps(case['pod'])}"]
    return "\n".join([*lines, *(f"{part}: {json.dumps(item)}" for part in PARTS for item in case.get(part, ()))])


def _list_paths(value: Any, path: Path = ()) -> list[Path]:
    """The paths to all parts of a case: whole objects first, and list items in reverse order to keep indexes valid."""
    return sorted(_walk(value, path), key=len)


def _walk(value: Any, path: Path) -> Iterator[Path]:
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(reversed(list(enumerate(value))))
    for key, part in parts:
        if key != "kind":  # the kind identifies the object
            yield (*path, key)
        yield from _walk(part, (*path, key))


def _without(case: JSON, path: Path) -> JSON | None:
    """A copy without one item; None if it was already removed along with another item."""
    smaller = copy.deepcopy(case)
    container: Any = smaller
    try:
        for key in path[:-1]:
            container = container[key]
        del container[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller
