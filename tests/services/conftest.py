"""Platforms to test on."""

import pytest

from fairlead.ports import Store
from tests.services.executing import Platform, initialize_platform
from tests.services.worlds import World, initialize_world


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    """A platform with a small organization."""
    return initialize_world(store, monkeypatch)


@pytest.fixture
def platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform that executes runs."""
    return initialize_platform(store, monkeypatch)
