"""Names and values that arrive on their own, outside a body: read strictly, refused with a violation."""

from collections.abc import Callable
from typing import Any

from fairlead.errors import RequestRejected
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Violation


def parse_field(path: str, parse: Callable[[Any], Any], value: Any) -> Any:
    """The value as its parser reads it. Raise `RequestRejected` with what is wrong."""
    mistakes = collect_mistakes(path, parse, value)
    if mistakes:
        raise RequestRejected(Violation(*mistake) for mistake in mistakes)
    return parse(value)
