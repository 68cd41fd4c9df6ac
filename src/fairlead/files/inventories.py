"""Reads a cluster's state from kubectl output: nodes, pods, storage and namespaces."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.files.kube_objects import JSON, check_objects, name_object
from fairlead.model.nodes import NodeTable
from fairlead.model.parsing import short_repr
from fairlead.model.plans import PlanWarning, Violation
from fairlead.planning.fit_reports import PendingPod, read_pending_pods
from fairlead.scheduling.readers import (
    is_placed,
    read_claim,
    read_class,
    read_cluster,
    read_node,
    read_scheduled_pod,
    read_scheduling_context,
    read_volume,
)

COMMAND = "kubectl get nodes,pods -A -o json"
USE_COMMAND = f"use the output of {COMMAND}"
RUN_AGAIN = f"run {COMMAND} again"
# For thousands of nodes, kubectl output exceeds the usual limits for YAML files. JSON has no limits here:
# its parser is fast, and without aliases a file cannot expand.
MAX_YAML_BYTES = 32 * 1024 * 1024
MAX_YAML_VALUES = 5_000_000
MAX_LISTED = 10
MAX_DEPTH = 100  # nesting of lists
SYSTEM = "kube-system"
# Objects of other kinds are ignored.
READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Node": read_node,
    "Pod": read_scheduled_pod,
    "PersistentVolumeClaim": read_claim,
    "PersistentVolume": read_volume,
    "StorageClass": read_class,
    "Namespace": lambda raw: raw["metadata"],
}
# Errors that the readers in fitting raise for values that `kube_objects` does not check, such as annotations.
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Inventory:
    """The nodes of a cluster with their pods, the pending pods, and warnings about missing objects."""

    table: NodeTable
    waiting: list[PendingPod]
    warnings: list[PlanWarning]


def parse_objects(text: bytes) -> list[JSON]:
    """Parse Kubernetes objects and lists, as JSON or YAML. Raise `Unreadable` with the reason."""
    objects = [item for document in _parse_documents(text) for item in _unpack(document)]
    return [item for item in objects if item["kind"] in READERS]


def read_inventory(objects: Sequence[JSON], location: str) -> Inventory:
    """Build the inventory from objects; duplicates count once. Raise `RequestRejected` with all errors."""
    if mistakes := check_objects(objects, location, RUN_AGAIN):
        raise RequestRejected(mistakes)
    # Users may pass nodes and pods in several files, which may overlap.
    items = list({_identify(raw): raw for raw in objects}.values())
    try:
        table, waiting = read_cluster(items), read_pending_pods(items)
        table.context = read_scheduling_context(items)
    except UNREADABLE as error:
        raise RequestRejected(
            # Reading objects one by one names the unreadable ones. Only done after a failure, because it takes time.
            list(islice(_find_mistakes(items, location), MAX_LISTED)) or [_explain("", error, location)]
        ) from error
    if not len(table):
        violation = Violation(
            "", "no_nodes", f"has no nodes, found {_count_kinds(items)}", f"include nodes: {COMMAND}", location=location
        )
        raise RequestRejected([violation])
    return Inventory(table, waiting, list(_warn(items, table, location)))


def _parse_documents(text: bytes) -> list[Any]:
    try:
        decoded = text.decode(json.detect_encoding(text)).removeprefix("\ufeff").strip()  # PowerShell writes UTF-16
    except UnicodeDecodeError:
        raise Unreadable("is not a text file", USE_COMMAND) from None
    if not decoded:
        raise Unreadable("is empty", USE_COMMAND)
    # JSON is also valid YAML, but the YAML parser takes many times as long.
    if decoded[0] in "{[":
        return list(_parse_json(decoded))
    try:
        return yamls.parse_documents(decoded.encode(), max_bytes=MAX_YAML_BYTES, max_values=MAX_YAML_VALUES)
    except Unreadable as error:
        raise Unreadable(f"is not the output of kubectl: {error}", USE_COMMAND) from error


def _parse_json(text: str) -> Iterator[Any]:
    """Parse one or more JSON values, because users append the output of several kubectl commands to one file."""
    # raw_decode returns the position after a value, unlike json.loads, which rejects a second value.
    decoder, at = json.JSONDecoder(object_pairs_hook=_build_object), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise Unreadable("is not the output of kubectl: it is nested too deeply", RUN_AGAIN) from None
        except ValueError as error:
            raise Unreadable(f"is not valid JSON: {error}", f"{RUN_AGAIN}, and save its whole output") from error
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _build_object(pairs: list[tuple[str, Any]]) -> JSON:
    # json.loads would silently use the last of two equal keys.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        duplicate = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Unreadable(f"has the duplicate key {short_repr(duplicate)}", f"remove one of them, or {RUN_AGAIN}")
    return fields


def _unpack(document: Any, depth: int = 0) -> Iterator[JSON]:
    """The objects of a list of any kind, or the object itself."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if depth > MAX_DEPTH:
        raise Unreadable(
            f"is not the output of kubectl: it has lists nested more than {MAX_DEPTH} levels deep", USE_COMMAND
        )
    # Go writes an empty list as null, so null is accepted, but a missing field is not.
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items", ""), list | None):
        # Items in a list of one kind, such as a NodeList from the API, have no kind.
        of_list = {"kind": kind.removesuffix("List")}
        for item in document["items"] or ():
            yield from _unpack({**of_list, **item} if isinstance(item, dict) else item, depth + 1)
    elif isinstance(document, list):
        for item in document:
            yield from _unpack(item, depth + 1)
    elif kind and isinstance(kind, str) and isinstance(document.get("metadata"), dict) and _is_named(document):
        yield document
    else:
        raise Unreadable(f"is not the output of kubectl: found {_describe(document, kind)}", USE_COMMAND)


