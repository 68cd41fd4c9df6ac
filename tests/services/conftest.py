"""Platforms to test on."""

import pytest

from fairlead.ports import Store
from tests.contracts.memory import MemoryStore
from tests.services.worlds import World, found_world


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    """A platform with a small organisation, on every kind of store in turn."""
    return found_world(store, monkeypatch)


@pytest.fixture
def memory_world(memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same in memory, for tables in which the store does not matter."""
    return found_world(memory_store, monkeypatch)
