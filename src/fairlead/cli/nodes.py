"""`fairlead nodes`: where runs are executed, and what is free there."""

from typing import Any

from fairlead.cli.nouns import Json, connect, gather, print_items

AMOUNTS = {"CPU": "cpu", "MEM": "memory", "DISK": "ephemeral-storage", "GPU": "nvidia.com/gpu", "RUNS": "pods"}


def ls(*, as_json: Json = False) -> int:
    """List nodes, with what is free of what they have."""
    found = connect().get("/nodes")
    shown = [{"name": node["name"], **{word: _free(node, name) for word, name in AMOUNTS.items()}} for node in found]
    columns = {"NAME": "name", **{word: word for word in AMOUNTS}}
    return print_items(found if as_json else shown, columns, "nodes", as_json)


def _free(node: dict[str, Any], name: str) -> str:
    return f"{node['free'][name]} of {node['capacity'][name]}" if name in node["capacity"] else "-"


nodes = gather("nodes", ls)
