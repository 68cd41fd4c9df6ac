"""`fairlead clusters`, `projects`, `departments` and `policy`: scopes, their policies, and connections to clusters."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fairlead.cli.objects import (
    Force,
    Json,
    ObjectCommands,
    WithListOptions,
    connect_to_server,
    forced,
    gather,
    print_item,
    print_items,
    print_list,
)
from fairlead.cli.output import Columns, format_cell, print_done
from fairlead.errors import FairleadError, RequestRejected, Unreadable
from fairlead.files import kubeconfigs, yamls
from fairlead.files.kubeconfigs import LoadedKubeconfig
from fairlead.manifests import kubernetes_rbac
from fairlead.model import names
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Layer, Source, Violation, format_value
from fairlead.model.scopes import PLATFORM, Cluster, ScopeTree, parse_scope
from fairlead.sdk.api_client import ApiClient

CLUSTERS = ObjectCommands(
    "cluster",
    "/clusters",
    {
        "NAME": "name",
        "PARENT": "parent",
        # Details that are not set have their default values.
        "EXECUTOR": lambda cluster: cluster["details"].get("executor", "kubernetes"),
        "GPU SHARING": lambda cluster: cluster["details"].get("gpu_sharing", "none"),
        "AGE": "created_at",
    },
)
# Options that may be repeated have singular names.
LISTS = {"storage_class": "storage_classes", "runtime_class": "runtime_classes"}
# Printed as YAML comments, so that the output can be piped to kubectl.
HOW_TO = """\
# The permissions that Fairlead needs on a cluster. Apply them as a user who may create roles:
#
#   fairlead clusters rbac{name} | kubectl apply -f -
#
# Then create a token for the service account and a kubeconfig that uses it. The cluster may limit the token's lifetime:
#
#   kubectl config view --raw --flatten --minify > fairlead.kubeconfig
#   kubectl --kubeconfig fairlead.kubeconfig config set-credentials fairlead \\
#     --token "$(kubectl create token {account} --namespace {system} --duration 8760h)"
#   kubectl --kubeconfig fairlead.kubeconfig config set-context --current --user fairlead
#   fairlead clusters add {add} --kubeconfig fairlead.kubeconfig
"""

Several = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Kubeconfig = Annotated[Path | None, Parameter(help="The kubeconfig file. Default: $KUBECONFIG or ~/.kube/config.")]
Context = Annotated[str | None, Parameter(help="The kubeconfig context. Default: the current context.")]

SCOPE_COLUMNS = {"NAME": "name", "PARENT": "parent", "MANAGED BY": "managed_by", "AGE": "created_at"}

POLICY_COLUMNS: Columns = {"SCOPE": "scope", "CONTENTS": lambda policy: list(policy["content"]), "AGE": "created_at"}
PARTS = {"PART": "part", "VALUE": "value", "FROM": "source"}

In = Annotated[
    str | None,
    Parameter(
        name="--in",
        help="The scope that contains it, such as cluster/main or department/vision. Default: the default cluster.",
    ),
]
Row = dict[str, Any]


@dataclass(frozen=True)
class ClusterOptions:
    """Options for cluster settings. Settings whose options are omitted keep their values."""

    parent: Annotated[str | None, Parameter(help="The parent scope. Default: platform.")] = None
    namespace: Annotated[str | None, Parameter(help="The pattern for project namespaces, such as ai-{project}.")] = None
    create_namespaces: Annotated[bool | None, Parameter(help="Create missing project namespaces. Default: yes.")] = None
    server_url: Annotated[str | None, Parameter(help="The URL at which pods reach this server.")] = None
    gpu_resource: Annotated[str | None, Parameter(help="The extended resource for GPUs, such as nvidia.com/gpu.")] = (
        None
    )
    gpu_sharing: Annotated[Literal["none", "kai", "hami"] | None, Parameter(help="How GPUs are shared.")] = None
    queueing: Annotated[Literal["none", "kueue", "kai"] | None, Parameter(help="The queueing system.")] = None
    kueue_queue: Annotated[str | None, Parameter(help="The Kueue LocalQueue in each namespace.")] = None
    kai_queue: Annotated[str | None, Parameter(help="The KAI queue.")] = None
    autoscaled: Annotated[bool | None, Parameter(help="The cluster adds nodes on demand.")] = None
    storage_class: Annotated[Several, Parameter(help="A storage class that volumes may use. Default: any.")] = ()
    runtime_class: Annotated[Several, Parameter(help="A runtime class that runs may use. Default: any.")] = ()
    python_image: Annotated[str | None, Parameter(help="The default image for Python functions.")] = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that were given as options."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        # Do not drop False: --no-create-namespaces sets it.
        return {LISTS.get(name, name): value for name, value in values.items() if value not in (None, ())}


WithOptions = Annotated[ClusterOptions | None, Parameter(name="*")]


def add(
    name: str,
    /,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    in_cluster: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    options: WithOptions = None,
    as_json: Json = False,
) -> int:
    """Register a Kubernetes cluster and check it.

    Parameters
    ----------
    in_cluster
        The server runs in this cluster and needs no kubeconfig.
    """
    if in_cluster and (kubeconfig is not None or context is not None):
        raise Unreadable("--in-cluster cannot be combined with a kubeconfig", "remove --in-cluster or the kubeconfig")
    # Loaded before the cluster is created, so that nothing changes if the kubeconfig is unreadable.
    loaded = None if in_cluster else _load(kubeconfig, context, as_json)
    server = connect_to_server()
    connection = {"connection": "in_cluster"} if in_cluster else {}
    # The kubeconfig is sent in a separate request, because it is stored encrypted, not as part of the cluster.
    created = server.post(CLUSTERS.path, {"name": name, **connection, **(options or ClusterOptions()).fields})
    sent = None
    if loaded is not None:
        try:
            sent = _send(server, name, loaded)
        except FairleadError:
            # The original error is more helpful than one from the cleanup.
            with contextlib.suppress(FairleadError):
                server.delete(CLUSTERS.at(name))  # so that the command can be repeated
            raise
    if not as_json:
        # Printed before the check, which starts a pod and takes a few seconds.
        print(f"added cluster {name} in {created['parent']}")
    return _check(server, name, as_json, cluster=created, kubeconfig=sent)


def edit(name: str, /, *, options: WithOptions = None, force: Force = False, as_json: Json = False) -> int:
    """Change cluster settings. Omitted settings keep their values."""
    changes = (options or ClusterOptions()).fields
    if not changes:
        raise Unreadable("nothing to change", "set an option, such as --server-url https://...")
    answer = connect_to_server().patch(CLUSTERS.at(name), changes, **forced(force))
    return print_done(f"cluster {answer['name']} is at revision {answer['revision']}", answer, as_json)


def connect(name: str, /, *, kubeconfig: Kubeconfig = None, context: Context = None, as_json: Json = False) -> int:
    """Replace a cluster's kubeconfig and check the cluster."""
    loaded = _load(kubeconfig, context, as_json)
    server = connect_to_server()
    sent = _send(server, name, loaded)
    if not as_json:
        print(f"connected cluster {name}")
    return _check(server, name, as_json, kubeconfig=sent)


def check(name: str, /, *, as_json: Json = False) -> int:
    """Check whether a cluster is ready for runs, and print a hint for each problem. Creates a short-lived pod."""
    return _check(connect_to_server(), name, as_json)


def default(name: str | None = None, /, *, as_json: Json = False) -> int:
    """Show or set the default cluster, in which new projects are created.

    Parameters
    ----------
    name
        The new default cluster. Default: show the current one.
    """
    server = connect_to_server()
    settings = server.get("/settings")
    if name is None:
        cluster = settings["default_cluster"]
        return print_done(cluster or "no default cluster is visible to you", settings, as_json)
    change = {"defaults": settings["defaults"], "default_cluster": f"cluster/{name}"}
    settings = server.put("/settings", change, revision=settings["revision"])
    return print_done(f"new projects are created in {settings['default_cluster']}", settings, as_json)


def rbac(
    name: str | None = None,
    /,
    *,
    namespace_of: Annotated[Sequence[str], Parameter(negative=(), show_default=False)] = (),
) -> int:
    """Print the permissions that the server needs on a cluster, as input for kubectl apply -f -.

    Parameters
    ----------
    name
        A registered cluster. Default: print the permissions for the default settings, without contacting a server.
    namespace_of
        Grant permissions only in the namespace of this project. Default: all namespaces.
    """
    # This works without a server: an administrator may grant permissions before installing one.
    cluster, projects = Cluster(name="main"), list(namespace_of)
    if name is not None:
        server = connect_to_server()
        place = server.get(CLUSTERS.at(name))
        cluster = Cluster.model_validate({"name": place["name"], "parent": place["parent"], **place["details"]})
        projects = projects or _list_projects(server, cluster)
    if cluster.executor == "local":
        raise Unreadable(
            f"cluster {name} executes runs locally and needs no permissions", "specify a Kubernetes cluster"
        )
    if namespace_of:
        # With permissions only in individual namespaces, the server cannot create new ones.
        cluster = cluster.model_copy(update={"create_namespaces": False})
    namespaces = [names.namespace_of(project, cluster.namespace) for project in projects]
    values = {"name": f" {name}" if name else "", "add": cluster.name}
    print(HOW_TO.format(account=kubernetes_rbac.ACCOUNT, system=kubernetes_rbac.SYSTEM, **values), end="")
    if not cluster.create_namespaces and not namespaces:
        print("#\n# The cluster has no projects yet. Use --namespace-of PROJECT to get the role for its namespace.")
    print("---\n" + yamls.format_documents(kubernetes_rbac.render_access(cluster, namespaces)), end="")
    return 0


