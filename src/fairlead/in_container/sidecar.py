"""Stands beside a function in a pod: fetches its code, waits for its end, and hands over what it left.

Standard library only, for Python 3.8 and later. It lies beside the bootstrap, which loads it in a pod alone.
The function has a process of its own: whatever it does, also being killed or becoming another program, what it left is
handed over by a Python that it never touched. The token is taken out of its variables; it is good for this run alone.
What is small goes into the termination message, which gets back without any network; the rest is put to the server.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, NoReturn

TERMINATION = "/dev/termination-log"
MAX_MESSAGE_BYTES = 4000  # of the 4096 bytes that Kubernetes keeps
LARGEST_LEFT = 512 * 1024
LARGEST_FILE = 64 * 1024 * 1024
LARGEST_OUTPUT = 256 * 1024 * 1024
MOST_FILES = 10_000
LONGEST_REASON = 500
PATIENCE = 120.0  # seconds without an answer, after which nothing more is tried
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0
TIMEOUT = 60.0
BLOCK = 256 * 1024
AGAIN = (408, 409, 425, 429)  # and all from 500 on
FINAL = (401, 403, 404)  # what holds for all that would follow
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
ALONE = "pods of this cluster cannot reach the server"
SUGGESTION = "write it to a volume, or ask an administrator to set the cluster's server_url"


class Lost(Exception):
    """Something cannot be fetched or handed over; says why."""


class Pod:
    """What surrounds a function in a pod: the server, where it can be reached, and the termination message."""

    def __init__(self, home: str, output: str) -> None:
        self.home, self.output = home, output
        self.server = (os.environ.get("FAIRLEAD_SERVER") or "").rstrip("/")
        self.token = os.environ.pop("FAIRLEAD_RUN_TOKEN", "")
        self.run = os.environ.get("FAIRLEAD_RUN", "")
        self.message = os.environ.get("FAIRLEAD_TERMINATION") or TERMINATION
        self.connection: Any = None
        self.given_up = ""

    def ask(self, method: str, path: str, body: BinaryIO | None = None) -> bytes:
        """What the server answers, however long it takes to come back. Raise `Lost` where it does not, or refuses."""
        from time import monotonic, sleep

        pause, until = FIRST_PAUSE, monotonic() + PATIENCE
        while not self.given_up:
            try:
                return self.ask_once(method, path, body)
            except OSError as error:
                why = error.strerror or str(error) or type(error).__name__
            self.close()
            if monotonic() + pause > until:
                self.given_up = f"no answer from {self.server} for {PATIENCE:.0f} seconds: {why}"
                break
            from random import random

            sleep(pause * (0.5 + random()))
            pause = min(2 * pause, LONGEST_PAUSE)
        raise Lost(self.given_up)

    def ask_once(self, method: str, path: str, body: BinaryIO | None) -> bytes:
        """The same, tried once. Raise OSError where another try may do."""
        from contextlib import suppress
        from http.client import HTTPException

        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/octet-stream"}
        if body is not None:
            headers["Content-Length"] = str(body.seek(0, os.SEEK_END))
            body.seek(0)
        try:
            address = self.connect() + path
            # A server that refuses does not read to the end; its answer may be there nevertheless.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.connection.request(method, address, body, headers)
            answer = self.connection.getresponse()
            told: bytes = answer.read()
        except HTTPException as error:
            raise OSError(f"{type(error).__name__} {error}".strip()) from None
        if answer.status < 300:
            return told
        why = f"{self.server} answered {answer.status}: {explain(told)}"
        if answer.status < 400:
            why = f"{self.server} answered that it is at {answer.getheader('Location', 'another address')}"
        if answer.status in AGAIN or answer.status >= 500:
            raise OSError(why)
        if answer.status < 400 or answer.status in FINAL:
            self.given_up = why
        raise Lost(why)

    def connect(self) -> str:
        """Have a connection to the server; the address there of all that the run asks for."""
        from http import client
        from urllib.parse import urlsplit

        said = urlsplit(self.server)
        if self.connection is None:
            kind = client.HTTPSConnection if said.scheme == "https" else client.HTTPConnection
            connection = kind(said.netloc, timeout=TIMEOUT, blocksize=BLOCK)
            connection.connect()
            self.connection = connection
        return f"{said.path}/api/v1/runs/{self.run}/"

    def close(self) -> None:
        """Let go of the connection: the next request makes a new one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def fetch_code(self) -> str:
        """Fetch the code of the function; where it lies then. Raise `Lost` where that cannot be."""
        if not self.server:
            raise Lost(f"the code did not come with the pod, and {ALONE}")
        try:
            code = self.ask("GET", "code")
        except Lost as lost:
            message = f"the code could not be fetched from {self.server}/api/v1/runs/{self.run}/code: {lost}"
            raise Lost(message) from None
        os.makedirs(self.home, exist_ok=True)
        archive = os.path.join(self.home, "code.tar.gz")
        with open(archive, "wb") as file:
            file.write(code)
        return archive

    def upload_file(self, code: int) -> int:
        """Hand over all that a function left that ended with a code; the code to end with."""
        lost = self.upload_files()
        told: dict[str, Any] = {}
        if lost:
            told["lost"] = {"files": len(lost), "why": next(iter(lost.values()))[:LONGEST_REASON]}
        error = self.read("error.json")
        if code == 0:
            try:
                told.update(self.hand_over_result(self.read("result.json"), lost, told))
            except Lost as trouble:
                sys.stderr.write(f"{trouble}\n")
                code, error = 1, {"type": "ResultLost", "message": str(trouble), "traceback": ""}
        if error is not None:
            told.update(self.hand_over_error(error, told))
        self.close()
        self.tell(told)
        return code

    def upload_files(self) -> dict[str, str]:
        """Hand over the files of the output; those that were lost, each with the reason."""
        lost: dict[str, str] = {}
        count, total = 0, 0
        for path, size in walk(self.output):
            try:
                if not self.server:
                    raise Lost(f"{ALONE}: {SUGGESTION}")
                if any(letter < " " for letter in path):  # which no address can have
                    raise Lost(f"{path!r} has a line break or the like in its name: rename it")
                if count >= MOST_FILES:
                    raise Lost(f"at most {MOST_FILES:,} files are kept: pack them into one, or use a volume")
                if size > LARGEST_FILE or total + size > LARGEST_OUTPUT:
                    most = f"at most {LARGEST_FILE:,} of a file and {LARGEST_OUTPUT:,} of a run are kept"
                    raise Lost(f"{path} has {size:,} bytes, and {most}: write it to a volume")
                with open(os.path.join(self.output, path), "rb") as file:
                    self.put(f"output/{path}", file)
                count, total = count + 1, total + size
            except Lost as error:
                lost[path] = str(error)
            except OSError as error:
                lost[path] = f"{path} cannot be read: {error.strerror}"
        if lost:
            told = "1 file of the output was" if len(lost) == 1 else f"{len(lost):,} files of the output were"
            sys.stderr.write(f"{told} lost: {next(iter(lost.values()))}\n")
        return lost

    def hand_over_result(self, result: Any, lost: dict[str, str], told: dict[str, Any]) -> dict[str, Any]:
        """Hand over what the function returned; what to tell of it. Raise `Lost` where it cannot be."""
        if result is None:
            return {}
        returned = f"the function returned {result['size'] if 'size' in result else len(encode(result))} bytes"
        file = str(result.get("path"))
        if result.get("kind") == "file" and file in lost:
            raise Lost(f"{returned}, which get back as a file, and {lost[file]}")
        if len(encode({**told, "result": result})) <= MAX_MESSAGE_BYTES:
            return {"result": result}
        if not self.server:
            raise Lost(f"{returned}, and {self.most}")
        try:
            self.put("result.json", io.BytesIO(encode(result)))
        except Lost as error:
            raise Lost(f"{returned}, and they could not be handed over: {error}") from None
        return {"handed": "result.json"}

    @property
    def most(self) -> str:
        """How much gets back without the server, and what to do about the rest."""
        return f"{ALONE}: at most {MAX_MESSAGE_BYTES} bytes get back without it; {SUGGESTION}"

    def hand_over_error(self, error: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        """Hand over how the function failed; what to tell of it: as much as there is room for."""
        known = {name: str(error.get(name, "")) for name in ("type", "message", "traceback")}
        over = len(encode({**told, "error": known})) - MAX_MESSAGE_BYTES
        if over <= 0:
            return {"error": known}
        handed = {}
        try:
            if self.server:
                self.put("error.json", io.BytesIO(encode(known)))
                handed = {"handed": "error.json"}
        except Lost as lost:
            sys.stderr.write(f"only part of the error was handed over: {lost}\n")
        for name in ("traceback", "message", "type"):  # the end of how it came to that, the beginning of what was said
            over = len(encode({**told, **handed, "error": known})) - MAX_MESSAGE_BYTES
            if over > 0:
                text = known[name].encode(errors="replace")
                known[name] = (text[over:] if name == "traceback" else text[:-over]).decode(errors="ignore")
        return {"error": known, **handed}

    def put(self, path: str, file: BinaryIO) -> None:
        """Hand over one file. Raise `Lost` where it cannot be."""
        from urllib.parse import quote

        try:
            address = "uploads/" + quote(path)
        except UnicodeEncodeError:
            raise Lost(f"{path!a} is a name that is no text") from None
        self.ask("PUT", address, file)

    def read(self, name: str) -> Any:
        """A JSON object that the bootstrap left in its home; None where there is none."""
        try:
            with open(os.path.join(self.home, name), "rb") as file:
                found = json.loads(file.read(LARGEST_LEFT))
        except (OSError, ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def tell(self, told: dict[str, Any]) -> None:
        """Write the termination message. Where there is nothing to tell, what the function itself wrote there stays."""
        if not told:
            return
        try:
            with open(self.message, "wb") as file:  # in its place: it is mounted
                file.write(encode(told))
        except OSError as error:
            sys.stderr.write(f"cannot write {self.message}: {error.strerror}\n")


def enter(call: dict[str, Any], archive: str, home: str, output: str) -> tuple[str, str]:
    """Where the code lies and what is wrong, for the process of the function. A second one stays beside it.

    A function that is served has no second process: it leaves nothing, and hears of its end itself.
    """
    pod = Pod(home, output)
    missing = bool(call["source"]) and not os.path.exists(archive)
    fetched = os.path.join(home, "code.tar.gz") if missing else archive
    if not pod.server and not os.path.exists(pod.message):
        return archive, ""
    if call["action"] == "serve":
        import atexit

        atexit.register(describe_failure, pod, os.getpid())
        return fetched, fetch(pod, missing)
    import signal

    signals = [getattr(signal, name) for name in SIGNALS]
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until somebody is there who passes them on
    hear, say = os.pipe()
    child = os.fork()
    if child:
        os.close(hear)
        stand_by(pod, child, say, missing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    os.close(say)
    with open(hear, "rb") as ready:
        return fetched, ready.read().decode()


def fetch(pod: Pod, missing: bool) -> str:
    """Fetch the code where it is missing; what is wrong, in a sentence."""
    try:
        if missing:
            pod.fetch_code()
    except (Lost, OSError) as error:
        return str(error)
    return ""


def describe_failure(pod: Pod, process: int) -> None:
    """Tell how a served function failed, where this is its process and it did."""
    error = pod.read("error.json")
    if error is not None and os.getpid() == process:
        pod.server = ""  # nobody waits for a traceback at the end of a server
        pod.tell(pod.hand_over_error(error, {}))


def stand_by(pod: Pod, child: int, say: int, missing: bool) -> NoReturn:
    """Fetch the code, wait for the end of the function, hand over what it left, and end as it did."""
    import signal
    from contextlib import suppress

    code, began = 1, False

    def pass_on(number: int, _frame: Any) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number if began else signal.SIGKILL)
        if not began:  # and so nothing is to be handed over
            os._exit(128 + number)

    try:
        signals = [getattr(signal, name) for name in SIGNALS]
        for number in signals:
            signal.signal(number, pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        trouble = fetch(pod, missing)
        began = True
        with suppress(BrokenPipeError), open(say, "wb") as ready:
            ready.write(trouble.encode(errors="replace"))
        code = wait(child)
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        code = pod.upload_file(code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = code or 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(child: int) -> int:
    """The exit code of a process, that of a shell where a signal ended it. As the first process, bury others too."""
    while True:
        ended, status = os.wait()
        if ended == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def walk(folder: str) -> Iterator[tuple[str, int]]:
    """The plain files below a folder with their sizes. No link is followed."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            names = sorted(os.listdir(os.path.join(folder, prefix)))
        except OSError as error:
            sys.stderr.write(f"{prefix or 'the output folder'} cannot be read: {error.strerror}\n")
            continue
        for name in names:
            try:
                seen = os.lstat(os.path.join(folder, prefix, name))
            except OSError:  # something still runs, and has removed it
                continue
            if stat.S_ISDIR(seen.st_mode):
                waiting.append(f"{prefix}{name}/")
            elif stat.S_ISREG(seen.st_mode):
                yield prefix + name, seen.st_size


def encode(told: Any) -> bytes:
    """JSON, in bytes that are counted."""
    return json.dumps(told, ensure_ascii=False).encode(errors="replace")


def explain(told: bytes) -> str:
    """What a problem of the server says."""
    try:
        said = json.loads(told)
        first = (said.get("violations") or [{}])[0]
        words = (first.get("message") or said["detail"], first.get("hint") or said.get("hint"))
        return "; ".join(filter(None, words))
    except (ValueError, LookupError, AttributeError, TypeError):
        return ascii(told[:200].decode(errors="replace"))
