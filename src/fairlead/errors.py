"""Every error that Fairlead raises on purpose.

FairleadError
└─ RequestRejected          what was asked for breaks rules; carries every violation

`code` is the contract with clients and never changes; the message may.
"""

from collections.abc import Sequence

from fairlead.model.plans import Violation


class FairleadError(Exception):
    """Something that Fairlead says no to, on purpose."""

    code = "error"


class RequestRejected(FairleadError):
    """What was asked for breaks rules."""

    code = "request_rejected"

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)
