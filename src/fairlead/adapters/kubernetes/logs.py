"""The logs of runs on a cluster: streamed while somebody reads them, saved before their pods are removed."""

import contextlib
import gzip
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

import structlog

from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.adapters.kubernetes.log_buffers import SECOND, LogBuffer, first_pod_file
from fairlead.adapters.kubernetes.objects import ObservedPod
from fairlead.adapters.log_pages import read_page
from fairlead.errors import Conflict, FairleadError, Unavailable
from fairlead.model.observations import LogPage
from fairlead.ports import Clock, Store
from fairlead.run_files import load_size, open_file, save_file

log = structlog.get_logger()

LOG = "log"  # what a saved log is called among the files of its run
ENDING = ".log"
COPY_SECONDS = 600.0
MOST_FOLLOWED = 100
OPEN_SECONDS = 10.0
AGAIN_SECONDS = (0.1, 0.4, 1.0)  # between tries to follow: a pod that is about to go cannot be read later
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")

SecretsOf = Callable[[str], Iterable[str]]


@dataclass
class _Reading:
    """How the log of a pod is read: by one thread at a time; and whether all of it was, after its end."""

    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    whole: bool = False


class Logs:
    """The logs of one cluster's runs."""

    def __init__(self, api: ApiClient, folder: Path, store: Store, secrets_of: SecretsOf, clock: Clock) -> None:
        self.api, self.folder, self.store, self.secrets_of, self.clock = api, folder, store, secrets_of, clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._buffers: dict[str, LogBuffer] = {}
        self._followed: dict[str, str] = {}  # the pods that are being read, and of which runs they are
        self._readings: dict[str, dict[str, _Reading]] = {}  # by run and pod
        self._saved: set[str] = set()
        self._copied: set[str] = set()  # those of which all that is in the store is on this machine, too
        self._closed = False
        self.on_end: Callable[[str], None] = lambda _run_id: None

    def read(self, run_id: str, pods: Sequence[ObservedPod], cursor: int, max_bytes: int, *, over: bool) -> LogPage:
        """A log from a cursor on. Raise `NotFound` where it is not there any more."""
        if self.is_saved(run_id):
            self._need_copy(run_id)
        else:
            troubles = [trouble for pod in pods if (trouble := self._read_on(pod, pods, over=over)) is not None]
            if troubles and not self.has_local_log(run_id):
                raise troubles[0]
        return read_page(self._file(run_id), cursor, max_bytes, ended=over and self._is_whole(run_id, pods))

    def follow(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> threading.Event | None:
        """Read what a pod writes until it ends; what is set once the cluster has begun to send it, or cannot.

        None where so many are followed that there is no place for it.
        """
        begun = threading.Event()
        with self._lock:
            if not pod.began or pod.uid in self._followed or self._reading(pod).whole:
                begun.set()
            elif len(self._followed) >= MOST_FOLLOWED:
                return None
            else:
                self._followed[pod.uid] = pod.run_id
                threading.Thread(target=self._follow, args=(pod, pods, begun), daemon=True).start()
        return begun

    def follow_all(self, pods: Sequence[ObservedPod]) -> None:
        """Read what all pods write until they end. When this returns, the cluster has begun to send it, or cannot."""
        until = time.monotonic() + OPEN_SECONDS
        for pod, begun in [(pod, self.follow(pod, pods)) for pod in pods]:
            if begun is None:
                self._read_on(pod, pods, over=True)  # at least what there is by now
            else:
                begun.wait(max(until - time.monotonic(), 0))

    def has_local_log(self, run_id: str) -> bool:
        """Whether something of it is on this machine."""
        return self._file(run_id).exists()

    def list_local_logs(self) -> list[str]:
        """The runs of which something is on this machine."""
        return [file.stem for file in self.folder.glob(f"*{ENDING}")]

    def save(self, run_id: str, pods: Sequence[ObservedPod]) -> bool:
        """Keep all of a log in the store; False where some of it is still on its way."""
        if self.is_saved(run_id):
            self._trim(run_id)
            return True
        for pod in pods:
            self._pull(pod, pods)
        if not self._is_whole(run_id, pods):
            return False
        with self._lock:
            if (buffer := self._buffers.pop(run_id, None)) is not None:
                buffer.close()
        file = self._file(run_id)
        with tempfile.TemporaryFile() as packed:
            with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=3) as into:
                if file.exists():
                    with file.open("rb") as content:
                        shutil.copyfileobj(content, into)
            try:
                with self.store.recording() as tx:
                    save_file(tx, run_id, LOG, cast(BinaryIO, packed), self.clock())
            except Conflict:  # the run is not there any more
                return True
        self._saved.add(run_id)
        self._copied.add(run_id)
        self._readings.pop(run_id, None)
        return True

    def forget(self, run_id: str) -> None:
        """Keep nothing of it on this machine."""
        with self._lock:
            if (buffer := self._buffers.pop(run_id, None)) is not None:
                buffer.close()
        self._saved.discard(run_id)
        self._copied.discard(run_id)
        self._readings.pop(run_id, None)
        for file in (self._file(run_id), first_pod_file(self._file(run_id))):
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            self._closed = True
            for buffer in self._buffers.values():
                buffer.close()
            self._buffers.clear()

    def is_saved(self, run_id: str) -> bool:
        """Whether all of it is in the store."""
        if run_id not in self._saved:
            with self.store.reading() as tx:
                if load_size(tx, run_id, LOG) is None:
                    return False
            self._saved.add(run_id)
        return True

    def _read_on(self, pod: ObservedPod, pods: Sequence[ObservedPod], *, over: bool) -> Unavailable | None:
        """Have what a pod writes come; what keeps it from coming now."""
        try:
            if over or pod.is_over:
                self._pull(pod, pods)
            else:
                self.follow(pod, pods)
        except Unavailable as error:  # what was read before is there
            log.info("log lost", pod=pod.name, problem=str(error))
            return error
        return None

    def _is_whole(self, run_id: str, pods: Sequence[ObservedPod]) -> bool:
        with self._lock:
            on_its_way = run_id in self._followed.values()
        if on_its_way:
            return False
        return run_id in self._saved or all(self._reading(pod).whole or not pod.began for pod in pods)

    def _follow(self, pod: ObservedPod, pods: Sequence[ObservedPod], begun: threading.Event) -> None:
        try:
            for pause in AGAIN_SECONDS:
                if self._try_to_follow(pod, pods, begun):
                    return
                time.sleep(pause)
            self._try_to_follow(pod, pods, begun)
        finally:
            begun.set()
            with self._lock:
                self._followed.pop(pod.uid, None)
            self.on_end(pod.run_id)

    def _try_to_follow(self, pod: ObservedPod, pods: Sequence[ObservedPod], begun: threading.Event) -> bool:
        """Read what a pod writes until it ends; False where that broke. Whoever reads on begins where this ended."""
        try:
            with self._reading(pod).one_at_a_time:
                self._receive(pod, pods, begun, follow="true")
        except (FairleadError, OSError) as error:
            log.info("log lost", pod=pod.name, problem=str(error))
            return False
        return True

    def _pull(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> None:
        """Read what is there now of a pod's log; of one that has ended, once."""
        if pod.uid in self._followed:
            return
        reading = self._reading(pod)
        with reading.one_at_a_time:
            if reading.whole or not pod.began:
                return
            self._receive(pod, pods, threading.Event())
            reading.whole = pod.is_over

    def _reading(self, pod: ObservedPod) -> _Reading:
        return self._readings.setdefault(pod.run_id, {}).setdefault(pod.uid, _Reading())

    def _receive(self, pod: ObservedPod, pods: Sequence[ObservedPod], begun: threading.Event, **params: str) -> None:
        buffer = self._open_buffer(pod, pods)
        second, skip = buffer.read_position(pod.name)
        if second:
            params["sinceTime"] = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = path_of("v1", "pods", pod.namespace, pod.name) + "/log"
        try:
            with self.api.read(path, timestamps="true", **params) as lines:
                begun.set()
                for nanoseconds, line in _read_lines(lines):
                    if skip and nanoseconds // SECOND == second:
                        skip -= 1  # read before
                    else:
                        buffer.add(pod.name, nanoseconds, line)
        except ApiError as refused:
            if refused.status not in (400, 404):  # it has not begun, or is gone with its log
                raise Unavailable(f"the log of {pod.name} cannot be read: {refused}") from refused

    def _open_buffer(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> LogBuffer:
        with self._lock:
            if self._closed:
                raise Unavailable("the cluster is reached in another way by now")
            if pod.run_id not in self._buffers:
                many = len({each.index for each in pods}) > 1
                self._buffers[pod.run_id] = LogBuffer(self._file(pod.run_id), self.secrets_of(pod.run_id), many=many)
            return self._buffers[pod.run_id]

    def _trim(self, run_id: str) -> None:
        """Remove the copy of a log that is in the store, once nobody has read it for a while."""
        file = self._file(run_id)
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > COPY_SECONDS:
                self.forget(run_id)

    def _need_copy(self, run_id: str) -> None:
        """Have the file of a log that another server saved, or this one before it was started anew."""
        if run_id in self._copied and self._file(run_id).exists():
            return
        aside = self._file(run_id).with_suffix(f".{threading.get_ident()}")
        with open_file(self.store, run_id, LOG) as packed, gzip.open(packed, "rb") as content, aside.open("wb") as into:
            shutil.copyfileobj(content, into)
        aside.replace(self._file(run_id))
        self._copied.add(run_id)

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}{ENDING}"


def _read_lines(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines with the nanosecond at which each was written."""
    last = 0
    for line in lines:
        stamp = STAMP.match(line)
        if stamp is not None:
            moment = datetime.fromisoformat((stamp[1] + stamp[3]).decode())
            last = int(moment.timestamp()) * SECOND + int((stamp[2] or b"0").ljust(9, b"0"))
        yield last, line if stamp is None else line[stamp.end() :]
