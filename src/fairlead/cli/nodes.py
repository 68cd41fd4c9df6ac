"""`fairlead nodes`: nodes, free capacity, and how many runs fit."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.objects import Json, connect_to_server, gather, print_item, print_items
from fairlead.cli.output import Item, format_count, print_table
from fairlead.errors import NotFound
from fairlead.model.parsing import suggest_names

WORDS = {"cpu": "CPU", "memory": "MEM", "ephemeral-storage": "DISK", "pods": "PODS"}
PODS = "pods"
WHOLE_GPUS = "/gpu"  # the suffix of nvidia.com/gpu and amd.com/gpu; MIG slices have different names
CORDONED = "node.kubernetes.io/unschedulable:"  # the taint that Kubernetes adds to cordoned nodes
OF_ALL = ("ephemeral-storage", PODS)  # rarely scarce: shown only for the whole cluster

Cluster = Annotated[str | None, Parameter(help="Only this cluster.")]


def ls(*, cluster: Cluster = None, as_json: Json = False) -> int:
    """List nodes with their free resources."""
    records = connect_to_server().get("/nodes", **_given(cluster=cluster))
    # Kubernetes reports some resources, such as huge pages, as 0 on every node.
    has = [name for node in records for name, amount in node["capacity"].items() if amount != "0" and name != PODS]
    names = name_resources((*[name for name in WORDS if name != PODS], *has))
    shown = [{**node, "taints": _describe_taints(node), **_free(node, names)} for node in records]
    columns: dict[str, str | Callable[[Item], Any]] = {"NAME": "name"}
    # Columns with the same value for all nodes are left out, because terminals are narrow.
    if len({node["cluster"] for node in records}) > 1:
        columns["CLUSTER"] = "cluster"
    columns |= {word: name for word, name in (("GROUP", "group"), ("GPU TYPE", "gpu_type")) if _any(shown, name)}
    columns |= {word: itemgetter(word) for word in names.values()} | {"RUNS": _count_runs}
    columns |= {"TAINTS": "taints"} if _any(shown, "taints") else {}
    return print_items(records if as_json else shown, columns, "nodes", as_json)


def show(name: str, /, *, cluster: Cluster = None, as_json: Json = False) -> int:
    """Show a node: labels, taints, resources, runs, and how a server's machine limits and isolates runs."""
    records = connect_to_server().get("/nodes", **_given(cluster=cluster))
    node = next((node for node in records if node["name"] == name), None)
    if node is None:
        known = [node["name"] for node in records]
        raise NotFound(f"node {name!r} does not exist", suggest_names(name, known, "list nodes with fairlead nodes ls"))
    if as_json:
        return print_item(node, as_json)
    print_item({key: value for key, value in node.items() if key != "protections"}, as_json)
    if node["protections"]:
        print()
        print_table(node["protections"], {"PROTECTION": "name", "MECHANISM": _name_mechanism, "NOTE": "gap"})
    return 0


def capacity(
    *,
    project: Annotated[str | None, Parameter(env_var="FAIRLEAD_PROJECT", help="Only this project's cluster.")] = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> int:
    """Show free capacity per cluster, node group and GPU type, and how many runs fit now.

    Unavailable nodes accept no new pods. LARGEST FREE is the largest amount that is free on a single node.
    """
    clusters = connect_to_server().get("/capacity", **_given(project=project, cluster=cluster))
    if as_json:
        print(json.dumps(clusters, indent=2))
    elif not clusters:
        print("no clusters", file=sys.stderr)
    for number, entry in enumerate(() if as_json else clusters):
        print("\n" * bool(number) + f"cluster {entry['cluster']}: {_summarize(entry)}")
        if entry["total"] is not None:  # None: the cluster is not reachable
            _print_pools(entry)
            _print_offers(entry["compute_resources"])
    return 0


def show_fits(offer: Item) -> str | None:
    """How many more runs of a compute resource fit now; None if unknown."""
    # +: the server stopped counting, so there may be more.
    return None if offer["fits_now"] is None else f"{offer['fits_now']}{'+' * offer['more']}"


def name_resources(resources: Iterable[str]) -> dict[str, str]:
    """Column titles for resources. GPUs are called GPU unless there are several vendors."""
    names = list(dict.fromkeys(resources))
    gpus = [name for name in names if name.endswith(WHOLE_GPUS)]
    return {name: WORDS.get(name) or ("GPU" if [name] == gpus else name) for name in names}


def _free(node: Item, names: Mapping[str, str]) -> dict[str, str]:
    has, free = node["capacity"], node["free"]
    return {word: f"{free[name]} of {has[name]}" if has.get(name, "0") != "0" else "-" for name, word in names.items()}


def _count_runs(node: Item) -> str:
    """Count the visible runs and the other pods on a node."""
    runs, others = len(node["runs"]), node["others"]
    return f"{runs} and {format_count(others, 'other')}" if others else str(runs)


def _name_mechanism(protection: Item) -> str:
    return protection["mechanism"] or "not enforced"


def _describe_taints(node: Item) -> list[str]:
    """A node's taints. The taint of a cordoned node is shown as `cordoned`."""
    if not node["unschedulable"]:
        return list(node["taints"])
    return ["cordoned", *(taint for taint in node["taints"] if not taint.startswith(CORDONED))]


def _summarize(entry: Item) -> str:
    """Summarize a cluster."""
    if entry["total"] is None:
        return str(entry["error"])
    unavailable = entry["total"]["unavailable"]
    columns = format_count(entry["total"]["nodes"], "node")
    columns += f", {unavailable} unavailable" if unavailable else ""
    return columns + (", autoscaled" if entry["autoscaled"] else "")


def _print_pools(entry: Item) -> None:
    unavailable = {"UNAVAILABLE": "unavailable"} if entry["total"]["unavailable"] else {}
    amounts = {"RESOURCE": "resource", "FREE": "free", "LARGEST FREE": "largest"}
    print_table(_rows(entry), {"NODES": "of", "COUNT": "nodes", **unavailable, **amounts})


def _print_offers(offers: Sequence[Item]) -> None:
    if offers:
        print()
        why = {"WHY": "message"} if _any(offers, "message") else {}
        print_table(offers, {"COMPUTE RESOURCE": "name", "SCOPE": "scope", "FITS NOW": show_fits, **why})


def _rows(entry: Item) -> Iterator[dict[str, Any]]:
    """Table rows: each resource in total, per node group and per GPU type."""
    names = name_resources(entry["total"]["capacity"])
    pools = [("all", entry["total"])]
    pools += [(f"group {pool['name']}" if pool["name"] else "no group", pool) for pool in entry["groups"]]
    pools += [(f"GPU {pool['name']}", pool) for pool in entry["gpu_types"]]
    for of, pool in pools:
        for resource, has in pool["capacity"].items():
            if resource in OF_ALL and pool is not entry["total"]:
                continue
            slot = pool["largest"].get(resource)
            yield {
                **pool,
                "of": of,
                "resource": names[resource],
                "free": f"{pool['free'][resource]} of {has}",
                "largest": f"{slot['amount']} on {slot['node']}" if slot else None,
            }


def _any(items: Sequence[Item], name: str) -> bool:
    return any(item[name] for item in items)


def _given(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


nodes = gather("nodes", ls, show, capacity)
