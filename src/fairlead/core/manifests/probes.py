"""The test pod for `fairlead clusters check`, with the same permissions as a run's pods."""

from fairlead.model.names import PREFIX
from fairlead.model.plans import Manifest
from fairlead.model.scopes import Cluster
from fairlead.resolution.enforced import DEFAULT_ID

PROBE_LABEL = f"{PREFIX}/probe"
TERMINATION = "/dev/termination-log"
REACHED = "reached"
CALL_SECONDS = 10
MAX_MESSAGE_LENGTH = 500  # the kubelet reads at most 4096 bytes
# Writes a termination message that says whether the server responded, or contains the error.
SCRIPT = f"""\
import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout={CALL_SECONDS}) as response:
        message = {REACHED!r} if response.status == 200 else f"HTTP status {{response.status}}"
except Exception as error:
    message = f"{{type(error).__name__}}: {{error}}"
with open({TERMINATION!r}, "w") as file:
    file.write(message[:{MAX_MESSAGE_LENGTH}])
"""


def render_probe(cluster: Cluster, namespace: str, name: str, seconds: int) -> Manifest:
    """A pod that sends one request to the server and exits."""
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
            # This ends the pod even if the server that created it does not remove it.
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
                        # A namespace with a ResourceQuota rejects pods without requests and limits.
                        "requests": {"cpu": "50m", "memory": "64Mi"},
                        "limits": {"cpu": "500m", "memory": "128Mi"},
                    },
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