def _is_named(document: JSON) -> bool:
    return bool(document["metadata"].get("name"))


def _describe(document: Any, kind: Any) -> str:
    if not kind or not isinstance(kind, str):
        return "an object without a kind" if isinstance(document, dict) else short_repr(document)
    lacks = "a list of items" if kind.endswith("List") else "a name"
    return f"an object of kind {short_repr(kind)} without {lacks}"


def _identify(raw: JSON) -> tuple[str, str, str]:
    return raw["kind"], raw["metadata"].get("namespace") or "", raw["metadata"]["name"]


def _find_mistakes(items: Sequence[JSON], location: str) -> Iterator[Violation]:
    """Violations for objects that are valid but cannot be read, such as those with invalid annotations."""
    for raw in items:
        try:
            READERS[raw["kind"]](raw)
            # `read_inventory` reads pending pods a second time, with more fields.
            if raw["kind"] == "Pod":
                read_pending_pods([raw])
        except UNREADABLE as error:
            yield _explain(name_object(raw), error, location)


def _explain(name: str, error: Exception, location: str) -> Violation:
    return Violation(name, "object", f"cannot be read: {short_repr(str(error))}", RUN_AGAIN, location=location)


def _warn(items: Sequence[JSON], table: NodeTable, location: str) -> Iterator[PlanWarning]:
    """Warnings about missing pods and nodes, which make nodes look emptier than they are."""
    pods = [raw for raw in items if raw["kind"] == "Pod"]
    namespaces = {raw["metadata"].get("namespace") or "default" for raw in pods}
    if not pods:
        yield PlanWarning(
            "", "no_pods", "has no pods: every node counts as empty", f"include pods: {COMMAND}", location=location
        )
    # The user probably forgot -A. An unused cluster has pods only in kube-system.
    elif len(namespaces) == 1 and namespaces != {SYSTEM} and len(table) > 1:
        message = f"has pods only in namespace {next(iter(namespaces))}: pods in other namespaces are not counted"
        yield PlanWarning("", "one_namespace", message, f"include all namespaces: {COMMAND}", location=location)
    missing = {
        raw["spec"]["nodeName"] for raw in pods if is_placed(raw) and table.position_of(raw["spec"]["nodeName"]) is None
    }
    if missing:
        message = f"has pods on nodes that are missing: {', '.join(sorted(missing)[:MAX_LISTED])}"
        yield PlanWarning("", "unknown_nodes", message, f"include nodes and pods: {COMMAND}", location=location)


def _count_kinds(items: Sequence[JSON]) -> str:
    kinds = sorted({raw["kind"] for raw in items})
    return f"only objects of kind {', '.join(kinds)}" if kinds else "no relevant objects"
