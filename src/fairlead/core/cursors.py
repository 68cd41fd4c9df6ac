"""Log cursors: a cursor is a position in the log of one attempt. Later attempts have greater cursors."""

POSITIONS = 2**40  # larger than any log, and 8,000 times this is still an exact integer in JavaScript


def join(attempt: int, position: int) -> int:
    """The cursor of a position in the log of an attempt. For the first attempt it equals the position."""
    return (attempt - 1) * POSITIONS + position


def split(cursor: int) -> tuple[int, int]:
    """Split a cursor into the attempt and the position in its log."""
    return cursor // POSITIONS + 1, cursor % POSITIONS
