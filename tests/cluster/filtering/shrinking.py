"""A case that a person can read: whatever can go without the disagreement going with it is left out."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.cluster.filtering.comparing import PARTS, WE_FAIL, Scheduler, find_disagreements

JSON = dict[str, Any]
Path = tuple[str | int, ...]


def shrink(case: JSON, scheduler: Scheduler) -> JSON:
    """The smallest case found in which we still disagree, and which the API server would take. Asks with --check."""

    def compare(smaller: JSON) -> list[str]:
        answer = scheduler.ask(smaller)
        return [] if answer.get("invalid") or answer["error"] else find_disagreements(smaller, answer)

    found_first = compare(case)
    if not found_first:  # the scheduler has said something else before
        return case
    fails = any(line.startswith(WE_FAIL) for line in found_first)

    def disagrees(smaller: JSON) -> bool:
        found = compare(smaller)
        return bool(found) and fails == any(line.startswith(WE_FAIL) for line in found)

    return leave_out(case, disagrees)


def leave_out(case: JSON, keeps: Callable[[JSON], bool]) -> JSON:
    """The case without all that can go, one after the other, as long as a smaller one is found."""
    found = True
    while found:
        found = False
        for path in _list_paths(case):
            smaller = _without(case, path)
            if smaller is not None and keeps(smaller):
                case, found = smaller, True
    return case


def show(case: JSON) -> str:
    """A case with a line for each object."""
    lines = [f"pod: {json.dumps(case['pod'])}"]
    return "\n".join([*lines, *(f"{part}: {json.dumps(item)}" for part in PARTS for item in case.get(part, ()))])


def _list_paths(value: Any, path: Path = ()) -> list[Path]:
    """All that is in a case, whole objects first; of lists the last first, so that the others keep their places."""
    return sorted(_walk(value, path), key=len)


def _walk(value: Any, path: Path) -> Iterator[Path]:
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(reversed(list(enumerate(value))))
    for key, part in parts:
        if key != "kind":  # by which we know what it is
            yield (*path, key)
        yield from _walk(part, (*path, key))


def _without(case: JSON, path: Path) -> JSON | None:
    """A copy without one item; None if it was removed together with another item."""
    smaller = copy.deepcopy(case)
    inside: Any = smaller
    try:
        for key in path[:-1]:
            inside = inside[key]
        del inside[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller
