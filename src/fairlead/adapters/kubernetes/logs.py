"""Logs and outcomes of runs on a cluster: read while their pods exist, and saved before these are deleted."""

import contextlib
import gzip
import os
import re
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import structlog

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import ObservedPod
from fairlead.adapters.log_pages import read_page
from fairlead.adapters.logs import MASK, MAX_RECORD_BYTES, LogWriter, Masker, read_records
from fairlead.adapters.outcomes import parse_outcome, read_result
from fairlead.errors import Conflict, FairleadError, Unavailable
from fairlead.model.runs import JSON, LogPage, Observation, Phase
from fairlead.ports import Clock, Store
from fairlead.run_files import load_file, load_size, open_file, save_file
from fairlead.run_tokens import PREFIX

log = structlog.get_logger()

MAX_BYTES = 64 << 20  # the log is saved in the database when the run has ended
SECOND = 10**9
POD = re.compile(rb"pod (\S+):\n")
# Run tokens are recognized by their format: they are not stored, so other servers do not know their values.
TOKEN = re.compile(re.escape(PREFIX).encode() + rb"[A-Za-z0-9._-]+")
ALL = 1 << 62

ReadPosition = tuple[int, int]  # time of the last line in whole seconds, and the number of lines read with that time

LOG = "log"  # name of a saved log among its run's files
SUFFIX = ".log"
COPY_SECONDS = 600.0  # how long to keep the local copy of a saved log
MAX_FOLLOWED = 100  # each followed pod has a thread and a connection
OPEN_SECONDS = 10.0  # how long to wait for the logs when stopping a run
RETRY_SECONDS = (0.1, 0.4, 1.0)  # short, because a pod that is being deleted soon loses its log
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")

SecretsOf = Callable[[str], Iterable[str]]

OUTCOME, RESULT, ERROR, USAGE = "outcome.json", "result.json", "error.json", "usage.json"
MAX_REMEMBERED = 5000
RECHECK_SECONDS = 1.0  # active runs are observed often, and almost always have no stored outcome


class LogBuffer:
    """The log of one run. Thread-safe."""

    def __init__(self, file: Path, secrets: Iterable[str], *, many: bool) -> None:
        self.file, self._many = file, many
        self._masker = Masker(secrets)
        self._lock = threading.Lock()
        self._closed = False
        self._positions: dict[str, ReadPosition] = {}
        self._pod = _read_first_pod(file)  # the pod of the last line
        end = 0
        with contextlib.suppress(ValueError):  # the file contains other data
            for piece in read_records(file, 0, ALL):
                self._remember(piece.stream, piece.data, piece.nanoseconds)
                end = piece.end
        if file.exists():
            os.truncate(file, end)  # an incomplete record is written again
        self._writer = LogWriter(file, MAX_BYTES)

    def read_position(self, pod: str) -> ReadPosition:
        """The position up to which a pod's log has been read."""
        with self._lock:
            return self._positions.get(pod, (0, 0))

    def add(self, pod: str, nanoseconds: int, line: bytes) -> None:
        """Add a line, with secrets masked."""
        masked = TOKEN.sub(MASK, self._masker.mask_bytes(line))
        with self._lock:
            if self._closed:
                return
            if pod != self._pod and (self._many or self._pod):
                self._write("platform", f"pod {pod}:\n".encode(), nanoseconds)
            elif not self._pod:
                # A log from a single pod has no platform line with the pod's name, so a separate file stores it.
                first_pod_file(self.file).write_text(pod, "utf-8")
            self._pod = pod
            self._write("stdout", masked, nanoseconds)

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        with self._lock:
            self._closed = True
            self._writer.close()

    def _write(self, stream: str, data: bytes, nanoseconds: int) -> None:
        self._writer.write(stream, data, nanoseconds)
        self._remember(stream, data, nanoseconds)

    def _remember(self, stream: str, data: bytes, nanoseconds: int) -> None:
        if stream == "platform":
            if (match := POD.fullmatch(data)) is not None:
                self._pod = match[1].decode()
            return
        if len(data) == MAX_RECORD_BYTES and not data.endswith(b"\n"):
            return  # the line continues in the next record
        second, count = self._positions.get(self._pod, (0, 0))
        if nanoseconds // SECOND > second:
            self._positions[self._pod] = nanoseconds // SECOND, 1
        elif nanoseconds // SECOND == second:
            self._positions[self._pod] = second, count + 1


