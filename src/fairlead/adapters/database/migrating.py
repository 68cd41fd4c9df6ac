"""Bringing a database to the tables that this version needs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from fairlead.adapters.database.failures import translated
from fairlead.errors import FairleadError

FOLDER = Path(__file__).parent / "migrations"
LOCK = 7_230_017  # any number; servers that start at once wait for each other by it
HEAD = "0009"


def migrate(engine: sa.Engine, revision: str = "head") -> None:
    """Bring the database up to a revision. Data stays. Alembic is loaded only where there is something to do."""
    found = current(engine)
    if revision == "head" and found == HEAD:
        return
    from alembic import command
    from alembic.util.exc import CommandError

    with _locked(engine) as connection:
        try:
            command.upgrade(_configuration(connection), revision)
        except CommandError as error:
            message = f"the database is at revision {found}, which this version does not know"
            raise FairleadError(message, "start the version of Fairlead that made it, or a newer one") from error


def current(engine: sa.Engine) -> str | None:
    """The revision that the database is at; None where it is empty."""
    with translated(f"opening {engine.url.render_as_string()}"), engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _configuration(connection: sa.Connection):  # type: ignore[no-untyped-def]  # alembic's Config, not loaded here
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(FOLDER))
    configuration.attributes["connection"] = connection
    return configuration


@contextlib.contextmanager
def _locked(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
        yield connection