def print_checks(checks: Sequence[dict[str, Any]]) -> None:
    """Print one line per check, followed by its hint."""
    width, now = max(len(check["name"]) for check in checks), datetime.now(UTC)
    for check in checks:
        print(f"{check['state']:<7}  {check['name']:<{width}}  {format_cell(check['message'], now)}")
        if check["hint"]:
            print(f"{'':<7}  {'':<{width}}    -> {format_cell(check['hint'], now)}")


def _load(kubeconfig: Path | None, context: str | None, as_json: bool) -> LoadedKubeconfig:
    """Load the kubeconfig and, unless the output is JSON, print which one is used."""
    paths = kubeconfigs.find_paths(kubeconfig, os.environ.get("KUBECONFIG"), Path.home())
    loaded = kubeconfigs.load_kubeconfig(paths, context)
    if not as_json:
        print(f"using context {loaded.context} from {', '.join(map(str, loaded.files))}: {loaded.connection.server}")
    return loaded


def _send(server: ApiClient, name: str, loaded: LoadedKubeconfig) -> Any:
    return server.put(CLUSTERS.at(name, "kubeconfig"), {"kubeconfig": loaded.text, "context": loaded.context})


def _check(server: ApiClient, name: str, as_json: bool, **before: Any) -> int:
    """Check a cluster and print the results. Return 1 if there is a problem."""
    checks = server.post(CLUSTERS.at(name, "check"), None)
    if as_json:
        print(json.dumps({**before, "checks": checks} if before else checks, indent=2))
    else:
        print_checks(checks)
    return 1 if any(check["state"] == "problem" for check in checks) else 0


def _list_projects(server: ApiClient, cluster: Cluster) -> list[str]:
    parents = {place["scope"]: place["parent"] for place in server.list("/scopes", limit="500") if place["parent"]}
    return ScopeTree(parents).projects_in(cluster.scope)


clusters = gather("clusters", CLUSTERS.ls, CLUSTERS.show, add, edit, connect, check, default, rbac, CLUSTERS.rm)


