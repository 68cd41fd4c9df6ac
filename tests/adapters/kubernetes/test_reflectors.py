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
from fairlead.errors import Unavailable
from fairlead.model.observations import JSON

PATH = "/api/v1/pods"
OVER = Unavailable("the script is over")
GONE = ApiError(410, "Expired", "too old resource version")


@dataclass(frozen=True)
class Thing:
    """A parsed object."""

    uid: str
    version: int
    word: str


class Script:
    """An API server whose answers are written down: lists, and watches that say something and then fail or end."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[str] = []  # `list`, or `watch <from which version>`
        self.heard: list[str] = []
        self.ready: list[bool] = []  # whether all had been seen by then
        self.troubles: list[str] = []  # what is wrong, before each watch and whenever it is noted
        self.reflector = Reflector(
            cast(KubernetesClient, self), PATH, read, self.hear, labelSelector="fairlead.dev/run"
        )

    def play(self) -> "Script":
        """Follow until the script is over."""
        self.reflector.run()
        assert not self.steps, "the script was not used up"
        return self

    def hear(self, before: Thing | None, after: Thing | None) -> None:
        told = [f"{thing.word}@{thing.version}" if thing is not None else "-" for thing in (before, after)]
        self.heard.append(" ".join(told))
        self.ready.append(self.reflector.ready.is_set())

    def note_trouble(self) -> None:
        self.troubles.append(self.reflector.error)

    def list(self, path: str, **params: Any) -> JSON:
        assert (path, params["labelSelector"]) == (PATH, "fairlead.dev/run")
        self.asked.append("list")
        version, *things = self._next()
        return {"metadata": {"resourceVersion": version}, "items": things}

    @contextlib.contextmanager
    def watch(self, path: str, **params: Any) -> Iterator[Iterator[JSON]]:
        assert (path, params["labelSelector"]) == (PATH, "fairlead.dev/run")
        assert 240 <= params["timeoutSeconds"] <= 480
        self.asked.append(f"watch {params['resourceVersion']}")
        self.note_trouble()
        yield self._tell(self._next())

    def _next(self) -> Any:
        if not self.steps:
            self.reflector.stop()
            raise OVER
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def _tell(self, events: Any) -> Iterator[JSON]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            if callable(event):
                event()
            else:
                yield event


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the backoff."""
    monkeypatch.setattr(reflectors, "MIN_PAUSE", 0.0)


def read(raw: JSON) -> Thing | None:
    if raw["word"] == "other":
        return None
    if raw["word"] == "odd":
        raise ValueError("invalid literal for int()")
    return Thing(raw["metadata"]["uid"], int(raw["metadata"]["resourceVersion"]), raw["word"])


def thing(uid: str, version: int, word: str = "") -> JSON:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}, "word": word or uid}


def make_event(kind: str, uid: str, version: int, word: str = "") -> JSON:
    return {"type": kind, "object": thing(uid, version, word)}


def bookmark(version: int) -> JSON:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


def test_objects_are_listed_and_then_watched() -> None:
    script = Script(
        ("10", thing("a", 5), thing("b", 7)),
        [make_event("ADDED", "c", 11), make_event("MODIFIED", "a", 12, "a2"), make_event("DELETED", "b", 13)],
    ).play()
    assert script.asked[:2] == ["list", "watch 10"]
    assert script.heard == ["- a@5", "- b@7", "- c@11", "a@5 a2@12", "b@7 -"]


def test_reflector_is_ready_after_the_first_list() -> None:
    script = Script(Unavailable("no answer"), ("10", thing("a", 5)), [make_event("ADDED", "b", 11)]).play()
    assert script.ready == [False, True]  # when each was heard


def test_interrupted_watch_resumes_at_the_last_version() -> None:
    script = Script(
        ("10",),
        [make_event("ADDED", "a", 11)],
        [make_event("ADDED", "b", 12), Unavailable("the connection broke")],
        [make_event("ADDED", "c", 14)],
    ).play()
    assert script.asked[:4] == ["list", "watch 10", "watch 11", "watch 12"]
    assert script.heard == ["- a@11", "- b@12", "- c@14"]


def test_bookmark_moves_the_version() -> None:
    script = Script(("10",), [bookmark(50)], []).play()
    assert script.asked[:3] == ["list", "watch 10", "watch 50"]
    assert script.heard == []


@pytest.mark.parametrize("inside", [False, True], ids=["instead of a watch", "in the middle of one"])
def test_expired_version_causes_a_new_list_and_reports_the_difference(inside: bool) -> None:
    script = Script(
        ("10", thing("a", 5), thing("b", 6), thing("c", 7)),
        [GONE] if inside else GONE,
        ("90", thing("a", 5), thing("c", 80, "c2"), thing("d", 85)),
        [],
    ).play()
    assert script.asked[:4] == ["list", "watch 10", "list", "watch 90"]
    assert script.heard[3:] == ["c@7 c2@80", "- d@85", "b@6 -"]


def test_failed_list_is_retried() -> None:
    script = Script(Unavailable("no answer"), GONE, ("10", thing("a", 5)), []).play()
    assert script.asked[:4] == ["list", "list", "list", "watch 10"]
    assert script.heard == ["- a@5"]


def test_unreadable_object_does_not_hide_others() -> None:
    """Anybody who may make pods can make odd ones."""
    script = Script(
        ("10", thing("x", 6, "odd"), thing("a", 5)), [make_event("ADDED", "y", 11, "odd"), make_event("ADDED", "b", 12)]
    ).play()
    assert script.heard == ["- a@5", "- b@12"]
    assert script.asked[:3] == ["list", "watch 10", "watch 12"]
    assert script.reflector.ready.is_set()


