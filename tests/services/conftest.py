"""Platforms to test on."""

import pytest

from fairlead.ports import Store
from tests.services.executing import Platform, found_platform
from tests.services.worlds import World, found_world


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    """A platform with a small organization."""
    return found_world(store, monkeypatch)


@pytest.fixture
def platform(store: Store, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform that executes runs."""
    return found_platform(store, monkeypatch)
