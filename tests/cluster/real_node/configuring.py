"""Configuration files for containerd, its network plugins and the kubelet on a real node."""

import json
from pathlib import Path
from typing import Any

from tests.cluster import images
from tests.cluster.real_node.networks import Network

SOCKET = "/run/containerd/containerd.sock"
HERE = "/node"  # the folder with these files inside the node
PLUGINS = "/usr/lib/cni"
# Root may lack CAP_SYS_RESOURCE, for example in a container. AppArmor profiles would apply to the whole machine.
CONTAINERD = """
version = 2
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs",
]
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true
disable_apparmor = true
stream_server_address = "{address}"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{here}/cni"
"""


def write_configuration(folder: Path, network: Network, port: int) -> None:
    """Write all configuration files into a folder that contains ca.crt, kubelet.crt and kubelet.key."""
    values = {
        "socket": SOCKET,
        "pause": images.PAUSE,
        "plugins": PLUGINS,
        "here": HERE,
        "address": network.node_address,
    }
    (folder / "containerd.toml").write_text(CONTAINERD.format(**values), "utf-8")
    (folder / "cni").mkdir()
    (folder / "cni" / "pods.conflist").write_text(json.dumps(_network(network)), "utf-8")
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(network, port)), "utf-8")


def _network(network: Network) -> dict[str, Any]:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": str(network.pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _kubelet(network: Network, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.host_address,
        "port": port,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "tlsCertFile": f"{HERE}/kubelet.crt",
        "tlsPrivateKeyFile": f"{HERE}/kubelet.key",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{HERE}/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "clusterDNS": [network.host_address],  # no DNS server there; without an address, each pod gets a warning
        "resolvConf": "",
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "5m",
        # Allow cgroup v1 and an almost full disk.
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"memory.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
    }
