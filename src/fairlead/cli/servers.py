"""`fairlead up`, `keys` and `completion`: start the server or a maintenance command, and print completion scripts."""

import importlib.util
import os
import sys
from typing import Literal

from fairlead.cli import app

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
    """Start a server on this machine. Settings can also come from fairlead.toml or FAIRLEAD_* variables.

    Parameters
    ----------
    host
        The listen address. Default: 127.0.0.1, this machine only.
    port
        The port. Default: 8470. 0 selects a free port.
    data
        The data folder: database, local token and encryption key.
    database
        A PostgreSQL URL: postgresql://user:password@host/name. Default: SQLite in the data folder.
    folder
        A folder with configuration files, applied at startup and on every change.
    auth
        Authentication: local, tokens or oidc.
    """
    return _become("up", host=host, port=port, data=data, database=database, folder=folder, auth=auth)


def rotate(*, data: str | None = None, database: str | None = None) -> int:
    """Encrypt all secrets with a new key. The server may be running.

    Parameters
    ----------
    data
        The server's data folder.
    database
        The server's database URL, if the database is not in the data folder.
    """
    return _become("rotate-keys", data=data, database=database)


def forget(*, data: str | None = None, database: str | None = None) -> int:
    """Delete old keys that no secret uses. Keep a copy if you may need to restore an old database backup.

    Parameters
    ----------
    data
        The server's data folder.
    database
        The server's database URL, if the database is not in the data folder.
    """
    return _become("forget-keys", data=data, database=database)


def _become(command: str, **fields: object) -> int:
    options = [f"--{name}={value}" for name, value in fields.items() if value is not None]
    # The packages are looked up without importing them, because importing the server would slow down the CLI.
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"error: the server is not installed; missing packages: {', '.join(missing)}", file=sys.stderr)
        print("  -> pip install 'fairlead[server]'", file=sys.stderr)
        return 1
    # Replaces this process, so that signals from a terminal or systemd reach the server itself.
    return os.execv(sys.executable, [sys.executable, "-m", "fairlead.app", command, *options])


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script for a shell.

    Parameters
    ----------
    shell
        The shell. For bash: source <(fairlead completion bash)
    """
    print(app.generate_completion(shell=shell))
    return 0
