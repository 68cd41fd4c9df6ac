"""How a process ended, in words. Standard library only."""

import signal

SIGNALS = {number.value: number.name for number in signal.Signals}


def describe_exit(code: int) -> str:
    """What an exit code says; one above 128 is that of a shell where a signal ended it."""
    return f"was ended by {SIGNALS[code - 128]}" if code - 128 in SIGNALS else f"exited with code {code}"


def describe_times(count: int) -> str:
    """How often something happened."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
