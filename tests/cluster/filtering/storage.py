"""Random valid claims, volumes and storage classes in all possible states."""

import json
from random import Random
from typing import Any

from tests.cluster.filtering.affinities import (
    OLD_REGION,
    OLD_ZONE,
    RACK,
    RACKS,
    REGION,
    REGIONS,
    ZONE,
    ZONES,
    chance,
    make_node_term,
)

JSON = dict[str, Any]

CLAIMS = ("data", "models", "scratch")
PROVISIONER, NO_PROVISIONER = "csi.example.test", "kubernetes.io/no-provisioner"
WAIT_FOR_CONSUMER = {"volumeBindingMode": "WaitForFirstConsumer"}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED_NODE = "volume.kubernetes.io/selected-node"
DELETED_AT = "2026-01-01T00:00:00Z"
MODES = (
    ["ReadWriteOnce"],
    ["ReadWriteOnce"],
    ["ReadWriteMany"],
    ["ReadOnlyMany", "ReadWriteOnce"],
    ["ReadWriteOncePod"],
)
STATES = (
    *(
        "bound",
        "bound",
        "bound",
        "bound",
        "bound",
        "bound",
        "provisioned later",
        "provisioned later",
        "zoned",
        "bound later",
        "bound later",
    ),
    *(
        "immediate",
        "without class",
        "missing class",
        "prebound",
        "missing volume",
        "lost",
        "terminating",
        "node selected",
    ),
)
# The claim that a volume is reserved for. If two volumes are reserved for one claim, the scheduler may take either.
RESERVED_FOR = (None, None, None, None, "this claim", "previous claim", "other claim")
CLASS_OF = {
    "provisioned later": "quick",
    "zoned": "zoned",
    "bound later": "static",
    "immediate": "slow",
    "missing class": "missing",
    "prebound": "quick",
    "node selected": "quick",
}


