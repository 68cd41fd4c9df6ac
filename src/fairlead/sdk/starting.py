"""A server for those who have none: started in the background, once for a data folder, and shared."""

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

NEEDED = ("fastapi", "sqlalchemy", "uvicorn")
IDLE_SECONDS = 900
START_SECONDS = 60.0
LOG = "server.log"


def find_data(environment: Mapping[str, str]) -> Path:
    """Where the server of this user keeps its things: as the server's own settings say it."""
    said = environment.get("FAIRLEAD_DATA")
    if not said:
        try:
            said = tomllib.loads(Path("fairlead.toml").read_text("utf-8")).get("data")
        except (OSError, ValueError):
            said = None  # what is wrong with it, the server tells
    return Path(said) if isinstance(said, str) and said else Path(platformdirs.user_data_dir("fairlead"))


def find_running(data: Path) -> tuple[str, str] | None:
    """The address and the token of the server that lives in a folder; None where none does."""
    try:
        if not _is_held(data / "server.lock"):
            return None
        running = json.loads((data / "server.json").read_text("utf-8"))
        os.kill(running["pid"], 0)  # or it is what a server left that was killed, and another is about to start
        return running["url"], (data / "token").read_text("utf-8").strip()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def start_server(data: Path) -> tuple[str, str]:
    """See to it that a server lives in a folder. Who asks at the same time gets the same one."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        message = f"no server is there, and none can be started: {', '.join(missing)} is missing"
        raise Unavailable(message, "pip install 'fairlead[server]', or set FAIRLEAD_URL and FAIRLEAD_TOKEN")
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return find_running(data) or _start(data)


def _start(data: Path) -> tuple[str, str]:
    options = [f"--data={data}", "--port=0", f"--idle-seconds={IDLE_SECONDS}"]
    with open(os.open(data / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "fairlead.app", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        began = log.tell()
    until = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < until:
        if (running := find_running(data)) is not None:
            server.returncode = 0  # it goes on without us: nobody waits for it, or warns that nobody does
            return running
        time.sleep(0.02)
    if (running := find_running(data)) is not None:  # one that was started by hand was quicker
        return running
    told = (data / LOG).read_bytes()[began:].decode("utf-8", "replace").strip()
    message = f"a server could not be started in {data}" + (f": {told[-500:]}" if told else "")
    raise Unavailable(message, f"see {data / LOG}, or start one by hand to see what is wrong: fairlead up")


def _is_held(lock: Path) -> bool:
    """Whether a server lives in a folder. Otherwise its port may be anybody's, and must not get the token."""
    with lock.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
