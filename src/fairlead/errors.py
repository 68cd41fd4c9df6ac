"""Every error that Fairlead raises on purpose.

FairleadError
└─ Unreadable               a text is not what it should be; carries the way out

A user's mistakes are no errors but violations: values, all of them, that a plan or a loader returns.
"""


class FairleadError(Exception):
    """Something that Fairlead says no to, on purpose."""


class Unreadable(FairleadError):
    """A text is not what it should be."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
