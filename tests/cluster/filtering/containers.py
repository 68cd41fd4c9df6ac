"""Random valid containers with resources and ports, and container statuses as a kubelet reports them."""

from random import Random
from typing import Any

from tests.cluster.filtering.affinities import chance

JSON = dict[str, Any]

CPU = ("0", "50m", "100m", "100500u", "250m", "0.5", "1", "1.5", "2500m")
MEMORY = ("0", "64Mi", "100500m", "128Mi", "500M", "1e8", "512Mi", "134217728", "1Gi")
DISK = ("100Mi", "1Gi", "5G")
DEVICES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/fpga")
PAGES = "hugepages-2Mi"
PAGE_SIZES = ("2Mi", "64Mi", "128Mi")
PORTS, PROTOCOLS, ADDRESSES = (8080, 9090), ("TCP", "UDP"), ("0.0.0.0", "10.0.0.1", "10.0.0.2")


def make_containers(random: Random, *, omit_defaults: bool, small: bool = False) -> list[JSON]:
    """One or two containers, optionally without the API server's default values, or with small requests."""
    count = random.choice((1, 1, 1, 2))
    return [
        make_container(random, f"main-{number}", omit_defaults=omit_defaults, small=small) for number in range(count)
    ]


def make_init_containers(random: Random, *, omit_defaults: bool, small: bool = False) -> list[JSON]:
    """Init containers, some of them sidecars."""
    containers = []
    for number in range(random.choice((1, 1, 2, 3))):
        container = make_container(random, f"init-{number}", omit_defaults=omit_defaults, small=small)
        if chance(random, 0.5):
            container["restartPolicy"] = "Always"
        containers.append(container)
    return containers


def make_container(random: Random, name: str, *, omit_defaults: bool, small: bool) -> JSON:
    """A container with random resources."""
    container: JSON = {"name": name, "image": "example.test/image"}
    if chance(random, 0.9):
        container["resources"] = make_resources(random, omit_defaults=omit_defaults, small=small)
    return container


def make_resources(random: Random, *, omit_defaults: bool, small: bool) -> JSON:
    """Requests and limits."""
    requests: JSON = {}
    if chance(random, 0.7):
        requests["cpu"] = random.choice(CPU[:3] if small else CPU)
    if chance(random, 0.6):
        requests["memory"] = random.choice(MEMORY[:4] if small else MEMORY)
    if chance(random, 0.15):
        requests["ephemeral-storage"] = random.choice(DISK)
    limits = {device: random.choice(("1", "1", "2")) for device in DEVICES if chance(random, 0.07)}
    # With huge pages, the API server adds pod-level requests, so stored pods would also need them.
    if requests.keys() & {"cpu", "memory"} and (omit_defaults or not small) and chance(random, 0.08):
        limits[PAGES] = PAGE_SIZES[0] if small else random.choice(PAGE_SIZES)
    if omit_defaults and chance(random, 0.1):  # the API server uses the limit as the request
        return {"limits": requests | limits}
    if omit_defaults and chance(random, 0.05) and requests.get("cpu") == "1":
        requests["cpu"] = 1
    if not limits:
        return {"requests": requests} if requests else {}
    return {"requests": requests if omit_defaults and chance(random, 0.3) else requests | limits, "limits": limits}


def add_ports(random: Random, spec: JSON, *, omit_defaults: bool) -> None:
    """Add host ports to a pod, or put it into the host network, in which all ports are host ports."""
    has_own_network = not chance(random, 0.15)
    if not has_own_network:
        spec["hostNetwork"] = True
    used_ports = set()
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    for container in random.sample(containers, min(len(containers), 2)):
        key = number, protocol, address = random.choice(PORTS), random.choice(PROTOCOLS), random.choice(ADDRESSES)
        if key in used_ports:
            continue
        used_ports.add(key)
        port: JSON = {"containerPort": number, "hostPort": number, "protocol": protocol}
        if address != ADDRESSES[0] or chance(random, 0.3):
            port["hostIP"] = address
        if omit_defaults and protocol == PROTOCOLS[0] and chance(random, 0.3):
            del port["protocol"]
        if omit_defaults and not has_own_network and chance(random, 0.5):
            del port["hostPort"]
        container["ports"] = [port]


def make_statuses(random: Random, containers: list[JSON]) -> list[JSON]:
    """Container statuses as a kubelet reports them, some with a resize in progress."""
    statuses = []
    for container in containers:
        status: JSON = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True}
        status |= {"restartCount": 0}
        requests = container.get("resources", {}).get("requests", {})
        resizable = {key: value for key, value in requests.items() if key in ("cpu", "memory")}
        if chance(random, 0.8):
            status["resources"] = {"requests": requests | _resize(random, resizable)}
        if chance(random, 0.8):
            status["allocatedResources"] = requests | _resize(random, resizable)
        statuses.append(status)
    return statuses


def _resize(random: Random, resizable: JSON) -> JSON:
    return {key: random.choice(CPU if key == "cpu" else MEMORY) for key in resizable if chance(random, 0.5)}
