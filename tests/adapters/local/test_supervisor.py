"""Streams of a run, as its supervisor reads them."""

import os
import selectors
from types import SimpleNamespace

from fairlead.adapters.local.supervisor import Supervisor


def test_stream_that_was_already_drained_does_not_block() -> None:
    """A run that serves, crashes and is started again: what it wrote is read before its turn comes."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    fed: list[bytes] = []
    supervisor = Supervisor.__new__(Supervisor)
    supervisor.buffers = {"stderr": SimpleNamespace(feed=fed.append)}  # type: ignore[dict-item]
    supervisor.selector = selectors.DefaultSelector()
    key = supervisor.selector.register(reading, selectors.EVENT_READ, "stderr")
    os.write(writing, b"no such option")
    assert [supervisor._read_stream(key), supervisor._read_stream(key)] == [True, True]
    os.close(writing)
    assert (supervisor._read_stream(key), fed) == (False, [b"no such option"])
    os.close(reading)
