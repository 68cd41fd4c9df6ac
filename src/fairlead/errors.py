"""Every error that Fairlead raises on purpose.

FairleadError
├─ Unreadable                                   the text cannot be parsed; carries a hint
│  ├─ source_code.TooLarge                      the code is larger than the limit
│  └─ source_code.NoSuchName                    the file does not define the function to call
├─ RequestRejected                              the request breaks rules; carries every violation
├─ Unauthenticated                              the caller is not authenticated
├─ Forbidden                                    the caller may see the object but lacks permission for this operation
├─ NotFound                                     no such object, or the caller may not see it
├─ Conflict                                     the object is in use, its name is taken, or its state has changed
│  ├─ Changed                                   the object is not at the revision in If-Match
│  ├─ PreviewOutdated                           the plan token has expired, or the plan differs from the preview
│  │  └─ sdk.plan_changes.PlanChanged           the plan differs from the preview; carries the differences
│  ├─ QueueFull                                 the project has as many waiting runs as its policies allow
│  └─ RevisionMissing                           replacing an object requires If-Match
├─ Unavailable                                  the request cannot be served now; retry after `retry_after_seconds`
│  └─ TooManyRequests                           the caller exceeds a rate limit
├─ StartFailed                                  the executor can never start the run; retrying is pointless
├─ RunFailed                                    the run whose result was requested did not complete
├─ controllers.launch_specs.LaunchInputMissing  the plan, code or a secret of the run was deleted before it started
├─ adapters.kubernetes.clients.ApiError         the Kubernetes API server rejected the request
└─ server.http.problem_details.Problem          an HTTP error from the server itself, with its own status and code

An error whose name includes a module is defined in that module, next to the code that raises it.

`code` is part of the API and never changes; the message may. A mistake in a user's request is not an exception but a
violation: plans and loaders return all violations they find as values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fairlead.model.plans import Violation


class FairleadError(Exception):
    """Base class of all errors raised on purpose."""

    code = "error"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"-> {hint}")  # tracebacks show notes, so notebook users see the hint

    @property
    def terminal_text(self) -> str:
        """The message, with the hint on a second line, for printing to a terminal."""
        return f"error: {self}" + (f"\n  -> {self.hint}" if self.hint else "")


class Unreadable(FairleadError):
    """The text cannot be parsed."""

    code = "unreadable"

    hint: str

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)


class RequestRejected(FairleadError):
    """The request violates rules; carries every violation."""

    code = "rejected"

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(map(str, self.violations)))
        for violation in self.violations:
            if violation.hint:
                self.add_note(f"{violation.path} -> {violation.hint}")


class Unauthenticated(FairleadError):
    """The caller is not authenticated."""

    code = "unauthenticated"


class Forbidden(FairleadError):
    """The caller may see the object but lacks permission for this operation."""

    code = "forbidden"


class NotFound(FairleadError):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"


class Conflict(FairleadError):
    """The object is in use, its name is taken, or its state has changed."""

    code = "conflict"

    def __init__(self, message: str, hint: str | None = None, used_by: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(message, hint)
        self.used_by = list(used_by)


class Changed(Conflict):
    """The object is not at the revision in If-Match."""

    code = "changed"


class PreviewOutdated(Conflict):
    """The plan token has expired, or the plan differs from the preview."""

    code = "preview_outdated"


class QueueFull(Conflict):
    """The project has as many waiting runs as its policies allow."""

    code = "queue_full"


class RevisionMissing(Conflict):
    """Replacing an object requires If-Match."""

    code = "revision_missing"


class Unavailable(FairleadError):
    """The request cannot be served now; it may succeed later."""

    code = "unavailable"

    def __init__(self, message: str, hint: str | None = None, retry_after_seconds: int = 1) -> None:
        super().__init__(message, hint)
        self.retry_after_seconds = retry_after_seconds


class TooManyRequests(Unavailable):
    """The caller exceeds a rate limit."""

    code = "too_many_requests"


class StartFailed(FairleadError):
    """The executor can never start the run, so retrying is pointless. The run fails with the reason StartFailed."""

    code = "start_failed"


class RunFailed(FairleadError):
    """A run did not complete, so it has no result."""

    code = "run_failed"

    def __init__(
        self, run_id: str, state: str, reason: str, message: str, error: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"run {run_id} {state}" + (f": {message}" if message else ""), "read its logs")
        self.run_id, self.state, self.reason, self.error = run_id, state, reason, error
        self.traceback: str = (error or {}).get("traceback", "")


def name_taken(noun: str, name: str) -> Conflict:
    """Return the error for a taken name that is unique on the platform.

    It is the same whether the caller can view the object with this name or not.
    """
    return Conflict(f"{noun} name {name} is not available", "choose another name")
