"""A server's data folder, private files and logging."""

import contextlib
import fcntl
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import structlog

from fairlead.errors import FairleadError

SERVER_FILE = "server.json"  # tells clients the address of the running server
# The attempts take 0.2 s in total, much longer than a client needs for its check.
ATTEMPTS = 5
PAUSE_SECONDS = 0.05
MAX_OPEN_FILES = 65_536  # some systems allow a billion, and programs that close all of them would take minutes


@contextlib.contextmanager
def lock_data_folder(folder: Path) -> Iterator[None]:
    """Lock the data folder: two servers would apply the watched folder twice and overwrite each other's address."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The kernel releases the lock when the process ends, even if it is killed. A PID file would remain.
    with (folder / "server.lock").open("w") as lock:
        for attempt in range(ATTEMPTS):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A client that checks whether a server is running holds the lock for a moment.
                if attempt == ATTEMPTS - 1:
                    message = f"another server is already using the data folder {folder}"
                    raise FairleadError(
                        message, "use that server, stop it, or set FAIRLEAD_DATA to another folder"
                    ) from None
                time.sleep(PAUSE_SECONDS)
        # A killed server leaves this file. Now that the folder is locked again, clients would use the old address,
        # because a process with its PID may exist: a zombie, or another program.
        (folder / SERVER_FILE).unlink(missing_ok=True)
        yield


def raise_file_limit() -> int:
    """Raise the limit for open files as far as this process may, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft


def load_server_id(folder: Path, make_id: Callable[[], str]) -> str:
    """Return the server ID in the data folder, creating it on the first start."""
    # The ID is stored in the folder, because local runs in it belong to this server, even if its host name changes.
    file = folder / "server.id"
    if not file.exists():
        write_private(file, make_id())
    return file.read_text("utf-8").strip()


def check_platform(folder: Path, platform_id: str) -> None:
    """Check that the data folder, with its volumes and logs, belongs to this database."""
    file = folder / "platform.id"
    if not file.exists():
        write_private(file, platform_id)
    elif file.read_text("utf-8").strip() != platform_id:
        message = f"{folder} contains runs and volumes that belong to another database"
        raise FairleadError(
            message, "set FAIRLEAD_DATA to another folder, or FAIRLEAD_DATABASE to the database used with this folder"
        )


def write_private(file: Path, text: str) -> None:
    """Atomically write a file that only its owner can read."""
    # The temporary file is in the same folder, because renaming is atomic only within a file system.
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    # Created with these permissions, because otherwise other users could read the file before chmod().
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as writer:
        writer.write(text)
    temporary.replace(file)


def configure_logging(level: str) -> None:
    """Configure structlog and library logging."""
    min_level = logging.getLevelName(level.upper())
    terminal = sys.stderr.isatty()
    renderer = _console_renderer() if terminal else structlog.processors.JSONRenderer(serializer=_to_json)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # The console renderer formats exceptions itself.
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(min_level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,  # otherwise the logger would be built again for each event
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    # `force` replaces handlers that libraries installed when they were imported.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _console_renderer() -> structlog.dev.ConsoleRenderer:
    # Plain tracebacks, because rich ones show the values of variables, including tokens and secrets.
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


class _JsonLines(logging.Formatter):
    """Formats log records from libraries as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _to_json(entry)


def _to_json(entry: object, **_: object) -> str:
    return orjson.dumps(entry, default=str).decode()
