"""Exit codes of runs, and the small JSON files that runs leave behind: results and errors, as untrusted input.

Uses only the standard library, because the supervisor process of local runs also imports it.
"""

import json
import signal
from collections.abc import Sequence
from typing import Any

SIGNALS = {number.value: number.name for number in signal.Signals}
MAX_OUTCOME_BYTES = 512 * 1024  # twice the largest value that the bootstrap writes
# The fields of each kind of result that the bootstrap writes.
RESULT_FIELDS = {
    "json": {"kind", "value"},
    "file": {"kind", "path", "type", "size"},
}


def describe_exit(code: int) -> str:
    """Describe an exit code. As in a shell, a code above 128 means that a signal killed the process."""
    return (
        f"killed by {SIGNALS[code - 128]} (exit code {code})" if code - 128 in SIGNALS else f"exited with code {code}"
    )


def describe_times(count: int) -> str:
    """Format a count: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def parse_outcome(text: bytes) -> dict[str, Any] | None:
    """Parse a JSON object from a run; None if it is invalid or too large."""
    if len(text) > MAX_OUTCOME_BYTES:
        return None
    try:
        # Python accepts NaN and Infinity, but PostgreSQL and browsers do not.
        data = json.loads(text, parse_constant=_reject_constant)
        # Databases cannot store text with lone surrogates.
        data = json.loads(json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):  # deeply nested lists raise RecursionError
        return None
    return data if isinstance(data, dict) else None


def read_result(data: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result, or None if the data is not in the bootstrap's format."""
    known = data is not None and RESULT_FIELDS.get(str(data.get("kind"))) == set(data)
    return data if known else None


def find_peaks(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The peak usage of each resource."""
    names = sorted({name for sample in samples for name in sample} - {"at"})
    return {name: max(sample.get(name, 0) for sample in samples) for name in names}


def _reject_constant(text: str) -> None:
    raise ValueError(f"invalid number {text}")
