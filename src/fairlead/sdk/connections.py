"""A connection to a server: where it is, with which token, and its problems as our errors."""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import platformdirs

from fairlead.errors import (
    Changed,
    Conflict,
    FairleadError,
    Forbidden,
    NotFound,
    RequestRejected,
    RevisionMissing,
    Unauthenticated,
    Unavailable,
    Unreadable,
)
from fairlead.model.hosts import is_loopback
from fairlead.model.plans import Layer, Source, Violation

SECONDS = 60.0
ERRORS: Mapping[str, type[FairleadError]] = {
    error.code: error
    for error in (Unauthenticated, Forbidden, NotFound, Conflict, Changed, RevisionMissing, Unavailable)
}


@dataclass(frozen=True)
class Connection:
    """An address and a token."""

    url: str
    token: str

    def get(self, path: str, **parameters: Any) -> Any:
        """What the server answers to a question."""
        return self._send("GET", path, params=parameters)

    def post(self, path: str, body: Any) -> Any:
        """What the server answers to something new."""
        return self._send("POST", path, json=body)

    def _send(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            # A proxy is for other machines: on this one it would only see the token.
            # And preparing for TLS takes a tenth of a second, also where none is spoken.
            url = httpx2.URL(self.url)
            tls, elsewhere = url.scheme == "https", not is_loopback(url.host)
            with httpx2.Client(headers=headers, timeout=SECONDS, verify=tls, trust_env=elsewhere) as client:
                answer = client.request(method, f"{self.url}/api/v1{path}", **options)
        except httpx2.TransportError as error:
            hint = "see whether it runs, or start one with `fairlead up`"
            raise Unavailable(f"there is no answer from {self.url}: {error}", hint) from error
        if answer.is_success:
            return answer.json() if answer.content else None
        raise _error_of(answer)


def find_connection(environment: Mapping[str, str] = os.environ) -> Connection:
    """The server that FAIRLEAD_URL names, or else the one that runs on this machine for this user."""
    data = Path(environment.get("FAIRLEAD_DATA") or platformdirs.user_data_dir("fairlead"))
    url, token = environment.get("FAIRLEAD_URL"), environment.get("FAIRLEAD_TOKEN")
    if url:
        if not token or not token.isascii():
            found = "is no token" if token else "is not"
            raise Unreadable(f"FAIRLEAD_URL is set, and FAIRLEAD_TOKEN {found}", "set it to a token of that server")
        return Connection(url.rstrip("/"), token)
    try:
        if not _is_held(data / "server.lock"):
            raise FileNotFoundError("no server holds the folder")
        running = json.loads((data / "server.json").read_text("utf-8"))
        return Connection(running["url"], token or (data / "token").read_text("utf-8").strip())
    except (OSError, ValueError, KeyError) as error:
        hint = "start one with `fairlead up`, or set FAIRLEAD_URL and FAIRLEAD_TOKEN"
        raise Unavailable("no server runs on this machine for this user", hint) from error


def _is_held(lock: Path) -> bool:
    """Whether a server lives in a folder. Otherwise its port may be anybody's, and must not get the token."""
    with lock.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _error_of(answer: httpx2.Response) -> FairleadError:
    try:
        problem = answer.json()
        code, detail, hint = problem["code"], problem["detail"], problem.get("hint")
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"the server answered {answer.status_code}, and no more that can be read")
    if code == RequestRejected.code:
        return RequestRejected(_violation_of(found) for found in problem["violations"])
    if issubclass(ERRORS.get(code, FairleadError), Conflict):
        return ERRORS[code](detail, hint, problem.get("used_by", ()))  # type: ignore[call-arg]
    if code == Unavailable.code:
        return Unavailable(detail, hint, problem.get("retry_after_seconds", 1))
    error = ERRORS.get(code, FairleadError)(detail, hint)
    error.code = code
    return error


def _violation_of(found: Mapping[str, Any]) -> Violation:
    source = found.get("source")
    known = None if source is None else Source(**{**source, "layer": Layer(source["layer"])})
    return Violation(found["path"], found["rule"], found["message"], found.get("hint"), known, found.get("where"))
