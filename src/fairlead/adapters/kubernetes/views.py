"""The current state of a cluster: the objects of each run, warnings, nodes, and storage that affects scheduling."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fairlead.adapters.kubernetes.clients import KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import MainObject, ObjectCondition, ObservedNode, ObservedPod, WarningEvent
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.lifecycle.attempts import run_id_of
from fairlead.model.nodes import Node, NodeTable, ScheduledPod, SchedulingContext
from fairlead.model.runs import JSON
from fairlead.run_events import RunEvent, RunEvents
from fairlead.scheduling import readers

MAX_WARNINGS = 5000
DISRUPTED = "DisruptionTarget"

RESOURCES: dict[str, tuple[str, Callable[[JSON], Any]]] = {
    "persistentvolumeclaims": ("v1", readers.read_claim),
    "persistentvolumes": ("v1", readers.read_volume),
    "storageclasses": ("storage.k8s.io/v1", readers.read_class),
    "namespaces": ("v1", lambda raw: raw["metadata"].get("labels") or {}),
}
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")


@dataclass
class RunView:
    """The objects of one run. `disrupted`: why its last pod was disrupted, until a new pod is running."""

    main: MainObject | None = None
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    disrupted: ObjectCondition | None = None

    @property
    def is_empty(self) -> bool:
        return self.main is None and not self.pods


class ClusterView:
    """The objects of a cluster, updated by reflectors. Events are published after a change is visible."""

    def __init__(self, run_events: RunEvents) -> None:
        self._run_events = run_events
        self.on_pod_deleting: Callable[[ObservedPod], None] = lambda _pod: None
        self._lock = threading.RLock()
        self._runs: dict[str, RunView] = {}
        self._nodes: dict[str, ObservedNode] = {}
        self._pods_by_node: dict[str, dict[str, ObservedPod]] = {}
        self._table = NodeTable()  # as of the last call to `nodes`
        self._stale: set[str] = set()  # names of nodes that have changed since then
        self._owners: dict[str, str] = {}  # run ID by object UID
        self._warnings: OrderedDict[tuple[str, str], WarningEvent] = OrderedDict()  # latest warning by object

    def find_run(self, run_id: str) -> RunView | None:
        """The objects of a run, or None if it has none."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return None
            pods = {uid: pod for uid, pod in run.pods.items() if run.main is None or belongs_to(pod, run.main)}
            return RunView(run.main, pods, run.disrupted)  # a copy, because watches change the original

    def run_ids(self) -> list[str]:
        """The IDs of all runs that have objects."""
        with self._lock:
            return sorted(self._runs)

    def running_pods(self) -> list[ObservedPod]:
        """The pods of runs that are in the Running phase."""
        with self._lock:
            return [pod for run in self._runs.values() for pod in run.pods.values() if pod.phase == "Running"]

    def warnings_about(self, view: RunView) -> list[WarningEvent]:
        """The latest warning about each object of a run, newest first."""
        objects: list[MainObject | ObservedPod] = [*([view.main] if view.main is not None else []), *view.pods.values()]
        # Compare names, not UIDs, because pods refer to their claims by name.
        about = {(known.namespace, known.name) for known in objects}
        about |= {(pod.namespace, claim) for pod in view.pods.values() for claim in pod.scheduled_pod.claims}
        with self._lock:
            warnings = [self._warnings[name] for name in about if name in self._warnings]
        return sorted(warnings, key=lambda warning: warning.version, reverse=True)

    def node(self, name: str) -> ObservedNode | None:
        """The node with this name, or None."""
        return self._nodes.get(name)

    def nodes(self, context: SchedulingContext | None = None) -> NodeTable:
        """All nodes with their pods. Only nodes that changed since the last call are rebuilt."""
        with self._lock:
            for name in self._stale:
                if name in self._nodes:
                    self._table.put(self._with_pods(self._nodes[name].node))
                else:
                    self._table.remove(name)
            self._stale.clear()
            table = self._table.copy()
        table.context = context or table.context
        return table

    def main_of(self, uid: str) -> MainObject | None:
        """The Job or Deployment of a run, by its UID."""
        with self._lock:
            run = self._runs.get(self._owners.get(uid, ""))
            return None if run is None or run.main is None or run.main.uid != uid else run.main

    def notify(self, run_id: str) -> None:
        """Publish that a run may have changed."""
        self._run_events.publish(RunEvent.OBSERVED, run_id_of(run_id))

    def notify_owner(self, uid: str) -> None:
        """Notify the run that an object belongs to, if any."""
        with self._lock:
            owner = self._owners.get(uid)
        if owner is not None:
            self.notify(owner)

    def on_main_change(self, before: MainObject | None, after: MainObject | None) -> None:
        """Handle a new, changed or deleted Job or Deployment, and notify its run."""
        self.update_main(before, after)
        known = after or before
        assert known is not None
        self.notify(known.run_id)

    def update_main(self, before: MainObject | None, after: MainObject | None) -> None:
        """Record a new, changed or deleted Job or Deployment without sending a notification."""
        known = after or before
        assert known is not None
        with self._lock:
            run = self._runs.setdefault(known.run_id, RunView())
            if run.main is None or run.main.uid == known.uid:  # users can give other objects the run's label
                run.main = after
            for pod in run.pods.values():
                self._stale.add(pod.node)  # the pod's name and project come from the main object
            self._update_owner(known.run_id, known.uid, exists=after is not None)

    def on_pod_change(self, before: ObservedPod | None, after: ObservedPod | None) -> None:
        """Handle a new, changed or deleted pod."""
        known = after or before
        assert known is not None
        with self._lock:
            for pod in (before, after):
                if pod is not None and pod.node:
                    self._stale.add(pod.node)
                    self._pods_by_node.setdefault(pod.node, {}).pop(pod.uid, None)
            if after is not None and after.node and not after.is_over:
                self._pods_by_node[after.node][after.uid] = after
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
            self._update_owner(known.run_id, known.uid, exists=after is not None)
        # Callbacks run without the lock, because they acquire the locks of other objects.
        if after is not None and after.deleting and not after.is_over and not (before is not None and before.deleting):
            self.on_pod_deleting(after)
        if before is None and after is not None and not after.node and "PodScheduled" not in after.conditions:
            return  # a new pod that the scheduler has not considered yet does not change the state of its run
        self.notify(known.run_id)

    def on_node_change(self, before: ObservedNode | None, after: ObservedNode | None) -> None:
        """Handle a new, changed or deleted node."""
        known = after or before
        assert known is not None
        with self._lock:
            name = known.node.name
            self._stale.add(name)
            if after is not None:
                self._nodes[name] = after
            elif name in self._nodes and self._nodes[name].uid == known.uid:  # a new node may have the same name
                del self._nodes[name]
            lost = after is None or not after.ready
            run_ids = {pod.run_id for pod in self._pods_by_node.get(name, {}).values() if pod.run_id}
        # Other changes to a node, for example to its labels, do not affect the pods that are already on it.
        if lost != (before is None or not before.ready):
            for run_id in run_ids:
                self.notify(run_id)

    def on_warning_change(self, _before: WarningEvent | None, after: WarningEvent | None) -> None:
        """Store a warning, and notify the run that its object belongs to."""
        if after is None:
            return  # by default Kubernetes deletes events after an hour, even if their cause persists
        with self._lock:
            about = after.namespace, after.about_name
            self._warnings[about] = after
            self._warnings.move_to_end(about)
            if len(self._warnings) > MAX_WARNINGS:
                self._warnings.popitem(last=False)
        self.notify_owner(after.about)

    def _update_owner(self, run_id: str, uid: str, *, exists: bool) -> None:
        if exists:
            self._owners[uid] = run_id
        else:
            self._owners.pop(uid, None)
        if self._runs[run_id].is_empty:
            del self._runs[run_id]

    def _with_pods(self, node: Node) -> Node:
        return replace(node, pods=tuple(map(self._scheduled_pod, self._pods_by_node.get(node.name, {}).values())))

    def _scheduled_pod(self, pod: ObservedPod) -> ScheduledPod:
        run = self._runs.get(pod.run_id)
        main = None if run is None else run.main
        if not pod.run_id:
            return pod.scheduled_pod
        name, project_id = (None, pod.project_id) if main is None else (main.name, main.project_id)
        return replace(pod.scheduled_pod, run_id=run_id_of(pod.run_id), name=name, project_id=project_id)


