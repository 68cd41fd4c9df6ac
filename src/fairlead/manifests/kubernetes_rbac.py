"""The minimal RBAC rules that Fairlead needs on a Kubernetes cluster, for use in manifests and checks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster

ACCOUNT, SYSTEM = "fairlead", "fairlead-system"  # the service account and its namespace
PROJECTS_ROLE = "fairlead-projects"
RBAC = "rbac.authorization.k8s.io"
ROLE_VERSION = f"{RBAC}/v1"
LABELS = {"app.kubernetes.io/managed-by": "fairlead"}


@dataclass(frozen=True)
class RbacRule:
    """Verbs on a resource, in the whole cluster or in project namespaces."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    purpose: str
    scope: Literal["cluster", "projects"] = "projects"

    @property
    def qualified_name(self) -> str:
        """The resource with its API group, such as `jobs.batch`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


SCHEDULING = "placement of runs, free capacity, and reasons why a run does not start"
# For the whole cluster: read-only, and nothing that may contain secrets.
IN_CLUSTER = (
    RbacRule("", "nodes", ("list", "watch"), SCHEDULING, "cluster"),
    RbacRule("", "pods", ("list", "watch"), SCHEDULING, "cluster"),
    RbacRule("batch", "jobs", ("list", "watch"), SCHEDULING, "cluster"),
    RbacRule("apps", "deployments", ("list", "watch"), SCHEDULING, "cluster"),
    RbacRule("", "events", ("list", "watch"), SCHEDULING, "cluster"),
    RbacRule("storage.k8s.io", "storageclasses", ("get", "list", "watch"), "available storage classes", "cluster"),
    RbacRule("", "persistentvolumes", ("list", "watch"), "nodes that can access a volume", "cluster"),
    RbacRule("node.k8s.io", "runtimeclasses", ("get", "list"), "available runtime classes", "cluster"),
    RbacRule("scheduling.k8s.io", "priorityclasses", ("get", "list"), "available priority classes", "cluster"),
    RbacRule("", "persistentvolumeclaims", ("list", "watch"), "existing project volumes", "cluster"),
    # The metrics API cannot be watched.
    RbacRule("metrics.k8s.io", "pods", ("list",), "resource usage of runs", "cluster"),
    RbacRule("", "namespaces", ("get", "list", "watch"), "existing project namespaces", "cluster"),
)
CREATE_NAMESPACES = RbacRule("", "namespaces", ("create",), "a namespace for each project", "cluster")
KAI_QUEUES = RbacRule("scheduling.run.ai", "queues", ("get",), "existing KAI queues", "cluster")
KUEUE_VERBS, KUEUE_QUEUES = ("get", "list", "watch"), "Kueue queues and their quotas"
KUEUE = (
    RbacRule("kueue.x-k8s.io", "workloads", KUEUE_VERBS, "a run's queue position, and why it is waiting", "cluster"),
    RbacRule("kueue.x-k8s.io", "localqueues", KUEUE_VERBS, KUEUE_QUEUES, "cluster"),
    RbacRule("kueue.x-k8s.io", "clusterqueues", KUEUE_VERBS, KUEUE_QUEUES, "cluster"),
)
# For project namespaces. Secrets only need to be created: Kubernetes deletes them with the run that owns them.
IN_PROJECTS = (
    # patch: a Job is created suspended, and resumed once the run's other objects exist.
    RbacRule("batch", "jobs", ("create", "delete", "get", "patch"), "jobs"),
    RbacRule("apps", "deployments", ("create", "delete", "get", "patch"), "served runs and workspaces"),
    RbacRule("", "services", ("create",), "addresses of served runs"),
    RbacRule("", "configmaps", ("create", "get"), "code of runs, and ConfigMaps that runs mount"),
    RbacRule("", "secrets", ("create",), "secrets of runs"),
    RbacRule("", "persistentvolumeclaims", ("create", "delete", "get"), "volumes"),
    RbacRule("", "pods", ("create", "delete", "get"), "the test pod of `fairlead clusters check`"),
    RbacRule("", "pods/log", ("get",), "logs"),
)
ALL_METHODS = ("create", "delete", "get", "patch", "update")  # the verbs of all HTTP methods
SERVICE_PROXY = RbacRule("", "services/proxy", ALL_METHODS, "requests to served runs from outside the cluster")


def list_permissions(cluster: Cluster) -> list[RbacRule]:
    """All rules that a cluster needs, given its configuration."""
    needs_kai = "kai" in (cluster.gpu_sharing, cluster.queueing)
    return [
        *IN_CLUSTER,
        *([CREATE_NAMESPACES] if cluster.create_namespaces else []),
        *([KAI_QUEUES] if needs_kai else []),
        *(KUEUE if cluster.queueing == "kueue" else []),
        *IN_PROJECTS,
        # A server inside the cluster connects to Services directly.
        *([SERVICE_PROXY] if cluster.connection == "kubeconfig" else []),
    ]


def render_access(cluster: Cluster, namespaces: Sequence[str]) -> list[Manifest]:
    """Manifests for a service account and its roles.

    If Fairlead creates namespaces, their names are not known in advance, so the role for projects applies to the whole
    cluster. Otherwise it applies only to the given namespaces.
    """
    permissions = list_permissions(cluster)
    in_cluster = _rules(permission for permission in permissions if permission.scope == "cluster")
    in_projects = _rules(permission for permission in permissions if permission.scope == "projects")
    manifests = [
        _object("v1", "Namespace", SYSTEM),
        _object("v1", "ServiceAccount", ACCOUNT, SYSTEM),
        *_role_with_binding("ClusterRole", ACCOUNT, in_cluster),
    ]
    if cluster.create_namespaces:
        return [*manifests, *_role_with_binding("ClusterRole", PROJECTS_ROLE, in_projects)]
    return manifests + [
        manifest for namespace in namespaces for manifest in _role_with_binding("Role", ACCOUNT, in_projects, namespace)
    ]


def _role_with_binding(kind: str, name: str, rules: list[Any], namespace: str | None = None) -> Iterator[Manifest]:
    yield {**_object(ROLE_VERSION, kind, name, namespace), "rules": rules}
    yield {
        **_object(ROLE_VERSION, f"{kind}Binding", name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
    }


def _rules(permissions: Iterator[RbacRule]) -> list[dict[str, list[str]]]:
    """The rules of a role. Resources of the same group with the same verbs share one rule."""
    verbs_of: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        verbs_of.setdefault((permission.group, permission.resource), set()).update(permission.verbs)
    resources_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), verbs_needed in verbs_of.items():
        resources_of.setdefault((group, tuple(sorted(verbs_needed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in resources_of.items()
    ]


def _object(version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace}), "labels": dict(LABELS)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
