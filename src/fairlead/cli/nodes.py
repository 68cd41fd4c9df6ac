"""`fairlead nodes`: where runs are executed, what is free there, and what of it fits."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.nouns import Json, connect, gather, print_items
from fairlead.cli.printing import count
from fairlead.cli.tables import Item, print_table

WORDS = {"cpu": "CPU", "memory": "MEM", "ephemeral-storage": "DISK", "pods": "PODS"}
PODS = "pods"
WHOLE_GPUS = "/gpu"
CORDONED = "node.kubernetes.io/unschedulable:"
OF_ALL = ("ephemeral-storage", PODS)  # seldom what is scarce: told of all nodes together alone

Cluster = Annotated[str | None, Parameter(help="Of this cluster alone.")]


def ls(*, cluster: Cluster = None, as_json: Json = False) -> int:
    """List nodes, with what is free of what they have."""
    found = connect().get("/nodes", **_said(cluster=cluster))
    has = [name for node in found for name, amount in node["capacity"].items() if amount != "0" and name != PODS]
    names = name_resources((*[name for name in WORDS if name != PODS], *has))
    shown = [{**node, "taints": _describe_taints(node), **_free(node, names)} for node in found]
    told: dict[str, str | Callable[[Item], Any]] = {"NAME": "name"}
    if len({node["cluster"] for node in found}) > 1:
        told["CLUSTER"] = "cluster"
    told |= {word: name for word, name in (("GROUP", "group"), ("GPU TYPE", "gpu_type")) if _any(shown, name)}
    told |= {word: itemgetter(word) for word in names.values()} | {"RUNS": _count_runs}
    told |= {"TAINTS": "taints"} if _any(shown, "taints") else {}
    return print_items(found if as_json else shown, told, "nodes", as_json)


def capacity(
    *,
    project: Annotated[
        str | None, Parameter(env_var="FAIRLEAD_PROJECT", help="Of the cluster of this project.")
    ] = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> int:
    """Show what is free on each cluster that you see: in all, by node group and type of GPU; and what fits there now.

    Closed nodes take nothing new now. The largest free is what one node has left, which is what a pod can have.
    """
    found = connect().get("/capacity", **_said(project=project, cluster=cluster))
    if as_json:
        print(json.dumps(found, indent=2))
    elif not found:
        print("no clusters", file=sys.stderr)
    for number, entry in enumerate(() if as_json else found):
        print("\n" * bool(number) + f"cluster {entry['cluster']}: {_tell(entry)}")
        if entry["total"] is not None:
            _print_pools(entry)
            _print_offers(entry["compute_resources"])
    return 0


def show_fits(offer: Item) -> str | None:
    """How many more of a compute resource fit now; nothing where nobody can tell."""
    return None if offer["fits_now"] is None else f"{offer['fits_now']}{'+' * offer['more']}"


def name_resources(resources: Iterable[str]) -> dict[str, str]:
    """How tables call each resource: GPUs are called so, whoever makes them; of two makes, each by its own name."""
    found = list(dict.fromkeys(resources))
    gpus = [name for name in found if name.endswith(WHOLE_GPUS)]
    return {name: WORDS.get(name) or ("GPU" if [name] == gpus else name) for name in found}


def _free(node: Item, names: Mapping[str, str]) -> dict[str, str]:
    has, free = node["capacity"], node["free"]
    return {word: f"{free[name]} of {has[name]}" if has.get(name, "0") != "0" else "-" for name, word in names.items()}


def _count_runs(node: Item) -> str:
    """Runs that are there, and what else is: pods that are no runs, and runs that the reader does not see."""
    runs, others = len(node["runs"]), node["others"]
    return f"{runs} and {count(others, 'other')}" if others else str(runs)


def _describe_taints(node: Item) -> list[str]:
    """What keeps runs off a node; the taint of a cordoned one says no more than that it is cordoned."""
    if not node["unschedulable"]:
        return list(node["taints"])
    return ["cordoned", *(taint for taint in node["taints"] if not taint.startswith(CORDONED))]


def _tell(entry: Item) -> str:
    """A cluster in half a sentence."""
    if entry["total"] is None:
        return str(entry["error"])
    unavailable = entry["total"]["unavailable"]
    told = count(entry["total"]["nodes"], "node")
    told += f", {unavailable} unavailable" if unavailable else ""
    return told + (", autoscaled" if entry["autoscaled"] else "")


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
    """A row for each resource of all nodes together, of each group and of each type of GPU."""
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


def _said(**parameters: str | None) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value is not None}


nodes = gather("nodes", ls, capacity)
