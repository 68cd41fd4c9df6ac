"""Reflectors: local copies of all objects of a resource, kept up to date by a watch."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import structlog

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient
from fairlead.backoff import Backoff
from fairlead.errors import Unavailable
from fairlead.model.runs import JSON

log = structlog.get_logger()

BACKOFF = Backoff(0.2, 10.0)  # the longest pause is also the longest delay after an outage
WATCH_SECONDS = (240, 480)  # random duration of a watch, so that watches do not end at the same time
MAX_REMEMBERED = 1000  # deleted objects, in case a response about one of them arrives after its deletion
# The resource version has expired, or the resource does not exist: a new list is required.
GONE = (404, 410)


class WatchedObject(Protocol):
    """The parts of an object that are stored, as a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def uid(self) -> str:
        """The object's UID."""

    @property
    def version(self) -> int:
        """The resource version; a later state has a larger one."""
        # Kubernetes documents it as opaque, but API servers use the etcd revision, which only increases.


Watched = TypeVar("Watched", bound=WatchedObject)
ChangeHandler = Callable[[Watched | None, Watched | None], None]


class Reflector(Generic[Watched]):
    """Lists a resource, then watches it. After an interruption it resumes, or lists again if the version is too old."""

    def __init__(
        self,
        api: KubernetesClient,
        path: str | Callable[[], str],
        read: Callable[[JSON], Watched | None],
        on_change: ChangeHandler[Watched],
        **params: Any,
    ) -> None:
        self.api, self.read, self.on_change, self.params = api, read, on_change, params
        # If this is a callable, it is called before each list: a custom resource may be installed or upgraded later.
        self._find_path = path if callable(path) else None
        self.path = "" if callable(path) else path
        self.ready = threading.Event()  # set after the first list
        self.on_list: Callable[[], None] = lambda: None  # called after each list
        self.error = ""  # why the watch is down, if it is
        self._version = ""  # resource version to resume from; empty: list first
        self._objects: dict[str, Watched] = {}
        self._deleted: deque[str] = deque(maxlen=MAX_REMEMBERED)  # UIDs
        self._lock = threading.RLock()  # `put` is called by other threads
        self._stopped = threading.Event()
        self._opened_at: float | None = None  # when the current watch was opened

    def run(self) -> None:
        """List and watch until `stop` is called."""
        failures = 0
        while not self._stopped.is_set():
            resumes = bool(self._version)
            self._follow()
            # No backoff is needed if the watch was open longer than the last pause, however it ended, or if the version
            # to resume from has expired, as after an outage: the server is up, and only a new list is needed.
            lasted = 0.0 if self._opened_at is None else time.monotonic() - self._opened_at
            responsive = lasted > BACKOFF.pause(failures) or (resumes and not self._version)
            failures = 0 if responsive else failures + 1
            self._stopped.wait(BACKOFF.pause(failures) * random.uniform(0.5, 1.5))

    def stop(self) -> None:
        """Make `run` return after the next event."""
        self._stopped.set()

    def put(self, raw: JSON, on_change: ChangeHandler[Watched] | None = None) -> None:
        """Store an object from a server response, unless the watch has already reported a later state."""
        with self._lock:
            if raw["metadata"]["uid"] not in self._deleted:
                self._update(raw, on_change)

    def _follow(self) -> None:
        """List if required, and watch until the watch ends."""
        self._opened_at = None
        try:
            if not self._version:
                self._list()
            self._watch()
        except ApiError as error:
            if error.status in GONE:
                self._version = ""
            self._set_error(str(error))
        except Unavailable as error:
            self._set_error(str(error))
        except Exception as error:  # the event could not be handled; list again
            log.error("watch failed", path=self.path, problem=str(error), exc_info=error)
            self._set_error(str(error))
            self._version = ""

    def _list(self) -> None:
        if self._find_path is not None:
            self.path = self._find_path()
        listed = self.api.list(self.path, **self.params)
        self._set_error("")  # before the callbacks run, because they may assume that missing objects have been deleted
        uids = {raw["metadata"]["uid"] for raw in listed["items"]}
        for raw in listed["items"]:
            self._update(raw)
        version = listed["metadata"]["resourceVersion"]
        with self._lock:
            # An object that was put after the list is newer than the list, so it was not deleted.
            deleted = [uid for uid, each in self._objects.items() if uid not in uids and each.version <= int(version)]
        for uid in deleted:
            self._delete(uid)
        self._version = version
        self.ready.set()
        self.on_list()

    def _watch(self) -> None:
        seconds = random.randint(*WATCH_SECONDS)
        params = {**self.params, "resourceVersion": self._version, "timeoutSeconds": seconds}
        with self.api.watch(self.path, **params) as events:
            self._opened_at = time.monotonic()
            self._set_error("")
            for event in events:
                raw = event["object"]
                if event["type"] == "DELETED":
                    self._delete(raw["metadata"]["uid"])
                elif event["type"] != "BOOKMARK":
                    self._update(raw)
                # Set only after handling the event: if that fails, everything is listed again and nothing is missed.
                self._version = raw["metadata"]["resourceVersion"]
                if self._stopped.is_set():
                    return

    def _update(self, raw: JSON, on_change: ChangeHandler[Watched] | None = None) -> None:
        try:
            after = self.read(raw)
        except Exception as error:  # one invalid object must not hide the others
            log.error("invalid object", path=self.path, name=raw["metadata"].get("name"), exc_info=error)
            return
        if after is None:
            return
        with self._lock:
            before = self._objects.get(after.uid)
            if before is not None and after.version <= before.version:
                return
            self._objects[after.uid] = after
            if before is None or replace(before, version=after.version) != after:  # ignore changes to other fields
                (on_change or self.on_change)(before, after)

    def _delete(self, uid: str) -> None:
        with self._lock:
            before = self._objects.pop(uid, None)
            self._deleted.append(uid)
            if before is not None:
                self.on_change(before, None)

    def _set_error(self, error: str) -> None:
        if self._stopped.is_set():
            return
        if error and not self.error:
            log.warning("watch lost", path=self.path, problem=error)
        elif self.error and not error:
            log.info("watch resumed", path=self.path)
        self.error = error
