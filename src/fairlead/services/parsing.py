"""Parses single values that are not part of a request body, such as names in URLs."""

from collections.abc import Callable
from typing import Any

from fairlead.errors import RequestRejected
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Violation


def parse_field(path: str, parse: Callable[[Any], Any], value: Any) -> Any:
    """Parse a value. Raises `RequestRejected` with all violations."""
    mistakes = collect_mistakes(path, parse, value)
    if mistakes:
        raise RequestRejected(Violation(*mistake) for mistake in mistakes)
    return parse(value)
