"""metrics.k8s.io for tests: the usage of pods, updated every second, as by a metrics server."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

from tests.cluster.clients import APPLY, ApiError, Object
from tests.cluster.kubelet import statuses
from tests.cluster.kubelet.api import Api
from tests.cluster.kubelet.pods import Pod

GROUP, VERSION = "metrics.k8s.io", "v1beta1"


def make_definition() -> Object:
    """A CustomResourceDefinition for a metrics server's resource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}
    version = {"name": VERSION, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"pods.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests only"},
        },
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def measure(api: Api, pods: Callable[[], Iterable[Pod]], seconds: float) -> None:
    """Write the usage of each running pod periodically."""
    last_samples: dict[
        str, tuple[float, float]
    ] = {}  # per container: the time of the last sample, and the CPU seconds used by then
    written: dict[tuple[str, str], str] = {}
    while True:
        running = {pod.key: pod for pod in pods() if pod.phase == "Running"}
        for key, pod in running.items():
            with contextlib.suppress(ApiError):  # the namespace is being deleted
                await api.request(
                    "PATCH",
                    _path(key),
                    _measure(pod, last_samples, seconds),
                    APPLY,
                    fieldManager="metrics",
                    force="true",
                )
                written[key] = pod.pod["metadata"]["uid"]
        for key in written.keys() - running.keys():
            del written[key]
            with contextlib.suppress(ApiError):
                await api.request("DELETE", _path(key))
        await asyncio.sleep(seconds)


def _measure(pod: Pod, last_samples: dict[str, tuple[float, float]], seconds: float) -> Object:
    containers = []
    for name, slot in pod.slots.items():
        if slot.process is None or "running" not in slot.state:
            continue
        cpu, memory = slot.process.usage()
        identity, now = f"{pod.pod['metadata']['uid']}/{name}/{slot.restarts}", time.monotonic()
        before, cpu_before = last_samples.get(identity, (now - seconds, 0.0))
        last_samples[identity] = now, cpu
        rate = max(0, int((cpu - cpu_before) / (now - before) * 1e9))
        containers.append({"name": name, "usage": {"cpu": f"{rate}n", "memory": f"{memory // 1024}Ki"}})
    meta = pod.pod["metadata"]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PodMetrics",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": meta.get("labels", {})},
        "timestamp": statuses.now(),
        "window": f"{seconds:g}s",
        "containers": containers,
    }


def _path(key: tuple[str, str]) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{key[0]}/pods/{key[1]}"
