"""Attempts over HTTP: selection by number, and logs across attempts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fairlead.lifecycle import attempts
from fairlead.model.records import AttemptRecord, RunRecord
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import make
from tests.server.machines import AT, FILE, LINE
from tests.server.samples import fill
from tests.server.sites import Site, open_site, paths_of, problem_of

SEPARATOR = "attempt 1 failed (NodeLost): its node went away; attempt 2 follows\n"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server for this module."""
    with open_site(MemoryStore()) as opened:
        yield opened


@pytest.fixture(scope="module")
def run(site: Site) -> str:
    """The ID of a run that completed on its second attempt."""
    run_id = fill(site, "alpha")["ended"]
    with site.store.recording() as tx:
        record = tx.get(RunRecord, id=run_id)
        assert record is not None
        ended = replace(record, state="completed", reason="Completed", server_id="s1", attempt=2)
        tx.save(replace(ended, revision=record.revision + 1))
        problem = {"reason": "NodeLost", "message": "its node went away", "finished_at": AT, "usage": {"mem": 7}}
        tx.add(make(AttemptRecord, run_id, run_id=run_id, number=1, server_id="s1", **problem))
    return run_id


def lines(page: dict[str, Any]) -> list[str]:
    """The text of a log page."""
    return [entry["text"] for entry in page["entries"]]


def read_events(body: str) -> list[tuple[str, str]]:
    """The names and IDs of server-sent events."""
    events = []
    for block in body.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        events.append((fields["event"], fields["id"]))
    return events


def test_attempts_are_listed_with_their_outcome(site: Site, run: str) -> None:
    first, second = site.get(f"/runs/{run}/attempts")
    assert (first["number"], first["state"], first["reason"], first["usage"]) == (1, "failed", "NodeLost", {"mem": 7})
    assert (second["number"], second["state"], second["reason"]) == (2, "completed", "Completed")
    assert first.keys() == second.keys()


def test_log_starts_with_the_last_attempt_or_at_cursor_zero_with_the_first(site: Site, run: str) -> None:
    last, first = site.get(f"/runs/{run}/logs"), site.get(f"/runs/{run}/logs?cursor=0")
    assert (lines(last), last["complete"], last["cursor"]) == (
        [LINE.decode()],
        True,
        attempts.join_cursor(2, len(LINE)),
    )
    assert (lines(first), first["complete"]) == ([LINE.decode(), SEPARATOR], False)
    assert first["entries"][-1]["stream"] == "platform"
    assert site.get(f"/runs/{run}/logs?cursor={first['cursor']}") == last


def test_attempt_parameter_selects_the_log_of_one_attempt(site: Site, run: str) -> None:
    for number in (1, 2):
        page = site.get(f"/runs/{run}/logs?attempt={number}")
        assert (lines(page), page["complete"]) == ([LINE.decode()], True)
        assert attempts.split_cursor(page["cursor"]) == (number, len(LINE))
    raw = site.request("GET", f"/runs/{run}/logs?attempt=1&format=raw")
    assert raw.content == LINE
    full_log = site.request("GET", f"/runs/{run}/logs?cursor=0&format=raw")
    assert full_log.content.decode() == f"{LINE.decode()}{SEPARATOR}{LINE.decode()}"


def test_followed_log_covers_all_attempts_and_can_be_resumed_anywhere(site: Site, run: str) -> None:
    events = read_events(site.request("GET", f"/runs/{run}/logs?follow=true&cursor=0").text)
    assert [name for name, _ in events] == ["log", "log", "log", "end"]
    for index, (_, cursor) in enumerate(events[:3], start=1):
        headers = {"Last-Event-ID": cursor}
        rest = site.request("GET", f"/runs/{run}/logs?follow=true&cursor=0", headers=headers)
        assert read_events(rest.text) == events[index:]
    single = site.request("GET", f"/runs/{run}/logs?follow=true&attempt=1")
    assert [name for name, _ in read_events(single.text)] == ["log", "end"]


@pytest.mark.parametrize("resource", ["logs", "usage", "files", f"files/{FILE}"])
def test_unknown_attempt_is_not_found(site: Site, run: str, resource: str) -> None:
    assert site.request("GET", f"/runs/{run}/{resource}?attempt=1").status_code == 200
    problem = problem_of(site.request("GET", f"/runs/{run}/{resource}?attempt=3"), 404)
    assert problem["detail"] == f"attempt 3 of run {run} does not exist"
    assert problem["hint"] == "use an attempt from 1 to 2"


@pytest.mark.parametrize("attempt", ["0", "-1", "x", "1.5", "", "99999999999999999999"])
@pytest.mark.parametrize("resource", ["logs", "usage", "files", f"files/{FILE}"])
def test_invalid_attempt_number_is_rejected(site: Site, run: str, resource: str, attempt: str) -> None:
    problem = problem_of(site.request("GET", f"/runs/{run}/{resource}?attempt={attempt}"), 422)
    assert paths_of(problem) == ["attempt"]


def test_cursor_of_another_attempt_is_rejected(site: Site, run: str) -> None:
    problem = problem_of(site.request("GET", f"/runs/{run}/logs?attempt=1&cursor={attempts.join_cursor(2, 1)}"), 422)
    assert paths_of(problem) == ["cursor"]
    assert "the cursor belongs to attempt 2, not to attempt 1" in problem["violations"][0]["message"]


def test_peaks_are_those_of_the_attempt(site: Site, run: str) -> None:
    assert site.get(f"/runs/{run}/usage?attempt=1")["peaks"] == {"mem": 7}
    assert site.get(f"/runs/{run}/usage")["peaks"] != {"mem": 7}
