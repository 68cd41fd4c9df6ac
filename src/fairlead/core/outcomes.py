"""What a run leaves of its outcome: small JSON files, which anybody may have written.

Standard library only: the process beside each local run reads them too.
"""

import json
from collections.abc import Sequence
from typing import Any

LARGEST_LEFT = 512 * 1024
KNOWN = {"json": {"kind", "value"}, "file": {"kind", "path", "type", "size"}}  # what the bootstrap leaves as a result


def parse_outcome(text: bytes) -> dict[str, Any] | None:
    """A JSON object that a run left; None where it is none, or is too large."""
    if len(text) > LARGEST_LEFT:
        return None
    try:
        found = json.loads(text, parse_constant=_refuse_number)
        # What is no text is not kept by any database.
        found = json.loads(json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_result(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """A result, where what was found is one that the bootstrap leaves."""
    known = found is not None and KNOWN.get(str(found.get("kind"))) == set(found)
    return found if known else None


def find_peaks(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The most that was used of each resource."""
    names = sorted({name for sample in samples for name in sample} - {"at"})
    return {name: max(sample.get(name, 0) for sample in samples) for name in names}


def _refuse_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
