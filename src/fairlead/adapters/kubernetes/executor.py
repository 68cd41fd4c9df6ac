"""Executor for Kubernetes: runs are Jobs and Deployments, observed through watches."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from fairlead.adapters.kubernetes import objects, observing, starting
from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, connect_from_within, path_of
from fairlead.adapters.kubernetes.cluster_checks import check_cluster
from fairlead.adapters.kubernetes.kueue import KueueQueues
from fairlead.adapters.kubernetes.logs import Logs, Outcomes
from fairlead.adapters.kubernetes.objects import MainObject, ObservedPod
from fairlead.adapters.kubernetes.observing import ObservationContext
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.adapters.kubernetes.sampling import PodMetricsSampler
from fairlead.adapters.kubernetes.starting import PLURALS, Starter, find_endpoint
from fairlead.adapters.kubernetes.views import ClusterView, RunView, SchedulingContextWatcher, belongs_to
from fairlead.adapters.logs import Masker
from fairlead.adapters.outcomes import find_peaks
from fairlead.backoff import Backoff
from fairlead.errors import NotFound, StartFailed, Unavailable
from fairlead.model.names import RUN_LABEL
from fairlead.model.nodes import KUBERNETES, NodeTable
from fairlead.model.project_objects import Connection
from fairlead.model.runs import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile, Phase
from fairlead.model.scopes import Cluster
from fairlead.ports import Clock, Store
from fairlead.run_events import RunEvents
from fairlead.run_files import OUTPUT, list_files, open_file, remove_files
from fairlead.scheduling.evaluation import explain_no_fit
from fairlead.scheduling.filters import NodeFilter

VERSIONS = {"Job": "batch/v1", "Deployment": "apps/v1"}
ENDED = (Phase.SUCCEEDED, Phase.FAILED)
REMOVED = "its Job or Deployment was deleted, but its pods are still running"
MAX_EXPLAINED = 1000
BACKOFF = Backoff(2.0, 60.0)  # between attempts to start a run


@dataclass(frozen=True)
class ExecutorConfig:
    """An executor's storage, clock and retention settings. `objects`: how long objects are kept after a run ends."""

    store: Store
    folder: Path  # for partial logs and usage samples until they are in the store
    clock: Clock
    secrets_of: Callable[[str], Iterable[str]]  # loads the secret values of a run, to mask them
    objects: timedelta = timedelta(hours=1)
    platform: str = ""  # value of the label that marks this platform's objects


