"""Migrates the database to this version's schema."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from fairlead.adapters.database.engines import translate_errors
from fairlead.errors import FairleadError

FOLDER = Path(__file__).parent / "migrations"
LOCK = 7_230_017  # arbitrary ID of an advisory lock, so that only one server migrates at a time
# The newest migration, so that an up-to-date database is recognized without importing Alembic. A test checks it.
HEAD = "0013"


def migrate(engine: sa.Engine, revision: str = "head") -> None:
    """Upgrade the database to a revision. Alembic is imported only if needed, because that is slow."""
    before = current_revision(engine)
    if revision == "head" and before == HEAD:
        return
    from alembic import command
    from alembic.util.exc import CommandError

    with _locked(engine) as connection:
        # Alembic reads the revision again, so a server that waited for the lock finds nothing left to do.
        try:
            command.upgrade(_configuration(connection), revision)
        except CommandError as error:
            message = f"the database is at revision {before}, which this version does not support"
            raise FairleadError(
                message, "use the Fairlead version that last upgraded the database, or a later one"
            ) from error


def current_revision(engine: sa.Engine) -> str | None:
    """Return the current revision of the database; None if it is empty."""
    # render_as_string hides the password, but not in parameters.
    url = engine.url.set(query={}).render_as_string()
    with translate_errors(f"open {url}"), engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _configuration(connection: sa.Connection):  # type: ignore[no-untyped-def]  # alembic's Config, not imported here
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(FOLDER))
    configuration.attributes["connection"] = connection
    return configuration


@contextlib.contextmanager
def _locked(engine: sa.Engine) -> Iterator[sa.Connection]:
    # On SQLite, the writing engine's BEGIN IMMEDIATE is the lock.
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        yield connection
