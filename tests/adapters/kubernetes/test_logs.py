"""Pod logs: reading continues after a gap, and saved logs can be read by every server."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead.adapters.kubernetes import logs
from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient
from fairlead.adapters.kubernetes.logs import Logs
from fairlead.adapters.kubernetes.objects import ObservedPod
from fairlead.errors import NotFound, Unavailable
from fairlead.model.columns import Condition
from fairlead.model.records import RunRecord
from fairlead.model.runs import LogPage
from tests.adapters.kubernetes.making import RUN, make_pod, read_pod, terminated
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import NOW, add_records, make, make_scopes
from tests.databases import wait_until

Line = tuple[float, str]  # the second in which it was written, and the text
START = datetime(2026, 11, 15, 8, 30, tzinfo=UTC).timestamp()


class Kubelet:
    """A server for pod logs. Tests can break the connection after some lines, or keep it open."""

    def __init__(self) -> None:
        self.lines: dict[str, list[Line]] = {}
        self.requests: list[dict[str, Any]] = []
        self.break_after: int | None = None
        self.error: Exception | None = None
        self.error_count = 1 << 30  # the number of requests that fail
        self.open = threading.Event()  # followers return when this is set
        self.open.set()

    @contextlib.contextmanager
    def read(self, path: str, **params: Any) -> Iterator[Iterator[bytes]]:
        self.requests.append(params)
        if self.error is not None and len(self.requests) <= self.error_count:
            raise self.error
        yield self._send(path.split("/")[-2], params)

    def _send(self, pod: str, params: dict[str, Any]) -> Iterator[bytes]:
        since = datetime.fromisoformat(params["sinceTime"]).timestamp() - START if "sinceTime" in params else 0
        lines = [(at, text) for at, text in self.lines.get(pod, []) if at >= since]
        for number, (at, text) in enumerate(lines):
            if number == self.break_after:
                raise Unavailable("the connection broke")
            time = datetime.fromtimestamp(START + int(at), UTC)
            yield f"{time:%Y-%m-%dT%H:%M:%S}.{round(at % 1 * 1e9):09}Z {text}".encode()
        if params.get("follow"):
            assert self.open.wait(10)


Open = Callable[..., Logs]


@pytest.fixture
def kubelet() -> Kubelet:
    """A kubelet without pods."""
    return Kubelet()


@pytest.fixture
def open_logs(kubelet: Kubelet, memory_store: MemoryStore, tmp_path: Path) -> Iterator[Open]:
    """Open the logs of a cluster in a folder, like a server that starts."""
    add_records(memory_store, *make_scopes())
    with memory_store.recording() as tx:
        tx.add(make(RunRecord, RUN, scope="project/forest"))
    with contextlib.ExitStack() as stack:

        def open_(folder: str = "own", *secrets: str) -> Logs:
            created = Logs(
                cast(KubernetesClient, kubelet), tmp_path / folder, memory_store, lambda _run_id: secrets, lambda: NOW
            )
            stack.callback(created.close)
            return created

        yield open_
        kubelet.open.set()


def running_pod(name: str = "a", index: int = 0) -> ObservedPod:
    return read_pod(make_pod(name, index=index, running={"startedAt": "2026-11-15T08:30:00Z"}))


def ended_pod(name: str = "a", index: int = 0) -> ObservedPod:
    return read_pod(make_pod(name, index=index, phase="Succeeded", terminated=terminated(0)))


def text_of(page: LogPage) -> str:
    return "".join(
        f"[{entry.data.decode()}]" if entry.stream == "platform" else entry.data.decode() for entry in page.entries
    )


def read(logs: Logs, *pods: ObservedPod, ended: bool = True) -> str:
    return text_of(logs.read(RUN, pods, 0, 1 << 20, over=ended))


def test_log_lines_have_timestamps(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.25, "one\n"), (1.000000001, "two\n"), (2, "no end")]
    page = open_logs().read(RUN, [ended_pod()], 0, 1 << 20, over=True)
    assert [entry.data for entry in page.entries] == [b"one\n", b"two\n", b"no end"]
    assert [str(entry.at)[14:26] for entry in page.entries] == ["30:00.250000", "30:01+00:00", "30:02+00:00"]
    assert page.complete


def test_pending_pod_has_no_log(open_logs: Open, kubelet: Kubelet) -> None:
    pending = read_pod(make_pod(phase="Pending", waiting={"reason": "ContainerCreating"}))
    assert read(open_logs(), pending) == ""
    assert kubelet.requests == []


@pytest.mark.parametrize("line_count", range(1, 6))
def test_broken_connection_loses_and_repeats_no_line(open_logs: Open, kubelet: Kubelet, line_count: int) -> None:
    kubelet.lines["a"] = [(0.1, "0\n"), (0.2, "1\n"), (1.1, "2\n"), (1.1, "3\n"), (1.9, "4\n"), (2.5, "5\n")]
    kubelet.break_after = line_count
    assert read(open_logs(), ended_pod()) == "".join(f"{number}\n" for number in range(line_count))
    kubelet.break_after = None
    other_server = open_logs()  # it uses the same folder
    assert read(other_server, ended_pod()) == "0\n1\n2\n3\n4\n5\n"
    assert kubelet.requests[1]["sinceTime"] == f"2026-11-15T08:30:0{(0, 0, 0, 1, 1, 1)[line_count]}Z"


def test_missing_rotated_lines_do_not_block_the_log(open_logs: Open, kubelet: Kubelet) -> None:
    """After a rotation, the first lines written in the last second that was read are missing."""
    kubelet.lines["a"] = [(1.1, "0\n"), (1.2, "1\n"), (1.3, "2\n")]
    assert read(open_logs(), ended_pod()) == "0\n1\n2\n"
    kubelet.lines["a"] = [(1.3, "2\n"), (2.1, "3\n"), (2.2, "4\n")]
    assert read(open_logs(), ended_pod()) == "0\n1\n2\n3\n4\n"


def test_followed_log_is_requested_once(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "0\n")]
    kubelet.open.clear()
    reader = open_logs()
    for _ in range(5):
        wait_until(lambda: read(reader, running_pod(), ended=False) == "0\n")
    assert [params.get("follow") for params in kubelet.requests] == ["true"]
    assert not reader.read(RUN, [ended_pod()], 0, 100, over=True).complete  # some lines may be in flight
    kubelet.open.set()
    wait_until(lambda: reader.read(RUN, [ended_pod()], 0, 100, over=True).complete)
    assert read(reader, ended_pod()) == "0\n"


def test_listener_is_notified_when_the_log_ends(open_logs: Open, kubelet: Kubelet) -> None:
    reader, notified = open_logs(), list[str]()
    reader.on_end = notified.append
    kubelet.open.clear()
    reader.follow_all([running_pod()])
    assert (reader.save(RUN, [ended_pod()]), notified) == (False, [])
    kubelet.open.set()
    wait_until(lambda: notified == [RUN])
    assert reader.save(RUN, [ended_pod()])


def test_lines_of_several_pods_are_labeled(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines = {"a": [(0.1, "a0\n"), (0.2, "a1\n")], "b": [(0.1, "b0\n")]}
    pods = ended_pod("a"), ended_pod("b", 1)
    expected = "[pod a:\n]a0\na1\n[pod b:\n]b0\n"
    assert read(open_logs(), *pods) == expected
    kubelet.lines["a"].append((0.2, "a2\n"))
    assert read(open_logs(), *pods) == f"{expected}[pod a:\n]a2\n"


def test_replacement_pod_is_read_from_its_start(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines = {"a": [(5.1, "old\n")], "b": [(5.2, "new\n")]}
    assert read(open_logs(), ended_pod("a")) == "old\n"
    assert read(open_logs(), ended_pod("a"), ended_pod("b")) == "old\n[pod b:\n]new\n"


def test_secrets_are_masked_in_logs(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "it is hunter22\n"), (0.2, "hunter22 again\n")]
    kubelet.break_after = 1
    assert read(open_logs("own", "hunter22"), ended_pod()) == "it is ***\n"
    kubelet.break_after = None
    assert read(open_logs("own", "hunter22"), ended_pod()) == "it is ***\n*** again\n"


def test_saved_log_is_read_from_the_store(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    first = open_logs()
    assert not first.is_saved(RUN)
    for _ in range(2):
        assert first.save(RUN, [ended_pod()])
    kubelet.error, request_count = Unavailable("gone"), len(kubelet.requests)
    for reader in (first, open_logs("own"), open_logs("elsewhere")):
        assert reader.is_saved(RUN)
        page = reader.read(RUN, [], 0, 100, over=True)
        assert (text_of(page), page.complete) == ("one\n", True)
        assert reader.read(RUN, [], page.cursor, 100, over=True).entries == []
    assert len(kubelet.requests) == request_count


def test_empty_log_can_be_saved(open_logs: Open) -> None:
    assert open_logs().save(RUN, [])
    assert open_logs("elsewhere").read(RUN, [], 0, 100, over=True) == LogPage([], 0, complete=True)


@pytest.mark.parametrize("status", [400, 404])
def test_missing_pod_log_does_not_block_saving(open_logs: Open, kubelet: Kubelet, status: int) -> None:
    kubelet.error = ApiError(status, "NotFound", "pods not found")
    assert open_logs().save(RUN, [ended_pod()])


def test_unavailable_log_is_not_saved_as_complete(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    kubelet.error = Unavailable("the node is silent")
    reader = open_logs()
    with pytest.raises(Unavailable):
        reader.save(RUN, [ended_pod()])
    assert not reader.is_saved(RUN)
    kubelet.error = None
    assert reader.save(RUN, [ended_pod()])
    assert read(reader) == "one\n"


def test_deleted_log_leaves_no_file(open_logs: Open, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reader = open_logs()
    read(reader, ended_pod())
    assert (reader.list_local_logs(), reader.has_local_log(RUN)) == ([RUN], True)
    reader.forget(RUN)
    assert (reader.list_local_logs(), reader.has_local_log(RUN), list((tmp_path / "own").iterdir())) == (
        [],
        False,
        [],
    )


def test_run_deleted_while_its_log_is_saved_leaves_no_file(
    open_logs: Open, kubelet: Kubelet, memory_store: MemoryStore, tmp_path: Path
) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reader = open_logs()
    with memory_store.recording() as tx:
        tx.remove_all(RunRecord, Condition("id", "=", RUN))
    assert reader.save(RUN, [ended_pod()])
    assert list((tmp_path / "own").iterdir()) == []


@pytest.mark.parametrize("error", [Unavailable("not now"), ApiError(403, "Forbidden", "no")], ids=str)
def test_follow_is_retried_after_an_error(open_logs: Open, kubelet: Kubelet, error: Exception) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    kubelet.error, kubelet.error_count = error, 2
    reader = open_logs()
    reader.follow_all([running_pod()])
    wait_until(lambda: reader.read(RUN, [], 0, 100, over=True).complete)
    assert read(reader) == "one\n"


def test_log_is_read_up_to_now_if_too_many_logs_are_followed(
    open_logs: Open, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_FOLLOWED", 0)
    kubelet.lines["a"] = [(0.1, "one\n")]
    reader = open_logs()
    reader.follow_all([running_pod()])
    kubelet.lines.clear()  # the log no longer exists
    assert read(reader) == "one\n"


def test_saved_log_of_deleted_pods_is_released_from_memory(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reader = open_logs()
    reader.follow_all([running_pod()])
    wait_until(lambda: reader.save(RUN, []))
    assert not reader._pod_logs


def test_number_of_followed_logs_is_limited(open_logs: Open, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FOLLOWED", 2)
    kubelet.open.clear()
    reader = open_logs()
    reader.follow_all([running_pod(name) for name in "abcd"])
    assert len([params for params in kubelet.requests if params.get("follow")]) == 2


def test_closed_reader_writes_nothing(open_logs: Open, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reader = open_logs()
    reader.close()
    with pytest.raises((Unavailable, NotFound)):
        read(reader, ended_pod())
    assert not (tmp_path / "own" / f"{RUN}.log").exists()
