"""A platform with two servers."""

import pytest

from tests.controllers.servers import Servers, create_servers
from tests.services.conftest import platform  # noqa: F401
from tests.services.executing import Platform


@pytest.fixture
def servers(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Servers:  # noqa: F811
    """Two servers with access to the same cluster."""
    return create_servers(platform, monkeypatch)
