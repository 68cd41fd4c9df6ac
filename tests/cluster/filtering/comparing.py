"""Our verdict on a case beside that of kube-scheduler's filters: per node, the set of causes that keep the pod off."""

import contextlib
import json
import subprocess
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.core.fitting import evaluation
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.pod_requests import read_pod
from fairlead.core.fitting.reading_nodes import read_cluster
from fairlead.core.fitting.reading_volumes import read_scheduling_context
from fairlead.core.fitting.reasons import Cause, Reason
from tests.cluster import binaries

JSON = dict[str, Any]
Causes = frozenset[str]  # by the names of ours; one of amounts also names the resource, as in "amount cpu"

PARTS = ("nodes", "pods", "namespaces", "claims", "volumes", "classes")
RESTRICTIONS = "VolumeRestrictions"
ONE_POD = "PersistentVolumeClaim with ReadWriteOncePod access mode"
TOO_MANY_PODS, INSUFFICIENT = "Too many pods", "Insufficient "
# Messages of the scheduler's filter plugins, and the cause of ours that corresponds.
SAID: Mapping[str, Cause] = {
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
REFUSED = {
    "NodeAffinity": Cause.LABELS,
    "VolumeBinding": Cause.CLAIM,
    "VolumeZone": Cause.CLAIM,
    "VolumeRestrictions": Cause.CLAIM,
}
WE_FAIL = "we fail:"
SPREADING = (Cause.SPREAD, Cause.SPREAD_LABEL)
OF_VOLUMES = (Cause.VOLUME, Cause.ZONE)


@dataclass(frozen=True)
class Verdict:
    """The causes per node. All nodes reject the pod if the scheduler returned an error."""

    nodes: Mapping[str, Causes]
    error: str = ""

    @property
    def feasible(self) -> set[str]:
        """The nodes that take the pod."""
        return set() if self.error else {name for name, causes in self.nodes.items() if not causes}


class Scheduler:
    """The scheduler's own filters, as a program that answers cases."""

    def __init__(self, *options: str) -> None:
        words = [*binaries.filter_command(), *options]
        self._program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        """End the program."""
        self._program.communicate()

    def ask(self, case: JSON) -> JSON:
        """The answer to a case, as the program gives it."""
        assert self._program.stdin
        assert self._program.stdout
        self._program.stdin.write(json.dumps(case).encode() + b"\n")
        self._program.stdin.flush()
        answer: JSON = json.loads(self._program.stdout.readline())
        return answer


@contextlib.contextmanager
def filtering(*options: str) -> Iterator[Scheduler]:
    """The scheduler's filters, until the end of the block."""
    scheduler = Scheduler(*options)
    try:
        yield scheduler
    finally:
        scheduler.close()


def ask_all(cases: Sequence[JSON], *options: str) -> list[JSON]:
    """The answers to many cases at once."""
    text = "".join(f"{json.dumps(case)}\n" for case in cases)
    words = [*binaries.filter_command(), *options]
    answered = subprocess.run(words, check=True, input=text, capture_output=True, text=True)
    return [json.loads(line) for line in answered.stdout.splitlines()]


def find_theirs(answer: JSON) -> Verdict:
    """The scheduler's verdict, in our words."""
    everywhere = {str(REFUSED[plugin]) for plugin in answer["refused"]}
    nodes = {}
    for name, reasons_by_plugin in answer["nodes"].items():
        causes = {_name_cause(plugin, reason) for plugin, reasons in reasons_by_plugin.items() for reason in reasons}
        nodes[name] = _leave_out_hidden(everywhere | causes, answer)
    return Verdict(nodes, answer["error"])


def find_ours(node_filter: NodeFilter, answer: JSON) -> Verdict:
    """Our verdict. The scheduler's answer says at which of its rules it stopped: ours after it are left out."""
    nodes = {
        node.name: _leave_out_hidden(_sum_up(evaluation.find_reasons(node_filter, node)), answer)
        for node in node_filter.table.nodes
    }
    return Verdict(nodes)


def find_disagreements(case: JSON, answer: JSON) -> list[str]:
    """In what our verdict on a case is another than the scheduler's, and where ours contradicts itself."""
    try:
        return list(_compare(make_sieve(case), answer))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return [f"{WE_FAIL} {error!r} in {place.name}, line {place.lineno} of {place.filename}"]


def make_sieve(case: JSON) -> NodeFilter:
    """A case as we see it."""
    pod = case["pod"]
    table: NodeTable = read_cluster([*case.get("nodes", ()), *case.get("pods", ())])
    around = (item for part in PARTS[2:] for item in case.get(part, ()))
    table.context = read_scheduling_context(around, complete=True)
    return NodeFilter(read_pod(pod["spec"], pod["metadata"]), table)


def name_words(words: str) -> str:
    """The cause that a sentence of the scheduler tells of."""
    if words == TOO_MANY_PODS:
        return f"{Cause.AMOUNT} pods"
    if words.startswith(INSUFFICIENT):
        return f"{Cause.AMOUNT} {words.removeprefix(INSUFFICIENT)}"
    return str(SAID[words])


def _compare(node_filter: NodeFilter, answer: JSON) -> Iterator[str]:
    theirs, ours = find_theirs(answer), find_ours(node_filter, answer)
    for name in sorted(theirs.nodes.keys() | ours.nodes.keys()):
        one, other = theirs.nodes.get(name, frozenset()), ours.nodes.get(name, frozenset())
        if one != other:
            yield f"{name}: the scheduler says {_show(one - other)} more, we say {_show(other - one)} more"
    if theirs.feasible != ours.feasible:
        yield f"takes it: {_show(theirs.feasible)} by the scheduler, {_show(ours.feasible)} by us"
    now, best = (
        {node_filter.table.names[at] for at in positions}
        for positions in (node_filter.feasible, node_filter.feasible_when_empty)
    )
    if now != ours.feasible:
        yield f"takes it: {_show(ours.feasible)} by our reasons, {_show(now)} by our columns"
    if not now <= best:
        yield f"takes it now, and never would: {_show(now - best)}"
    if (evaluation.evaluate(node_filter.pod_request, node_filter.table).verdict == evaluation.NOW) != bool(
        ours.feasible
    ):
        yield "our verdict is not what our reasons come to"


def _name_cause(plugin: str, words: str) -> str:
    """As above; a filter that counts volumes has only found that a claim is not there."""
    return str(Cause.CLAIM) if plugin == "NodeVolumeLimits" and words.endswith("not found") else name_words(words)


def _sum_up(reasons: Iterable[Reason]) -> set[str]:
    """Our causes. Of the rules by which pods are spread, the scheduler tells only the first that is broken."""
    causes: set[str] = set()
    spreads = False
    for reason in reasons:
        if reason.cause in SPREADING:
            if spreads:
                continue
            spreads = True
        causes.add(f"{reason.cause} {reason.resource}" if reason.cause is Cause.AMOUNT else str(reason.cause))
    return causes


def _leave_out_hidden(causes: set[str], answer: JSON) -> Causes:
    """The scheduler stops checking volumes after a claim that no node satisfies."""
    hidden: set[str] = set(OF_VOLUMES) if Cause.CLAIM in causes else set()
    if RESTRICTIONS in answer["refused"]:
        hidden.add(Cause.IN_USE)
    return frozenset(causes - hidden)


def _show(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
