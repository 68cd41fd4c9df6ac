"""How a server lives on a machine: alone in its folder, on a socket, with files that only its owner can read."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from fairlead.errors import FairleadError


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One server for a data folder: two would apply the watched folder twice, and hide each other from the terminal."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "server.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"a server runs on {folder} already"
            raise FairleadError(message, "use that one, stop it, or set data to another folder") from None
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


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, all of it or nothing."""
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)
    aside.replace(file)
