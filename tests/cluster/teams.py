"""Projects with Kueue queues, and a kubeconfig for a server with minimal permissions."""

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from fairlead.manifests.kubernetes_rbac import ACCOUNT, SYSTEM, render_access
from fairlead.model.scopes import Cluster
from tests.cluster.clients import Client, Object
from tests.cluster.control_planes import ControlPlane
from tests.cluster.kueues import Kueue
from tests.cluster.platforms import CLUSTER, Platform, wait_for

QUEUE = "default"
GPUS = 8
CHANGING_VERBS = ("create", "patch", "update")


class Team:
    """A project with a LocalQueue. Creates its own ClusterQueue, unless `pool` names a shared one."""

    def __init__(self, platform: Platform, kueue: Kueue, pool: str = "", cluster: str = CLUSTER, **spec: Any) -> None:
        self.platform, self.kueue = platform, kueue
        self.name = f"t{uuid.uuid4().hex[:6]}"
        self.pool = pool or self.name
        self.namespace = f"{platform.name}-{self.name}"
        platform.api("POST", "/projects", {"name": self.name, "parent": f"cluster/{cluster}"})
        labels = {"fairlead.dev/project": self.name}
        meta = {"name": self.namespace, "labels": labels}
        platform.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        if not pool:
            kueue.add_cluster_queue(self.pool, GPUS, **spec)

    def add_local_queue(self) -> "Team":
        """Create the LocalQueue."""
        self.kueue.add_local_queue(self.namespace, QUEUE, cluster_queue=self.pool)
        return self

    def submit(self, gpus: int = 4, name: str = "train", **options: Any) -> str:
        """Submit a run that runs until it is stopped."""
        function = {"name": name, "kind": "container", "image": "example.test/sleep"}
        request = {"function": function, "resources": {"gpu": gpus}, **options}
        return str(self.platform.api("POST", f"/projects/{self.name}/runs", request)["id"])

    def why(self, run: str) -> dict[str, Any]:
        """The explanation of a run's state."""
        explanation: dict[str, Any] = self.platform.api("GET", f"/runs/{run}/why")
        return explanation

    def until_details(self, run: str, *texts: str) -> list[str]:
        """Wait until a run's details contain all of the given texts, and return the details."""
        return wait_for(  # type: ignore[no-any-return]
            lambda: self.why(run)["details"],
            lambda details: all(any(text in line for line in details) for text in texts),
        )

    def stop(self, *runs: str) -> None:
        """Stop runs, and wait until they are stopped."""
        for run in runs:
            self.platform.api("POST", f"/runs/{run}/stop")
        for run in runs:
            self.platform.until(run, "stopped")

    def job_name(self, run: str) -> str:
        """The name of a run's Job, which messages use for the run."""
        return str(self.platform.job_of(run)["metadata"]["name"])

    def history(self, run: str) -> list[str]:
        """The states and reasons of a run in order, without those that depend on timing."""
        states = [(event["state"], event["reason"]) for event in self.platform.api("GET", f"/runs/{run}/events")]
        return [f"{state} {reason}" for state, reason in states if reason not in ("Starting", "Claimed")]

    def count_writes(self) -> Counter[str]:
        """The number of successful writes to this project's Jobs, by verb."""
        account = f"system:serviceaccount:{SYSTEM}:{ACCOUNT}"
        successful = [event for event in self.platform.plane.requests(account) if event["responseStatus"]["code"] < 300]
        references = [(event["verb"], event.get("objectRef", {})) for event in successful]
        return Counter(
            verb
            for verb, reference in references
            if verb in CHANGING_VERBS
            and (reference.get("resource"), reference.get("namespace")) == ("jobs", self.namespace)
        )


def make_kubeconfig(plane: ControlPlane, admin: Client, file: Path, *, without: str = "") -> Path:
    """Apply the output of `fairlead clusters rbac` to a service account, without the rules for one API group."""
    cluster = Cluster(name=CLUSTER, queueing="kueue")
    namespace, _, *roles = render_access(cluster, [])
    if admin.find(f"/api/v1/namespaces/{SYSTEM}") is None:
        admin.create(namespace)
    if without:
        rules = [rule for rule in roles[0]["rules"] if without not in rule["apiGroups"]]
        name = f"{ACCOUNT}-without"
        roles = [{**roles[0], "rules": rules}, *roles[1:]]
        roles = [rename_role(role, name) for role in roles]
    return plane.write_kubeconfig(file, plane.make_account(SYSTEM, name if without else ACCOUNT, roles))


def rename_role(role: Object, account: str) -> Object:
    """A role or role binding for another service account."""
    renamed = {**role, "metadata": {**role["metadata"], "name": f"{role['metadata']['name']}-{account}"}}
    if "roleRef" in role:
        renamed["roleRef"] = {**role["roleRef"], "name": f"{role['roleRef']['name']}-{account}"}
        renamed["subjects"] = [{**role["subjects"][0], "name": account}]
    return renamed
