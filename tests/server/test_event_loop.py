"""Slow work does not run on the event loop, where it would delay all other requests."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.services.runs.runs import Runs
from tests.server.stages import open_stage

TIMEOUT_SECONDS = 30


def test_a_slow_preview_delays_no_other_request(monkeypatch: pytest.MonkeyPatch, sqlite_store: DatabaseStore) -> None:
    started, other_request_done = Event(), Event()
    preview = Runs.preview

    def preview_slowly(*args: Any, **options: Any) -> Any:
        started.set()
        assert other_request_done.wait(TIMEOUT_SECONDS), "the other request had to wait for the preview"
        return preview(*args, **options)

    monkeypatch.setattr(Runs, "preview", preview_slowly)
    with open_stage(sqlite_store, reads_are_local=True) as stage, ThreadPoolExecutor(1) as pool:
        body = {"function": {"kind": "container", "name": "train", "image": "train:1"}}
        slow = pool.submit(stage.site.request, "POST", "/projects/alpha/runs/preview", body)
        assert started.wait(TIMEOUT_SECONDS)
        assert stage.site.get("/projects/alpha")["name"] == "alpha"
        other_request_done.set()
        assert slow.result().status_code == 200
