"""A run's streams, as its supervisor reads them."""

import os
import selectors
from types import SimpleNamespace

from fairlead.adapters.local.supervisor import Supervisor


def test_stream_that_was_already_drained_does_not_block() -> None:
    """When a served run crashes, its stream is drained before the selector reports it."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    received: list[bytes] = []
    supervisor = Supervisor.__new__(Supervisor)
    supervisor.buffers = {"stderr": SimpleNamespace(feed=received.append)}  # type: ignore[dict-item]
    supervisor.selector = selectors.DefaultSelector()
    key = supervisor.selector.register(reading, selectors.EVENT_READ, "stderr")
    os.write(writing, b"no such option")
    assert [supervisor._read_stream(key), supervisor._read_stream(key)] == [True, True]
    os.close(writing)
    assert (supervisor._read_stream(key), received) == (False, [b"no such option"])
    os.close(reading)
