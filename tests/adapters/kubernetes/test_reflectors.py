"""Reflectors: no missed events, no duplicates, no stale updates."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest

from fairlead.adapters.kubernetes import reflectors
from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient
from fairlead.adapters.kubernetes.reflectors import Reflector
from fairlead.backoff import Backoff
from fairlead.errors import Unavailable
from fairlead.model.runs import JSON

PATH = "/api/v1/pods"
OVER = Unavailable("the script is over")
GONE = ApiError(410, "Expired", "too old resource version")


@dataclass(frozen=True)
class ParsedObject:
    """A parsed object."""

    uid: str
    version: int
    text: str


class Script:
    """A scripted API server: lists, and watches that send events and then fail or end."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.requests: list[str] = []  # `list`, or `watch <version>`
        self.changes: list[str] = []
        self.ready: list[bool] = []  # whether the reflector was ready at each change
        self.errors: list[str] = []  # the error at each watch and at each call to record_error
        self.reflector = Reflector(
            cast(KubernetesClient, self), PATH, read, self.record_change, labelSelector="fairlead.dev/run"
        )

    def play(self) -> "Script":
        """Run the reflector to the end of the script."""
        self.reflector.run()
        assert not self.steps, "the script was not used up"
        return self

    def record_change(self, before: ParsedObject | None, after: ParsedObject | None) -> None:
        versions = [f"{item.text}@{item.version}" if item is not None else "-" for item in (before, after)]
        self.changes.append(" ".join(versions))
        self.ready.append(self.reflector.ready.is_set())

    def record_error(self) -> None:
        self.errors.append(self.reflector.error)

    def list(self, path: str, **params: Any) -> JSON:
        assert (path, params["labelSelector"]) == (PATH, "fairlead.dev/run")
        self.requests.append("list")
        version, *objects = self._next()
        return {"metadata": {"resourceVersion": version}, "items": objects}

    @contextlib.contextmanager
    def watch(self, path: str, **params: Any) -> Iterator[Iterator[JSON]]:
        assert (path, params["labelSelector"]) == (PATH, "fairlead.dev/run")
        assert 240 <= params["timeoutSeconds"] <= 480
        self.requests.append(f"watch {params['resourceVersion']}")
        self.record_error()
        yield self._send_events(self._next())

    def _next(self) -> Any:
        if not self.steps:
            self.reflector.stop()
            raise OVER
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def _send_events(self, events: Any) -> Iterator[JSON]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            if callable(event):
                event()
            else:
                yield event


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the backoff."""
    monkeypatch.setattr(reflectors, "BACKOFF", Backoff(0.0, 0.0))


def read(raw: JSON) -> ParsedObject | None:
    if raw["text"] == "other":
        return None
    if raw["text"] == "odd":
        raise ValueError("invalid literal for int()")
    return ParsedObject(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]), raw["text"])


def make_object(uid: str, version: int, text: str = "") -> JSON:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}, "text": text or uid}


def make_event(kind: str, uid: str, version: int, text: str = "") -> JSON:
    return {"type": kind, "object": make_object(uid, version, text)}


def bookmark(version: int) -> JSON:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def test_objects_are_listed_and_then_watched() -> None:
    script = Script(
        ("10", make_object("a", 5), make_object("b", 7)),
        [make_event("ADDED", "c", 11), make_event("MODIFIED", "a", 12, "a2"), make_event("DELETED", "b", 13)],
    ).play()
    assert script.requests[:2] == ["list", "watch 10"]
    assert script.changes == ["- a@5", "- b@7", "- c@11", "a@5 a2@12", "b@7 -"]


def test_reflector_is_ready_after_the_first_list() -> None:
    script = Script(Unavailable("no answer"), ("10", make_object("a", 5)), [make_event("ADDED", "b", 11)]).play()
    assert script.ready == [False, True]  # at each change


def test_interrupted_watch_resumes_at_the_last_version() -> None:
    script = Script(
        ("10",),
        [make_event("ADDED", "a", 11)],
        [make_event("ADDED", "b", 12), Unavailable("the connection broke")],
        [make_event("ADDED", "c", 14)],
    ).play()
    assert script.requests[:4] == ["list", "watch 10", "watch 11", "watch 12"]
    assert script.changes == ["- a@11", "- b@12", "- c@14"]


def test_bookmark_moves_the_version() -> None:
    script = Script(("10",), [bookmark(50)], []).play()
    assert script.requests[:3] == ["list", "watch 10", "watch 50"]
    assert script.changes == []


@pytest.mark.parametrize("inside", [False, True], ids=["instead of a watch", "in the middle of one"])
def test_expired_version_causes_a_new_list_and_reports_the_difference(inside: bool) -> None:
    script = Script(
        ("10", make_object("a", 5), make_object("b", 6), make_object("c", 7)),
        [GONE] if inside else GONE,
        ("90", make_object("a", 5), make_object("c", 80, "c2"), make_object("d", 85)),
        [],
    ).play()
    assert script.requests[:4] == ["list", "watch 10", "list", "watch 90"]
    assert script.changes[3:] == ["c@7 c2@80", "- d@85", "b@6 -"]


def test_failed_list_is_retried() -> None:
    script = Script(Unavailable("no answer"), GONE, ("10", make_object("a", 5)), []).play()
    assert script.requests[:4] == ["list", "list", "list", "watch 10"]
    assert script.changes == ["- a@5"]


def test_unreadable_object_does_not_hide_others() -> None:
    """Anyone who may create pods can create unreadable ones."""
    script = Script(
        ("10", make_object("x", 6, "odd"), make_object("a", 5)),
        [make_event("ADDED", "y", 11, "odd"), make_event("ADDED", "b", 12)],
    ).play()
    assert script.changes == ["- a@5", "- b@12"]
    assert script.requests[:3] == ["list", "watch 10", "watch 12"]
    assert script.reflector.ready.is_set()


def test_malformed_event_causes_a_new_list() -> None:
    broken = {"type": "ADDED"}
    script = Script(("10", make_object("a", 5)), [broken], ("20", make_object("a", 5), make_object("b", 15)), []).play()
    assert script.requests[:4] == ["list", "watch 10", "list", "watch 20"]
    assert script.changes == ["- a@5", "- b@15"]


def test_ignored_object_moves_the_version() -> None:
    script = Script(("10",), [make_event("ADDED", "x", 11, "other")], []).play()
    assert (script.changes, script.requests[2]) == ([], "watch 11")


def test_unchanged_object_is_not_reported() -> None:
    script = Script(("10", make_object("a", 5)), [make_event("MODIFIED", "a", 11)]).play()
    assert script.changes == ["- a@5"]


def test_error_is_set_until_the_watch_is_open_again() -> None:
    script = Script()
    record = script.record_error
    script.steps = [("10",), [record, Unavailable("no answer")], Unavailable("still none"), [record]]
    script.play()
    assert script.errors[:5] == ["", "", "no answer", "still none", ""]


# Updates from responses


def test_object_from_a_response_is_reported_once() -> None:
    script = Script()
    script.steps = [
        ("10",),
        [
            lambda: script.reflector.put(make_object("a", 12)),
            make_event("ADDED", "a", 12),
            make_event("MODIFIED", "a", 13, "a2"),
        ],
    ]
    assert script.play().changes == ["- a@12", "a@12 a2@13"]


def test_object_from_a_response_is_not_replaced_by_an_older_event() -> None:
    script = Script()
    script.steps = [
        ("10", make_object("a", 5)),
        [lambda: script.reflector.put(make_object("a", 12, "new")), make_event("MODIFIED", "a", 11, "old")],
        GONE,
        ("12", make_object("a", 12, "new")),
        [],
    ]
    assert script.play().changes == ["- a@5", "a@5 new@12"]


def test_object_from_a_response_is_not_removed_by_an_older_list() -> None:
    script = Script()

    class LateList(tuple[Any, ...]):
        """A list that is read before an object is created, and returned after it."""

        def __iter__(self) -> Iterator[Any]:
            script.reflector.put(make_object("a", 15))
            return super().__iter__()

    script.steps = [LateList(["10"]), [make_event("ADDED", "a", 15)]]
    assert script.play().changes == ["- a@15"]


def test_deleted_object_does_not_return_with_a_late_response() -> None:
    script = Script()
    script.steps = [
        ("10", make_object("a", 5)),
        [make_event("DELETED", "a", 11), lambda: script.reflector.put(make_object("a", 9))],
    ]
    assert script.play().changes == ["- a@5", "a@5 -"]


# Pauses


def test_backoff_grows_during_errors_and_resets_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "BACKOFF", Backoff(1.0, 10.0))
    now, pauses = [0.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: sum(now))
    advance = partial(now.append, 100.0)
    script = Script(*[Unavailable("no answer")] * 6, ("10",), [advance, Unavailable("again")], Unavailable("still"))
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert len(pauses) == 9
    growing, reset = pauses[:6], pauses[6:]
    assert all(0.5 * limit <= pause <= 1.5 * limit for pause, limit in zip(growing, (2, 4, 8, 10, 10, 10), strict=True))
    assert 0.5 <= reset[0] <= 1.5
    assert len(set(pauses)) == len(pauses)  # jitter, so that clients do not all retry at once


def test_expired_version_after_an_outage_lists_without_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "BACKOFF", Backoff(1.0, 10.0))
    pauses: list[float] = []
    script = Script(("10",), *[Unavailable("no answer")] * 6, GONE, ("20",))
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert script.requests == ["list", *["watch 10"] * 7, "list", "watch 20"]
    assert 5 <= pauses[5] <= 15  # the server does not answer
    assert 0.5 <= pauses[6] <= 1.5  # the server has answered


@pytest.mark.parametrize(
    "end", [(), (Unavailable("the connection broke"),), (GONE,)], ids=["ends", "breaks", "is lost"]
)
def test_watches_that_end_at_once_are_slowed_down(monkeypatch: pytest.MonkeyPatch, end: tuple[Exception, ...]) -> None:
    monkeypatch.setattr(reflectors, "BACKOFF", Backoff(1.0, 10.0))
    pauses: list[float] = []
    script = Script(("10",), *[step for _ in range(6) for step in ([end, ("10",)] if GONE in end else [end])])
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert all(5 <= pause <= 15 for pause in pauses[3:6])


def test_missing_kind_is_discovered_before_each_list() -> None:
    script = Script(
        ("10", make_object("a", 5)), [ApiError(404, "NotFound", "no such kind")], ("20", make_object("a", 15, "a2")), []
    )
    paths: list[ApiError | str] = [ApiError(404, "NotFound", "not there yet"), PATH, PATH]

    def find() -> str:
        path = paths.pop(0)
        if isinstance(path, ApiError):
            raise path
        return path

    ready_at_list: list[bool] = []
    script.reflector = Reflector(
        cast(KubernetesClient, script), find, read, script.record_change, labelSelector="fairlead.dev/run"
    )
    script.reflector.on_list = lambda: ready_at_list.append(script.reflector.ready.is_set())
    script.play()
    assert script.requests[:4] == ["list", "watch 10", "list", "watch 20"]
    assert script.changes == ["- a@5", "a@5 a2@15"]
    assert (paths, ready_at_list) == ([], [True, True])
