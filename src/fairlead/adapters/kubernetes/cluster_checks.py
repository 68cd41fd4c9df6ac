"""Checks whether a cluster is set up for runs: connection, permissions, namespaces and capabilities."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from fairlead.adapters.kubernetes import capabilities
from fairlead.adapters.kubernetes.callback_probe import check_callbacks
from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import PROJECT_LABEL
from fairlead.errors import Unavailable
from fairlead.manifests.kubernetes_rbac import SYSTEM, RbacRule, list_permissions
from fairlead.model import names
from fairlead.model.runs import JSON, Check
from fairlead.model.scopes import Cluster

MIN_VERSION = (1, 27)  # the first version with strict field validation and mutable pod templates in suspended Jobs
CONCURRENT_REVIEWS = 8  # a check needs about fifty, and more with many namespaces
MAX_NAMESPACES = 20  # only the first ones are checked
MAX_LISTED = 12
REVIEWS = path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
CHECK_ADDRESS = "check that the kubeconfig has the address of the API server"

Namespaces = Mapping[str, str]  # namespace by project


def check_cluster(api: KubernetesClient, cluster: Cluster, projects: Sequence[str]) -> list[Check]:
    """The results of all checks for runs in these projects."""
    try:
        version = api.get("/version")
        groups = {group["name"]: group["preferredVersion"]["version"] for group in api.get("/apis")["groups"]}
    except Unavailable as error:
        hint = "check the address in the kubeconfig, and that this machine can reach it"
        return [Check("connection", "problem", str(error), hint)]
    except ApiError as error:
        if error.status not in (401, 403):
            return [_not_kubernetes(str(error))]
        hint = f"create a new token, then run fairlead clusters connect {cluster.name} --kubeconfig FILE"
        return [Check("connection", "problem", f"the cluster rejects the credentials: {error}", hint)]
    except (KeyError, TypeError, AttributeError):
        return [_not_kubernetes("it does not list API groups")]
    namespaces = {name: names.namespace(name, cluster.namespace) for name in projects[:MAX_NAMESPACES]}
    # If the server may create namespaces, it can create pods in all of them.
    probe_namespaces = [*namespaces.values(), *([SYSTEM] if cluster.create_namespaces else [])]
    parts: Sequence[tuple[str, Callable[[], Iterator[Check]]]] = (
        ("permissions", lambda: _check_permissions(api, cluster, namespaces)),
        ("namespaces", lambda: _check_namespaces(api, cluster, namespaces, len(projects))),
        ("storage", lambda: capabilities.check_storage(api, cluster)),
        ("runtime classes", lambda: capabilities.check_runtimes(api, cluster)),
        ("gpus", lambda: capabilities.check_gpus(api, cluster)),
        ("queueing", lambda: capabilities.check_queues(api, cluster, list(namespaces.values()), groups)),
        ("usage", lambda: capabilities.check_usage(groups)),
        ("callbacks", lambda: check_callbacks(api, cluster, probe_namespaces)),
    )
    return [_check_version(version), *(check for name, part in parts for check in _run_part(name, part))]


def _not_kubernetes(detail: str) -> Check:
    return Check("connection", "problem", f"the address is not a Kubernetes API server: {detail}", CHECK_ADDRESS)


def _run_part(name: str, part: Callable[[], Iterator[Check]]) -> list[Check]:
    """Run one part of the check. An error becomes a result of the check, so that the other parts still run."""
    try:
        return list(part())
    except ApiError as error:
        if error.status != 403:
            message = f"the cluster rejected a request: {error}"
            return [Check(name, "problem", message, "fix the reported cause, then check again")]
        return [Check(name, "warning", f"cannot be checked: {error}", "grant the missing permissions")]
    except Unavailable as error:
        return [Check(name, "problem", str(error), "check again")]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"the cluster returned an invalid response: {type(error).__name__} {error}"
        return [Check(name, "problem", message, CHECK_ADDRESS)]


def _check_version(version: JSON) -> Check:
    git_version, oldest = str(version.get("gitVersion", "")), ".".join(map(str, MIN_VERSION))
    match = re.match(r"v?([0-9]+)\.([0-9]+)", git_version)
    if match is not None and (int(match[1]), int(match[2])) < MIN_VERSION:
        message = f"Kubernetes {git_version} is too old: runs need {oldest} or newer"
        return Check("connection", "problem", message, f"upgrade the cluster to {oldest} or newer")
    return Check("connection", "ok", f"connected to Kubernetes {git_version}")


def _check_permissions(api: KubernetesClient, cluster: Cluster, namespaces: Namespaces) -> Iterator[Check]:
    # One review per permission: SelfSubjectRulesReview may be incomplete, depending on the authorizer.
    # An empty namespace in a review means all namespaces.
    in_projects = [""] if cluster.create_namespaces else namespaces.values()
    required = [
        (permission, verb, namespace)
        for permission in list_permissions(cluster)
        for namespace in ([""] if permission.scope == "cluster" else in_projects)
        for verb in permission.verbs
    ]
    with ThreadPoolExecutor(CONCURRENT_REVIEWS) as pool:
        allowed = list(pool.map(lambda permission: _is_allowed(api, *permission), required))
    missing = [_describe(*permission) for permission, granted in zip(required, allowed, strict=True) if not granted]
    if missing:
        more = f", and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        message = f"missing: {', '.join(missing[:MAX_LISTED])}{more}"
        yield Check("permissions", "problem", message, f"fairlead clusters rbac {cluster.name} | kubectl apply -f -")
    else:
        scope = "in all namespaces" if cluster.create_namespaces else f"in {_count(len(namespaces), 'namespace')}"
        message = f"all {len(required)} required permissions are granted; project permissions apply {scope}"
        yield Check("permissions", "ok", message)


def _is_allowed(api: KubernetesClient, permission: RbacRule, verb: str, namespace: str) -> bool:
    resource, _, part = permission.resource.partition("/")
    attributes = {"group": permission.group, "resource": resource, "verb": verb, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **({"subresource": part} if part else {})}},
    }
    return bool(api.create(REVIEWS, body)["status"].get("allowed"))


def _describe(permission: RbacRule, verb: str, namespace: str) -> str:
    return f"{verb} {permission.qualified_name}" + (f" in {namespace}" if namespace else "")


def _check_namespaces(
    api: KubernetesClient, cluster: Cluster, namespaces: Namespaces, projects: int
) -> Iterator[Check]:
    """Check that the namespaces of projects exist and are labeled."""
    objects = {
        name: capabilities.find_object(api, path_of("v1", "namespaces", name=namespace))
        for name, namespace in namespaces.items()
    }
    missing = [name for name, raw in objects.items() if raw is None]
    for project in namespaces:
        namespace, raw = namespaces[project], objects[project]
        label = f"{PROJECT_LABEL}={names.label_value(project)}"
        if raw is not None and raw["metadata"].get("labels", {}).get(PROJECT_LABEL) != names.label_value(project):
            message = f"namespace {namespace} exists but is not labeled for project {project}, whose runs must wait"
            hint = f"kubectl label namespace {namespace} {label}, or choose another namespace rule"
            yield Check("namespaces", "problem", message, hint)
        elif raw is None and not cluster.create_namespaces:
            message = f"namespace {namespace} of project {project} does not exist: its runs must wait"
            hint = f"kubectl create namespace {namespace} && kubectl label namespace {namespace} {label}"
            yield Check("namespaces", "problem", message, hint)
    message = f"{len(namespaces) - len(missing)} of {_count(projects, 'project')} have a namespace"
    if len(namespaces) < projects:
        message += f"; {projects - len(namespaces)} were not checked"
    if cluster.create_namespaces:
        message += "; missing namespaces are created when needed"
    yield Check("namespaces", "ok", message)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
