"""The pod with which a cluster is tried out: what it may do is what pods of runs may do."""

from fairlead.core.enforced_settings import DEFAULT_ID
from fairlead.core.manifests.names import PREFIX
from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster

PROBE_LABEL = f"{PREFIX}/probe"
TERMINATION = "/dev/termination-log"
REACHED = "reached"
CALL_SECONDS = 10
LONGEST_TOLD = 500
# Says in the pod's own message whether the server answered, or what went wrong.
SCRIPT = f"""\
import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout={CALL_SECONDS}) as answer:
        told = {REACHED!r} if answer.status == 200 else f"it answered {{answer.status}}"
except Exception as error:
    told = f"{{type(error).__name__}}: {{error}}"
with open({TERMINATION!r}, "w") as file:
    file.write(told[:{LONGEST_TOLD}])
"""


def render_probe(cluster: Cluster, namespace: str, name: str, seconds: int) -> Manifest:
    """A pod that calls the server of the cluster, and ends by itself."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "fairlead", PROBE_LABEL: "true"},
        },
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": seconds,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": DEFAULT_ID,
                "runAsGroup": DEFAULT_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "probe",
                    "image": cluster.python_image,
                    "command": ["python3", "-c", SCRIPT, f"{cluster.server_url}/healthz"],
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "64Mi"},
                        "limits": {"cpu": "500m", "memory": "128Mi"},
                    },
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
