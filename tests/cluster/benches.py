"""An executor on the real control plane, and a server to which its pods upload results and files."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn

from fairlead.adapters import keyrings
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.kubernetes.clients import KubernetesClient
from fairlead.adapters.kubernetes.executor import ExecutorConfig, KubernetesExecutor
from fairlead.model.project_objects import Connection
from fairlead.model.records import RunRecord
from fairlead.model.runs import LaunchSpec, Observation, Phase
from fairlead.model.scopes import Cluster
from fairlead.run_events import RunEvents
from fairlead.run_tokens import seal_run_token
from fairlead.server.application import create_application
from fairlead.services.registry import build_services, make_id
from tests.adapters.local.making import make_launch_spec
from tests.cluster.control_planes import ControlPlane
from tests.contracts.executors import is_over, wait_for_phase
from tests.contracts.samples import add_records, make, make_scopes
from tests.databases import wait_until

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


class KubernetesBench:
    """Runs the executor contract tests on a real cluster, in separate namespaces."""

    # A cluster stores both output streams of a pod in one log.
    output: Mapping[str, bytes] = {"stdout": b"hello\noops\n", "stderr": b"", "platform": b""}
    measures_usage = False

    def __init__(self, plane: ControlPlane, folder: Path, store: DatabaseStore, name: str, url: str) -> None:
        self.plane, self.folder, self.store, self.name = plane, folder, store, name
        self.keyring = keyrings.AesKeyring(keyrings.parse_keys(KEY))
        self.cluster = Cluster(name="main", namespace=f"{name}-{{project}}", server_url=url)
        add_records(store, *make_scopes())
        self.opened: list[KubernetesExecutor] = []
        self.executor: KubernetesExecutor = self.open()

    def plan(self, run_id: str, program: str, **options: Any) -> LaunchSpec:
        """The launch spec of a stored run."""
        launch = make_launch_spec(run_id, program, cluster=self.cluster, **options)
        with self.store.recording() as tx:
            if tx.get(RunRecord, id=run_id) is None:
                state = {"state": "running", "active": True, "server_id": "s1", "scope": "project/forest"}
                tx.add(make(RunRecord, run_id, **state))
        return replace(launch, run_token=seal_run_token(self.keyring, run_id))

    def start(self, run_id: str, program: str, **options: Any) -> LaunchSpec:
        """Start a run of a program."""
        launch = self.plan(run_id, program, **options)
        self.executor.start(launch)
        return launch

    def until(self, run_id: str, *phases: Phase) -> Observation:
        """Wait until a run is in one of the given phases."""
        return wait_for_phase(self.executor, run_id, *phases)

    def another_executor(self) -> KubernetesExecutor:
        """A new executor on the same cluster, as after a server crash."""
        return self.open()

    def open(self, **config: Any) -> KubernetesExecutor:
        """Create an executor, and wait until it is ready."""
        connection = Connection(self.plane.url, ca=Path(self.plane.authority).read_text(), token=self.plane.token)
        config = {"objects": timedelta(hours=1), **config}
        folder = self.folder / str(len(self.opened))
        executor_config = ExecutorConfig(
            self.store, folder, lambda: datetime.now(UTC), lambda _run_id: (), platform=self.name, **config
        )
        executor = KubernetesExecutor(KubernetesClient(connection), self.cluster, executor_config, RunEvents())
        self.opened.append(executor)
        wait_until(lambda: executor.is_ready)
        return executor

    def close(self) -> None:
        """Delete all runs, and close the executors."""
        for run_id in self.executor.view.run_ids():
            self.executor.delete_run(run_id)
        with contextlib.suppress(AssertionError):
            view = self.executor.view
            wait_until(lambda: all(is_over(self.executor, run_id) for run_id in view.run_ids()), seconds=20)
        for executor in self.opened:
            executor.close()


@contextlib.contextmanager
def serving(store: DatabaseStore) -> Iterator[str]:
    """Run a server with a store on a local port, and yield its URL."""
    services, _ = build_services(store, keyrings.AesKeyring(keyrings.parse_keys(KEY)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = create_application(services, check_ready=lambda: None, make_id=make_id, url=url)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield url
        server.should_exit = True
        thread.join(10)