@dataclass(frozen=True)
class ScopeCommands(ObjectCommands):
    """Commands for a kind of scope."""

    def create(self, name: str, /, *, parent: In = None, as_json: Json = False) -> int:
        """Create an object."""
        answer = connect_to_server().post(
            self.path, {"name": name} if parent is None else {"name": name, "parent": parent}
        )
        return print_done(f"created {self.one} {name} in {answer['parent']}", answer, as_json)

    def move(self, name: str, parent: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Move an object and everything in it to another parent."""
        answer = connect_to_server().patch(self.at(name), {"parent": parent}, **forced(force))
        return print_done(f"moved {self.one} {name} to {parent}", answer, as_json)


PROJECTS = ScopeCommands("project", "/projects", SCOPE_COLUMNS)
DEPARTMENTS = ScopeCommands("department", "/departments", SCOPE_COLUMNS)
projects, departments = (
    gather(f"{kind.one}s", kind.ls, kind.show, kind.create, kind.rename, kind.move, kind.rm)
    for kind in (PROJECTS, DEPARTMENTS)
)


def list_policies(*, list_options: WithListOptions = None, as_json: Json = False) -> int:
    """List the scopes that have a policy."""
    return print_list("/policies", POLICY_COLUMNS, "policies", list_options, as_json)


def show_policy(scope: str, /, *, as_json: Json = False) -> int:
    """Show a scope's policy."""
    return print_item(connect_to_server().get(_policy_path(scope)), as_json)


def show_effective_policy(scope: str, /, *, as_json: Json = False) -> int:
    """Show a scope's effective policy, with the source of each part."""
    answer = connect_to_server().get(f"{_policy_path(scope)}/effective")
    if as_json:
        return print_item(answer, as_json)
    return print_items(list_policy_parts(answer), PARTS, "rules", as_json)


def delete_policy(scope: str, /, *, force: Force = False, as_json: Json = False) -> int:
    """Delete a scope's policy. Policies of parent scopes still apply."""
    connect_to_server().delete(_policy_path(scope), **forced(force))
    return print_done(f"deleted policy of {scope}", None, as_json)


def list_policy_parts(effective: Row) -> Iterator[Row]:
    """Table rows for an effective policy."""
    for path, rule in effective["rules"].items():
        for bound, entries in rule.items():
            # Options from several scopes apply together, so the server returns a list.
            for entry in entries if isinstance(entries, list) else [entries]:
                yield _row(f"rules.{path}.{bound}", entry)
    for group in ("switches", "limit_factor", "queue"):
        yield from (_row(f"{group}.{name}", entry) for name, entry in effective[group].items())
    for defaults in effective["defaults"]:
        source = f"{defaults['scope']} policy"
        leaves = _leaves("defaults", defaults["requirements"])
        yield from ({"part": part, "value": value, "source": source} for part, value in leaves)
    for quota in effective["quotas"]:
        # The other fields, such as the scope, are not limits.
        for name in [name for name in quota if name in quota["used"]]:
            value = f"{quota[name]}, {quota['used'][name]} used"
            yield {"part": f"quotas.{name}", "value": value, "source": f"{quota['scope']} policy"}


def _row(part: str, entry: Row) -> Row:
    source = Source(**entry["source"] | {"layer": Layer(entry["source"]["layer"])})
    # Shown as users write it: true, not True.
    value = format_value(entry["value"]) if isinstance(entry["value"], bool) else entry["value"]
    return {"part": part, "value": value, "source": str(source)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All leaf values with their paths."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, value


def _policy_path(scope: str) -> str:
    """The URL path of a scope's policy."""
    mistakes = [Violation(*mistake) for mistake in collect_mistakes("scope", parse_scope, scope)]
    if mistakes:
        raise RequestRejected(mistakes)
    # URLs have the form kind/name. The platform has no name.
    return f"/policies/{PLATFORM}/{PLATFORM}" if scope == PLATFORM else f"/policies/{scope}"


policy = gather("policy", ls=list_policies, show=show_policy, effective=show_effective_policy, rm=delete_policy)
