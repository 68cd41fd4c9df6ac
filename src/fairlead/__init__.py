"""Fairlead gives every AI run the compute it asked for."""

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # instead of importing typing, which is slow
# For editors and type checkers, which do not see names that `__getattr__` loads. `as` marks them as exported.
if TYPE_CHECKING:
    from fairlead.errors import (
        Conflict as Conflict,
    )
    from fairlead.errors import (
        FairleadError as FairleadError,
    )
    from fairlead.errors import (
        Forbidden as Forbidden,
    )
    from fairlead.errors import (
        NotFound as NotFound,
    )
    from fairlead.errors import (
        RequestRejected as RequestRejected,
    )
    from fairlead.errors import (
        RunFailed as RunFailed,
    )
    from fairlead.errors import (
        Unauthenticated as Unauthenticated,
    )
    from fairlead.errors import (
        Unavailable as Unavailable,
    )
    from fairlead.sdk.functions import Function as Function
    from fairlead.sdk.plan_changes import PlanChanged as PlanChanged
    from fairlead.sdk.projects import Project as Project
    from fairlead.sdk.projects import get_run as get_run
    from fairlead.sdk.projects import project as project
    from fairlead.sdk.runs import Run as Run

# The module of each public name. Modules are imported on first use, so that the CLI starts quickly.
_MODULES = {
    "project": "fairlead.sdk.projects",
    "get_run": "fairlead.sdk.projects",
    "Project": "fairlead.sdk.projects",
    "Function": "fairlead.sdk.functions",
    "Run": "fairlead.sdk.runs",
    "FairleadError": "fairlead.errors",
    "RequestRejected": "fairlead.errors",
    "RunFailed": "fairlead.errors",
    "NotFound": "fairlead.errors",
    "Conflict": "fairlead.errors",
    "PlanChanged": "fairlead.sdk.plan_changes",
    "Forbidden": "fairlead.errors",
    "Unauthenticated": "fairlead.errors",
    "Unavailable": "fairlead.errors",
}
__all__ = ["__version__", *_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'fairlead' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
