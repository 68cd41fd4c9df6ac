"""Logs of pods: reading continues after a gap, and saved logs can be read by every server."""

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
from fairlead.model.observations import LogPage
from fairlead.model.records import RunRecord
from tests.adapters.kubernetes.making import RUN, make_pod, read_pod, terminated
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import NOW, add_records, make, make_scopes
from tests.databases import wait_until

Line = tuple[float, str]  # the second at which it was written, and what it says
START = datetime(2026, 11, 15, 8, 30, tzinfo=UTC).timestamp()


class Kubelet:
    """A server of pod logs. Tests can break the connection after some lines, or keep it open."""

    def __init__(self) -> None:
        self.lines: dict[str, list[Line]] = {}
        self.asked: list[dict[str, Any]] = []
        self.break_after: int | None = None
        self.refused: Exception | None = None
        self.refusals = 1 << 30  # how often it refuses
        self.open = threading.Event()  # followers return when this is set
        self.open.set()

    @contextlib.contextmanager
    def read(self, path: str, **params: Any) -> Iterator[Iterator[bytes]]:
        self.asked.append(params)
        if self.refused is not None and len(self.asked) <= self.refusals:
            raise self.refused
        yield self._send(path.split("/")[-2], params)

    def _send(self, pod: str, params: dict[str, Any]) -> Iterator[bytes]:
        since = datetime.fromisoformat(params["sinceTime"]).timestamp() - START if "sinceTime" in params else 0
        due = [(at, text) for at, text in self.lines.get(pod, []) if at >= since]
        for number, (at, text) in enumerate(due):
            if number == self.break_after:
                raise Unavailable("the connection broke")
            moment = datetime.fromtimestamp(START + int(at), UTC)
            yield f"{moment:%Y-%m-%dT%H:%M:%S}.{round(at % 1 * 1e9):09}Z {text}".encode()
        if params.get("follow"):
            assert self.open.wait(10)


Open = Callable[..., Logs]


@pytest.fixture
def kubelet() -> Kubelet:
    """One without pods."""
    return Kubelet()


@pytest.fixture
def open_logs(kubelet: Kubelet, memory_store: MemoryStore, tmp_path: Path) -> Iterator[Open]:
    """Opens the logs of a cluster in a folder, as a server does that starts."""
    add_records(memory_store, *make_scopes())
    with memory_store.recording() as tx:
        tx.add(make(RunRecord, RUN, scope="project/forest"))
    with contextlib.ExitStack() as opened:

        def open_them(folder: str = "own", *secrets: str) -> Logs:
            made = Logs(
                cast(KubernetesClient, kubelet), tmp_path / folder, memory_store, lambda _run_id: secrets, lambda: NOW
            )
            opened.callback(made.close)
            return made

        yield open_them
        kubelet.open.set()


def running(name: str = "a", index: int = 0) -> ObservedPod:
    return read_pod(make_pod(name, index=index, running={"startedAt": "2026-11-15T08:30:00Z"}))


def over(name: str = "a", index: int = 0) -> ObservedPod:
    return read_pod(make_pod(name, index=index, phase="Succeeded", terminated=terminated(0)))


def text_of(page: LogPage) -> str:
    return "".join(f"[{it.data.decode()}]" if it.stream == "platform" else it.data.decode() for it in page.entries)


def read(logs: Logs, *pods: ObservedPod, ended: bool = True) -> str:
    return text_of(logs.read(RUN, pods, 0, 1 << 20, over=ended))


def test_log_lines_have_timestamps(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.25, "one\n"), (1.000000001, "two\n"), (2, "no end")]
    page = open_logs().read(RUN, [over()], 0, 1 << 20, over=True)
    assert [entry.data for entry in page.entries] == [b"one\n", b"two\n", b"no end"]
    assert [str(entry.at)[14:26] for entry in page.entries] == ["30:00.250000", "30:01+00:00", "30:02+00:00"]
    assert page.complete


def test_pending_pod_has_no_log(open_logs: Open, kubelet: Kubelet) -> None:
    pending = read_pod(make_pod(phase="Pending", waiting={"reason": "ContainerCreating"}))
    assert read(open_logs(), pending) == ""
    assert kubelet.asked == []


@pytest.mark.parametrize("broken", range(1, 6))
def test_broken_connection_loses_and_repeats_no_line(open_logs: Open, kubelet: Kubelet, broken: int) -> None:
    kubelet.lines["a"] = [(0.1, "0\n"), (0.2, "1\n"), (1.1, "2\n"), (1.1, "3\n"), (1.9, "4\n"), (2.5, "5\n")]
    kubelet.break_after = broken
    assert read(open_logs(), over()) == "".join(f"{number}\n" for number in range(broken))
    kubelet.break_after = None
    again = open_logs()  # another server in the same folder
    assert read(again, over()) == "0\n1\n2\n3\n4\n5\n"
    assert kubelet.asked[1]["sinceTime"] == f"2026-11-15T08:30:0{(0, 0, 0, 1, 1, 1)[broken]}Z"


def test_rotated_lines_are_not_waited_for(open_logs: Open, kubelet: Kubelet) -> None:
    """A log is rotated: of the second that was read last, the first lines are gone."""
    kubelet.lines["a"] = [(1.1, "0\n"), (1.2, "1\n"), (1.3, "2\n")]
    assert read(open_logs(), over()) == "0\n1\n2\n"
    kubelet.lines["a"] = [(1.3, "2\n"), (2.1, "3\n"), (2.2, "4\n")]
    assert read(open_logs(), over()) == "0\n1\n2\n3\n4\n"


