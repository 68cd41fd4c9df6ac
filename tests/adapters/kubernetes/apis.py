"""A scripted API server that records requests."""

import threading
from typing import Any, cast

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient
from fairlead.model.runs import JSON

SourcedValue = JSON | Exception


class ScriptedApi:
    """Returns scripted responses, and 404 for everything else."""

    def __init__(self, responses: dict[str, Any] | None = None) -> None:
        self.responses: dict[str, Any] = {
            "/version": {"gitVersion": "v1.35.8"},
            "/apis": make_groups(),
            **(responses or {}),
        }
        self.denied: set[str] = set()  # each denied permission, as `verb resource namespace`
        self.created: list[tuple[str, JSON]] = []
        self.deleted: list[str] = []
        self.reviews: list[JSON] = []
        self._lock = threading.Lock()

    @property
    def api(self) -> KubernetesClient:
        """This object, typed as the client of the code under test."""
        return cast(KubernetesClient, self)

    def get(self, path: str, **_params: Any) -> JSON:
        """A scripted object. If several responses are scripted, each is returned once, and then the last one again."""
        response = self.responses.get(path)
        if isinstance(response, list):
            response = response.pop(0) if len(response) > 1 else response[0]
        if response is None:
            response = ApiError(404, "NotFound", f"{path} not found")
        if isinstance(response, Exception):
            raise response
        return cast(JSON, response)

    def list(self, path: str, **_params: Any) -> JSON:
        """A scripted list, empty by default."""
        response = self.responses.get(f"list {path}", [])
        if isinstance(response, Exception):
            raise response
        return {"items": response, "metadata": {}}

    def create(self, path: str, body: JSON, **_params: Any) -> JSON:
        """Create an object, or answer an access review."""
        if body["kind"] == "SelfSubjectAccessReview":
            return self._review(body["spec"]["resourceAttributes"])
        if isinstance(response := self.responses.get(f"create {path}"), Exception):
            raise response
        self.created.append((path, body))
        self.responses.setdefault(
            f"{path}/{body['metadata']['name']}", {"metadata": {}, "status": {"phase": "Pending"}}
        )
        return {**body, "metadata": {**body["metadata"], "uid": "u1"}}

    def delete(self, path: str, *, uid: str | None = None, propagation: str = "Background") -> None:
        """Record the deletion of an object."""
        del uid, propagation
        if isinstance(response := self.responses.get("delete"), Exception):
            raise response
        self.deleted.append(path)

    def _review(self, attributes: JSON) -> JSON:
        with self._lock:
            self.reviews.append(attributes)
        resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        keys = [
            " ".join(filter(None, (attributes["verb"], resource, namespace)))
            for namespace in (attributes["namespace"], "*")
        ]
        return {"status": {"allowed": not self.denied & set(keys)}}


class OnePod(ScriptedApi):
    """A namespace whose pods go through the given states, and stay in the last one."""

    def __init__(self, namespace: str, *states: Any, **responses: Any) -> None:
        super().__init__({f"/api/v1/namespaces/{namespace}": {"metadata": {}}, **responses})
        self.pods, self.states = f"/api/v1/namespaces/{namespace}/pods", list(states)

    def get(self, path: str, **params: Any) -> JSON:
        if not path.startswith(f"{self.pods}/"):
            return super().get(path, **params)
        state: Any = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, BaseException):
            raise state
        return dict(state)


def make_pod(phase: str, **state: Any) -> JSON:
    """A pod with one container in a state."""
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": [{"state": state}]}}


def make_groups(*extra: str) -> JSON:
    """The API groups of a cluster, including the given ones."""
    names = ("batch", "apps", "metrics.k8s.io", *extra)
    return {"groups": [{"name": name, "preferredVersion": {"version": "v1"}} for name in names]}


def make_named(name: str, **annotations: str) -> JSON:
    """An object with only a name and annotations."""
    return {"metadata": {"name": name, "annotations": annotations}}


def make_node(name: str, labels: Any = None, annotations: Any = None, **devices: Any) -> JSON:
    """A node with devices: `nvidia_gpu="8"` means eight nvidia.com/gpu."""
    amounts = {f"{key.partition('_')[0]}.com/{key.partition('_')[2]}": amount for key, amount in devices.items()}
    meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": meta, "status": {"allocatable": {"cpu": "8", "memory": "32Gi", **amounts}}}