def test_malformed_event_causes_a_new_list() -> None:
    broken = {"type": "ADDED"}
    script = Script(("10", thing("a", 5)), [broken], ("20", thing("a", 5), thing("b", 15)), []).play()
    assert script.asked[:4] == ["list", "watch 10", "list", "watch 20"]
    assert script.heard == ["- a@5", "- b@15"]


def test_ignored_object_moves_the_version() -> None:
    script = Script(("10",), [make_event("ADDED", "x", 11, "other")], []).play()
    assert (script.heard, script.asked[2]) == ([], "watch 11")


def test_unchanged_object_is_not_reported() -> None:
    script = Script(("10", thing("a", 5)), [make_event("MODIFIED", "a", 11)]).play()
    assert script.heard == ["- a@5"]


def test_error_is_set_until_the_watch_is_open_again() -> None:
    script = Script()
    look = script.note_trouble
    script.steps = [("10",), [look, Unavailable("no answer")], Unavailable("still none"), [look]]
    script.play()
    assert script.troubles[:5] == ["", "", "no answer", "still none", ""]


# Updates from responses


def test_object_from_a_response_is_reported_once() -> None:
    script = Script()
    script.steps = [
        ("10",),
        [
            lambda: script.reflector.put(thing("a", 12)),
            make_event("ADDED", "a", 12),
            make_event("MODIFIED", "a", 13, "a2"),
        ],
    ]
    assert script.play().heard == ["- a@12", "a@12 a2@13"]


def test_object_from_a_response_is_not_replaced_by_an_older_event() -> None:
    script = Script()
    script.steps = [
        ("10", thing("a", 5)),
        [lambda: script.reflector.put(thing("a", 12, "new")), make_event("MODIFIED", "a", 11, "old")],
        GONE,
        ("12", thing("a", 12, "new")),
        [],
    ]
    assert script.play().heard == ["- a@5", "a@5 new@12"]


def test_object_from_a_response_is_not_removed_by_an_older_list() -> None:
    script = Script()

    class Late(tuple[Any, ...]):
        """A list that is read before an object is made, and answered after."""

        def __iter__(self) -> Iterator[Any]:
            script.reflector.put(thing("a", 15))
            return super().__iter__()

    script.steps = [Late(["10"]), [make_event("ADDED", "a", 15)]]
    assert script.play().heard == ["- a@15"]


def test_deleted_object_does_not_return_with_a_late_response() -> None:
    script = Script()
    script.steps = [
        ("10", thing("a", 5)),
        [make_event("DELETED", "a", 11), lambda: script.reflector.put(thing("a", 9))],
    ]
    assert script.play().heard == ["- a@5", "a@5 -"]


# Pauses


def test_backoff_grows_during_errors_and_resets_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "MIN_PAUSE", 1.0)
    monkeypatch.setattr(reflectors, "MAX_PAUSE", 10.0)
    now, pauses = [0.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: sum(now))
    pass_by = partial(now.append, 100.0)
    script = Script(*[Unavailable("no answer")] * 6, ("10",), [pass_by, Unavailable("again")], Unavailable("still"))
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert len(pauses) == 9
    growing, back = pauses[:6], pauses[6:]
    assert all(0.5 * most <= pause <= 1.5 * most for pause, most in zip(growing, (2, 4, 8, 10, 10, 10), strict=True))
    assert 0.5 <= back[0] <= 1.5
    assert len(set(pauses)) == len(pauses)  # not all that wait come back at once


def test_expired_version_after_an_outage_lists_without_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflectors, "MIN_PAUSE", 1.0)
    monkeypatch.setattr(reflectors, "MAX_PAUSE", 10.0)
    pauses: list[float] = []
    script = Script(("10",), *[Unavailable("no answer")] * 6, GONE, ("20",))
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert script.asked == ["list", *["watch 10"] * 7, "list", "watch 20"]
    assert 5 <= pauses[5] <= 15  # nobody answers
    assert 0.5 <= pauses[6] <= 1.5  # a listener exists


@pytest.mark.parametrize(
    "end", [(), (Unavailable("the connection broke"),), (GONE,)], ids=["ends", "breaks", "is lost"]
)
def test_watches_that_end_at_once_are_slowed_down(monkeypatch: pytest.MonkeyPatch, end: tuple[Exception, ...]) -> None:
    monkeypatch.setattr(reflectors, "MIN_PAUSE", 1.0)
    monkeypatch.setattr(reflectors, "MAX_PAUSE", 10.0)
    pauses: list[float] = []
    script = Script(("10",), *[step for _ in range(6) for step in ([end, ("10",)] if GONE in end else [end])])
    monkeypatch.setattr(script.reflector._stopped, "wait", pauses.append)
    script.play()
    assert all(5 <= pause <= 15 for pause in pauses[3:6])


def test_missing_kind_is_discovered_before_each_list() -> None:
    script = Script(
        ("10", thing("a", 5)), [ApiError(404, "NotFound", "no such kind")], ("20", thing("a", 15, "a2")), []
    )
    paths: list[ApiError | str] = [ApiError(404, "NotFound", "not there yet"), PATH, PATH]

    def find() -> str:
        found = paths.pop(0)
        if isinstance(found, ApiError):
            raise found
        return found

    listed: list[bool] = []
    script.reflector = Reflector(
        cast(KubernetesClient, script), find, read, script.hear, labelSelector="fairlead.dev/run"
    )
    script.reflector.on_list = lambda: listed.append(script.reflector.ready.is_set())
    script.play()
    assert script.asked[:4] == ["list", "watch 10", "list", "watch 20"]
    assert script.heard == ["- a@5", "a@5 a2@15"]
    assert (paths, listed) == ([], [True, True])
