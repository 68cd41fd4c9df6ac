"""What the platform always sets, whoever asked for what: security, labels, and the run's own variables."""

from collections.abc import Iterator

from fairlead.core.drafts import Snapshot
from fairlead.core.folders import HOME
from fairlead.core.manifests import names
from fairlead.core.resolution import Resolution, Statement, Thing
from fairlead.model.plans import Layer, Source
from fairlead.model.requests import RunRequest

IMPOSED = Source(Layer.IMPOSED)
DEFAULT_ID = 1000
PREFIX = "fairlead.dev"


def impose(resolution: Resolution, request: RunRequest, snapshot: Snapshot, run_id: str) -> Resolution:
    """The resolution with the platform's own settings on top."""
    things = (*_unless_said(resolution), *_always(resolution), *_labels(resolution, request, snapshot, run_id))
    return resolution.extended(Statement(IMPOSED, things))


def _unless_said(resolution: Resolution) -> Iterator[Thing]:
    """A user that is not root, and a home that it can write to: official images say root and have neither."""
    user = resolution.value("run_as_user")
    group = resolution.value("run_as_group")
    if user is None:
        yield Thing("run_as_user", "", {"": DEFAULT_ID})
    if group is None:
        yield Thing("run_as_group", "", {"": DEFAULT_ID})
    if resolution.value("fs_group") is None:
        yield Thing("fs_group", "", {"": DEFAULT_ID if group is None else group})
    if resolution.value("envs", "HOME") is None and ("secrets", "HOME") not in resolution.things:
        yield Thing("envs", "HOME", {"": HOME})


def _always(resolution: Resolution) -> Iterator[Thing]:
    root = 0 in (resolution.value("run_as_user"), resolution.value("run_as_group"))
    yield Thing("security", "run_as_non_root", {"": not root})
    yield Thing("security", "allow_privilege_escalation", {"": False})
    yield Thing("security", "capabilities", {"": "none"})
    yield Thing("security", "seccomp_profile", {"": "RuntimeDefault"})
    yield Thing("security", "service_account_token", {"": False})


def _labels(resolution: Resolution, request: RunRequest, snapshot: Snapshot, run_id: str) -> Iterator[Thing]:
    profile = resolution.value("profile")
    labels = {
        "app.kubernetes.io/managed-by": "fairlead",
        f"{PREFIX}/project": snapshot.project,
        f"{PREFIX}/function": request.function.name,
        f"{PREFIX}/action": request.action,
        f"{PREFIX}/run": run_id,
    } | ({f"{PREFIX}/compute-resource": profile} if profile else {})
    for key, value in labels.items():
        yield Thing("labels", key, {"": names.label_value(value)})
    yield Thing("envs", "FAIRLEAD_PROJECT", {"": snapshot.project})
    yield Thing("envs", "FAIRLEAD_RUN", {"": run_id})
