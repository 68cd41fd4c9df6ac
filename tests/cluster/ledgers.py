"""Invariants after recovery from any fault: nothing is lost, nothing runs twice, and no objects remain."""

import os
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fairlead.model.names import RUN_LABEL
from fairlead.sdk.runs import Run
from tests.cluster.clients import Object
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform, wait_for
from tests.cluster.trials import CLUSTER_OBJECTS, KINDS
from tests.processes.machines import RunningServer

SETTLE_SECONDS = 180.0  # a start that fails repeatedly is retried after a minute
MAX_MORE_THREADS, MAX_MORE_FILES, MAX_MORE_MEMORY = 4, 20, 30 << 20
ONCE = (1,)
AT_MOST_ONCE = (0, 1)


@dataclass(frozen=True)
class Entry:
    """An acknowledged run: its allowed outcomes as `state` or `state Reason`, and allowed numbers of pods and Jobs."""

    outcomes: tuple[str, ...]
    pods: Collection[int]
    jobs: Collection[int]


@dataclass(frozen=True)
class ResourceUsage:
    """The resource usage of a server process."""

    threads: int
    files: int
    memory: int

    @classmethod
    def of(cls, server: RunningServer) -> "ResourceUsage":
        """Measure a server."""
        process = Path(f"/proc/{server.process.pid}")
        status = process.joinpath("status").read_text("utf-8")
        values = {name: int(value) for name, value in re.findall(r"^(Threads|VmRSS):\s+(\d+)", status, re.MULTILINE)}
        return cls(values["Threads"], len(os.listdir(process / "fd")), values["VmRSS"] << 10)

    def is_within(self, before: "ResourceUsage") -> bool:
        """Whether the usage has grown only a little, if at all."""
        return (
            self.threads <= before.threads + MAX_MORE_THREADS
            and self.files <= before.files + MAX_MORE_FILES
            and self.memory <= before.memory + MAX_MORE_MEMORY
        )


class Ledger:
    """The acknowledged runs of a platform with their expected outcomes."""

    def __init__(self, platform: Platform, kubelet: FakeKubelet) -> None:
        self.platform, self.kubelet = platform, kubelet
        self.entries: dict[str, Entry] = {}

    def expect(
        self, run: Run, *outcomes: str, pods: Collection[int] = ONCE, jobs: Collection[int] = AT_MOST_ONCE
    ) -> Run:
        """Expect a run to end with one of these outcomes."""
        self.entries[run.id] = Entry(outcomes, pods, jobs)
        return run

    def check(self, before: ResourceUsage | None = None) -> None:
        """Check that each run exists, has an expected outcome, executed once, and left no objects or resource usage."""
        runs_by_id = wait_for(
            self._list_runs, lambda runs: not any(run["active"] for run in runs.values()), SETTLE_SECONDS
        )
        failures = self._find_failures(runs_by_id)
        assert not failures, failures
        assert self._find_repeated(runs_by_id) == []
        if before is not None:
            wait_for(lambda: ResourceUsage.of(self.platform.server), lambda now: now.is_within(before))
        wait_for(self.list_remaining, lambda remaining: not remaining)

    def list_remaining(self) -> list[str]:
        """The objects in the platform's namespaces that belong to no active run."""
        active = {run_id for run_id, run in self._list_runs().items() if run["active"]}
        return [
            f"{kind} {item['metadata']['name']}"
            for kind, path in KINDS.items()
            for item in self.platform.admin.items(path.replace("{}/", ""))
            if self._is_ours(item["metadata"]) and item["metadata"].get("labels", {}).get(RUN_LABEL) not in active
        ]

    def _list_runs(self) -> dict[str, Object]:
        """All runs of the server, including runs that were not acknowledged."""
        runs: dict[str, Object] = {}
        cursor = ""
        while True:
            page = self.platform.api("GET", f"/runs?limit=100{cursor}")
            runs |= {run["id"]: run for run in page["items"]}
            if not page["next_cursor"]:
                return runs
            cursor = f"&cursor={page['next_cursor']}"

    def _find_failures(self, runs: dict[str, Object]) -> list[str]:
        """The runs that are missing, or have an unexpected outcome."""
        failures = [f"{run_id} is missing" for run_id in self.entries.keys() - runs.keys()]
        for run_id in self.entries.keys() & runs.keys():
            run, outcomes = runs[run_id], self.entries[run_id].outcomes
            if not {run["state"], f"{run['state']} {run['reason']}"} & set(outcomes):
                failures.append(f"{run_id} of {run['function']}: {run['state']} {run['reason']}, {run['message']}")
        return failures

    def _find_repeated(self, runs: dict[str, Object]) -> list[str]:
        """The runs with an unexpected number of pods or Jobs."""
        created, failures = self._count_created(), list[str]()
        for run_id, run in runs.items():
            entry = self.entries.get(run_id, Entry((), AT_MOST_ONCE, AT_MOST_ONCE))
            pods, jobs = len(self.kubelet.executed.get(run_id, ())), created[run_id]
            if pods not in entry.pods or jobs not in entry.jobs:
                failures.append(f"{run_id} of {run['function']} had {pods} pods and {jobs} Jobs")
        return failures

    def _count_created(self) -> Counter[str]:
        """The number of Jobs and Deployments that were ever created per run, from the audit log."""
        references = (
            request["objectRef"]
            for request in self.platform.plane.requests()
            if request["verb"] == "create" and request["responseStatus"]["code"] == 201 and "objectRef" in request
        )
        return Counter(
            reference["name"].rpartition("-")[2]
            for reference in references
            if reference["resource"] in ("jobs", "deployments") and self._is_ours(reference)
        )

    def _is_ours(self, meta: Object) -> bool:
        return (
            meta.get("namespace", "").startswith(f"{self.platform.name}-") and meta.get("name") not in CLUSTER_OBJECTS
        )