def belongs_to(pod: ObservedPod, main: MainObject) -> bool:
    """Whether a pod belongs to the main object. Labels are not enough, because users can set them on any pod."""
    return pod.namespace == main.namespace and (main.kind != "Job" or pod.owner == main.uid)


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """A watched object: its key and the value that fitting uses."""

    uid: str
    version: int
    key: Any
    value: Any


class SchedulingContextWatcher:
    """Keeps a `SchedulingContext` up to date. If storage cannot be watched, claims do not exclude any node."""

    def __init__(self, api: KubernetesClient) -> None:
        self._values: dict[str, dict[Any, Any]] = {resource: {} for resource in RESOURCES}
        self._lock = threading.Lock()
        self._reflectors = {
            resource: Reflector(
                api, path_of(version, resource), partial(_read_entry, read), partial(self._on_change, resource)
            )
            for resource, (version, read) in RESOURCES.items()
        }

    @property
    def reflectors(self) -> list[Reflector[WatchedEntry]]:
        return list(self._reflectors.values())

    def current(self) -> SchedulingContext:
        """The current scheduling context."""
        with self._lock:
            # These are in the order of RESOURCES, and copied, because the watches change the originals.
            claims, volumes, classes, namespaces = (values.copy() for values in self._values.values())
        # Claims whose volume or class is unknown would exclude nodes for no reason.
        synced = all(self._reflectors[resource].ready.is_set() for resource in STORAGE)
        return SchedulingContext(namespaces, claims if synced else None, volumes, classes)

    def _on_change(self, resource: str, before: WatchedEntry | None, after: WatchedEntry | None) -> None:
        with self._lock:
            if after is not None:
                self._values[resource][after.key] = after.value
            # A deleted object may already have been replaced by one with the same name.
            elif before is not None and self._values[resource].get(before.key) is before.value:
                del self._values[resource][before.key]


def _read_entry(read: Callable[[JSON], Any], raw: JSON) -> WatchedEntry:
    meta = raw["metadata"]
    key = (meta["namespace"], meta["name"]) if "namespace" in meta else meta["name"]
    return WatchedEntry(meta["uid"], int(meta["resourceVersion"]), key, read(raw))
