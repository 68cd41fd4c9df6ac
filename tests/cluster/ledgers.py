"""Invariants after recovery from any fault: nothing is lost, nothing runs twice, no objects remain."""

import os
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fairlead.core.manifests.names import RUN_LABEL
from fairlead.sdk.runs import Run
from tests.cluster.clients import Object
from tests.cluster.kubelets import FakeKubelet
from tests.cluster.platforms import Platform, wait_for
from tests.cluster.trials import KINDS, OF_THE_CLUSTER
from tests.processes.machines import RunningServer

SETTLE_SECONDS = 180.0  # a start that was refused again and again is tried again after a minute
MORE_THREADS, MORE_FILES, MORE_MEMORY = 4, 20, 30 << 20
ONCE = (1,)
AT_MOST_ONCE = (0, 1)


@dataclass(frozen=True)
class Entry:
    """A run that was acknowledged: how it may end, as `state` or `state Reason`; of how many pods and Jobs."""

    ends: tuple[str, ...]
    pods: Collection[int]
    jobs: Collection[int]


@dataclass(frozen=True)
class Vitals:
    """The resource usage of a server process."""

    threads: int
    files: int
    memory: int

    @classmethod
    def of(cls, server: RunningServer) -> "Vitals":
        """As it is now."""
        process = Path(f"/proc/{server.process.pid}")
        status = process.joinpath("status").read_text("utf-8")
        values = {name: int(value) for name, value in re.findall(r"^(Threads|VmRSS):\s+(\d+)", status, re.MULTILINE)}
        return cls(values["Threads"], len(os.listdir(process / "fd")), values["VmRSS"] << 10)

    def is_within(self, before: "Vitals") -> bool:
        """Whether it takes no more than it did before, or little."""
        return (
            self.threads <= before.threads + MORE_THREADS
            and self.files <= before.files + MORE_FILES
            and self.memory <= before.memory + MORE_MEMORY
        )


class Ledger:
    """The runs of a platform, as they were acknowledged."""

    def __init__(self, platform: Platform, kubelet: FakeKubelet) -> None:
        self.platform, self.kubelet = platform, kubelet
        self.entries: dict[str, Entry] = {}

    def note(self, run: Run, *ends: str, pods: Collection[int] = ONCE, jobs: Collection[int] = AT_MOST_ONCE) -> Run:
        """Expect a run to end in one of these ways."""
        self.entries[run.id] = Entry(ends, pods, jobs)
        return run

    def check(self, before: Vitals | None = None) -> None:
        """Each run is there and ended as it should, was executed once, and left nothing; nor did the server grow."""
        runs_by_id = wait_for(
            self._list_runs, lambda runs: not any(run["active"] for run in runs.values()), SETTLE_SECONDS
        )
        wrong = self._find_wrong(runs_by_id)
        assert not wrong, wrong
        assert self._find_repeated(runs_by_id) == []
        if before is not None:
            wait_for(lambda: Vitals.of(self.platform.server), lambda now: now.is_within(before))
        wait_for(self.list_left, lambda left: not left)

    def list_left(self) -> list[str]:
        """The objects in the namespaces of the platform that belong to no run that lives."""
        live = {run_id for run_id, run in self._list_runs().items() if run["active"]}
        return [
            f"{kind} {each['metadata']['name']}"
            for kind, path in KINDS.items()
            for each in self.platform.admin.items(path.replace("{}/", ""))
            if self._is_ours(each["metadata"]) and each["metadata"].get("labels", {}).get(RUN_LABEL) not in live
        ]

    def _list_runs(self) -> dict[str, Object]:
        """All runs that the server knows, those that it did not get to acknowledge, too."""
        runs: dict[str, Object] = {}
        cursor = ""
        while True:
            page = self.platform.api("GET", f"/runs?limit=100{cursor}")
            runs |= {run["id"]: run for run in page["items"]}
            if not page["next_cursor"]:
                return runs
            cursor = f"&cursor={page['next_cursor']}"

    def _find_wrong(self, runs: dict[str, Object]) -> list[str]:
        """The runs that are gone, or did not end as they should."""
        wrong = [f"{run_id} is gone" for run_id in self.entries.keys() - runs.keys()]
        for run_id in self.entries.keys() & runs.keys():
            run, ends = runs[run_id], self.entries[run_id].ends
            if not {run["state"], f"{run['state']} {run['reason']}"} & set(ends):
                wrong.append(f"{run_id} of {run['function']}: {run['state']} {run['reason']}, {run['message']}")
        return wrong

    def _find_repeated(self, runs: dict[str, Object]) -> list[str]:
        """The runs with more or fewer pods or Jobs than they should have had."""
        made, wrong = self._count_made(), list[str]()
        for run_id, run in runs.items():
            entry = self.entries.get(run_id, Entry((), AT_MOST_ONCE, AT_MOST_ONCE))
            pods, jobs = len(self.kubelet.executed.get(run_id, ())), made[run_id]
            if pods not in entry.pods or jobs not in entry.jobs:
                wrong.append(f"{run_id} of {run['function']} had {pods} pods and {jobs} Jobs")
        return wrong

    def _count_made(self) -> Counter[str]:
        """How many Jobs and Deployments were ever made of each run, as the cluster has kept it."""
        made = (
            request["objectRef"]
            for request in self.platform.plane.requests()
            if request["verb"] == "create" and request["responseStatus"]["code"] == 201 and "objectRef" in request
        )
        return Counter(
            what["name"].rpartition("-")[2]
            for what in made
            if what["resource"] in ("jobs", "deployments") and self._is_ours(what)
        )

    def _is_ours(self, meta: Object) -> bool:
        return meta.get("namespace", "").startswith(f"{self.platform.name}-") and meta.get("name") not in OF_THE_CLUSTER
