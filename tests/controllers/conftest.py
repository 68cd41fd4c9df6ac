"""Platforms whose runs one server or two manage."""

import pytest

from tests.controllers.servers import Servers, found_servers
from tests.services.conftest import platform  # noqa: F401
from tests.services.executing import Platform


@pytest.fixture
def servers(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Servers:  # noqa: F811
    """Two servers with access to the same cluster."""
    return found_servers(platform, monkeypatch)
