"""What is known of a cluster at this moment: the objects of each run, the warnings about them, and the nodes."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fairlead.adapters.kubernetes.objects import MainObject, ObjectCondition, ObservedNode, ObservedPod, WarningEvent
from fairlead.core.attempts import run_id_of
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.model.nodes import Node, ScheduledPod, SchedulingContext

MOST_WARNINGS = 5000
DISRUPTED = "DisruptionTarget"


@dataclass
class RunView:
    """What is there of one run. `disrupted`: why its last pod had to make room, until another one runs."""

    main: MainObject | None = None
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    disrupted: ObjectCondition | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there any more."""
        return self.main is None and not self.pods


class ClusterView:
    """All of it. Reflectors write, everybody reads; whoever is told of a change hears it after it can be seen."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.notify = notify
        self.on_pod_deleting: Callable[[ObservedPod], None] = lambda _pod: (
            None
        )  # told of a run's pod that is about to go
        self._lock = threading.RLock()
        self._runs: dict[str, RunView] = {}
        self._nodes: dict[str, ObservedNode] = {}
        self._placed: dict[str, dict[str, ObservedPod]] = {}  # by node
        self._table = NodeTable()  # nodes with what is taken of them, as of the last look
        self._stale: set[str] = set()  # those that changed since
        self._owners: dict[str, str] = {}  # the run of each object
        self._warnings: OrderedDict[tuple[str, str], WarningEvent] = OrderedDict()  # the last one about each object

    def of(self, run_id: str) -> RunView | None:
        """What is there of a run; None where nothing is."""
        with self._lock:
            found = self._runs.get(run_id)
            if found is None:
                return None
            of_it = {uid: pod for uid, pod in found.pods.items() if found.main is None or belongs(pod, found.main)}
            return RunView(found.main, of_it, found.disrupted)

    def runs(self) -> list[str]:
        """The runs of which something is there."""
        with self._lock:
            return sorted(self._runs)

    def running_pods(self) -> list[ObservedPod]:
        """The pods of runs that are running."""
        with self._lock:
            return [pod for run in self._runs.values() for pod in run.pods.values() if pod.phase == "Running"]

    def warnings_about(self, view: RunView) -> list[WarningEvent]:
        """The last warning about each object of a run, the latest first."""
        objects: list[MainObject | ObservedPod] = [*([view.main] if view.main is not None else []), *view.pods.values()]
        about = {(known.namespace, known.name) for known in objects}
        about |= {(pod.namespace, claim) for pod in view.pods.values() for claim in pod.holding.claims}
        with self._lock:
            found = [self._warnings[name] for name in about if name in self._warnings]
        return sorted(found, key=lambda warned: warned.version, reverse=True)

    def node(self, name: str) -> ObservedNode | None:
        """A node as the cluster tells of it."""
        return self._nodes.get(name)

    def nodes(self, context: SchedulingContext | None = None) -> NodeTable:
        """All nodes, with what is taken of each and by whom. Only those that changed are worked out anew."""
        with self._lock:
            for name in self._stale:
                if name in self._nodes:
                    self._table.put(self._show(self._nodes[name].node))
                else:
                    self._table.remove(name)
            self._stale.clear()
            table = self._table.copy()
        table.context = context or table.context
        return table

    def main_of(self, uid: str) -> MainObject | None:
        """The Job or Deployment of a run, by its uid."""
        with self._lock:
            run = self._runs.get(self._owners.get(uid, ""))
            return None if run is None or run.main is None or run.main.uid != uid else run.main

    def notify_owner(self, uid: str) -> None:
        """Something happened that concerns an object: its run is told, where it is of one."""
        with self._lock:
            owner = self._owners.get(uid)
        if owner is not None:
            self.notify(owner)

    def on_main_change(self, before: MainObject | None, after: MainObject | None) -> None:
        """A Job or Deployment is new, changed or gone."""
        self.update_main(before, after)
        known = after or before
        assert known is not None
        self.notify(known.run_id)

    def update_main(self, before: MainObject | None, after: MainObject | None) -> None:
        """The same, where whoever does it knows."""
        known = after or before
        assert known is not None
        with self._lock:
            run = self._runs.setdefault(known.run_id, RunView())
            if run.main is None or run.main.uid == known.uid:  # another one of that label is none of ours
                run.main = after
            for pod in run.pods.values():
                self._stale.add(pod.node)  # whose pod it is may be known from now on
            self._settle(known.run_id, known.uid, there=after is not None)

    def on_pod_change(self, before: ObservedPod | None, after: ObservedPod | None) -> None:
        """A pod is new, changed or gone."""
        known = after or before
        assert known is not None
        with self._lock:
            for pod in (before, after):
                if pod is not None and pod.node:
                    self._stale.add(pod.node)
                    self._placed.setdefault(pod.node, {}).pop(pod.uid, None)
            if after is not None and after.node and not after.is_over:
                self._placed[after.node][after.uid] = after
            if not known.run_id:
                return
            run = self._runs.setdefault(known.run_id, RunView())
            if after is None:
                run.pods.pop(known.uid, None)
            else:
                run.pods[known.uid] = after
                disruption = after.conditions.get(DISRUPTED)
                if disruption is not None and disruption.status == "True":
                    run.disrupted = disruption._replace(message=disruption.message or after.message)
                elif after.running_since is not None:
                    run.disrupted = None
            self._settle(known.run_id, known.uid, there=after is not None)
        if after is not None and after.deleting and not after.is_over and not (before is not None and before.deleting):
            self.on_pod_deleting(after)
        if before is None and after is not None and not after.node and "PodScheduled" not in after.conditions:
            return  # that a pod is there, and nobody has looked at it yet, says nothing of its run
        self.notify(known.run_id)

    def on_node_change(self, before: ObservedNode | None, after: ObservedNode | None) -> None:
        """A node is new, changed or gone."""
        known = after or before
        assert known is not None
        with self._lock:
            name = known.node.name
            self._stale.add(name)
            if after is not None:
                self._nodes[name] = after
            elif name in self._nodes and self._nodes[name].uid == known.uid:  # not one of that name that was made since
                del self._nodes[name]
            gone = after is None or not after.ready
            touched = {pod.run_id for pod in self._placed.get(name, {}).values() if pod.run_id}
        if gone != (before is None or not before.ready):
            for run_id in touched:
                self.notify(run_id)

    def on_warning_change(self, _before: WarningEvent | None, after: WarningEvent | None) -> None:
        """Something is wrong with an object."""
        if after is None:
            return
        with self._lock:
            about = after.namespace, after.about_name
            self._warnings[about] = after
            self._warnings.move_to_end(about)
            if len(self._warnings) > MOST_WARNINGS:
                self._warnings.popitem(last=False)
        self.notify_owner(after.about)

    def _settle(self, run_id: str, uid: str, *, there: bool) -> None:
        """Know whose object it is, for as long as it is there."""
        if there:
            self._owners[uid] = run_id
        else:
            self._owners.pop(uid, None)
        if self._runs[run_id].is_empty:
            del self._runs[run_id]

    def _show(self, node: Node) -> Node:
        return replace(node, pods=tuple(map(self._hold, self._placed.get(node.name, {}).values())))

    def _hold(self, pod: ObservedPod) -> ScheduledPod:
        run = self._runs.get(pod.run_id)
        main = None if run is None else run.main
        if not pod.run_id:
            return pod.holding
        name, project = (None, pod.project) if main is None else (main.name, main.project)
        return replace(pod.holding, run_id=run_id_of(pod.run_id), name=name, project=project)


def belongs(pod: ObservedPod, main: MainObject) -> bool:
    """Whether a pod is what a Job has made, or may be one of a Deployment: labels can be set by anybody."""
    return pod.namespace == main.namespace and (main.kind != "Job" or pod.owner == main.uid)
