"""Watches the claims, volumes, storage classes and namespaces that affect scheduling."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlead.adapters.kubernetes.clients import KubernetesClient, path_of
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.model.nodes import SchedulingContext
from fairlead.model.runs import JSON
from fairlead.scheduling import readers

RESOURCES: dict[str, tuple[str, Callable[[JSON], Any]]] = {
    "persistentvolumeclaims": ("v1", readers.read_claim),
    "persistentvolumes": ("v1", readers.read_volume),
    "storageclasses": ("storage.k8s.io/v1", readers.read_class),
    "namespaces": ("v1", lambda raw: raw["metadata"].get("labels") or {}),
}
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """A watched object: its key and the value that fitting uses."""

    uid: str
    version: int
    key: Any
    value: Any


class SchedulingContextWatcher:
    """Keeps a `SchedulingContext` up to date. If storage cannot be watched, claims do not exclude any node."""

    def __init__(self, api: KubernetesClient) -> None:
        self._values: dict[str, dict[Any, Any]] = {resource: {} for resource in RESOURCES}
        self._lock = threading.Lock()
        self._reflectors = {
            resource: Reflector(
                api, path_of(version, resource), partial(_read, read), partial(self._on_change, resource)
            )
            for resource, (version, read) in RESOURCES.items()
        }

    @property
    def reflectors(self) -> list[Reflector[WatchedEntry]]:
        return list(self._reflectors.values())

    def current(self) -> SchedulingContext:
        """The current scheduling context."""
        with self._lock:
            # These are in the order of RESOURCES, and copied, because the watches change the originals.
            claims, volumes, classes, namespaces = (values.copy() for values in self._values.values())
        # Claims whose volume or class is unknown would exclude nodes for no reason.
        synced = all(self._reflectors[resource].ready.is_set() for resource in STORAGE)
        return SchedulingContext(namespaces, claims if synced else None, volumes, classes)

    def _on_change(self, resource: str, before: WatchedEntry | None, after: WatchedEntry | None) -> None:
        with self._lock:
            if after is not None:
                self._values[resource][after.key] = after.value
            # A deleted object may already have been replaced by one with the same name.
            elif before is not None and self._values[resource].get(before.key) is before.value:
                del self._values[resource][before.key]


def _read(read: Callable[[JSON], Any], raw: JSON) -> WatchedEntry:
    meta = raw["metadata"]
    key = (meta["namespace"], meta["name"]) if "namespace" in meta else meta["name"]
    return WatchedEntry(meta["uid"], int(meta["resourceVersion"]), key, read(raw))
