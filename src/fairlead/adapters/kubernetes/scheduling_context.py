"""What else decides where pods go: claims, volumes, storage classes and namespaces, as far as the cluster tells."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlead.adapters.kubernetes.clients import ApiClient, path_of
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.core.fitting import reading_volumes
from fairlead.model.nodes import SchedulingContext
from fairlead.model.observations import JSON

KINDS: dict[str, tuple[str, Callable[[JSON], Any]]] = {
    "persistentvolumeclaims": ("v1", reading_volumes.read_claim),
    "persistentvolumes": ("v1", reading_volumes.read_volume),
    "storageclasses": ("storage.k8s.io/v1", reading_volumes.read_class),
    "namespaces": ("v1", lambda raw: raw["metadata"].get("labels") or {}),
}
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses")


@dataclass(frozen=True, slots=True)
class WatchedEntry:
    """One of them, as the fit of a run looks at it."""

    uid: str
    version: int
    key: Any
    value: Any


class SchedulingContextWatcher:
    """All of them. Where storage may not be watched, nothing is held against a run for its claims."""

    def __init__(self, api: ApiClient) -> None:
        self._found: dict[str, dict[Any, Any]] = {kind: {} for kind in KINDS}
        self._lock = threading.Lock()
        self._watching = {
            kind: Reflector(api, path_of(version, kind), partial(_read, read), partial(self._hear, kind))
            for kind, (version, read) in KINDS.items()
        }

    @property
    def reflectors(self) -> list[Reflector[WatchedEntry]]:
        """What watches them."""
        return list(self._watching.values())

    def current(self) -> SchedulingContext:
        """What there is now."""
        with self._lock:
            claims, volumes, classes, namespaces = (found.copy() for found in self._found.values())
        told = all(self._watching[kind].ready.is_set() for kind in STORAGE)
        return SchedulingContext(namespaces, claims if told else None, volumes, classes)

    def _hear(self, kind: str, before: WatchedEntry | None, after: WatchedEntry | None) -> None:
        with self._lock:
            if after is not None:
                self._found[kind][after.key] = after.value
            elif before is not None and self._found[kind].get(before.key) is before.value:  # not one made anew since
                del self._found[kind][before.key]


def _read(read: Callable[[JSON], Any], raw: JSON) -> WatchedEntry:
    meta = raw["metadata"]
    key = (meta["namespace"], meta["name"]) if "namespace" in meta else meta["name"]
    return WatchedEntry(meta["uid"], int(meta["resourceVersion"]), key, read(raw))
