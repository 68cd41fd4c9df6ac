"""Run states, and types that the server and its executors exchange: observations, launch specs, logs and endpoints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NewType

from fairlead.model.nodes import QueuePosition
from fairlead.model.plans import Demand, Manifest
from fairlead.model.records import VolumeRecord

JSON = dict[str, Any]
ExecutionId = NewType("ExecutionId", str)  # the ID of an attempt; for the first attempt, it equals the run ID


class Phase(StrEnum):
    """The phase of an execution, the same for all executors."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Observation:
    """The state of a run as its executor sees it. `stopped`: the run ended because of a stop request.

    `queue_position` reads the run's current position in its cluster's queue.
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
    queue_position: Callable[[], QueuePosition] | None = None  # a function, because few observations need it


@dataclass(frozen=True)
class LaunchSpec:
    """Everything an executor needs to start a run. The only object that contains secrets in plain text."""

    execution_id: ExecutionId
    project: str
    project_id: str  # stays the same when the project is renamed
    name: str  # the name of the first manifest, which is the Job or Deployment
    manifests: tuple[Manifest, ...]
    demand: Demand
    code: bytes = b""
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)  # shared volumes by name
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_token: str = field(default="", repr=False)  # authenticates the run when it downloads code and uploads results


@dataclass(frozen=True)
class LogEntry:
    """A chunk of a log with its timestamp."""

    at: datetime
    stream: str  # stdout, stderr, or platform for messages from Fairlead
    data: bytes
    end: int  # the cursor after this entry


@dataclass(frozen=True)
class LogPage:
    """A page of a log, with the cursor of the next page. `complete`: no more entries will follow."""

    entries: list[LogEntry]
    cursor: int
    complete: bool


@dataclass(frozen=True)
class OutputFile:
    """An output file of a run."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True)
class Check:
    """The result of one check of a cluster or machine, with a hint if it failed."""

    name: str
    state: Literal["ok", "warning", "problem"]
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Endpoint:
    """The address at which the server reaches a served run.

    `url` is the base URL without a trailing slash. `socket` is a Unix socket to connect to instead of the host.
    `headers` are set on each request, replace headers with the same name, and are never shown. `verify` is the TLS
    context; the certificate must match `server_name` or, if unset, the host. `prefix` is the path prefix that an
    intermediate proxy adds to links in HTML pages and redirects; the server removes it.
    """

    url: str
    socket: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    verify: Any = field(default=None, repr=False)
    server_name: str | None = None
    prefix: str = ""


class State(StrEnum):
    """The states that a run can have. The last three are final."""

    QUEUED = "queued"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


FINAL = frozenset({State.COMPLETED, State.FAILED, State.STOPPED})