def first_pod_file(file: Path) -> Path:
    """The file with the name of the pod whose lines come first in a log, before any platform line."""
    return file.with_suffix(".pod")


def _read_first_pod(file: Path) -> str:
    try:
        return first_pod_file(file).read_text("utf-8")
    except FileNotFoundError:
        return ""


@dataclass
class _PodLog:
    """The progress of reading a pod's log. `complete`: the log was read to its end after the pod ended."""

    lock: threading.Lock = field(default_factory=threading.Lock)  # only one thread at a time reads the log
    complete: bool = False


class Logs:
    """The logs of all runs on one cluster."""

    def __init__(self, api: KubernetesClient, folder: Path, store: Store, secrets_of: SecretsOf, clock: Clock) -> None:
        self.api, self.folder, self.store, self.secrets_of, self.clock = api, folder, store, secrets_of, clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._buffers: dict[str, LogBuffer] = {}
        self._followed: dict[str, str] = {}  # run IDs by the UIDs of pods that are being followed
        self._pod_logs: dict[str, dict[str, _PodLog]] = {}  # by run and pod
        self._saved: set[str] = set()
        self._copied: set[str] = set()  # runs whose saved log has a complete local copy
        self._closed = False
        self.on_end: Callable[[str], None] = lambda _run_id: None

    def read(self, run_id: str, pods: Sequence[ObservedPod], cursor: int, max_bytes: int, *, over: bool) -> LogPage:
        """A log starting at a cursor. Raises `NotFound` if it has been deleted."""
        if self.is_saved(run_id):
            self._ensure_copy(run_id)
        else:
            errors = [error for pod in pods if (error := self._read_more(pod, pods, over=over)) is not None]
            # A partial log is better than an error, and the page is not marked as complete.
            if errors and not self.has_local_log(run_id):
                raise errors[0]
        return read_page(self._file(run_id), cursor, max_bytes, ended=over and self._is_complete(run_id, pods))

    def follow(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> threading.Event | None:
        """Follow the log of a pod until it ends. Returns an event that is set when streaming has started or failed.

        Returns None if too many pods are already being followed.
        """
        started = threading.Event()
        with self._lock:
            if not pod.began or pod.uid in self._followed or self._pod_log(pod).complete:
                started.set()
            elif len(self._followed) >= MAX_FOLLOWED:
                return None
            else:
                self._followed[pod.uid] = pod.run_id
                threading.Thread(target=self._follow, args=(pod, pods, started), daemon=True).start()
        return started

    def follow_all(self, pods: Sequence[ObservedPod]) -> None:
        """Follow the logs of all pods until they end. Returns when streaming has started or failed for each."""
        until = time.monotonic() + OPEN_SECONDS
        for pod, started in [(pod, self.follow(pod, pods)) for pod in pods]:
            if started is None:
                self._read_more(pod, pods, over=True)  # at least what has been written so far
            else:
                started.wait(max(until - time.monotonic(), 0))

    def has_local_log(self, run_id: str) -> bool:
        """Whether this machine has any part of the log."""
        return self._file(run_id).exists()

    def list_local_logs(self) -> list[str]:
        """The IDs of runs with a log on this machine."""
        return [file.stem for file in self.folder.glob(f"*{SUFFIX}")]

    def save(self, run_id: str, pods: Sequence[ObservedPod]) -> bool:
        """Save a log to the store; False if it is still being read."""
        if self.is_saved(run_id):
            self._trim(run_id)
            return True
        for pod in pods:
            self._pull(pod, pods)
        if not self._is_complete(run_id, pods):
            return False
        with self._lock:
            if (buffer := self._buffers.pop(run_id, None)) is not None:
                buffer.close()
        file = self._file(run_id)
        with tempfile.TemporaryFile() as compressed:
            # A low level gives most of the compression for a fraction of the CPU time.
            with gzip.GzipFile(fileobj=compressed, mode="wb", compresslevel=3) as target:
                if file.exists():
                    with file.open("rb") as source:
                        shutil.copyfileobj(source, target)
            try:
                with self.store.recording() as tx:
                    save_file(tx, run_id, LOG, cast(BinaryIO, compressed), self.clock())
            except Conflict:  # the run was deleted while its log was being read, which created the local file again
                self.forget(run_id)
                return True
        self._saved.add(run_id)
        self._copied.add(run_id)
        self._pod_logs.pop(run_id, None)
        return True

    def forget(self, run_id: str) -> None:
        """Delete the log from this machine."""
        with self._lock:
            if (buffer := self._buffers.pop(run_id, None)) is not None:
                buffer.close()
        self._saved.discard(run_id)
        self._copied.discard(run_id)
        self._pod_logs.pop(run_id, None)
        for file in (self._file(run_id), first_pod_file(self._file(run_id))):
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all buffers; later lines are dropped."""
        with self._lock:
            self._closed = True
            for buffer in self._buffers.values():
                buffer.close()
            self._buffers.clear()

    def is_saved(self, run_id: str) -> bool:
        """Whether the whole log is in the store."""
        if run_id not in self._saved:
            with self.store.reading() as tx:
                if load_size(tx, run_id, LOG) is None:
                    return False
            self._saved.add(run_id)
        return True

    def _read_more(self, pod: ObservedPod, pods: Sequence[ObservedPod], *, over: bool) -> Unavailable | None:
        """Read or follow the log of a pod. Returns the error if the cluster is unavailable."""
        try:
            if over or pod.is_over:
                self._pull(pod, pods)
            else:
                self.follow(pod, pods)
        except Unavailable as error:  # lines that were read before are still available
            log.info("reading log failed", pod=pod.name, problem=str(error))
            return error
        return None

    def _is_complete(self, run_id: str, pods: Sequence[ObservedPod]) -> bool:
        with self._lock:
            is_followed = run_id in self._followed.values()
        if is_followed:
            return False
        return run_id in self._saved or all(self._pod_log(pod).complete or not pod.began for pod in pods)

    def _follow(self, pod: ObservedPod, pods: Sequence[ObservedPod], started: threading.Event) -> None:
        try:
            for pause in RETRY_SECONDS:
                if self._try_to_follow(pod, pods, started):
                    return
                time.sleep(pause)
            self._try_to_follow(pod, pods, started)
        finally:
            started.set()
            with self._lock:
                self._followed.pop(pod.uid, None)
            self.on_end(pod.run_id)  # last, because `save` returns False while the pod is followed

    def _try_to_follow(self, pod: ObservedPod, pods: Sequence[ObservedPod], started: threading.Event) -> bool:
        """Follow the log of a pod until it ends; False if the stream broke. The next call resumes from there."""
        try:
            with self._pod_log(pod).lock:
                self._receive(pod, pods, started, follow="true")
        except (FairleadError, OSError) as error:
            log.info("following log failed", pod=pod.name, problem=str(error))
            return False
        return True

    def _pull(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> None:
        """Read a pod's log up to now. The log of an ended pod is read only once."""
        if pod.uid in self._followed:
            return
        pod_log = self._pod_log(pod)
        with pod_log.lock:
            if pod_log.complete or not pod.began:
                return
            self._receive(pod, pods, threading.Event())
            pod_log.complete = pod.is_over

    def _pod_log(self, pod: ObservedPod) -> _PodLog:
        return self._pod_logs.setdefault(pod.run_id, {}).setdefault(pod.uid, _PodLog())

    def _receive(self, pod: ObservedPod, pods: Sequence[ObservedPod], started: threading.Event, **params: str) -> None:
        buffer = self._open_buffer(pod, pods)
        second, skip = buffer.read_position(pod.name)
        if second:
            params["sinceTime"] = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        path = path_of("v1", "pods", pod.namespace, pod.name) + "/log"
        try:
            with self.api.read(path, timestamps="true", **params) as lines:
                started.set()
                for nanoseconds, line in _read_lines(lines):
                    if skip and nanoseconds // SECOND == second:
                        skip -= 1  # already read: sinceTime has a resolution of one second
                    else:
                        buffer.add(pod.name, nanoseconds, line)
        except ApiError as error:
            if error.status not in (400, 404):  # the container has not started, or the pod was deleted
                raise Unavailable(f"the log of {pod.name} cannot be read: {error}") from error

    def _open_buffer(self, pod: ObservedPod, pods: Sequence[ObservedPod]) -> LogBuffer:
        with self._lock:
            if self._closed:
                raise Unavailable("the connection to the cluster was replaced")
            if pod.run_id not in self._buffers:
                many = len({each.index for each in pods}) > 1
                self._buffers[pod.run_id] = LogBuffer(self._file(pod.run_id), self.secrets_of(pod.run_id), many=many)
            return self._buffers[pod.run_id]

    def _trim(self, run_id: str) -> None:
        """Delete the local copy of a saved log after a while. The next read copies it again."""
        file = self._file(run_id)
        with contextlib.suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > COPY_SECONDS:
                self.forget(run_id)

    def _ensure_copy(self, run_id: str) -> None:
        """Copy a saved log from the store to a local file, unless there is a complete copy."""
        if run_id in self._copied and self._file(run_id).exists():
            return
        # Each thread writes its own file and renames it when complete: several readers may copy the same log at once.
        temporary = self._file(run_id).with_suffix(f".{threading.get_ident()}")
        with (
            open_file(self.store, run_id, LOG) as compressed,
            gzip.open(compressed, "rb") as source,
            temporary.open("wb") as target,
        ):
            shutil.copyfileobj(source, target)
        temporary.replace(self._file(run_id))
        self._copied.add(run_id)

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{run_id}{SUFFIX}"


def _read_lines(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines with their timestamps in nanoseconds."""
    last = 0  # later parts of a split line have no timestamp and get the first part's
    for line in lines:
        stamp = STAMP.match(line)
        if stamp is not None:
            moment = datetime.fromisoformat((stamp[1] + stamp[3]).decode())
            last = int(moment.timestamp()) * SECOND + int((stamp[2] or b"0").ljust(9, b"0"))
        yield last, line if stamp is None else line[stamp.end() :]


class Outcomes:
    """The outcomes of all runs on one cluster. An outcome never changes once it is recorded."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Observation] = OrderedDict()
        self._missing: dict[str, float] = {}  # by run ID: when the store was last found to have no outcome

    def get(self, run_id: str) -> Observation | None:
        """A run's outcome, if this process knows it."""
        with self._lock:
            return self._known.get(run_id)

    def load(self, run_id: str) -> Observation | None:
        """A run's outcome, even if another server stored it."""
        if (known := self.get(run_id)) is not None:
            return known
        if time.monotonic() - self._missing.get(run_id, -RECHECK_SECONDS) < RECHECK_SECONDS:
            return None
        with self.store.reading() as tx:
            content = load_file(tx, run_id, OUTCOME)
        if content is not None:
            return self._remember(run_id, _parse_observation(content))
        if len(self._missing) > MAX_REMEMBERED:
            self._missing.clear()
        self._missing[run_id] = time.monotonic()
        return None

    def record(self, run_id: str, observation: Observation) -> Observation:
        """Record the outcome of a run, or return the one that is already recorded."""
        return self.get(run_id) or self._remember(run_id, observation)

    def save(self, run_id: str, observation: Observation, usage: list[JSON]) -> None:
        """Store the outcome and usage of a run with its files. Does nothing if they are already stored."""
        # Check first, because `clean_up` calls this repeatedly, and reading does not wait for other writers.
        with self.store.reading() as tx:
            if load_size(tx, run_id, OUTCOME) is not None:
                return
        try:
            with self.store.recording() as tx:
                if load_file(tx, run_id, OUTCOME) is None:
                    save_file(tx, run_id, OUTCOME, msgspec.json.encode(vars(observation)), self.clock())
                    save_file(tx, run_id, USAGE, msgspec.json.encode(usage), self.clock())
        except Conflict:  # the run was deleted
            return

    def load_usage(self, run_id: str) -> list[JSON]:
        """A run's stored usage samples."""
        with self.store.reading() as tx:
            content = load_file(tx, run_id, USAGE)
        samples: list[JSON] = [] if content is None else msgspec.json.decode(content)
        return [{**sample, "at": datetime.fromisoformat(sample["at"])} for sample in samples]

    def load_uploaded(self, run_id: str, name: Any) -> JSON:
        """The result or error that the sidecar uploaded because it was too long for the termination message."""
        if name not in (RESULT, ERROR):
            return {}
        with self.store.reading() as tx:
            content = load_file(tx, run_id, name)
        value = None if content is None else parse_outcome(content)
        return {"result": read_result(value)} if name == RESULT else {"error": value}

    def forget(self, run_id: str) -> None:
        """Remove a run from the cache."""
        with self._lock:
            self._known.pop(run_id, None)

    def _remember(self, run_id: str, observation: Observation) -> Observation:
        with self._lock:
            # Two threads may observe the end of a run differently. Both must use the same outcome.
            known = self._known.setdefault(run_id, observation)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return known


def _parse_observation(content: bytes) -> Observation:
    fields = msgspec.json.decode(content)
    for name in ("started_at", "finished_at"):
        fields[name] = None if fields[name] is None else datetime.fromisoformat(fields[name])
    return Observation(**{**fields, "phase": Phase(fields["phase"])})
