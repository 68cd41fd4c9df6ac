"""The sidecar of a function in a pod: downloads its code, waits until it has ended, and uploads its results.

Standard library only, for Python 3.8 and later. It is next to the bootstrap, which loads it only in pods.
The function runs in a child process: even if it is killed or executes another program, this process uploads its
results. The token, which is valid for this run only, is removed from the function's environment. Small results are
written to the termination message, which needs no network; everything else is uploaded to the server.
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

TERMINATION_LOG = "/dev/termination-log"
MAX_MESSAGE_BYTES = 4000  # Kubernetes keeps 4096 bytes
# The server enforces the same limits. A pod does not send files that would be rejected.
MAX_OUTCOME_BYTES = 512 * 1024
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_OUTPUT_BYTES = 256 * 1024 * 1024
MAX_OUTPUT_FILES = 10_000
MAX_REASON_LENGTH = 500
# Long enough for a server restart. While the pod waits, it still occupies its GPUs.
GIVE_UP_SECONDS = 120.0  # after this time without a response, nothing more is sent
FIRST_PAUSE, MAX_PAUSE = 0.25, 10.0  # seconds between retries
REQUEST_TIMEOUT = 60.0
BLOCK = 256 * 1024
RETRY_STATUSES = (408, 409, 425, 429)  # and all from 500 up
FINAL_STATUSES = (401, 403, 404)  # all later requests would also fail
# Kubernetes sends signals only to the first process in a container, which is the sidecar.
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
UNREACHABLE = "pods in this cluster cannot reach the server"
HINT = "write it to a volume, or ask an administrator to set the cluster's server_url"


class TransferError(Exception):
    """A download or an upload failed."""


class Sidecar:
    """Connects the run in this pod to the server, if pods can reach it, and writes the termination message."""

    def __init__(self, home: str, output: str) -> None:
        self.home, self.output = home, output
        self.server = (os.environ.get("FAIRLEAD_SERVER") or "").rstrip("/")
        self.token = os.environ.pop("FAIRLEAD_RUN_TOKEN", "")
        self.run = os.environ.get("FAIRLEAD_RUN", "")
        self.message_file = os.environ.get("FAIRLEAD_TERMINATION") or TERMINATION_LOG
        self.connection: Any = None
        self.failure = ""  # why all further requests fail

    def request(self, method: str, path: str, body: BinaryIO | None = None) -> bytes:
        """Send a request, with retries, and return the response. Raises `TransferError`."""
        # Imports are inside methods, so that the function, which runs in a fork of this process, does not load them.
        from time import monotonic, sleep

        pause, until = FIRST_PAUSE, monotonic() + GIVE_UP_SECONDS
        while not self.failure:
            try:
                return self.request_once(method, path, body)
            except OSError as error:
                why = error.strerror or str(error) or type(error).__name__
            self.close()
            if monotonic() + pause > until:
                # Stored, so that the pod waits for an unreachable server only once, and not for each file.
                self.failure = f"no response from {self.server} for {GIVE_UP_SECONDS:.0f} seconds: {why}"
                break
            from random import random

            # Add jitter, because after a server outage many pods retry at the same time.
            sleep(pause * (0.5 + random()))
            pause = min(2 * pause, MAX_PAUSE)
        raise TransferError(self.failure)

    def request_once(self, method: str, path: str, body: BinaryIO | None) -> bytes:
        """Send a request once. Raises OSError if a retry may succeed."""
        from contextlib import suppress
        from http.client import HTTPException

        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/octet-stream"}
        if body is not None:
            # Without a length, http.client sends chunks, and the server cannot reject a large file early.
            headers["Content-Length"] = str(body.seek(0, os.SEEK_END))
            body.seek(0)  # needed for retries
        try:
            address = self.connect() + path
            # A server that rejects a request may respond and close before it has read the whole body.
            with suppress(BrokenPipeError, ConnectionResetError):
                self.connection.request(method, address, body, headers)
            response = self.connection.getresponse()
            content: bytes = response.read()
        except HTTPException as error:
            raise OSError(f"{type(error).__name__} {error}".strip()) from None
        if response.status < 300:
            return content
        why = f"{self.server} responded with {response.status}: {describe_problem(content)}"
        # Redirects are not followed, because that could send the token to another server.
        if response.status < 400:
            why = f"{self.server} redirects to {response.getheader('Location', 'another address')}"
        if response.status in RETRY_STATUSES or response.status >= 500:
            raise OSError(why)
        if response.status < 400 or response.status in FINAL_STATUSES:
            self.failure = why
        raise TransferError(why)

    def connect(self) -> str:
        """Connect to the server if needed; return this run's path in its API."""
        from http import client
        from urllib.parse import urlsplit

        url = urlsplit(self.server)
        if self.connection is None:
            kind = client.HTTPSConnection if url.scheme == "https" else client.HTTPConnection
            connection = kind(url.netloc, timeout=REQUEST_TIMEOUT, blocksize=BLOCK)
            connection.connect()
            self.connection = connection
        return f"{url.path}/api/v1/runs/{self.run}/"

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def download_code(self) -> str:
        """Download the function's code and return the path of the archive. Raises `TransferError`."""
        if not self.server:
            raise TransferError(f"the code is too large for the pod's ConfigMap, and {UNREACHABLE}")
        try:
            code = self.request("GET", "code")
        except TransferError as error:
            message = f"cannot download the code from {self.server}/api/v1/runs/{self.run}/code: {error}"
            raise TransferError(message) from None
        os.makedirs(self.home, exist_ok=True)
        archive = os.path.join(self.home, "code.tar.gz")
        with open(archive, "wb") as file:
            file.write(code)
        return archive

    def upload_results(self, code: int) -> int:
        """Upload the result, error and output files of a function; return the pod's exit code."""
        # Upload files first: one of them may be the result, and the message below counts those that were lost.
        lost = self.upload_files()
        message: dict[str, Any] = {}
        if lost:
            message["lost"] = {"files": len(lost), "why": next(iter(lost.values()))[:MAX_REASON_LENGTH]}
        error = self.read_json("error.json")
        if code == 0:
            try:
                message.update(self.upload_result(self.read_json("result.json"), lost, message))
            except TransferError as failure:
                sys.stderr.write(f"{failure}\n")
                # Callers wait for the result, so a run without it has failed.
                code, error = 1, {"type": "ResultLost", "message": str(failure), "traceback": ""}
        if error is not None:
            message.update(self.upload_error(error, message))
        self.close()
        self.write_message(message)
        return code

    def upload_files(self) -> dict[str, str]:
        """Upload the output files; return the reason for each file that was not uploaded."""
        lost: dict[str, str] = {}
        count, total = 0, 0
        for path, size in list_files(self.output):
            try:
                if not self.server:
                    raise TransferError(f"{UNREACHABLE}: {HINT}")
                if any(letter < " " for letter in path):  # not allowed in URLs
                    raise TransferError(f"{path!r} contains a control character: rename the file")
                if count >= MAX_OUTPUT_FILES:
                    raise TransferError(
                        f"a run can have at most {MAX_OUTPUT_FILES:,} output files: pack them into one, or use a volume"
                    )
                if size > MAX_FILE_BYTES or total + size > MAX_OUTPUT_BYTES:
                    limits = f"the limit is {MAX_FILE_BYTES:,} per file and {MAX_OUTPUT_BYTES:,} per run"
                    raise TransferError(f"{path} is {size:,} bytes long, but {limits}: write it to a volume")
                with open(os.path.join(self.output, path), "rb") as file:
                    self.upload(f"output/{path}", file)
                count, total = count + 1, total + size
            except TransferError as error:
                lost[path] = str(error)
            except OSError as error:
                lost[path] = f"cannot read {path}: {error.strerror}"
        if lost:
            count_text = "1 output file was" if len(lost) == 1 else f"{len(lost):,} output files were"
            sys.stderr.write(f"{count_text} not uploaded: {next(iter(lost.values()))}\n")
        return lost

    def upload_result(self, result: Any, lost: dict[str, str], message: dict[str, Any]) -> dict[str, Any]:
        """Add the result to the termination message, or upload it if it is too large. Raises `TransferError`."""
        if result is None:
            return {}
        size_text = f"the function's result is {result['size'] if 'size' in result else len(encode(result))} bytes long"
        file = str(result.get("path"))
        if result.get("kind") == "file" and file in lost:
            raise TransferError(f"{size_text} and was not uploaded: {lost[file]}")
        if len(encode({**message, "result": result})) <= MAX_MESSAGE_BYTES:
            return {"result": result}
        if not self.server:
            raise TransferError(f"{size_text}, but {self.size_limit}")
        try:
            self.upload("result.json", io.BytesIO(encode(result)))
        except TransferError as error:
            raise TransferError(f"{size_text} and was not uploaded: {error}") from None
        return {"handed": "result.json"}  # the server then reads the uploaded file

    @property
    def size_limit(self) -> str:
        """The size limit for results if pods cannot reach the server, and a hint."""
        return f"{UNREACHABLE}, so the limit is {MAX_MESSAGE_BYTES} bytes; {HINT}"

    def upload_error(self, error: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        """Add the error to the termination message, shortened if it is too large; the whole error is uploaded."""
        # The function may have written the file itself, with values of any type.
        fields = {name: str(error.get(name, "")) for name in ("type", "message", "traceback")}
        over = len(encode({**message, "error": fields})) - MAX_MESSAGE_BYTES
        if over <= 0:
            return {"error": fields}
        uploaded = {}
        try:
            if self.server:
                self.upload("error.json", io.BytesIO(encode(fields)))
                uploaded = {"handed": "error.json"}
        except TransferError as failure:
            sys.stderr.write(f"the full error was not uploaded: {failure}\n")
        for name in ("traceback", "message", "type"):  # keep the end of the traceback, and the beginning of the message
            over = len(encode({**message, **uploaded, "error": fields})) - MAX_MESSAGE_BYTES
            if over > 0:
                text = fields[name].encode(errors="replace")
                fields[name] = (text[over:] if name == "traceback" else text[:-over]).decode(errors="ignore")
        return {"error": fields, **uploaded}

    def upload(self, path: str, file: BinaryIO) -> None:
        """Upload a file. Raises `TransferError`."""
        from urllib.parse import quote

        try:
            address = "uploads/" + quote(path)
        except UnicodeEncodeError:
            raise TransferError(f"the file name {path!a} is not valid UTF-8") from None
        self.request("PUT", address, file)

    def read_json(self, name: str) -> Any:
        """Read a JSON object that the bootstrap wrote to its home; None if there is none."""
        try:
            with open(os.path.join(self.home, name), "rb") as file:
                # The bootstrap writes no larger files. A larger file from elsewhere is cut off and ignored as invalid.
                content = json.loads(file.read(MAX_OUTCOME_BYTES))
        except (OSError, ValueError, RecursionError):
            return None
        return content if isinstance(content, dict) else None

    def write_message(self, message: dict[str, Any]) -> None:
        """Write the termination message. An empty message does not replace one that the function wrote itself."""
        if not message:
            return
        try:
            with open(self.message_file, "wb") as file:  # not atomic, because the file is a mount point
                file.write(encode(message))
        except OSError as error:
            sys.stderr.write(f"cannot write {self.message_file}: {error.strerror}\n")


def start(call: dict[str, Any], archive: str, home: str, output: str) -> tuple[str, str]:
    """Fork: the child returns the path of the code archive and an error, and the parent supervises the child.

    A served function has no sidecar process: it has no results, and reports its failure itself.
    """
    sidecar = Sidecar(home, output)
    missing = bool(call["source"]) and not os.path.exists(archive)
    downloaded = os.path.join(home, "code.tar.gz") if missing else archive
    # Results cannot leave the pod, so a second process would have no purpose.
    if not sidecar.server and not os.path.exists(sidecar.message_file):
        return archive, ""
    if call["action"] == "serve":
        import atexit

        atexit.register(report_failure, sidecar, os.getpid())
        return downloaded, download(sidecar, missing)
    import signal

    signals = [getattr(signal, name) for name in SIGNALS]
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until the parent can forward them
    # The child waits on the pipe until the parent has downloaded the code.
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(read_end)
        supervise(sidecar, child, write_end, missing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    os.close(write_end)
    with open(read_end, "rb") as ready:
        return downloaded, ready.read().decode()


def download(sidecar: Sidecar, missing: bool) -> str:
    """Download the code if it is missing; return an error message."""
    try:
        if missing:
            sidecar.download_code()
    except (TransferError, OSError) as error:
        return str(error)
    return ""


def report_failure(sidecar: Sidecar, process: int) -> None:
    """Write the termination message of a served function that failed, unless called in a child process."""
    error = sidecar.read_json("error.json")
    if error is not None and os.getpid() == process:
        sidecar.server = ""  # do not delay the exit with an upload
        sidecar.write_message(sidecar.upload_error(error, {}))


def supervise(sidecar: Sidecar, child: int, ready_fd: int, missing: bool) -> NoReturn:
    """Download the code, wait until the function has ended, upload its results, and exit with its exit code."""
    import signal
    from contextlib import suppress

    code, started = 1, False

    def forward(number: int, _frame: Any) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number if started else signal.SIGKILL)
        if not started:  # nothing to upload yet
            os._exit(128 + number)

    try:
        signals = [getattr(signal, name) for name in SIGNALS]
        for number in signals:
            signal.signal(number, forward)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        error_message = download(sidecar, missing)
        started = True
        # A broken pipe means that the child was killed in the meantime.
        with suppress(BrokenPipeError), open(ready_fd, "wb") as ready:
            ready.write(error_message.encode(errors="replace"))
        code = wait(child)
        # The child's process ID may be reused now. As PID 1, this process then ignores the signals and
        # completes the upload.
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        code = sidecar.upload_results(code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = code or 1
    finally:
        sys.stderr.flush()
        # Do not use sys.exit(): the bootstrap is further down the stack and would continue as if it were the function.
        os._exit(code)


def wait(child: int) -> int:
    """Wait for a process and return its exit code; 128 plus the signal if one killed it. As PID 1, also reap others."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def list_files(folder: str) -> Iterator[tuple[str, int]]:
    """Yield the regular files in a folder and its subfolders, with their sizes. Symbolic links are not followed."""
    # Use a stack instead of recursion, because folders may be nested more deeply than Python calls can be.
    prefixes = [""]
    while prefixes:
        prefix = prefixes.pop()
        try:
            names = sorted(os.listdir(os.path.join(folder, prefix)))
        except OSError as error:
            sys.stderr.write(f"cannot read {prefix or 'the output folder'}: {error.strerror}\n")
            continue
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, prefix, name))
            except OSError:  # removed by a process that is still running
                continue
            if stat.S_ISDIR(status.st_mode):
                prefixes.append(f"{prefix}{name}/")
            elif stat.S_ISREG(status.st_mode):
                yield prefix + name, status.st_size


def encode(value: Any) -> bytes:
    """Encode a value as JSON."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def describe_problem(content: bytes) -> str:
    """Return the message and the hint of an error response."""
    try:
        problem = json.loads(content)
        first = (problem.get("violations") or [{}])[0]
        parts = (first.get("message") or problem["detail"], first.get("hint") or problem.get("hint"))
        return "; ".join(filter(None, parts))
    except (ValueError, LookupError, AttributeError, TypeError):
        # For example, an HTML page from a proxy in front of the server.
        return ascii(content[:200].decode(errors="replace"))
