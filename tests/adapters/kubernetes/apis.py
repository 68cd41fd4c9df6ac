"""A scripted API server that records requests."""

import threading
from typing import Any, cast

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient
from fairlead.model.observations import JSON

SourcedValue = JSON | Exception


class ScriptedApi:
    """Returns scripted responses, and 404 for everything else."""

    def __init__(self, said: dict[str, Any] | None = None) -> None:
        self.said: dict[str, Any] = {"/version": {"gitVersion": "v1.35.8"}, "/apis": make_groups(), **(said or {})}
        self.denied: set[str] = set()  # `verb resource namespace`, of what is not allowed
        self.created: list[tuple[str, JSON]] = []
        self.deleted: list[str] = []
        self.reviews: list[JSON] = []
        self._lock = threading.Lock()

    @property
    def api(self) -> KubernetesClient:
        """As the code under test knows it."""
        return cast(KubernetesClient, self)

    def get(self, path: str, **_params: Any) -> JSON:
        """An object; of several answers, the next one, and the last one for ever."""
        answer = self.said.get(path)
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if answer is None:
            answer = ApiError(404, "NotFound", f"{path} not found")
        if isinstance(answer, Exception):
            raise answer
        return cast(JSON, answer)

    def list(self, path: str, **_params: Any) -> JSON:
        """A scripted list, by default empty."""
        answer = self.said.get(f"list {path}", [])
        if isinstance(answer, Exception):
            raise answer
        return {"items": answer, "metadata": {}}

    def create(self, path: str, body: JSON, **_params: Any) -> JSON:
        """A new object, or whether something is allowed."""
        if body["kind"] == "SelfSubjectAccessReview":
            return self._review(body["spec"]["resourceAttributes"])
        if isinstance(answer := self.said.get(f"create {path}"), Exception):
            raise answer
        self.created.append((path, body))
        self.said.setdefault(f"{path}/{body['metadata']['name']}", {"metadata": {}, "status": {"phase": "Pending"}})
        return {**body, "metadata": {**body["metadata"], "uid": "u1"}}

    def delete(self, path: str, *, uid: str | None = None, propagation: str = "Background") -> None:
        """An object that is there no more."""
        del uid, propagation
        if isinstance(answer := self.said.get("delete"), Exception):
            raise answer
        self.deleted.append(path)

    def _review(self, asked: JSON) -> JSON:
        with self._lock:
            self.reviews.append(asked)
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        words = [" ".join(filter(None, (asked["verb"], resource, place))) for place in (asked["namespace"], "*")]
        return {"status": {"allowed": not self.denied & set(words)}}


class OnePod(ScriptedApi):
    """A namespace whose pods go through the given statuses, and keep the last one."""

    def __init__(self, namespace: str, *seen: Any, **said: Any) -> None:
        super().__init__({f"/api/v1/namespaces/{namespace}": {"metadata": {}}, **said})
        self.pods, self.seen = f"/api/v1/namespaces/{namespace}/pods", list(seen)

    def get(self, path: str, **params: Any) -> JSON:
        if not path.startswith(f"{self.pods}/"):
            return super().get(path, **params)
        answer: Any = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)


def make_pod(phase: str, **state: Any) -> JSON:
    """A pod with one container in a state."""
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": [{"state": state}]}}


def make_groups(*more: str) -> JSON:
    """The API groups of a cluster, including the given ones."""
    names = ("batch", "apps", "metrics.k8s.io", *more)
    return {"groups": [{"name": name, "preferredVersion": {"version": "v1"}} for name in names]}


def make_named(name: str, **annotations: str) -> JSON:
    """An object that has little more than a name."""
    return {"metadata": {"name": name, "annotations": annotations}}


def make_node(name: str, labels: Any = None, annotations: Any = None, **devices: Any) -> JSON:
    """A node with devices: of `nvidia_gpu="8"` eight nvidia.com/gpu."""
    said = {f"{key.partition('_')[0]}.com/{key.partition('_')[2]}": amount for key, amount in devices.items()}
    meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": meta, "status": {"allocatable": {"cpu": "8", "memory": "32Gi", **said}}}
