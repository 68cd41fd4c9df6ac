"""`fairlead clusters`: where runs execute, how the server gets there, and whether all is there that runs need."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from fairlead.cli.nouns import Force, Json, Noun, connect, forced, gather
from fairlead.cli.printing import print_done
from fairlead.cli.tables import format_cell
from fairlead.core import kubernetes_rbac
from fairlead.core.manifests import names
from fairlead.core.scope_tree import Tree
from fairlead.errors import FairleadError, Unreadable
from fairlead.files import kubeconfigs, yamls
from fairlead.files.kubeconfigs import LoadedKubeconfig
from fairlead.model.scopes import Cluster
from fairlead.sdk.api_client import ApiClient

CLUSTERS = Noun(
    "cluster",
    "/clusters",
    {
        "NAME": "name",
        "PARENT": "parent",
        # What a cluster leaves out is as shipped.
        "EXECUTOR": lambda cluster: cluster["details"].get("executor", "kubernetes"),
        "GPU SHARING": lambda cluster: cluster["details"].get("gpu_sharing", "none"),
        "AGE": "created_at",
    },
)
# Options that may be given several times are called after one of what they list.
LISTS = {"storage_class": "storage_classes", "runtime_class": "runtime_classes"}
HOW_TO = """\
# What Fairlead needs on a cluster, and no more. Apply it as somebody who may give permissions:
#
#   fairlead clusters rbac{name} | kubectl apply -f -
#
# Then make a token of the service account, and a kubeconfig with it. The cluster may make it expire sooner:
#
#   kubectl config view --raw --flatten --minify > fairlead.kubeconfig
#   kubectl --kubeconfig fairlead.kubeconfig config set-credentials fairlead \\
#     --token "$(kubectl create token {account} --namespace {system} --duration 8760h)"
#   kubectl --kubeconfig fairlead.kubeconfig config set-context --current --user fairlead
#   fairlead clusters add {add} --kubeconfig fairlead.kubeconfig
"""

Several = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Kubeconfig = Annotated[
    Path | None, Parameter(help="The file with the way there. Left out, $KUBECONFIG or ~/.kube/config.")
]
Context = Annotated[str | None, Parameter(help="Which of its contexts. Left out, the current one.")]


@dataclass(frozen=True)
class Said:
    """What is said of a cluster; left out, it is as shipped, or stays as it is."""

    parent: Annotated[str | None, Parameter(help="The scope below which it stands. Left out, the platform.")] = None
    namespace: Annotated[str | None, Parameter(help="How namespaces of projects are called: ai-{project}.")] = None
    create_namespaces: Annotated[
        bool | None, Parameter(help="Whether namespaces that are missing are made, as they are unless said.")
    ] = None
    server_url: Annotated[str | None, Parameter(help="An address of this server that pods reach.")] = None
    gpu_resource: Annotated[str | None, Parameter(help="What a whole GPU is called: nvidia.com/gpu.")] = None
    gpu_sharing: Annotated[Literal["none", "kai", "hami"] | None, Parameter(help="Who deals out parts of GPUs.")] = None
    queueing: Annotated[Literal["none", "kueue", "kai"] | None, Parameter(help="Who decides which run is next.")] = None
    kueue_queue: Annotated[str | None, Parameter(help="The LocalQueue of Kueue in each namespace.")] = None
    kai_queue: Annotated[str | None, Parameter(help="The queue of KAI.")] = None
    autoscaled: Annotated[bool | None, Parameter(help="Whether nodes are added when they are needed.")] = None
    storage_class: Annotated[Several, Parameter(help="A storage class that volumes may name. Left out, any.")] = ()
    runtime_class: Annotated[Several, Parameter(help="A runtime class that runs may name. Left out, any.")] = ()
    python_image: Annotated[str | None, Parameter(help="The image of Python functions that name none.")] = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that are said."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {LISTS.get(name, name): value for name, value in said.items() if value not in (None, ())}


Saying = Annotated[Said | None, Parameter(name="*")]


def add(
    name: str,
    /,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    in_cluster: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    said: Saying = None,
    as_json: Json = False,
) -> int:
    """Register a Kubernetes cluster, and check it.

    Parameters
    ----------
    in_cluster
        The server itself runs in this cluster, and needs no kubeconfig.
    """
    if in_cluster and (kubeconfig is not None or context is not None):
        raise Unreadable("a server in the cluster needs no kubeconfig", "leave out --in-cluster, or the kubeconfig")
    loaded = None if in_cluster else _load(kubeconfig, context, as_json)
    server = connect()
    way = {"connection": "in_cluster"} if in_cluster else {}
    made = server.post(CLUSTERS.path, {"name": name, **way, **(said or Said()).fields})
    sent = None
    if loaded is not None:
        try:
            sent = _send(server, name, loaded)
        except FairleadError:
            with contextlib.suppress(FairleadError):
                server.delete(CLUSTERS.at(name))  # so that the same can be tried again
            raise
    if not as_json:
        print(f"added cluster {name} below {made['parent']}")
    return _check(server, name, as_json, cluster=made, kubeconfig=sent)


def edit(name: str, /, *, said: Saying = None, force: Force = False, as_json: Json = False) -> int:
    """Change what is said of a cluster: what is not said stays as it is."""
    changes = (said or Said()).fields
    if not changes:
        raise Unreadable("nothing is said that could change", "say what, such as --server-url https://...")
    answer = connect().patch(CLUSTERS.at(name), changes, **forced(force))
    return print_done(f"cluster {answer['name']} is at revision {answer['revision']}", answer, as_json)


def connect_(name: str, /, *, kubeconfig: Kubeconfig = None, context: Context = None, as_json: Json = False) -> int:
    """Reach a cluster by another kubeconfig, and check it."""
    loaded = _load(kubeconfig, context, as_json)
    server = connect()
    sent = _send(server, name, loaded)
    if not as_json:
        print(f"connected cluster {name}")
    return _check(server, name, as_json, kubeconfig=sent)


def check(name: str, /, *, as_json: Json = False) -> int:
    """Look whether a cluster has what runs need, and say what to do where not. Makes a pod there for a moment."""
    return _check(connect(), name, as_json)


def rbac(
    name: str | None = None,
    /,
    *,
    namespace_of: Annotated[Sequence[str], Parameter(negative=(), show_default=False)] = (),
) -> int:
    """Print the permissions that the server needs on a cluster, for kubectl apply -f -.

    Parameters
    ----------
    name
        A cluster that is registered. Left out, those of a cluster as shipped, and no server is asked.
    namespace_of
        A project: permissions for its namespace alone, where the cluster makes none. Left out, all on the cluster.
    """
    cluster, projects = Cluster(name="main"), list(namespace_of)
    if name is not None:
        server = connect()
        place = server.get(CLUSTERS.at(name))
        cluster = Cluster.model_validate({"name": place["name"], "parent": place["parent"], **place["details"]})
        projects = projects or _list_projects(server, cluster)
    if cluster.executor == "local":
        raise Unreadable(f"cluster {name} is a machine, and needs no permissions", "name a Kubernetes cluster")
    if namespace_of:
        cluster = cluster.model_copy(update={"create_namespaces": False})
    namespaces = [names.namespace(project, cluster.namespace) for project in projects]
    called = {"name": f" {name}" if name else "", "add": cluster.name}
    print(HOW_TO.format(account=kubernetes_rbac.ACCOUNT, system=kubernetes_rbac.SYSTEM, **called), end="")
    if not cluster.create_namespaces and not namespaces:
        print("#\n# There is no project on it yet: say --namespace-of PROJECT for the role in its namespace.")
    print("---\n" + yamls.format_documents(kubernetes_rbac.render_access(cluster, namespaces)), end="")
    return 0


def print_checks(checks: Sequence[dict[str, Any]]) -> None:
    """What was looked at, a line each, with what to do about it on the next."""
    width, now = max(len(check["name"]) for check in checks), datetime.now(UTC)
    for check in checks:
        print(f"{check['state']:<7}  {check['name']:<{width}}  {format_cell(check['message'], now)}")
        if check["hint"]:
            print(f"{'':<7}  {'':<{width}}    -> {format_cell(check['hint'], now)}")


def _load(kubeconfig: Path | None, context: str | None, as_json: bool) -> LoadedKubeconfig:
    """The kubeconfig, whole; and which one it is, for those who did not say so."""
    paths = kubeconfigs.find_paths(kubeconfig, os.environ.get("KUBECONFIG"), Path.home())
    loaded = kubeconfigs.load_kubeconfig(paths, context)
    if not as_json:
        print(f"context {loaded.context} of {', '.join(map(str, loaded.files))} leads to {loaded.connection.server}")
    return loaded


def _send(server: ApiClient, name: str, loaded: LoadedKubeconfig) -> Any:
    return server.put(CLUSTERS.at(name, "kubeconfig"), {"kubeconfig": loaded.text, "context": loaded.context})


def _check(server: ApiClient, name: str, as_json: bool, **before: Any) -> int:
    """Check a cluster and say what was found, after what was answered before; 1 where there is a problem."""
    checks = server.post(CLUSTERS.at(name, "check"), None)
    if as_json:
        print(json.dumps({**before, "checks": checks} if before else checks, indent=2))
    else:
        print_checks(checks)
    return 1 if any(check["state"] == "problem" for check in checks) else 0


def _list_projects(server: ApiClient, cluster: Cluster) -> list[str]:
    parents = {place["scope"]: place["parent"] for place in server.list("/scopes", limit="500") if place["parent"]}
    return Tree(parents).projects_below(cluster.scope)


clusters = gather("clusters", CLUSTERS.ls, CLUSTERS.show, add, edit, connect_, check, rbac, CLUSTERS.rm)