class Storage:
    """The storage objects of a case. Grows with each mounted claim."""

    def __init__(self, random: Random, names: list[str]) -> None:
        self._random, self._names = random, names
        self._usual_state = random.choice(STATES)  # so that a pod's two claims often compete for volumes
        # Sizes are unique, because the scheduler chooses randomly between volumes of equal size.
        self._sizes = random.sample(range(1, 40), 39)
        self.claims: dict[tuple[str, str], JSON] = {}
        self.volumes: list[JSON] = []
        self.classes = [
            _make_class("quick", PROVISIONER, **WAIT_FOR_CONSUMER),
            _make_class("zoned", PROVISIONER, **WAIT_FOR_CONSUMER, allowedTopologies=self._make_topologies()),
            _make_class("static", NO_PROVISIONER, **WAIT_FOR_CONSUMER),
            _make_class("slow", PROVISIONER, volumeBindingMode="Immediate"),
        ]

    def mount(self, namespace: str, spec: JSON) -> None:
        """Add one or two claims to a pod; most of them exist, and some are mounted twice."""
        names = self._random.sample(CLAIMS, self._random.choice((1, 1, 2)))
        if chance(self._random, 0.03):
            names.append(names[0])
        for name in names:
            if (namespace, name) not in self.claims and chance(self._random, 0.96):
                self._add_claim(namespace, name)
        spec["volumes"] = [
            {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": name}}
            for number, name in enumerate(names)
        ]

    def add_spare_volumes(self) -> None:
        """Add unbound volumes."""
        for _ in range(self._random.choice((0, 1, 2, 3))):
            phase = self._random.choice(("Available", "Available", "Available", "Released", "Pending"))
            storage_class = self._random.choice(("static", "static", "static", "quick", ""))
            self._add_volume(storage_class, phase)

    def _add_claim(self, namespace: str, name: str) -> None:
        random = self._random
        state = self._usual_state if chance(random, 0.5) else random.choice(STATES)
        modes, size = random.choice(MODES), self._sizes.pop()
        meta: JSON = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        spec: JSON = {"accessModes": modes, "resources": {"requests": {"storage": f"{size}Gi"}}}
        status: JSON = {"phase": "Pending"}
        spec["storageClassName"] = CLASS_OF.get(state, "") if state != "bound" else random.choice(("", "quick", "slow"))
        if chance(random, 0.2):
            spec["volumeMode"] = "Block"
        if state in ("bound", "terminating", "missing volume", "lost"):
            meta["annotations"], status["phase"] = dict(BOUND), "Lost" if state == "lost" else "Bound"
            spec["volumeName"] = f"volume-of-{namespace}-{name}"
        if state in ("bound", "terminating"):
            self._add_volume(spec["storageClassName"], "Bound", spec["volumeName"], owner=meta)
        if state == "prebound":
            spec["volumeName"] = self._add_volume("quick", "Available")
        if state == "node selected":
            meta["annotations"] = {SELECTED_NODE: random.choice(self._names)}
        if state == "terminating":
            meta |= {
                "deletionTimestamp": DELETED_AT,
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["example.test/keep"],
            }
        if state == "bound later":
            self._add_candidates(meta, spec)
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": status}
        self.claims[namespace, name] = body

    def _add_candidates(self, meta: JSON, spec: JSON) -> None:
        """Add volumes for a claim: unreserved, or reserved for it, for a deleted namesake, or for another claim."""
        random = self._random
        if chance(random, 0.2):
            spec["selector"] = {"matchLabels": {"kind": "fast"}}
        for reserved_for in random.sample(RESERVED_FOR, random.choice((0, 1, 2, 2))):
            self._add_volume("static", "Available" if chance(random, 0.9) else "Released")
            volume = self.volumes[-1]
            if reserved_for is not None:
                reference = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"]}
                if reserved_for == "previous claim":
                    reference["uid"] = "of-previous-claim"
                elif reserved_for == "other claim":
                    reference["name"] = "other"
                elif chance(random, 0.5):
                    reference["uid"] = meta["uid"]
                volume["spec"]["claimRef"] = reference

    def _add_volume(self, storage_class: str, phase: str, name: str = "", owner: JSON | None = None) -> str:
        random, size = self._random, self._sizes.pop()
        name = name or f"volume-{len(self.volumes)}"
        meta: JSON = {"name": name, "labels": self._make_volume_labels()}
        source = {"driver": PROVISIONER, "volumeHandle": name}
        modes = random.choice((*MODES, ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]))
        spec: JSON = {"capacity": {"storage": f"{size}Gi"}, "accessModes": modes, "csi": source}
        spec |= {"persistentVolumeReclaimPolicy": "Retain", "storageClassName": storage_class}
        if chance(random, 0.2):
            spec["volumeMode"] = "Block"
        if chance(random, 0.5):
            terms = [make_node_term(random, [], fields=False) for _ in range(random.choice((1, 1, 2)))]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if owner is not None:
            reference = {"kind": "PersistentVolumeClaim", "namespace": owner["namespace"], "name": owner["name"]}
            spec["claimRef"] = reference | {"uid": owner["uid"]}
        elif chance(random, 0.05):
            meta |= {
                "deletionTimestamp": DELETED_AT,
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["example.test/keep"],
            }
        status = {"phase": phase}
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec, "status": status}
        self.volumes.append(body)
        return name

    def _make_volume_labels(self) -> dict[str, str]:
        """Zone and region labels with new and old keys and one or more values, and a label for selectors."""
        random = self._random
        labels = {"kind": random.choice(("fast", "slow"))} if chance(random, 0.6) else {}
        for key, values, probability in (
            *((ZONE, ZONES, 0.3), (OLD_ZONE, ZONES, 0.15)),
            *((REGION, REGIONS, 0.15), (OLD_REGION, REGIONS, 0.1)),
        ):
            if chance(random, probability):
                labels[key] = "__".join(random.sample(values, random.choice((1, 1, 2))))
        return labels

    def _make_topologies(self) -> list[JSON]:
        random = self._random
        known = {ZONE: ZONES, RACK: RACKS, REGION: REGIONS}
        terms = []
        for _ in range(random.choice((1, 1, 2))):
            keys = random.sample(list(known), random.choice((1, 1, 2)))
            topologies = [
                {"key": key, "values": sorted(random.sample(known[key], random.choice((1, 2))))} for key in sorted(keys)
            ]
            terms.append({"matchLabelExpressions": topologies})
        return terms if len({json.dumps(term) for term in terms}) == len(terms) else terms[:1]


def _make_class(name: str, provisioner: str, **fields: Any) -> JSON:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return body | {"provisioner": provisioner, "reclaimPolicy": "Delete"} | fields
