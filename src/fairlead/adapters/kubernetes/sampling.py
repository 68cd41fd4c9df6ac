"""Samples the CPU and memory usage of runs with the metrics API, using one request for all pods."""

import json
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import structlog

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import ObservedPod
from fairlead.adapters.kubernetes.views import ClusterView
from fairlead.errors import Unavailable
from fairlead.model.names import RUN_LABEL
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import JSON
from fairlead.ports import Clock

log = structlog.get_logger()

SECONDS = 15.0  # how often metrics-server collects metrics with its standard manifests
SECONDS_WITHOUT = 600.0  # how often to check whether the metrics API has been installed
MAX_SAMPLES = 2000  # more than eight hours without thinning
PATH = path_of("metrics.k8s.io/v1beta1", "pods")


class PodMetricsSampler:
    """Samples usage and stores it in one file per run until the outcome is saved."""

    def __init__(
        self, api: KubernetesClient, view: ClusterView, folder: Path, clock: Clock, seconds: float = SECONDS
    ) -> None:
        self.api, self.view, self.folder, self.clock, self.seconds = api, view, folder, clock, seconds
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Sample until `stop` is called."""
        while not self._stopped.wait(self.seconds if self._sample() else SECONDS_WITHOUT):
            pass

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()

    def load(self, run_id: str) -> list[JSON]:
        """A run's samples, oldest first, thinned to MAX_SAMPLES."""
        try:
            lines = self._file(run_id).read_text("utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return []
        samples = [sample for line in lines if (sample := _read_sample(line)) is not None]
        thinned = samples[:: -(-len(samples) // MAX_SAMPLES)] if samples else []
        return [{**sample, "at": datetime.fromisoformat(sample["at"])} for sample in thinned]

    def forget(self, run_id: str) -> None:
        """Delete the samples of a run."""
        self._file(run_id).unlink(missing_ok=True)

    def _sample(self) -> bool:
        """Sample once if pods are running; False if the metrics API is missing or forbidden."""
        pods = self.view.running_pods()
        if not pods:
            return True
        try:
            # The response includes runs of other platforms on the cluster, which `_store` ignores.
            metrics = self.api.list(PATH, labelSelector=RUN_LABEL)
            self._store(pods, metrics["items"])
        except ApiError as error:
            log.info("metrics API not available", problem=str(error))
            return error.status not in (403, 404)
        except Unavailable as error:
            log.info("sampling failed", problem=str(error))
        except Exception as error:  # an invalid response must not end the thread
            log.error("sampling failed", problem=str(error), exc_info=error)
        return True

    def _store(self, pods: Sequence[ObservedPod], items: list[JSON]) -> None:
        runs = {(pod.namespace, pod.name): pod.run_id for pod in pods}
        samples: dict[str, JSON] = {}
        for item in items:
            run_id = runs.get((item["metadata"]["namespace"], item["metadata"]["name"]))
            if run_id is None:
                continue
            sample = samples.setdefault(run_id, {"at": self.clock().isoformat(), "cpu": 0.0, "mem": 0})
            for container in item["containers"]:
                usage = container["usage"]
                sample["cpu"] += Quantity.parse(usage.get("cpu", "0")).nanos / NANOS
                sample["mem"] += Quantity.parse(usage.get("memory", "0")).nanos // NANOS
        for run_id, sample in samples.items():
            with self._file(run_id).open("a", encoding="utf-8") as file:
                file.write(json.dumps(sample) + "\n")

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}.usage"


def _read_sample(line: str) -> JSON | None:
    """Parse a sample; None if the line is incomplete."""
    try:
        sample = json.loads(line)
    except ValueError:
        return None
    return sample if isinstance(sample, dict) and "at" in sample else None
