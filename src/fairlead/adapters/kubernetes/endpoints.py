"""How the server speaks to what a run serves on a cluster: directly from within it, else through the API server."""

from fairlead.adapters.kubernetes.clients import ApiClient
from fairlead.adapters.kubernetes.views import RunView
from fairlead.errors import NotFound, Unavailable
from fairlead.model.observations import Endpoint
from fairlead.model.scopes import Cluster


def find_endpoint(api: ApiClient, cluster: Cluster, run_id: str, view: RunView | None) -> Endpoint:
    """The Service of a run. Raise `Unavailable` where none of its pods is ready, `NotFound` where it has none."""
    main = None if view is None else view.main
    if view is None or main is None or main.deleting or main.port is None:
        raise NotFound(f"run {run_id} serves nothing, or is not there any more")
    if not any(pod.is_ready for pod in view.pods.values()):
        raise Unavailable(f"run {run_id} does not answer yet")
    if cluster.connection == "in_cluster":
        return Endpoint(f"http://{main.name}.{main.namespace}.svc:{main.port}")
    # Its scheme is said, or the API server would take what is before the first colon for one.
    return api.proxy_endpoint(f"/api/v1/namespaces/{main.namespace}/services/http:{main.name}:{main.port}/proxy")