class KubernetesExecutor:
    """Executes runs on one cluster."""

    has_scheduler = True
    capabilities = KUBERNETES

    def __init__(self, api: KubernetesClient, cluster: Cluster, config: ExecutorConfig, run_events: RunEvents) -> None:
        self.api, self.cluster, self.config = api, cluster, config
        self.view = ClusterView(run_events)
        self.starter = Starter(api, cluster, config.platform, config.objects)
        self.outcomes = Outcomes(config.store, config.clock)
        self.logs = Logs(api, config.folder / "logs", config.store, self._secrets_of, config.clock)
        self.logs.on_end = self._notify_if_ended
        self.view.on_pod_deleting = self._follow_log
        self.sampler = PodMetricsSampler(api, self.view, config.folder / "usage", config.clock)
        ours = {"labelSelector": f"{RUN_LABEL},{objects.PLATFORM_LABEL}={config.platform}"}
        self._mains: dict[str, Reflector[MainObject]] = {
            kind: Reflector(
                api,
                path_of(version, PLURALS[kind]),
                partial(objects.read_main, config.platform),
                self.view.on_main_change,
                **ours,
            )
            for kind, version in VERSIONS.items()
        }
        view = self.view
        self._reflectors: list[Reflector[Any]] = [
            *self._mains.values(),
            # Watch all pods, not only ours, because every pod uses resources of its node.
            Reflector(api, path_of("v1", "pods"), partial(objects.read_pod, config.platform), view.on_pod_change),
            Reflector(api, path_of("v1", "nodes"), objects.read_node, view.on_node_change),
            Reflector(
                api, path_of("v1", "events"), objects.read_warning, view.on_warning_change, fieldSelector="type=Warning"
            ),
        ]
        self._required = self._reflectors[:-1]  # runs can be observed without warnings
        self.context = SchedulingContextWatcher(api)
        self.queues = KueueQueues(api, view.notify_owner, view.main_of) if cluster.queueing == "kueue" else None
        self._reflectors += [*self.context.reflectors, *(self.queues.reflectors if self.queues is not None else ())]
        self._closed = False
        self._stopping: set[str] = set()  # stopped by this server; without objects, they count as stopped, not lost
        self._deleted: set[str] = set()  # deleted runs whose objects still exist
        self._secrets: dict[str, tuple[str, ...]] = {}
        self._delayed: dict[str, tuple[float, int, str]] = {}  # by run ID: time of the next attempt, failures, error
        self._explained: dict[str, tuple[str, str]] = {}  # by pod: the scheduler's message and our explanation
        for target in (*(reflector.run for reflector in self._reflectors), self.sampler.run):
            threading.Thread(target=target, name=f"cluster {cluster.name}", daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """Whether all required objects have been listed once."""
        return all(reflector.ready.is_set() for reflector in self._required)

    def close(self) -> None:
        """Stop all watches. The runs keep running."""
        # Each connection is closed by the thread that reads from it. If another thread closed the socket, its
        # descriptor could already belong to a different connection by the next read.
        self._closed = True
        for reflector in self._reflectors:
            reflector.stop()
        self.sampler.stop()
        self.logs.close()

    def start(self, launch: LaunchSpec) -> None:
        """Start a run. Idempotent. A permanent failure is reported by `observe`."""
        self._require_synced()
        view = self.view.find_run(launch.execution_id)
        released = view is not None and view.main is not None and view.main.released
        if released or self.outcomes.load(launch.execution_id) is not None:
            return
        self._require_retry_time(launch.execution_id)
        self._secrets[launch.execution_id] = tuple(launch.secrets[name] for name in launch.demand.secrets)
        try:
            for main in self.starter.start(launch):
                # Store the object at once: until the watch reports it, `observe` would find no run. This sends no
                # notification, because the caller is already reconciling this run.
                self._mains[main["kind"]].put(main, self.view.update_main)
        except StartFailed as error:
            self._fail(launch.execution_id, str(error))
        except Unavailable as error:
            self._delay(launch.execution_id, error)
            raise
        else:
            self._delayed.pop(launch.execution_id, None)

    def stop(self, run_id: str) -> None:
        """Stop a run. Does nothing if it does not exist or has ended."""
        view = self.view.find_run(run_id)
        if view is None:
            return
        if (observation := self.observe(run_id)) is None or observation.phase not in ENDED:
            pods = list(view.pods.values())
            self.logs.follow_all(pods)  # before the pods and their logs are deleted
            self._stopping.add(run_id)
            if view.main is None:
                self._remove_all(view)
            elif not view.main.deleting:  # another server may already have requested the deletion
                # Foreground: the object exists until its pods are gone, so the run is not reported as stopped early.
                self._remove(view.main, "Foreground")

    def observe(self, run_id: str) -> Observation | None:
        """The state of a run, or None if it has no objects. Raises `Unavailable` if the cluster is not synced."""
        self._require_synced()
        if (known := self.outcomes.get(run_id)) is not None:
            return known
        view = self._find_run(run_id)
        if view is None or view.main is None:
            return self._observe_gone(run_id, view)
        warnings = self.view.warnings_about(view)
        observation = observing.observe(
            view, ObservationContext(warnings, self._explain, self._describe_node_loss, self.queues)
        )
        if observation is None or observation.phase not in ENDED:
            return observation
        if (known := self.outcomes.load(run_id)) is not None:  # saved by the server that also measured the run's usage
            return known
        # The termination message in Kubernetes is limited to 4096 bytes. It names a file if the result is longer.
        uploaded = observing.read_termination_message(list(view.pods.values())).get("handed")
        observation = replace(
            observation, usage=find_peaks(self.sampler.load(run_id)), **self.outcomes.load_uploaded(run_id, uploaded)
        )
        return self.outcomes.record(run_id, self._mask(observation, run_id))

    def clean_up(self, run_id: str) -> None:
        """Save the log and usage of an ended run, and delete its objects after their retention period.

        Raises `Unavailable` while the log is still being read; call it again later.
        """
        view, observation = self._find_run(run_id), self.observe(run_id)
        if observation is not None and observation.phase not in ENDED:
            return
        pods = [] if view is None else list(view.pods.values())
        if (observation is not None or self.logs.has_local_log(run_id)) and not self.logs.save(run_id, pods):
            raise Unavailable(f"the log of run {run_id} is still being read")
        if observation is not None:  # last, because other servers assume that a saved outcome is complete
            self.outcomes.save(run_id, observation, self.sampler.load(run_id))
            self._secrets.pop(run_id, None)
        self.sampler.forget(run_id)
        if view is not None and (observation is None or self._is_retention_over(observation)):
            self._remove_all(view)
        if view is None:
            self._drop_state(run_id)

    def delete_run(self, run_id: str) -> None:
        """Delete the objects, files and logs of a run."""
        if (view := self.view.find_run(run_id)) is not None:
            self._remove_all(view)
            self._deleted.add(run_id)
        with self.config.store.recording() as tx:
            remove_files(tx, run_id)
        self._drop_state(run_id)
        self.outcomes.forget(run_id)
        self.logs.forget(run_id)
        self.sampler.forget(run_id)

    def list_volumes(self) -> list[str]:
        """The IDs of shared volumes that have a claim."""
        return starting.list_volumes(self.api, self.config.platform)

    def remove_volume(self, volume_id: str) -> None:
        """Delete a shared volume with its data."""
        starting.remove_volume(self.api, self.config.platform, volume_id)

    def list_runs(self) -> list[str]:
        """The IDs of runs that have objects or a local log."""
        self._require_synced()
        run_ids = self.view.run_ids()
        self._deleted &= set(run_ids)
        return sorted({*run_ids, *self.logs.list_local_logs()} - self._deleted)

    def nodes(self) -> NodeTable:
        """The nodes of the cluster with their pods."""
        self._require_synced()
        self._require_watches(self._required)  # an outdated table would show capacity that is no longer free
        return self.view.nodes(self.context.current())

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """The log starting at a cursor. Raises `NotFound` if it has been deleted."""
        view, observation = self._find_run(run_id), self.observe(run_id)
        pods = [] if view is None else list(view.pods.values())
        if observation is None and view is None:  # without pods, the log cannot grow
            if not (self.logs.has_local_log(run_id) or self.logs.is_saved(run_id)):
                raise NotFound(f"the log of run {run_id} has been deleted")
            return self.logs.read(run_id, pods, cursor, max_bytes, over=True)
        return self.logs.read(
            run_id, pods, cursor, max_bytes, over=observation is not None and observation.phase in ENDED
        )

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """Usage samples of a run, oldest first."""
        return self.sampler.load(run_id) or self.outcomes.load_usage(run_id)

    def list_files(self, run_id: str) -> list[OutputFile]:
        """The files in a run's output folder."""
        with self.config.store.reading() as tx:
            files = list_files(tx, run_id, OUTPUT)
        return [OutputFile(file.path.removeprefix(OUTPUT), file.size, file.modified_at) for file in files]

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """Open an output file. Raises `NotFound` if it does not exist."""
        return open_file(self.config.store, run_id, f"{OUTPUT}{path}")

    def find_endpoint(self, run_id: str) -> Endpoint:
        """A served run's endpoint. Raises `Unavailable` if no pod is ready, `NotFound` if the run is not served."""
        self._require_synced()
        return find_endpoint(self.api, self.cluster, run_id, self.view.find_run(run_id))

    def check(self, projects: Sequence[str]) -> list[Check]:
        """Check whether the cluster is set up for runs in these projects."""
        return check_cluster(self.api, self.cluster, projects)

    def _require_synced(self) -> None:
        """Raise `Unavailable` if the required objects have not been listed yet, or the executor is closed."""
        if self._closed:
            raise Unavailable(f"the connection to cluster/{self.cluster.name} was replaced")
        for reflector in self._required:
            if not reflector.ready.is_set():
                error = f": {reflector.error}" if reflector.error else ""
                raise Unavailable(f"cluster/{self.cluster.name} is not synced yet{error}")

    def _find_run(self, run_id: str) -> RunView | None:
        """The objects of a run. The pods of an ended Job are listed if the pod watch lags behind the Job watch."""
        view = None if run_id in self._deleted else self.view.find_run(run_id)
        if view is None or view.main is None or not observing.has_outdated_pods(view):
            return view
        path = path_of("v1", "pods", view.main.namespace)
        try:
            items = self.api.list(path, labelSelector=f"{RUN_LABEL}={run_id}")["items"]
        except ApiError as error:
            raise Unavailable(f"the pods of {view.main.name} cannot be listed: {error}") from error
        pods = [pod for raw in items if (pod := objects.read_pod(self.config.platform, raw)) is not None]
        return replace(view, pods={pod.uid: pod for pod in pods if belongs_to(pod, view.main)})

    def _observe_gone(self, run_id: str, view: RunView | None) -> Observation | None:
        """The state of a run without a Job or Deployment."""
        if (known := self.outcomes.load(run_id)) is not None:
            return known
        if view is not None and any(pod.deleting or not pod.is_over for pod in view.pods.values()):
            return observing.observe_ending(list(view.pods.values()), REMOVED)
        if run_id in self._stopping and view is None:
            used, now = find_peaks(self.sampler.load(run_id)), self.config.clock()
            observation = Observation(Phase.FAILED, "Stopped", stopped=True, usage=used, finished_at=now)
            return self.outcomes.record(run_id, observation)
        self._require_watches(self._mains.values())  # while a watch is down, the object may exist unnoticed
        return None

    def _explain(self, pod: ObservedPod) -> str:
        """Why a pod does not fit on any node. Recomputed only when the scheduler's message changes."""
        message = pod.conditions["PodScheduled"].message
        known = self._explained.get(pod.uid)
        if known is None or known[0] != message:
            if len(self._explained) > MAX_EXPLAINED:
                self._explained.clear()
            assert pod.pod_request is not None
            # Everyone who can see the run can read this, so only runs in the same project are named.
            nodes = self.view.nodes(self.context.current()).visible_to(pod.project_id.__eq__)
            known = self._explained[pod.uid] = message, explain_no_fit(NodeFilter(pod.pod_request, nodes))
        return known[1]

    def _require_watches(self, reflectors: Iterable[Reflector[Any]]) -> None:
        """Raise `Unavailable` if a watch is down."""
        for reflector in reflectors:
            if reflector.error:
                raise Unavailable(f"a watch on cluster/{self.cluster.name} failed: {reflector.error}")

    def _describe_node_loss(self, pod: ObservedPod) -> str:
        """Why a pod's node is lost; empty if it is not. The text does not change while the cause stays the same."""
        node = self.view.node(pod.node)
        if node is None:
            return f"{pod.node} was removed"
        if node.ready:
            return ""
        since = f" (since {node.ready_since:%H:%M:%S} UTC)" if node.ready_since else ""
        return f"{pod.node} is not ready{since}"

    def _require_retry_time(self, run_id: str) -> None:
        """Raise `Unavailable` if it is too early to repeat a failed start."""
        retry_at, _, error = self._delayed.get(run_id, (0.0, 0, ""))
        if time.monotonic() < retry_at:
            raise Unavailable(error)

    def _delay(self, run_id: str, error: Unavailable) -> None:
        _, failures, _ = self._delayed.get(run_id, (0.0, 0, ""))
        pause = max(BACKOFF.pause(failures), min(error.retry_after_seconds, BACKOFF.longest))
        self._delayed[run_id] = time.monotonic() + pause, failures + 1, str(error)

    def _mask(self, observation: Observation, run_id: str) -> Observation:
        """The observation with secrets masked and without NUL characters, which PostgreSQL cannot store."""
        masker = Masker(self._secrets_of(run_id))

        def clean(text: str) -> str:
            return masker.mask(text).replace("\0", "\N{SYMBOL FOR NULL}")

        error = observation.error and {name: clean(str(value)) for name, value in observation.error.items()}
        return replace(observation, message=clean(observation.message), error=error)

    def _fail(self, run_id: str, message: str) -> None:
        """Record that a run cannot start, and delete its objects."""
        observation = Observation(Phase.FAILED, "StartFailed", message, finished_at=self.config.clock())
        self.outcomes.record(run_id, observation)
        self.outcomes.save(run_id, observation, [])  # at once: without objects, other servers cannot observe the run
        if (view := self.view.find_run(run_id)) is not None:
            self._remove_all(view)
        self.view.notify(run_id)

    def _notify_if_ended(self, run_id: str) -> None:
        """Notify the controller that an ended run's whole log has been read, so that it can call `clean_up` again."""
        # `clean_up` is not called here, because a failure in this thread would not be retried.
        if self.outcomes.get(run_id) is not None:
            self.view.notify(run_id)

    def _follow_log(self, pod: ObservedPod) -> None:
        """Read the rest of a pod's log while the pod is being deleted, after a deadline or a preemption."""
        view = self.view.find_run(pod.run_id)
        if view is not None and self.outcomes.get(pod.run_id) is None:
            self.logs.follow(pod, list(view.pods.values()))

    def _is_retention_over(self, observation: Observation) -> bool:
        ended_at = observation.finished_at or self.config.clock()
        return self.config.clock() - ended_at >= self.config.objects

    def _remove_all(self, view: RunView) -> None:
        if view.main is not None:
            self._remove(view.main, "Background")
            return
        for pod in view.pods.values():  # orphans, whose owner was deleted without them
            self.api.delete(path_of("v1", "pods", pod.namespace, pod.name), uid=pod.uid)

    def _remove(self, main: MainObject, propagation: str) -> None:
        path = path_of(VERSIONS[main.kind], PLURALS[main.kind], main.namespace, main.name)
        self.api.delete(path, uid=main.uid, propagation=propagation)

    def _secrets_of(self, run_id: str) -> Iterable[str]:
        return self._secrets.get(run_id) or self.config.secrets_of(run_id)

    def _drop_state(self, run_id: str) -> None:
        self._stopping.discard(run_id)
        self._secrets.pop(run_id, None)
        self._delayed.pop(run_id, None)


def open_executor(
    config: ExecutorConfig, run_events: RunEvents, cluster: Cluster, scope_id: str, connection: Connection | None
) -> KubernetesExecutor:
    """Open an executor for a cluster, with its own folder."""
    own = replace(config, folder=config.folder / scope_id, platform=scope_id)
    return KubernetesExecutor(KubernetesClient(connection or connect_from_within()), cluster, own, run_events)
