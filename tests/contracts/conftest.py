"""A store with scopes, which most records need."""

import pytest

from fairlead.ports import Store
from tests.contracts.samples import add_records, make_scopes


@pytest.fixture
def filled_store(store: Store) -> Store:
    """A store with the platform and a few scopes."""
    add_records(store, *make_scopes())
    return store
