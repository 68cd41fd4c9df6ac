"""Cursors of logs: each is a place in the log of one try of a run, and those of later tries are greater."""

POSITIONS = 2**40  # more than a log has bytes; thousands of it are still whole numbers in JavaScript


def join(attempt: int, position: int) -> int:
    """The cursor of a place in the log of a try. Those of the first try are the places themselves."""
    return (attempt - 1) * POSITIONS + position


def split(cursor: int) -> tuple[int, int]:
    """The try, and the place in its log."""
    return cursor // POSITIONS + 1, cursor % POSITIONS
