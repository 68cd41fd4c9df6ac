"""`fairlead up` and `fairlead keys`: what is done to a server. It is another program, which these start."""

import importlib.util
import os
import sys

NEEDED = ("fastapi", "sqlalchemy", "uvicorn")


def up(
    *,
    host: str | None = None,
    port: int | None = None,
    data: str | None = None,
    database: str | None = None,
    folder: str | None = None,
    auth: str | None = None,
) -> int:
    """Serve on this machine until Ctrl-C. Settings may also stand in fairlead.toml or in FAIRLEAD_* variables.

    Parameters
    ----------
    host
        The address to listen on. Left out, 127.0.0.1: only this machine.
    port
        The port to listen on. Left out, 8470; 0 takes any that is free.
    data
        The folder for the database, the token of this machine and the key of the secrets.
    database
        A PostgreSQL address: postgresql://user:password@host/name. Left out, SQLite in the data folder.
    folder
        A folder with documents that is applied now and whenever it changes.
    auth
        Who is let in: local, tokens or oidc.
    """
    return _become("up", host=host, port=port, data=data, database=database, folder=folder, auth=auth)


def rotate(*, data: str | None = None, database: str | None = None) -> int:
    """Seal every secret with a new key. The server may be running.

    Parameters
    ----------
    data
        The data folder of the server.
    database
        The database of the server, where it is not in the data folder.
    """
    return _become("rotate-keys", data=data, database=database)


def forget(*, data: str | None = None, database: str | None = None) -> int:
    """Forget older keys, once no secret needs them. Keep a copy while backups of the database may need them.

    Parameters
    ----------
    data
        The data folder of the server.
    database
        The database of the server, where it is not in the data folder.
    """
    return _become("forget-keys", data=data, database=database)


def _become(command: str, **said: object) -> int:
    options = [f"--{name}={value}" for name, value in said.items() if value is not None]
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"error: the server is not installed: {', '.join(missing)} is missing", file=sys.stderr)
        print("  -> pip install 'fairlead[server]'", file=sys.stderr)
        return 1
    return os.execv(sys.executable, [sys.executable, "-m", "fairlead.app", command, *options])
