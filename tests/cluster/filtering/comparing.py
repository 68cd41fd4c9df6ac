"""Compares our verdict on a case with that of kube-scheduler's filters: the causes per rejecting node."""

import contextlib
import json
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.model.nodes import NodeTable
from fairlead.scheduling import evaluation
from fairlead.scheduling.filters import NodeFilter
from fairlead.scheduling.pod_requests import read_pod
from fairlead.scheduling.readers import read_cluster, read_scheduling_context
from fairlead.scheduling.reasons import Cause, Reason
from tests.cluster import binaries

JSON = dict[str, Any]
Causes = frozenset[str]  # names of our causes; amounts include the resource, such as "amount cpu"

PARTS = ("nodes", "pods", "namespaces", "claims", "volumes", "classes")
RESTRICTIONS = "VolumeRestrictions"
ONE_POD = "PersistentVolumeClaim with ReadWriteOncePod access mode"
TOO_MANY_PODS, INSUFFICIENT = "Too many pods", "Insufficient "
# Messages from the scheduler's filter plugins, and our corresponding causes.
MESSAGE_CAUSES: Mapping[str, Cause] = {
    "node(s) didn't match the requested node name": Cause.NODE_NAME,
    "node(s) were unschedulable": Cause.CORDONED,
    "node(s) had untolerated taint(s)": Cause.TAINT,
    "node(s) didn't match Pod's node affinity/selector": Cause.LABELS,
    "node(s) didn't have free ports for the requested pod ports": Cause.PORTS,
    f"node(s) unavailable due to {ONE_POD} already in-use by another pod": Cause.IN_USE,
    "node(s) didn't match PersistentVolume's node affinity": Cause.VOLUME,
    "node(s) didn't find available persistent volumes to bind": Cause.VOLUME,
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": Cause.CLAIM,
    "node(s) had no available volume zone": Cause.ZONE,
    "node(s) didn't match pod affinity rules": Cause.POD_AFFINITY,
    "node(s) didn't match pod anti-affinity rules": Cause.POD_ANTI_AFFINITY,
    "node(s) didn't satisfy existing pods anti-affinity rules": Cause.REPELLED,
    "node(s) didn't match pod topology spread constraints": Cause.SPREAD,
    "node(s) didn't match pod topology spread constraints (missing required label)": Cause.SPREAD_LABEL,
}
# PreFilter messages, which reject the pod before any node is checked.
PREFILTER_CAUSES = {
    "NodeAffinity": Cause.LABELS,
    "VolumeBinding": Cause.CLAIM,
    "VolumeZone": Cause.CLAIM,
    "VolumeRestrictions": Cause.CLAIM,
}
OUR_ERROR = "our code failed:"
SPREAD_CAUSES = (Cause.SPREAD, Cause.SPREAD_LABEL)
VOLUME_CAUSES = (Cause.VOLUME, Cause.ZONE)


@dataclass(frozen=True)
class Verdict:
    """The causes per node. All nodes reject the pod if the scheduler returned an error."""

    nodes: Mapping[str, Causes]
    error: str = ""

    @property
    def feasible(self) -> set[str]:
        """The nodes that accept the pod."""
        return set() if self.error else {name for name, causes in self.nodes.items() if not causes}


class Scheduler:
    """A program that evaluates cases with kube-scheduler's filters."""

    def __init__(self, *options: str) -> None:
        command = [*binaries.filter_command(), *options]
        self._program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        """End the program."""
        self._program.communicate()

    def evaluate(self, case: JSON) -> JSON:
        """Evaluate a case, and return the program's output."""
        assert self._program.stdin
        assert self._program.stdout
        self._program.stdin.write(json.dumps(case).encode() + b"\n")
        self._program.stdin.flush()
        result: JSON = json.loads(self._program.stdout.readline())
        return result


@contextlib.contextmanager
def filtering(*options: str) -> Iterator[Scheduler]:
    """Run the filter program during the block."""
    scheduler = Scheduler(*options)
    try:
        yield scheduler
    finally:
        scheduler.close()


