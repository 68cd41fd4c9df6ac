"""Describes exit codes. Standard library only."""

import signal

SIGNALS = {number.value: number.name for number in signal.Signals}


def describe_exit(code: int) -> str:
    """Describe an exit code. As in a shell, a code above 128 means that a signal killed the process."""
    return (
        f"killed by {SIGNALS[code - 128]} (exit code {code})" if code - 128 in SIGNALS else f"exited with code {code}"
    )


def describe_times(count: int) -> str:
    """Format a count: once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
