"""Claims, volumes and storage classes, in every state that they can be in: random, and valid."""

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
LATER = {"volumeBindingMode": "WaitForFirstConsumer"}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
CHOSEN_NODE = "volume.kubernetes.io/selected-node"
GONE = "2026-01-01T00:00:00Z"
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
        "made later",
        "made later",
        "zoned later",
        "given later",
        "given later",
    ),
    *("at once", "without class", "class is gone", "prebound", "volume is gone", "lost", "leaving", "chosen"),
)
# The claim that a volume is reserved for. Of two volumes reserved for one claim, the scheduler takes either.
KEPT_FOR = (None, None, None, None, "it", "one before", "another")
CLASS_OF = {
    "made later": "quick",
    "zoned later": "zoned",
    "given later": "given",
    "at once": "slow",
    "class is gone": "gone",
    "prebound": "quick",
    "chosen": "quick",
}


class Storage:
    """The storage of a case, which grows with the claims that are made."""

    def __init__(self, random: Random, names: list[str]) -> None:
        self._random, self._names = random, names
        self._usual = random.choice(STATES)  # so that a pod often mounts two that compete
        # No two are of the same size: of such, the scheduler takes any, and says now this and now that.
        self._sizes = random.sample(range(1, 40), 39)
        self.claims: dict[tuple[str, str], JSON] = {}
        self.volumes: list[JSON] = []
        self.classes = [
            _make_class("quick", PROVISIONER, **LATER),
            _make_class("zoned", PROVISIONER, **LATER, allowedTopologies=self._make_topologies()),
            _make_class("given", NO_PROVISIONER, **LATER),
            _make_class("slow", PROVISIONER, volumeBindingMode="Immediate"),
        ]

    def mount(self, namespace: str, spec: JSON) -> None:
        """Add one or two claims to a pod; most exist, and some are mounted twice."""
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
        """Unbound volumes."""
        for _ in range(self._random.choice((0, 1, 2, 3))):
            phase = self._random.choice(("Available", "Available", "Available", "Released", "Pending"))
            storage_class = self._random.choice(("given", "given", "given", "quick", ""))
            self._add_volume(storage_class, phase)

    def _add_claim(self, namespace: str, name: str) -> None:
        random = self._random
        state = self._usual if chance(random, 0.5) else random.choice(STATES)
        modes, size = random.choice(MODES), self._sizes.pop()
        meta: JSON = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        spec: JSON = {"accessModes": modes, "resources": {"requests": {"storage": f"{size}Gi"}}}
        status: JSON = {"phase": "Pending"}
        spec["storageClassName"] = CLASS_OF.get(state, "") if state != "bound" else random.choice(("", "quick", "slow"))
        if chance(random, 0.2):
            spec["volumeMode"] = "Block"
        if state in ("bound", "leaving", "volume is gone", "lost"):
            meta["annotations"], status["phase"] = dict(BOUND), "Lost" if state == "lost" else "Bound"
            spec["volumeName"] = f"volume-of-{namespace}-{name}"
        if state in ("bound", "leaving"):
            self._add_volume(spec["storageClassName"], "Bound", spec["volumeName"], owner=meta)
        if state == "prebound":
            spec["volumeName"] = self._add_volume("quick", "Available")
        if state == "chosen":
            meta["annotations"] = {CHOSEN_NODE: random.choice(self._names)}
        if state == "leaving":
            meta |= {"deletionTimestamp": GONE, "deletionGracePeriodSeconds": 0, "finalizers": ["example.test/keep"]}
        if state == "given later":
            self._offer(meta, spec)
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": status}
        self.claims[namespace, name] = body

    def _offer(self, meta: JSON, spec: JSON) -> None:
        """Volumes that a claim could get: for anybody, for it alone, for one of its name that is gone, for another."""
        random = self._random
        if chance(random, 0.2):
            spec["selector"] = {"matchLabels": {"kind": "fast"}}
        for kept_for in random.sample(KEPT_FOR, random.choice((0, 1, 2, 2))):
            self._add_volume("given", "Available" if chance(random, 0.9) else "Released")
            volume = self.volumes[-1]
            if kept_for is not None:
                reference = {"kind": "PersistentVolumeClaim", "namespace": meta["namespace"], "name": meta["name"]}
                if kept_for == "one before":
                    reference["uid"] = "of-one-before"
                elif kept_for == "another":
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
            meta |= {"deletionTimestamp": GONE, "deletionGracePeriodSeconds": 0, "finalizers": ["example.test/keep"]}
        status = {"phase": phase}
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec, "status": status}
        self.volumes.append(body)
        return name

    def _make_volume_labels(self) -> dict[str, str]:
        """Zones and regions, in the new and the old words, one or several; and what claims choose by."""
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
