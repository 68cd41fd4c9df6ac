"""Settings that the platform enforces: security, labels and the run's variables."""

from collections.abc import Iterator
from typing import Any

from fairlead.model import names
from fairlead.model.names import ATTEMPT, HOME, PREFIX, RUN_LABEL
from fairlead.model.plans import Layer, Source
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster
from fairlead.resolution.drafts import Snapshot
from fairlead.resolution.layers import LayerValues, SettingGroup, Settings, single_setting, value_of

ENFORCED = Source(Layer.ENFORCED)
# A number, because the kubelet refuses to start a container with a user name: it cannot verify that it is not root.
DEFAULT_ID = 1000
SECURITY = (
    single_setting(ENFORCED, "security", "allow_privilege_escalation", False),
    single_setting(ENFORCED, "security", "drop_capabilities", "ALL"),
    single_setting(ENFORCED, "security", "seccomp_profile", "RuntimeDefault"),
    # User code must not be able to call the Kubernetes API.
    single_setting(ENFORCED, "security", "service_account_token", False),
)


def resolve_enforced(settings: Settings, request: RunRequest, snapshot: Snapshot, run_id: str) -> LayerValues:
    """The layer with the highest precedence. Some of its values depend on the other layers."""
    groups = (
        *_defaults(settings),
        *_always(settings),
        *_labels(settings, request, snapshot, run_id),
        *_server(request, snapshot.cluster),
        *_port(settings, request, snapshot.cluster),
        *_network(snapshot),
    )
    return LayerValues(ENFORCED, groups)


def _defaults(settings: Settings) -> Iterator[SettingGroup]:
    """A non-root user and a writable home. Most official images run as root and have neither."""
    user = value_of(settings, "run_as_user")
    group = value_of(settings, "run_as_group")
    if user is None:
        yield _enforced("run_as_user", "", DEFAULT_ID)
    if group is None:
        yield _enforced("run_as_group", "", DEFAULT_ID)
    # Kubernetes makes volumes writable for this group. Without it, most new volumes belong to root.
    if value_of(settings, "fs_group") is None:
        yield _enforced("fs_group", "", DEFAULT_ID if group is None else group)
    # A secret named HOME also becomes a variable. Setting both would be a violation.
    if value_of(settings, "envs", "HOME") is None and value_of(settings, "secrets", "HOME") is None:
        yield _enforced("envs", "HOME", HOME)


def _always(settings: Settings) -> Iterator[SettingGroup]:
    # With runAsNonRoot, the kubelet refuses to start a container as user 0, even if a policy allows root.
    yield _enforced("security", "run_as_non_root", value_of(settings, "run_as_user") != 0)
    yield from SECURITY


def _labels(settings: Settings, request: RunRequest, snapshot: Snapshot, run_id: str) -> Iterator[SettingGroup]:
    profile = value_of(settings, "profile")
    labels = {
        "app.kubernetes.io/managed-by": "fairlead",
        f"{PREFIX}/project": snapshot.project,
        f"{PREFIX}/function": request.function.name,
        f"{PREFIX}/action": request.action,
        RUN_LABEL: run_id,
    } | ({f"{PREFIX}/compute-resource": profile} if profile else {})
    for key, value in labels.items():
        yield _enforced("labels", key, names.label_value(value))
    yield _enforced("envs", "FAIRLEAD_PROJECT", snapshot.project)
    yield _enforced("envs", "FAIRLEAD_RUN", run_id)
    # Later attempts replace this value when their manifests are derived from the plan.
    yield _enforced("envs", ATTEMPT, "1")


def _server(request: RunRequest, cluster: Cluster) -> Iterator[SettingGroup]:
    """The server URL for pods of Python functions, which download code and upload results."""
    if request.function.kind == "python" and cluster.executor == "kubernetes" and cluster.server_url is not None:
        yield _enforced("envs", "FAIRLEAD_SERVER", cluster.server_url)


def _port(settings: Settings, request: RunRequest, cluster: Cluster) -> Iterator[SettingGroup]:
    """The port to listen on. Local Python handlers use a Unix socket instead."""
    port = value_of(settings, "function", "port")
    # The port is in the strongest layer, because the Service and the readiness probe use the same port.
    if request.action != "job" and port is not None and (request.function.command or cluster.executor != "local"):
        yield _enforced("envs", "PORT", str(port))


def _network(snapshot: Snapshot) -> Iterator[SettingGroup]:
    switch = snapshot.switches["network"]
    if switch.value != "host":  # not listed in every plan
        yield single_setting(switch.source, "network", "", switch.value)


def _enforced(section: str, name: str, value: Any) -> SettingGroup:
    return single_setting(ENFORCED, section, name, value)