def test_followed_log_is_requested_once(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "0\n")]
    kubelet.open.clear()
    reading = open_logs()
    for _ in range(5):
        wait_until(lambda: read(reading, running(), ended=False) == "0\n")
    assert [params.get("follow") for params in kubelet.asked] == ["true"]
    assert not reading.read(RUN, [over()], 0, 100, over=True).complete  # some lines may be in flight
    kubelet.open.set()
    wait_until(lambda: reading.read(RUN, [over()], 0, 100, over=True).complete)
    assert read(reading, over()) == "0\n"


def test_listener_is_notified_when_the_log_ends(open_logs: Open, kubelet: Kubelet) -> None:
    reading, told = open_logs(), list[str]()
    reading.on_end = told.append
    kubelet.open.clear()
    reading.follow_all([running()])
    assert (reading.save(RUN, [over()]), told) == (False, [])
    kubelet.open.set()
    wait_until(lambda: told == [RUN])
    assert reading.save(RUN, [over()])


def test_lines_of_several_pods_are_labeled(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines = {"a": [(0.1, "a0\n"), (0.2, "a1\n")], "b": [(0.1, "b0\n")]}
    pods = over("a"), over("b", 1)
    said = "[pod a:\n]a0\na1\n[pod b:\n]b0\n"
    assert read(open_logs(), *pods) == said
    kubelet.lines["a"].append((0.2, "a2\n"))
    assert read(open_logs(), *pods) == f"{said}[pod a:\n]a2\n"


def test_replacement_pod_is_read_from_its_start(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines = {"a": [(5.1, "old\n")], "b": [(5.2, "new\n")]}
    assert read(open_logs(), over("a")) == "old\n"
    assert read(open_logs(), over("a"), over("b")) == "old\n[pod b:\n]new\n"


def test_secrets_are_masked_in_logs(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "it is hunter22\n"), (0.2, "hunter22 again\n")]
    kubelet.break_after = 1
    assert read(open_logs("own", "hunter22"), over()) == "it is ***\n"
    kubelet.break_after = None
    assert read(open_logs("own", "hunter22"), over()) == "it is ***\n*** again\n"


def test_saved_log_is_read_from_the_store(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    first = open_logs()
    assert not first.is_saved(RUN)
    for _ in range(2):
        assert first.save(RUN, [over()])
    kubelet.refused, asked = Unavailable("gone"), len(kubelet.asked)
    for reading in (first, open_logs("own"), open_logs("elsewhere")):
        assert reading.is_saved(RUN)
        page = reading.read(RUN, [], 0, 100, over=True)
        assert (text_of(page), page.complete) == ("one\n", True)
        assert reading.read(RUN, [], page.cursor, 100, over=True).entries == []
    assert len(kubelet.asked) == asked


def test_empty_log_can_be_saved(open_logs: Open) -> None:
    assert open_logs().save(RUN, [])
    assert open_logs("elsewhere").read(RUN, [], 0, 100, over=True) == LogPage([], 0, complete=True)


@pytest.mark.parametrize("status", [400, 404])
def test_missing_pod_log_does_not_block_saving(open_logs: Open, kubelet: Kubelet, status: int) -> None:
    kubelet.refused = ApiError(status, "NotFound", "pods not found")
    assert open_logs().save(RUN, [over()])


def test_unavailable_log_is_not_saved_as_complete(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    kubelet.refused = Unavailable("the node is silent")
    reading = open_logs()
    with pytest.raises(Unavailable):
        reading.save(RUN, [over()])
    assert not reading.is_saved(RUN)
    kubelet.refused = None
    assert reading.save(RUN, [over()])
    assert read(reading) == "one\n"


def test_deleted_log_leaves_no_file(open_logs: Open, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reading = open_logs()
    read(reading, over())
    assert (reading.list_local_logs(), reading.has_local_log(RUN)) == ([RUN], True)
    reading.forget(RUN)
    assert (reading.list_local_logs(), reading.has_local_log(RUN), list((tmp_path / "own").iterdir())) == (
        [],
        False,
        [],
    )


@pytest.mark.parametrize("refused", [Unavailable("not now"), ApiError(403, "Forbidden", "no")], ids=str)
def test_follow_is_retried_after_an_error(open_logs: Open, kubelet: Kubelet, refused: Exception) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    kubelet.refused, kubelet.refusals = refused, 2
    reading = open_logs()
    reading.follow_all([running()])
    wait_until(lambda: reading.read(RUN, [], 0, 100, over=True).complete)
    assert read(reading) == "one\n"


def test_log_is_read_up_to_now_if_too_many_logs_are_followed(
    open_logs: Open, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_FOLLOWED", 0)
    kubelet.lines["a"] = [(0.1, "one\n")]
    reading = open_logs()
    reading.follow_all([running()])
    kubelet.lines.clear()  # it is gone
    assert read(reading) == "one\n"


def test_saved_log_of_deleted_pods_is_released_from_memory(open_logs: Open, kubelet: Kubelet) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reading = open_logs()
    reading.follow_all([running()])
    wait_until(lambda: reading.save(RUN, []))
    assert not reading._pod_logs


def test_number_of_followed_logs_is_limited(open_logs: Open, kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FOLLOWED", 2)
    kubelet.open.clear()
    reading = open_logs()
    reading.follow_all([running(name) for name in "abcd"])
    assert len([params for params in kubelet.asked if params.get("follow")]) == 2


def test_closed_reader_writes_nothing(open_logs: Open, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.lines["a"] = [(0.1, "one\n")]
    reading = open_logs()
    reading.close()
    with pytest.raises((Unavailable, NotFound)):
        read(reading, over())
    assert not (tmp_path / "own" / f"{RUN}.log").exists()