def evaluate_all(cases: Sequence[JSON], *options: str) -> list[JSON]:
    """Evaluate many cases at once."""
    text = "".join(f"{json.dumps(case)}\n" for case in cases)
    command = [*binaries.filter_command(), *options]
    process = subprocess.run(command, check=True, input=text, capture_output=True, text=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


def read_scheduler_verdict(result: JSON) -> Verdict:
    """Translate the scheduler's result to our causes."""
    prefilter_causes = {str(PREFILTER_CAUSES[plugin]) for plugin in result["refused"]}
    nodes = {}
    for name, reasons_by_plugin in result["nodes"].items():
        causes = {_name_cause(plugin, reason) for plugin, reasons in reasons_by_plugin.items() for reason in reasons}
        nodes[name] = _without_hidden(prefilter_causes | causes, result)
    return Verdict(nodes, result["error"])


def find_our_verdict(node_filter: NodeFilter, result: JSON) -> Verdict:
    """Our verdict, without causes that the scheduler does not check after an earlier rejection."""
    nodes = {
        node.name: _without_hidden(_list_causes(evaluation.find_reasons(node_filter, node)), result)
        for node in node_filter.table.nodes
    }
    return Verdict(nodes)


def find_disagreements(case: JSON, result: JSON) -> list[str]:
    """The differences between our verdict and the scheduler's, and contradictions in our own results."""
    try:
        return list(_compare(make_node_filter(case), result))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{OUR_ERROR} {error!r} in {frame.name}, line {frame.lineno} of {frame.filename}"]


def make_node_filter(case: JSON) -> NodeFilter:
    """Create our node filter for a case."""
    pod = case["pod"]
    table: NodeTable = read_cluster([*case.get("nodes", ()), *case.get("pods", ())])
    context_objects = (item for part in PARTS[2:] for item in case.get(part, ()))
    table.context = read_scheduling_context(context_objects, complete=True)
    return NodeFilter(read_pod(pod["spec"], pod["metadata"]), table)


def cause_of_message(message: str) -> str:
    """The cause for a scheduler message."""
    if message == TOO_MANY_PODS:
        return f"{Cause.AMOUNT} pods"
    if message.startswith(INSUFFICIENT):
        return f"{Cause.AMOUNT} {message.removeprefix(INSUFFICIENT)}"
    return str(MESSAGE_CAUSES[message])


def _compare(node_filter: NodeFilter, result: JSON) -> Iterator[str]:
    theirs, ours = read_scheduler_verdict(result), find_our_verdict(node_filter, result)
    for name in sorted(theirs.nodes.keys() | ours.nodes.keys()):
        their_causes, our_causes = theirs.nodes.get(name, frozenset()), ours.nodes.get(name, frozenset())
        if their_causes != our_causes:
            only_theirs, only_ours = _show(their_causes - our_causes), _show(our_causes - their_causes)
            yield f"{name}: only the scheduler reports {only_theirs}, only our filter reports {only_ours}"
    if theirs.feasible != ours.feasible:
        yield f"feasible nodes: {_show(theirs.feasible)} by the scheduler, {_show(ours.feasible)} by our filter"
    now, when_empty = (
        {node_filter.table.names[index] for index in positions}
        for positions in (node_filter.feasible, node_filter.feasible_when_empty)
    )
    if now != ours.feasible:
        yield f"feasible nodes: {_show(ours.feasible)} by our reasons, {_show(now)} by our columns"
    if not now <= when_empty:
        yield f"feasible now, but not when empty: {_show(now - when_empty)}"
    if (evaluation.evaluate(node_filter.pod_request, node_filter.table).verdict == evaluation.NOW) != bool(
        ours.feasible
    ):
        yield "our verdict contradicts our reasons"


def _name_cause(plugin: str, message: str) -> str:
    """The cause for a plugin message. NodeVolumeLimits also reports missing claims."""
    return (
        str(Cause.CLAIM)
        if plugin == "NodeVolumeLimits" and message.endswith("not found")
        else cause_of_message(message)
    )


def _list_causes(reasons: Iterable[Reason]) -> set[str]:
    """Our causes. The scheduler reports only the first violated topology spread constraint, so others are skipped."""
    causes: set[str] = set()
    has_spread_cause = False
    for reason in reasons:
        if reason.cause in SPREAD_CAUSES:
            if has_spread_cause:
                continue
            has_spread_cause = True
        causes.add(f"{reason.cause} {reason.resource}" if reason.cause is Cause.AMOUNT else str(reason.cause))
    return causes


def _without_hidden(causes: set[str], result: JSON) -> Causes:
    """The scheduler stops checking volumes after a claim that no node satisfies."""
    hidden: set[str] = set(VOLUME_CAUSES) if Cause.CLAIM in causes else set()
    if RESTRICTIONS in result["refused"]:
        hidden.add(Cause.IN_USE)
    return frozenset(causes - hidden)


def _show(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
