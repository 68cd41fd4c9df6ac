"""Removing the objects of runs that have ended: a failed step is reported, and the controller retries it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.adapters.kubernetes.executor import ExecutorConfig, KubernetesExecutor
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.adapters.kubernetes.sampling import PodMetricsSampler
from fairlead.errors import Unavailable
from fairlead.model.records import RunRecord
from fairlead.model.runs import Phase
from fairlead.model.scopes import Cluster
from fairlead.run_events import RunEvent, RunEvents
from tests.adapters.kubernetes.apis import ScriptedApi
from tests.adapters.kubernetes.making import PLATFORM, RUN, make_main, make_pod, read_main, read_pod, terminated
from tests.adapters.kubernetes.test_logs import Kubelet
from tests.adapters.kubernetes.test_observing import DONE, RUNNING
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import add_records, make, make_scopes
from tests.databases import wait_until

JOB = "/apis/batch/v1/namespaces/forest/jobs/train-1"
LATER = datetime(2026, 11, 15, 9, tzinfo=UTC)  # after the run ended


class LoggingApi(Kubelet, ScriptedApi):
    """A scripted API server that also serves pod logs."""

    def __init__(self) -> None:
        Kubelet.__init__(self)
        ScriptedApi.__init__(self)


@pytest.fixture
def api() -> LoggingApi:
    """An API server without objects."""
    return LoggingApi()


@pytest.fixture
def notified() -> list[str]:
    """The executions that the controller was notified of."""
    return []


@pytest.fixture
def executor(
    api: LoggingApi, notified: list[str], memory_store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesExecutor]:
    """An executor that removes objects as soon as their run has ended. Its view shows what the test puts there."""
    add_records(memory_store, *make_scopes())
    with memory_store.recording() as tx:
        tx.add(make(RunRecord, RUN, scope="project/forest"))
    for background in (Reflector, PodMetricsSampler):
        monkeypatch.setattr(background, "run", lambda _self: None)
    config = ExecutorConfig(
        memory_store, tmp_path, lambda: LATER, lambda _run_id: (), objects=timedelta(0), platform=PLATFORM
    )
    run_events = RunEvents()
    run_events.subscribe(notified.append, RunEvent.OBSERVED)
    created = KubernetesExecutor(api.api, Cluster(name="main"), config, run_events)
    for reflector in created._reflectors:
        reflector.ready.set()
    yield created
    api.open.set()
    created.close()


def show(executor: KubernetesExecutor, *conditions: dict[str, Any], **pod: Any) -> None:
    """Add the run's Job and pod to the view."""
    executor.view.on_main_change(None, read_main(make_main("Job", *conditions)))
    executor.view.on_pod_change(None, read_pod(make_pod(**pod)))


def test_removal_that_waits_for_the_log_is_retried_until_the_cluster_accepts_it(
    executor: KubernetesExecutor, api: LoggingApi, notified: list[str]
) -> None:
    show(executor, **RUNNING)
    api.lines["train-1-a"] = [(0.0, "hello\n")]
    api.open.clear()
    executor.read_log(RUN, 0, 100)  # a client follows the log while the run ends
    show(executor, DONE, phase="Succeeded", terminated=terminated(0))
    observation = executor.observe(RUN)
    assert observation is not None
    assert observation.phase is Phase.SUCCEEDED
    with pytest.raises(Unavailable, match="is still being read"):
        executor.clean_up(RUN)
    assert api.deleted == []

    notified.clear()
    api.responses["delete"] = Unavailable("not now")
    api.open.set()
    wait_until(lambda: notified == [RUN])
    with pytest.raises(Unavailable, match="not now"):
        executor.clean_up(RUN)

    del api.responses["delete"]
    executor.clean_up(RUN)
    assert api.deleted == [JOB]


def test_job_that_appears_after_its_run_has_ended_is_removed(executor: KubernetesExecutor, api: LoggingApi) -> None:
    assert executor.observe(RUN) is None
    executor.clean_up(RUN)
    executor.view.on_main_change(None, read_main(make_main("Job", released=False)))
    executor.clean_up(RUN)
    assert api.deleted == [JOB]
