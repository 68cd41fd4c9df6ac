"""What kubectl prints of a cluster: its nodes and pods, and what else decides where a pod can go."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pending_pods import PendingPod, read_pending_pods
from fairlead.core.fitting.reading_nodes import is_placed, read_cluster, read_node, read_scheduled_pod
from fairlead.core.fitting.reading_volumes import read_claim, read_class, read_scheduling_context, read_volume
from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.files.kube_objects import JSON
from fairlead.files.kube_validation import check_objects, name_object
from fairlead.model.parsing import short_repr
from fairlead.model.plans import PlanWarning, Violation

HOW = "kubectl get nodes,pods -A -o json"
INSTEAD = f"give a file with what this prints: {HOW}"
OTHERWISE = f"print it anew: {HOW}"
LARGEST_YAML = 32 * 1024 * 1024
MOST_YAML_VALUES = 5_000_000
MOST_TOLD = 10
DEEPEST = 100  # list in list
SYSTEM = "kube-system"
# How each kind is read that counts here; objects of others are passed over.
READERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "Node": read_node,
    "Pod": read_scheduled_pod,
    "PersistentVolumeClaim": read_claim,
    "PersistentVolume": read_volume,
    "StorageClass": read_class,
    "Namespace": lambda raw: raw["metadata"],
}
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class Inventory:
    """The nodes of a cluster with the pods on them, the pods that wait for one, and what may be missing."""

    table: NodeTable
    waiting: list[PendingPod]
    warnings: list[PlanWarning]


def parse_objects(text: bytes) -> list[JSON]:
    """The objects in a text: one list or several, as JSON or YAML. Raise `Unreadable` with the reason."""
    found = [item for document in _parse_documents(text) for item in _unpack(document)]
    return [item for item in found if item["kind"] in READERS]


def read_inventory(objects: Sequence[JSON], location: str) -> Inventory:
    """What the objects say together; what is there twice counts once. Raise `RequestRejected` with all mistakes."""
    if mistakes := check_objects(objects, location, OTHERWISE):
        raise RequestRejected(mistakes)
    items = list({_identify(raw): raw for raw in objects}.values())
    try:
        table, waiting = read_cluster(items), read_pending_pods(items)
        table.context = read_scheduling_context(items)
    except UNREADABLE as error:
        raise RequestRejected(
            list(islice(_find_mistakes(items, location), MOST_TOLD)) or [_explain("", error, location)]
        ) from error
    if not len(table):
        violation = Violation(
            "", "no_nodes", f"has no nodes, found {_count_kinds(items)}", f"print them: {HOW}", location=location
        )
        raise RequestRejected([violation])
    return Inventory(table, waiting, list(_warn(items, table, location)))


def _parse_documents(text: bytes) -> list[Any]:
    try:
        decoded = text.decode(json.detect_encoding(text)).removeprefix("\ufeff").strip()  # PowerShell writes UTF-16
    except UnicodeDecodeError:
        raise Unreadable("is no text", INSTEAD) from None
    if not decoded:
        raise Unreadable("is empty", INSTEAD)
    if decoded[0] in "{[":
        return list(_parse_json(decoded))
    try:
        return yamls.parse_documents(decoded.encode(), largest=LARGEST_YAML, most_values=MOST_YAML_VALUES)
    except Unreadable as error:
        raise Unreadable(f"is not what kubectl prints: {error}", INSTEAD) from error


def _parse_json(text: str) -> Iterator[Any]:
    """One value after the other, for who appends what kubectl prints to a file."""
    decoder, at = json.JSONDecoder(object_pairs_hook=_build_object), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise Unreadable("is no JSON that kubectl prints: it is nested too deep", OTHERWISE) from None
        except ValueError as error:
            raise Unreadable(f"is no JSON: {error}", f"print it anew, to its end: {HOW}") from error
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _build_object(pairs: list[tuple[str, Any]]) -> JSON:
    built = dict(pairs)
    if len(built) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Unreadable(f"has {short_repr(twice)} twice in one object", f"keep one, or {OTHERWISE}")
    return built


def _unpack(document: Any, depth: int = 0) -> Iterator[JSON]:
    """The objects of a list, whichever kind of list it is, or the object itself."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if depth > DEEPEST:
        raise Unreadable(f"is not what kubectl prints: has lists more than {DEEPEST} deep", INSTEAD)
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items", ""), list | None):
        of_list = {"kind": kind.removesuffix("List")}
        for item in document["items"] or ():
            yield from _unpack({**of_list, **item} if isinstance(item, dict) else item, depth + 1)
    elif isinstance(document, list):
        for item in document:
            yield from _unpack(item, depth + 1)
    elif kind and isinstance(kind, str) and isinstance(document.get("metadata"), dict) and _is_named(document):
        yield document
    else:
        raise Unreadable(f"is not what kubectl prints: found {_describe(document, kind)}", INSTEAD)


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
    """The objects that cannot be read although each part of them is what it must be: what annotations say."""
    for raw in items:
        try:
            READERS[raw["kind"]](raw)
            if raw["kind"] == "Pod":
                read_pending_pods([raw])
        except UNREADABLE as error:
            yield _explain(name_object(raw), error, location)


def _explain(name: str, error: Exception, location: str) -> Violation:
    return Violation(name, "object", f"cannot be read: {short_repr(str(error))}", OTHERWISE, location=location)


def _warn(items: Sequence[JSON], table: NodeTable, location: str) -> Iterator[PlanWarning]:
    """What makes nodes look emptier than they are."""
    pods = [raw for raw in items if raw["kind"] == "Pod"]
    namespaces = {raw["metadata"].get("namespace") or "default" for raw in pods}
    if not pods:
        yield PlanWarning(
            "", "no_pods", "has no pods: every node counts as empty", f"print them too: {HOW}", location=location
        )
    elif len(namespaces) == 1 and namespaces != {SYSTEM} and len(table) > 1:
        message = f"has pods of namespace {next(iter(namespaces))} alone: what others hold is not counted"
        yield PlanWarning("", "one_namespace", message, f"print those of all namespaces: {HOW}", location=location)
    lost = {
        raw["spec"]["nodeName"] for raw in pods if is_placed(raw) and table.position_of(raw["spec"]["nodeName"]) is None
    }
    if lost:
        message = f"has pods on nodes that are not in it: {', '.join(sorted(lost)[:MOST_TOLD])}"
        yield PlanWarning("", "unknown_nodes", message, f"print nodes and pods together: {HOW}", location=location)


def _count_kinds(items: Sequence[JSON]) -> str:
    kinds = sorted({raw["kind"] for raw in items})
    return f"only objects of kind {', '.join(kinds)}" if kinds else "nothing that counts here"
