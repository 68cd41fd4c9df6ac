"""How a server lives on a machine: alone in its folder, on a socket, with files that only its owner can read."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fairlead.errors import FairleadError

ATTEMPTS = 5
PAUSE_SECONDS = 0.05


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One server for a data folder: two would apply the watched folder twice, and hide each other from the terminal."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "server.lock").open("w") as lock:
        for attempt in range(ATTEMPTS):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Who looks whether a server is there holds the lock for a moment.
                if attempt == ATTEMPTS - 1:
                    message = f"a server runs on {folder} already"
                    raise FairleadError(message, "use that one, stop it, or set data to another folder") from None
                time.sleep(PAUSE_SECONDS)
        yield


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """A socket that takes requests, and the address under which it does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # from now on requests wait, and are not turned away
    except (OSError, OverflowError) as error:
        listener.close()
        message = f"cannot listen on {host}, port {port}: {error}"
        raise FairleadError(message, "choose another port: fairlead up --port 0 takes any that is free") from error
    with contextlib.closing(listener):
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        yield listener, f"http://{shown}:{listener.getsockname()[1]}"


def keep_id(folder: Path, make_id: Callable[[], str]) -> str:
    """The id of the server of a folder, which stays the same for as long as the folder is there."""
    file = folder / "server.id"
    if not file.exists():
        write_private(file, make_id())
    return file.read_text("utf-8").strip()


def check_platform(folder: Path, platform_id: str) -> None:
    """Raise where a folder holds what belongs to another database: volumes and logs of runs that this one never had."""
    file = folder / "platform.id"
    if not file.exists():
        write_private(file, platform_id)
    elif file.read_text("utf-8").strip() != platform_id:
        message = f"{folder} holds the runs and volumes of another database"
        raise FairleadError(message, "set data to another folder, or database to the one that it was used with")


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
    aside.replace(file)
