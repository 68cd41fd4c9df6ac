"""A store that is not quite empty: most records are at a place."""

import pytest

from fairlead.ports import Store
from tests.contracts.samples import keep, make_places


@pytest.fixture
def kept(store: Store) -> Store:
    """A store with the platform and a few places."""
    keep(store, *make_places())
    return store
