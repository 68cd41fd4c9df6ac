"""Endpoints of served runs: the Service inside the cluster, or the API server's proxy."""

from fairlead.adapters.kubernetes.clients import KubernetesClient
from fairlead.adapters.kubernetes.views import RunView
from fairlead.errors import NotFound, Unavailable
from fairlead.model.runs import Endpoint
from fairlead.model.scopes import Cluster


def find_endpoint(api: KubernetesClient, cluster: Cluster, run_id: str, view: RunView | None) -> Endpoint:
    """The endpoint of a run. Raises `NotFound` if the run is not served, `Unavailable` if no pod is ready."""
    main = None if view is None else view.main
    if view is None or main is None or main.deleting or main.port is None:
        raise NotFound(f"run {run_id} does not serve requests or no longer exists")
    if not any(pod.is_ready for pod in view.pods.values()):
        raise Unavailable(f"run {run_id} is not ready yet")
    if cluster.connection == "in_cluster":
        return Endpoint(f"http://{main.name}.{main.namespace}.svc:{main.port}")
    # Without "http:", the API server would interpret the name before the first colon as the scheme.
    return api.proxy_endpoint(f"/api/v1/namespaces/{main.namespace}/services/http:{main.name}:{main.port}/proxy")
