"""Whether a cluster has what runs need, part by part: who answers, what is allowed, and all that runs may ask for."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from fairlead.adapters.kubernetes import capabilities
from fairlead.adapters.kubernetes.callback_probe import check_callbacks
from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.adapters.kubernetes.objects import PROJECT_LABEL
from fairlead.core.kubernetes_rbac import SYSTEM, RbacRule, list_permissions
from fairlead.core.manifests import names
from fairlead.errors import Unavailable
from fairlead.model.observations import JSON, Check
from fairlead.model.scopes import Cluster

OLDEST = (1, 27)  # strict field validation, and Jobs whose pods may still be changed while they are suspended
AT_ONCE = 8
MOST_NAMESPACES = 20  # that are looked at
MOST_TOLD = 12
REVIEWS = path_of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
MEND = "mend what it says, then check again"

Namespaces = Mapping[str, str]  # of projects, by their names


def check_cluster(api: ApiClient, cluster: Cluster, projects: Sequence[str]) -> list[Check]:
    """All that is there and all that is not, for runs of these projects."""
    try:
        version = api.get("/version")
        groups = {group["name"]: group["preferredVersion"]["version"] for group in api.get("/apis")["groups"]}
    except Unavailable as error:
        hint = "see whether the address in its kubeconfig is right, and whether this machine gets there"
        return [Check("connection", "problem", str(error), hint)]
    except ApiError as refused:
        if refused.status not in (401, 403):
            return [_not_kubernetes(f"it says: {refused}")]
        hint = f"make a new token, then: fairlead clusters connect {cluster.name} --kubeconfig FILE"
        return [Check("connection", "problem", f"the cluster does not let the server in: {refused}", hint)]
    except (KeyError, TypeError, AttributeError):
        return [_not_kubernetes("it does not list its APIs")]
    looked_at = {name: names.namespace(name, cluster.namespace) for name in projects[:MOST_NAMESPACES]}
    # Who may make namespaces may make pods in all of them.
    for_probe = [*looked_at.values(), *([SYSTEM] if cluster.create_namespaces else [])]
    parts: Sequence[tuple[str, Callable[[], Iterator[Check]]]] = (
        ("permissions", lambda: _check_permissions(api, cluster, looked_at)),
        ("namespaces", lambda: _check_namespaces(api, cluster, looked_at, len(projects))),
        ("storage", lambda: capabilities.check_storage(api, cluster)),
        ("runtime classes", lambda: capabilities.check_runtimes(api, cluster)),
        ("gpus", lambda: capabilities.check_gpus(api, cluster)),
        ("queueing", lambda: capabilities.check_queues(api, cluster, list(looked_at.values()), groups)),
        ("usage", lambda: capabilities.check_usage(groups)),
        ("callbacks", lambda: check_callbacks(api, cluster, for_probe)),
    )
    return [_check_version(version), *(check for name, look in parts for check in _look(name, look))]


def _not_kubernetes(why: str) -> Check:
    hint = "see whether the address in its kubeconfig is that of the API server"
    return Check("connection", "problem", f"something answers, and not as Kubernetes does: {why}", hint)


def _look(name: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """One part of the check. What keeps it from being made does not keep the others."""
    try:
        return list(look())
    except ApiError as refused:
        if refused.status != 403:
            return [Check(name, "problem", f"the cluster says no: {refused}", MEND)]
        return [Check(name, "warning", f"cannot be looked at: {refused}", "give the permissions that are missing")]
    except Unavailable as error:
        return [Check(name, "problem", str(error), "check again")]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"the cluster answers with something else than Kubernetes does: {type(error).__name__} {error}"
        return [Check(name, "problem", message, "see whether the address in its kubeconfig is that of the API server")]


def _check_version(version: JSON) -> Check:
    said, oldest = str(version.get("gitVersion", "")), ".".join(map(str, OLDEST))
    match = re.match(r"v?([0-9]+)\.([0-9]+)", said)
    if match is not None and (int(match[1]), int(match[2])) < OLDEST:
        message = f"Kubernetes {said} answers, which is too old: runs need {oldest}"
        return Check("connection", "problem", message, f"upgrade the cluster to {oldest} or newer")
    return Check("connection", "ok", f"Kubernetes {said} answers")


def _check_permissions(api: ApiClient, cluster: Cluster, namespaces: Namespaces) -> Iterator[Check]:
    """Each of them is asked for on its own: only so the cluster says for sure."""
    in_projects = [""] if cluster.create_namespaces else namespaces.values()
    asked = [
        (permission, verb, namespace)
        for permission in list_permissions(cluster)
        for namespace in ([""] if permission.where == "everywhere" else in_projects)
        for verb in permission.verbs
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        allowed = list(pool.map(lambda question: _may(api, *question), asked))
    missing = [_describe(*question) for question, may in zip(asked, allowed, strict=True) if not may]
    if missing:
        more = f", and {len(missing) - MOST_TOLD} more" if len(missing) > MOST_TOLD else ""
        message = f"missing: {', '.join(missing[:MOST_TOLD])}{more}"
        yield Check("permissions", "problem", message, f"fairlead clusters rbac {cluster.name} | kubectl apply -f -")
    else:
        where = "everywhere" if cluster.create_namespaces else f"in {_count(len(namespaces), 'namespace')}"
        yield Check("permissions", "ok", f"all {len(asked)} that are needed are given, those of projects {where}")


def _may(api: ApiClient, permission: RbacRule, verb: str, namespace: str) -> bool:
    resource, _, part = permission.resource.partition("/")
    attributes = {"group": permission.group, "resource": resource, "verb": verb, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **({"subresource": part} if part else {})}},
    }
    return bool(api.create(REVIEWS, body)["status"].get("allowed"))


def _describe(permission: RbacRule, verb: str, namespace: str) -> str:
    return f"{verb} {permission.called}" + (f" in {namespace}" if namespace else "")


def _check_namespaces(api: ApiClient, cluster: Cluster, namespaces: Namespaces, projects: int) -> Iterator[Check]:
    """Whether the namespaces of projects are there, and theirs."""
    found = {
        name: capabilities.find_object(api, path_of("v1", "namespaces", name=namespace))
        for name, namespace in namespaces.items()
    }
    absent = [name for name, said in found.items() if said is None]
    for project in namespaces:
        namespace, said = namespaces[project], found[project]
        label = f"{PROJECT_LABEL}={names.label_value(project)}"
        if said is not None and said["metadata"].get("labels", {}).get(PROJECT_LABEL) != names.label_value(project):
            message = f"namespace {namespace} is there, and not labeled for project {project}: its runs wait"
            hint = f"kubectl label namespace {namespace} {label}, or choose another namespace rule"
            yield Check("namespaces", "problem", message, hint)
        elif said is None and not cluster.create_namespaces:
            message = f"there is no namespace {namespace} for project {project}: its runs wait"
            hint = f"kubectl create namespace {namespace} && kubectl label namespace {namespace} {label}"
            yield Check("namespaces", "problem", message, hint)
    there = f"there for {len(namespaces) - len(absent)} of {_count(projects, 'project')}"
    if len(namespaces) < projects:
        there += f"; {projects - len(namespaces)} were not looked at"
    yield Check(
        "namespaces", "ok", there + ("; others are made when they are needed" if cluster.create_namespaces else "")
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
