"""Control sequences in text from runs, which could manipulate the terminal of the user who prints it."""

import re

# ECMA-48 sequences, and the remaining control characters except tab, newline and carriage return (progress bars).
# A control string ends where another one begins. Otherwise the search would take quadratic time.
CONTROL_SEQUENCE = re.compile(
    r"""
    (?: \x1b\[ | \x9b ) [0-?]* [ -/]* [@-~]  # CSI, for example colors and cursor movement
    | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x07\x1b\x90\x98\x9c-\x9f]* (?: \x07 | \x1b\\ | \x9c )  # OSC, DCS, SOS
    | \x1b [ -/]* [0-~]
    | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]
    """,
    re.VERBOSE,
)


def remove_control_sequences(text: str) -> str:
    """Remove the control sequences in a text, such as colors."""
    return CONTROL_SEQUENCE.sub("", text)
