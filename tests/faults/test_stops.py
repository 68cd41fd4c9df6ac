"""Concurrent changes to a run that is being stopped."""

import threading
from typing import Any

import pytest

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.services.runs import executions, runs
from tests.services.executing import initialize_platform

BLOCKED_SECONDS = 2.0  # ten times as long as a sync without delays takes


def test_run_that_changes_during_the_stop_is_stopped(
    postgresql_store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = initialize_platform(postgresql_store, monkeypatch)
    run, controller, find = platform.submit(), platform.control(), executions.find_run
    controller.sync(set())
    platform.executor.set_running(run.id)
    sync_thread = threading.Thread(target=controller.sync, args=({run.id},))

    def find_then_sync(*args: Any) -> Any:
        found = find(*args)
        if not sync_thread.ident:
            sync_thread.start()
            sync_thread.join(BLOCKED_SECONDS)
        return found

    monkeypatch.setattr(runs, "find_run", find_then_sync)
    assert platform.stop(run.id).state == "stopping"
    sync_thread.join()
