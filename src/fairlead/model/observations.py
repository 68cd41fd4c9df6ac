"""What an executor sees of a run, and what it is asked to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from fairlead.model.plans import Manifest
from fairlead.model.queues import Standing
from fairlead.model.records import VolumeRecord

JSON = dict[str, Any]


class Phase(StrEnum):
    """How far the execution of a run is, whatever executes it."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Observation:
    """What an executor sees of a run. `stopped`: it ended because that was asked for.

    `standing`: tells where it stands in a queue of its cluster, whenever that is asked.
    """

    phase: Phase
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    stopped: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    result: JSON | None = None
    error: JSON | None = None
    usage: JSON = field(default_factory=dict)
    standing: Callable[[], Standing] | None = None


@dataclass(frozen=True)
class LaunchSpec:
    """What an executor needs to start a run. Only here are secrets in the open."""

    run_id: str
    project: str
    name: str
    manifests: tuple[Manifest, ...]
    code: bytes = b""
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)  # those that runs share, by name
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_token: str = field(default="", repr=False)  # with which the run fetches its code and hands over what it leaves


@dataclass(frozen=True)
class LogEntry:
    """Bytes that a run wrote at one moment."""

    at: datetime
    stream: str  # stdout, stderr, or platform for what Fairlead itself says
    data: bytes
    end: int  # the cursor of what follows


@dataclass(frozen=True)
class LogPage:
    """Part of a log, and the cursor of what comes next. `complete`: nothing will."""

    entries: list[LogEntry]
    cursor: int
    complete: bool


@dataclass(frozen=True)
class OutputFile:
    """A file that a run left behind."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True)
class Check:
    """One thing that was looked at where runs are executed: how it is, and what to do where it is not good."""

    name: str
    state: Literal["ok", "warning", "problem"]
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """How the server speaks to what a run serves.

    `url` is where its paths begin, without a slash at the end. `socket`: a Unix socket to connect to, in place of the
    host that the url names. `headers` go with each request, in place of any of these names, and are told nobody.
    `verify`: the TLS context, for the name of the url or for `server_name`. `prefix`: what a proxy on the way puts
    before the links of HTML pages and redirections, to be taken off again.
    """

    url: str
    socket: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: Any = field(default=None, repr=False)
    server_name: str | None = None
    prefix: str = ""
