"""Platforms whose runs are looked after."""

import pytest

from fairlead.ports import Store
from tests.contracts.memory import MemoryStore
from tests.services.executing import Platform, found_platform


@pytest.fixture
def platform(memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform in memory."""
    return found_platform(memory_store, monkeypatch)


@pytest.fixture
def kept_platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """The same on every kind of store in turn."""
    return found_platform(store, monkeypatch)
