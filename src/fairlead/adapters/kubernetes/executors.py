"""Runs as Jobs and Deployments of a Kubernetes cluster, seen through watches."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from fairlead.adapters.kubernetes import objects, observing, shared_volumes
from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, connect_from_within, path_of
from fairlead.adapters.kubernetes.cluster_checks import check_cluster
from fairlead.adapters.kubernetes.endpoints import find_endpoint
from fairlead.adapters.kubernetes.kueue import KueueQueues
from fairlead.adapters.kubernetes.logs import Logs
from fairlead.adapters.kubernetes.objects import MainObject, ObservedPod
from fairlead.adapters.kubernetes.observing import ObservationContext
from fairlead.adapters.kubernetes.outcomes import Outcomes
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.adapters.kubernetes.sampling import PodMetricsSampler
from fairlead.adapters.kubernetes.scheduling_context import SchedulingContextWatcher
from fairlead.adapters.kubernetes.starting import PLURALS, Starter
from fairlead.adapters.kubernetes.views import ClusterView, RunView, belongs
from fairlead.adapters.masking import Masker
from fairlead.core.fitting.filtering import NodeFilter
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.wait_reasons import explain_no_fit
from fairlead.core.manifests.functions import read_names
from fairlead.core.manifests.names import RUN_LABEL
from fairlead.core.outcomes import find_peaks
from fairlead.errors import NotFound, StartFailed, Unavailable
from fairlead.model.connections import Connection
from fairlead.model.observations import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile, Phase
from fairlead.model.scopes import Cluster
from fairlead.ports import Clock, Notify, Store
from fairlead.run_files import OUTPUT, list_files, open_file, remove_files

VERSIONS = {"Job": "batch/v1", "Deployment": "apps/v1"}
ENDED = (Phase.SUCCEEDED, Phase.FAILED)
LEFT = "somebody or something has removed it, and its pods are still there"
MOST_EXPLAINED = 1000
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0


@dataclass(frozen=True)
class ExecutorConfig:
    """Where a server keeps what it knows of the runs of a cluster, and for how long their objects stay after them."""

    store: Store
    folder: Path
    clock: Clock
    secrets_of: Callable[[str], Iterable[str]]
    objects: timedelta = timedelta(hours=1)
    platform: str = ""  # what the objects of its runs are labeled with


class KubernetesExecutor:
    """One cluster."""

    has_scheduler = True

    def __init__(self, api: ApiClient, cluster: Cluster, config: ExecutorConfig, notify: Notify) -> None:
        self.api, self.cluster, self.config, self.notify = api, cluster, config, notify
        self.view = ClusterView(notify)
        self.starter = Starter(api, cluster, config.platform, config.objects)
        self.outcomes = Outcomes(config.store, config.clock)
        self.logs = Logs(api, config.folder / "logs", config.store, self._secrets_of, config.clock)
        self.logs.on_end = self._notify_if_ended
        self.view.on_pod_deleting = self._hear_out
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
            Reflector(api, path_of("v1", "pods"), partial(objects.read_pod, config.platform), view.on_pod_change),
            Reflector(api, path_of("v1", "nodes"), objects.read_node, view.on_node_change),
            Reflector(
                api, path_of("v1", "events"), objects.read_warning, view.on_warning_change, fieldSelector="type=Warning"
            ),
        ]
        self._needed = self._reflectors[:-1]  # without warnings a run can be told of, too
        self.context = SchedulingContextWatcher(api)
        self.queues = KueueQueues(api, view.notify_owner, view.main_of) if cluster.queueing == "kueue" else None
        self._reflectors += [*self.context.reflectors, *(self.queues.reflectors if self.queues is not None else ())]
        self._closed = False
        self._stopping: set[str] = set()
        self._forgotten: set[str] = set()  # those whose objects are on their suggestion
        self._secrets: dict[str, tuple[str, ...]] = {}
        self._delayed: dict[str, tuple[float, float, str]] = {}  # when to try again, after which pause, and why
        self._explained: dict[str, tuple[str, str]] = {}
        for follow in (*(reflector.live for reflector in self._reflectors), self.sampler.live):
            threading.Thread(target=follow, name=f"cluster {cluster.name}", daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """Whether all that is there has been seen once."""
        return all(reflector.ready.is_set() for reflector in self._needed)

    def close(self) -> None:
        """Look after nothing any more. Runs go on.

        Its connections are closed by whoever reads from them: a socket that is closed by somebody else may already be
        another one when it is read again.
        """
        self._closed = True
        for reflector in self._reflectors:
            reflector.end()
        self.sampler.end()
        self.logs.close()

    def start(self, work: LaunchSpec) -> None:
        """See to it that a run executes, unless it does or did. What keeps it from starting is observed."""
        self._need_ready()
        view = self.view.of(work.run_id)
        released = view is not None and view.main is not None and view.main.released
        if released or self.outcomes.load(work.run_id) is not None:
            return
        self._wait_for_turn(work.run_id)
        named = read_names(work.manifests)
        self._secrets[work.run_id] = tuple(word for name, word in work.secrets.items() if name in named)
        try:
            for main in self.starter.start(work):
                self._mains[main["kind"]].put(main, self.view.update_main)
        except StartFailed as error:
            self._fail(work.run_id, str(error))
        except Unavailable as error:
            self._delay(work.run_id, error)
            raise
        else:
            self._delayed.pop(work.run_id, None)

    def stop(self, run_id: str) -> None:
        """See to it that a run ends. One that is not there, or has ended, stays so."""
        view = self.view.of(run_id)
        if view is None:
            return
        if (seen := self.observe(run_id)) is None or seen.phase not in ENDED:
            pods = list(view.pods.values())
            self.logs.follow_all(pods)  # before they are gone, and their logs with them
            self._stopping.add(run_id)
            if view.main is None:
                self._remove_all(view)
            elif not view.main.deleting:  # by a server that was killed meanwhile, say
                self._remove(view.main, "Foreground")

    def observe(self, run_id: str) -> Observation | None:
        """What is seen of a run; None where nothing is there. Raise `Unavailable` where that cannot be told."""
        self._need_ready()
        if (known := self.outcomes.get(run_id)) is not None:
            return known
        view = self._look(run_id)
        if view is None or view.main is None:
            return self._observe_gone(run_id, view)
        warnings = self.view.warnings_about(view)
        seen = observing.observe(
            view, ObservationContext(warnings, self._explain, self._describe_node_loss, self.queues)
        )
        if seen is None or seen.phase not in ENDED:
            return seen
        if (known := self.outcomes.load(run_id)) is not None:  # by a server that measured what it used
            return known
        handed = observing.read_termination_message(list(view.pods.values())).get("handed")
        seen = replace(seen, usage=find_peaks(self.sampler.load(run_id)), **self.outcomes.load_uploaded(run_id, handed))
        return self.outcomes.record(run_id, self._mask(seen, run_id))

    def clean_up(self, run_id: str) -> None:
        """Save log and usage of a run that has ended; after a while, remove its objects and all that is theirs.

        Raises `Unavailable` while some of the log is still being read: call it again.
        """
        view, seen = self._look(run_id), self.observe(run_id)
        if seen is not None and seen.phase not in ENDED:
            return
        pods = [] if view is None else list(view.pods.values())
        if (seen is not None or self.logs.has_local_log(run_id)) and not self.logs.save(run_id, pods):
            raise Unavailable(f"the log of run {run_id} is still being read")
        if seen is not None:  # last, so that no server takes what it lacks for all there is
            self.outcomes.save(run_id, seen, self.sampler.load(run_id))
            self._secrets.pop(run_id, None)
        self.sampler.forget(run_id)
        if view is not None and (seen is None or self._is_past(seen)):
            self._remove_all(view)
        if view is None:
            self._let_go(run_id)

    def delete_run(self, run_id: str) -> None:
        """Remove everything of a run."""
        if (view := self.view.of(run_id)) is not None:
            self._remove_all(view)
            self._forgotten.add(run_id)
        with self.config.store.recording() as tx:
            remove_files(tx, run_id)
        self._let_go(run_id)
        self.outcomes.forget(run_id)
        self.logs.forget(run_id)
        self.sampler.forget(run_id)

    def list_volumes(self) -> list[str]:
        """The ids of shared volumes of which something is there."""
        return shared_volumes.list_volumes(self.api, self.config.platform)

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume with all that is on it."""
        shared_volumes.remove_volume(self.api, self.config.platform, volume_id)

    def list_runs(self) -> list[str]:
        """The runs of which something is there."""
        self._need_ready()
        there = self.view.runs()
        self._forgotten &= set(there)
        return sorted({*there, *self.logs.list_local_logs()} - self._forgotten)

    def nodes(self) -> NodeTable:
        """The nodes of the cluster, with what is taken."""
        self._need_ready()
        self._need_sight(self._needed)
        return self.view.nodes(self.context.current())

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """The log from a cursor on. Raise `NotFound` where it is not there any more."""
        view, seen = self._look(run_id), self.observe(run_id)
        pods = [] if view is None else list(view.pods.values())
        if seen is None and view is None:  # all that there will ever be is what was read before
            if not (self.logs.has_local_log(run_id) or self.logs.is_saved(run_id)):
                raise NotFound(f"the log of run {run_id} is not kept any more")
            return self.logs.read(run_id, pods, cursor, max_bytes, over=True)
        return self.logs.read(run_id, pods, cursor, max_bytes, over=seen is not None and seen.phase in ENDED)

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """What a run used over time, the oldest sample first."""
        return self.sampler.load(run_id) or self.outcomes.load_usage(run_id)

    def list_files(self, run_id: str) -> list[OutputFile]:
        """The files that a run left in its output folder."""
        with self.config.store.reading() as tx:
            found = list_files(tx, run_id, OUTPUT)
        return [OutputFile(file.path.removeprefix(OUTPUT), file.size, file.modified_at) for file in found]

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """One of those files. Raise `NotFound` where there is none."""
        return open_file(self.config.store, run_id, f"{OUTPUT}{path}")

    def find_endpoint(self, run_id: str) -> Endpoint:
        """How to speak to what a run serves. Raise `Unavailable` where nothing is ready, `NotFound` where it is not."""
        self._need_ready()
        return find_endpoint(self.api, self.cluster, run_id, self.view.of(run_id))

    def check(self, projects: Sequence[str]) -> list[Check]:
        """Whether the cluster has what runs of these projects need, and what to do where not."""
        return check_cluster(self.api, self.cluster, projects)

    def _need_ready(self) -> None:
        """Raise `Unavailable` until all that is there has been seen once, and where nothing is looked at any more."""
        if self._closed:
            raise Unavailable(f"cluster/{self.cluster.name} is reached in another way by now")
        for reflector in self._needed:
            if not reflector.ready.is_set():
                why = f": {reflector.trouble}" if reflector.trouble else ""
                raise Unavailable(f"cluster/{self.cluster.name} was not seen yet{why}")

    def _look(self, run_id: str) -> RunView | None:
        """What is there of a run: of one that has ended all of it, for Jobs may be told of sooner than pods."""
        view = None if run_id in self._forgotten else self.view.of(run_id)
        if view is None or view.main is None or not observing.has_outdated_pods(view):
            return view
        path = path_of("v1", "pods", view.main.namespace)
        try:
            found = self.api.list(path, labelSelector=f"{RUN_LABEL}={run_id}")["items"]
        except ApiError as refused:
            raise Unavailable(f"the pods of {view.main.name} cannot be seen: {refused}") from refused
        pods = [pod for raw in found if (pod := objects.read_pod(self.config.platform, raw)) is not None]
        return replace(view, pods={pod.uid: pod for pod in pods if belongs(pod, view.main)})

    def _observe_gone(self, run_id: str, view: RunView | None) -> Observation | None:
        """What is known of a run whose main object is not there."""
        if (known := self.outcomes.load(run_id)) is not None:
            return known
        if view is not None and any(pod.deleting or not pod.is_over for pod in view.pods.values()):
            return observing.observe_ending(list(view.pods.values()), LEFT)
        if run_id in self._stopping and view is None:
            used, now = find_peaks(self.sampler.load(run_id)), self.config.clock()
            seen = Observation(Phase.FAILED, "Stopped", stopped=True, usage=used, finished_at=now)
            return self.outcomes.record(run_id, seen)
        self._need_sight(self._mains.values())  # it may be there all the same
        return None

    def _explain(self, pod: ObservedPod) -> str:
        """Why a pod fits nowhere, in our words: worked out once for each time that the scheduler has tried."""
        said = pod.conditions["PodScheduled"].message
        known = self._explained.get(pod.uid)
        if known is None or known[0] != said:
            if len(self._explained) > MOST_EXPLAINED:
                self._explained.clear()
            assert pod.pod_request is not None
            nodes = self.view.nodes(self.context.current()).visible_to(
                pod.project.__eq__
            )  # all who see the run read this
            known = self._explained[pod.uid] = said, explain_no_fit(NodeFilter(pod.pod_request, nodes))
        return known[1]

    def _need_sight(self, reflectors: Iterable[Reflector[Any]]) -> None:
        """Raise `Unavailable` where something is not heard of at the moment."""
        for reflector in reflectors:
            if reflector.trouble:
                raise Unavailable(f"cluster/{self.cluster.name} cannot be seen: {reflector.trouble}")

    def _describe_node_loss(self, pod: ObservedPod) -> str:
        """What is wrong with the node of a pod: the same for as long as it is."""
        node = self.view.node(pod.node)
        if node is None:
            return f"{pod.node} is gone"
        if node.ready:
            return ""
        return f"{pod.node} does not answer" + (f" since {node.ready_since:%H:%M:%S} UTC" if node.ready_since else "")

    def _wait_for_turn(self, run_id: str) -> None:
        """Raise `Unavailable` where it is too early to try again what did not work."""
        again_at, _, why = self._delayed.get(run_id, (0.0, 0.0, ""))
        if time.monotonic() < again_at:
            raise Unavailable(why)

    def _delay(self, run_id: str, error: Unavailable) -> None:
        _, pause, _ = self._delayed.get(run_id, (0.0, FIRST_PAUSE / 2, ""))
        pause = min(max(pause * 2, error.retry_after_seconds), LONGEST_PAUSE)
        self._delayed[run_id] = time.monotonic() + pause, pause, str(error)

    def _mask(self, seen: Observation, run_id: str) -> Observation:
        """What is told of how a run ended, without its secrets, and as any database keeps it."""
        masker = Masker(self._secrets_of(run_id))

        def notify(text: str) -> str:
            return masker.mask(text).replace("\0", "\N{SYMBOL FOR NULL}")

        error = None if seen.error is None else {name: notify(str(said)) for name, said in seen.error.items()}
        return replace(seen, message=notify(seen.message), error=error)

    def _fail(self, run_id: str, message: str) -> None:
        """Keep that a run can never start, and leave nothing of it behind."""
        seen = Observation(Phase.FAILED, "StartFailed", message, finished_at=self.config.clock())
        self.outcomes.record(run_id, seen)
        self.outcomes.save(run_id, seen, [])
        if (view := self.view.of(run_id)) is not None:
            self._remove_all(view)
        self.notify(run_id)

    def _notify_if_ended(self, run_id: str) -> None:
        """Notify the controller that the whole log of an ended run has been read: it can call `tidy` again now."""
        # Not tidied here: a request of this thread that fails would not be repeated.
        if self.outcomes.get(run_id) is not None:
            self.notify(run_id)

    def _hear_out(self, pod: ObservedPod) -> None:
        """A pod is about to go, and its log with it: a deadline has passed, or something needs its place."""
        view = self.view.of(pod.run_id)
        if view is not None and self.outcomes.get(pod.run_id) is None:
            self.logs.follow(pod, list(view.pods.values()))

    def _is_past(self, seen: Observation) -> bool:
        ended_at = seen.finished_at or self.config.clock()
        return self.config.clock() - ended_at >= self.config.objects

    def _remove_all(self, view: RunView) -> None:
        if view.main is not None:
            self._remove(view.main, "Background")
            return
        for pod in view.pods.values():  # whose owner somebody removed without them
            self.api.delete(path_of("v1", "pods", pod.namespace, pod.name), uid=pod.uid)

    def _remove(self, main: MainObject, propagation: str) -> None:
        path = path_of(VERSIONS[main.kind], PLURALS[main.kind], main.namespace, main.name)
        self.api.delete(path, uid=main.uid, propagation=propagation)

    def _secrets_of(self, run_id: str) -> Iterable[str]:
        return self._secrets.get(run_id) or self.config.secrets_of(run_id)

    def _let_go(self, run_id: str) -> None:
        self._stopping.discard(run_id)
        self._secrets.pop(run_id, None)
        self._delayed.pop(run_id, None)


def open_executor(
    config: ExecutorConfig, notify: Notify, cluster: Cluster, scope_id: str, connection: Connection | None
) -> KubernetesExecutor:
    """The executor of a cluster, which keeps what it knows in a folder of its own."""
    own = replace(config, folder=config.folder / scope_id, platform=scope_id)
    return KubernetesExecutor(ApiClient(connection or connect_from_within()), cluster, own, notify)
