"""Start a local server in the background if none is configured. Each data folder has at most one server."""

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from fairlead.errors import Unavailable

NEEDED = ("fastapi", "sqlalchemy", "uvicorn")  # from the `server` extra, which clients of remote servers do not install
IDLE_SECONDS = 900  # the server stops when idle, because no user started it explicitly
START_SECONDS = 60.0  # includes the migration of an existing database
LOG = "server.log"


def find_data(environment: Mapping[str, str]) -> Path:
    """The data folder of this user's server, from the server's own settings."""
    # `settings.py` is not used, because it needs packages from the `server` extra.
    folder = environment.get("FAIRLEAD_DATA")
    if not folder:
        try:
            folder = tomllib.loads(Path("fairlead.toml").read_text("utf-8")).get("data")
        except (OSError, ValueError):
            folder = None  # the server reports what is wrong with the file
    return Path(folder) if isinstance(folder, str) and folder else Path(platformdirs.user_data_dir("fairlead"))


def find_running(data: Path) -> tuple[str, str] | None:
    """The URL and token of the server that is using a data folder, or None."""
    try:
        if not _is_locked(data):
            return None
        running = json.loads((data / "server.json").read_text("utf-8"))
        # A new server acquires the lock just before it deletes the file of a killed server. In between, this fails,
        # unless a process with the killed server's PID exists.
        os.kill(running["pid"], 0)
        return running["url"], (data / "token").read_text("utf-8").strip()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def start_server(data: Path) -> tuple[str, str]:
    """Start a server for a data folder. Concurrent callers share one server."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        message = f"no server is running, and none can be started; missing packages: {', '.join(missing)}"
        raise Unavailable(message, "pip install 'fairlead[server]', or set FAIRLEAD_URL and FAIRLEAD_TOKEN")
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data / "start.lock").open("w") as lock:
        # Another process may be starting a server. Waiting here until it is ready lets both use the same server.
        fcntl.flock(lock, fcntl.LOCK_EX)
        until = time.monotonic() + START_SECONDS
        # A server that is shutting down or not ready yet has no server.json. It keeps the folder locked.
        while not (data / "server.json").exists() and _is_locked(data) and time.monotonic() < until:
            time.sleep(0.02)
        return find_running(data) or _start(data)


def _start(data: Path) -> tuple[str, str]:
    # Use any free port, because each user of a machine has their own server.
    options = [f"--data={data}", "--port=0", f"--idle-seconds={IDLE_SECONDS}"]
    with open(os.open(data / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "fairlead.app", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in a terminal or notebook must not stop a server that other programs use
        )
        began = log.tell()  # the log may contain output from earlier starts
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        if (running := find_running(data)) is not None:
            server.returncode = 0  # the server outlives this process; prevents subprocess's ResourceWarning
            return running
        time.sleep(0.02)
    if (running := find_running(data)) is not None:  # another process started a server first
        return running
    lines = (data / LOG).read_bytes()[began:].decode("utf-8", "replace").strip()
    message = f"failed to start a server in {data}" + (f": {lines[-500:]}" if lines else "")
    raise Unavailable(message, f"read {data / LOG}, or run `fairlead up` to see the error")


def _is_locked(data: Path) -> bool:
    """Whether a server holds a data folder's lock. If not, do not send a token: another program may own the port."""
    try:
        with (data / "server.lock").open() as opened:
            # The lock is shared, so that clients checking at the same time do not mistake each other for a server.
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
