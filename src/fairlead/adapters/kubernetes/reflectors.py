"""A copy of all objects of a kind, kept up to date by a watch: nobody asks about one object again and again."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import structlog

from fairlead.adapters.kubernetes.clients import ApiClient, ApiError
from fairlead.errors import Unavailable
from fairlead.model.observations import JSON

log = structlog.get_logger()

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # so long after a cluster is back, runs may still wait for that
WATCH_SECONDS = (240, 480)  # how long one watch lasts; not all of them end at once
MOST_REMEMBERED = 1000
# The server no longer knows what happened since, or the kind of object: only a new list tells.
GONE = (404, 410)


class WatchedObject(Protocol):
    """What is kept of an object, as a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def uid(self) -> str:
        """Which object it is."""

    @property
    def version(self) -> int:
        """Which of two is the later one."""


Watched = TypeVar("Watched", bound=WatchedObject)
ChangeHandler = Callable[[Watched | None, Watched | None], None]


class Reflector(Generic[Watched]):
    """Lists once, then watches. After a gap it resumes where it was; where it cannot, it lists again and compares."""

    def __init__(
        self,
        api: ApiClient,
        path: str | Callable[[], str],
        read: Callable[[JSON], Watched | None],
        on_change: ChangeHandler[Watched],
        **params: Any,
    ) -> None:
        self.api, self.read, self.on_change, self.params = api, read, on_change, params
        # Where they are, or how that is found before each list: a kind may come later, or in another version.
        self._find_path = path if callable(path) else None
        self.path = "" if callable(path) else path
        self.ready = threading.Event()  # all that was there has been seen
        self.on_list: Callable[[], None] = lambda: None  # told each time that it has
        self.trouble = ""  # why nothing is heard at the moment
        self._version = ""  # up to where all has been seen
        self._kept: dict[str, Watched] = {}
        self._gone: deque[str] = deque(maxlen=MOST_REMEMBERED)
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._opened_at: float | None = None  # when the watch began that is open

    def live(self) -> None:
        """Follow until told to end."""
        pause = SHORTEST_PAUSE
        while not self._ended.is_set():
            resumes = bool(self._version)
            self._follow()
            # A watch that was open for longer than the last pause has done its work, however it ended. One that cannot
            # be resumed, as after an outage, has had its answer: only a new list is missing.
            lasted = 0.0 if self._opened_at is None else time.monotonic() - self._opened_at
            answered = lasted > pause or (resumes and not self._version)
            pause = SHORTEST_PAUSE if answered else min(pause * 2, LONGEST_PAUSE)
            self._ended.wait(pause * random.uniform(0.5, 1.5))

    def end(self) -> None:
        """Follow no more."""
        self._ended.set()

    def put(self, raw: JSON, on_change: ChangeHandler[Watched] | None = None) -> None:
        """Take in an object that the server has just answered with: the watch may be slower, or already further."""
        with self._lock:
            if raw["metadata"]["uid"] not in self._gone:
                self._take(raw, on_change)

    def _follow(self) -> None:
        """List where that is needed, and watch until that ends."""
        self._opened_at = None
        try:
            if not self._version:
                self._list()
            self._watch()
        except ApiError as refused:
            if refused.status in GONE:
                self._version = ""
            self._note(str(refused))
        except Unavailable as error:
            self._note(str(error))
        except Exception as error:  # an object that is not what it should be: the next list tells more
            log.error("watch failed", path=self.path, problem=str(error), exc_info=error)
            self._note(str(error))
            self._version = ""

    def _list(self) -> None:
        if self._find_path is not None:
            self.path = self._find_path()
        found = self.api.list(self.path, **self.params)
        self._note("")  # before anybody is told: what is not in it is not there
        seen = {raw["metadata"]["uid"] for raw in found["items"]}
        for raw in found["items"]:
            self._take(raw)
        at = found["metadata"]["resourceVersion"]
        with self._lock:
            # What was put in after the list was made is not in it, and not gone.
            gone = [uid for uid, kept in self._kept.items() if uid not in seen and kept.version <= int(at)]
        for uid in gone:
            self._drop(uid)
        self._version = at
        self.ready.set()
        self.on_list()

    def _watch(self) -> None:
        seconds = random.randint(*WATCH_SECONDS)
        params = {**self.params, "resourceVersion": self._version, "timeoutSeconds": seconds}
        with self.api.watch(self.path, **params) as events:
            self._opened_at = time.monotonic()
            self._note("")
            for event in events:
                raw = event["object"]
                if event["type"] == "DELETED":
                    self._drop(raw["metadata"]["uid"])
                elif event["type"] != "BOOKMARK":
                    self._take(raw)
                self._version = raw["metadata"]["resourceVersion"]
                if self._ended.is_set():
                    return

    def _take(self, raw: JSON, on_change: ChangeHandler[Watched] | None = None) -> None:
        try:
            kept = self.read(raw)
        except Exception as error:  # one odd object must not hide all others
            log.error("object not understood", path=self.path, name=raw["metadata"].get("name"), exc_info=error)
            return
        if kept is None:
            return
        with self._lock:
            before = self._kept.get(kept.uid)
            if before is not None and kept.version <= before.version:
                return
            self._kept[kept.uid] = kept
            if before is None or replace(before, version=kept.version) != kept:  # else nothing that anybody looks at
                (on_change or self.on_change)(before, kept)

    def _drop(self, uid: str) -> None:
        with self._lock:
            before = self._kept.pop(uid, None)
            self._gone.append(uid)
            if before is not None:
                self.on_change(before, None)

    def _note(self, trouble: str) -> None:
        if self._ended.is_set():
            return
        if trouble and not self.trouble:
            log.warning("watch lost", path=self.path, problem=trouble)
        elif self.trouble and not trouble:
            log.info("watch goes on", path=self.path)
        self.trouble = trouble
