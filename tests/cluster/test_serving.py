"""Served runs on a cluster: pod readiness, and access through the API server."""

from typing import Any

import httpx2

from fairlead.errors import Unavailable
from fairlead.model.runs import Observation, Phase
from tests.cluster.benches import KubernetesBench
from tests.cluster.test_executors import bench  # noqa: F401
from tests.contracts.executors import SERVES
from tests.databases import wait_until

TIMEOUT = 120.0


def send_request(bench: KubernetesBench, **inputs: Any) -> httpx2.Response:  # noqa: F811
    """Send a request to the served run."""
    endpoint = bench.executor.find_endpoint("r1")
    headers = dict(endpoint.headers)
    return httpx2.post(
        f"{endpoint.url}/", json=inputs, headers=headers, verify=endpoint.verify, trust_env=False, timeout=60
    )


def responds(bench: KubernetesBench) -> bool:  # noqa: F811
    """Whether the run responds. The API server may learn of the endpoint a moment after the pod is ready."""
    try:
        return send_request(bench).status_code == 200
    except Unavailable:
        return False


def wait_for_reason(bench: KubernetesBench, reason: str) -> Observation:  # noqa: F811
    """Wait until the run has a reason, and return it."""
    wait_until(
        lambda: (observation := bench.executor.observe("r1")) is not None and observation.reason == reason,
        seconds=TIMEOUT,
    )
    observation = bench.executor.observe("r1")
    assert observation is not None
    return observation


def test_served_run_is_reachable_and_degraded_until_it_restarts(
    bench: KubernetesBench,  # noqa: F811
) -> None:
    bench.start("r1", SERVES, action="serve")
    wait_for_reason(bench, "Ready")
    wait_until(lambda: responds(bench), seconds=TIMEOUT)
    send_request(bench, code=3)
    observation = wait_for_reason(bench, "CrashLoopBackOff")
    assert observation.phase is Phase.DEGRADED
    assert observation.message.startswith("exited with code 3; it has exited ")
    wait_for_reason(bench, "Ready")
    wait_until(lambda: responds(bench), seconds=TIMEOUT)
