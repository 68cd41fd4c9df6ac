"""What the platform needs to be allowed on a Kubernetes cluster: the least of it, for printing and for checking."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster

ACCOUNT, SYSTEM = "fairlead", "fairlead-system"  # the service account, and the namespace that it is in
OF_PROJECTS = "fairlead-projects"
RBAC = "rbac.authorization.k8s.io"
ROLE_VERSION = f"{RBAC}/v1"
LABELS = {"app.kubernetes.io/managed-by": "fairlead"}


@dataclass(frozen=True)
class RbacRule:
    """What may be done to a kind of object: everywhere, or in the namespaces of projects."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    where: Literal["everywhere", "projects"] = "projects"

    @property
    def called(self) -> str:
        """The resource as RBAC is asked about it: `jobs.batch`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


WATCHED = "where runs are, what is free, and why something does not start"
# Everywhere: reading alone, and nothing that can hold a secret.
EVERYWHERE = (
    RbacRule("", "nodes", ("list", "watch"), WATCHED, "everywhere"),
    RbacRule("", "pods", ("list", "watch"), WATCHED, "everywhere"),
    RbacRule("batch", "jobs", ("list", "watch"), WATCHED, "everywhere"),
    RbacRule("apps", "deployments", ("list", "watch"), WATCHED, "everywhere"),
    RbacRule("", "events", ("list", "watch"), WATCHED, "everywhere"),
    RbacRule("storage.k8s.io", "storageclasses", ("get", "list", "watch"), "which storage there is", "everywhere"),
    RbacRule("", "persistentvolumes", ("list", "watch"), "which nodes reach a volume", "everywhere"),
    RbacRule("node.k8s.io", "runtimeclasses", ("get", "list"), "which runtimes there are", "everywhere"),
    RbacRule("scheduling.k8s.io", "priorityclasses", ("get", "list"), "which priorities there are", "everywhere"),
    RbacRule("", "persistentvolumeclaims", ("list", "watch"), "which volumes of projects are left", "everywhere"),
    RbacRule("metrics.k8s.io", "pods", ("list",), "what runs use", "everywhere"),
    RbacRule("", "namespaces", ("get", "list", "watch"), "whether the namespace of a project is there", "everywhere"),
)
CREATE_NAMESPACES = RbacRule("", "namespaces", ("create",), "a namespace for each project", "everywhere")
KAI_QUEUES = RbacRule("scheduling.run.ai", "queues", ("get",), "whether the queue of KAI is there", "everywhere")
KUEUE_VERBS, QUEUES_OF_KUEUE = ("get", "list", "watch"), "which queues of Kueue there are, and what they have"
KUEUE = (
    RbacRule("kueue.x-k8s.io", "workloads", KUEUE_VERBS, "why Kueue holds a run, and what is before it", "everywhere"),
    RbacRule("kueue.x-k8s.io", "localqueues", KUEUE_VERBS, QUEUES_OF_KUEUE, "everywhere"),
    RbacRule("kueue.x-k8s.io", "clusterqueues", KUEUE_VERBS, QUEUES_OF_KUEUE, "everywhere"),
)
# In the namespaces of projects. Secrets are only ever made: they go with the run that owns them.
IN_PROJECTS = (
    RbacRule("batch", "jobs", ("create", "delete", "get", "patch"), "runs that end"),
    RbacRule("apps", "deployments", ("create", "delete", "get", "patch"), "runs that serve"),
    RbacRule("", "services", ("create",), "addresses of runs that serve"),
    RbacRule("", "configmaps", ("create", "get"), "code of runs; those of the project that they mount"),
    RbacRule("", "secrets", ("create",), "the secrets that a run names"),
    RbacRule("", "persistentvolumeclaims", ("create", "delete", "get"), "volumes"),
    RbacRule("", "pods", ("create", "delete", "get"), "the pod with which `fairlead clusters check` looks around"),
    RbacRule("", "pods/log", ("get",), "logs"),
)
ALL_METHODS = ("create", "delete", "get", "patch", "update")  # as Kubernetes calls those of HTTP
SERVED = RbacRule("", "services/proxy", ALL_METHODS, "calls of runs that serve, from outside the cluster")


def list_permissions(cluster: Cluster) -> list[RbacRule]:
    """All that is needed on a cluster, as it is set up."""
    needs_kai = "kai" in (cluster.gpu_sharing, cluster.queueing)
    return [
        *EVERYWHERE,
        *([CREATE_NAMESPACES] if cluster.create_namespaces else []),
        *([KAI_QUEUES] if needs_kai else []),
        *(KUEUE if cluster.queueing == "kueue" else []),
        *IN_PROJECTS,
        *([SERVED] if cluster.connection == "kubeconfig" else []),
    ]


def render_access(cluster: Cluster, namespaces: Sequence[str]) -> list[Manifest]:
    """A service account and the roles that it needs.

    Where the cluster makes namespaces, nobody knows which there will be, and the role of projects holds everywhere.
    Where it does not, it holds in these namespaces alone.
    """
    permissions = list_permissions(cluster)
    everywhere = _rules(permission for permission in permissions if permission.where == "everywhere")
    in_projects = _rules(permission for permission in permissions if permission.where == "projects")
    manifests = [
        _object("v1", "Namespace", SYSTEM),
        _object("v1", "ServiceAccount", ACCOUNT, SYSTEM),
        *_bound("ClusterRole", ACCOUNT, everywhere),
    ]
    if cluster.create_namespaces:
        return [*manifests, *_bound("ClusterRole", OF_PROJECTS, in_projects)]
    return manifests + [
        manifest for namespace in namespaces for manifest in _bound("Role", ACCOUNT, in_projects, namespace)
    ]


def _bound(kind: str, name: str, rules: list[Any], namespace: str | None = None) -> Iterator[Manifest]:
    """A role, and that the service account has it."""
    yield {**_object(ROLE_VERSION, kind, name, namespace), "rules": rules}
    yield {
        **_object(ROLE_VERSION, f"{kind}Binding", name, namespace),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}],
    }


def _rules(permissions: Iterator[RbacRule]) -> list[dict[str, list[str]]]:
    """The rules of a role: resources of one group that need the same share one."""
    verbs_of: dict[tuple[str, str], set[str]] = {}
    for permission in permissions:
        verbs_of.setdefault((permission.group, permission.resource), set()).update(permission.verbs)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), needed in verbs_of.items():
        together.setdefault((group, tuple(sorted(needed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for (group, verbs), resources in together.items()
    ]


def _object(version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace}), "labels": dict(LABELS)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
