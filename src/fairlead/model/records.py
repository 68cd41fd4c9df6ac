"""What the server keeps: each object with who made it and when, and how often it was changed since.

Fields named in DERIVED are worked out when a record is read; nobody saves them.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

JSON = dict[str, Any]
SETTINGS = "settings"  # the id of the one record of settings


@dataclass(frozen=True, kw_only=True)
class Record:
    """What every kept object has. The revision grows by one with each save."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    revision: int = 1
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class ScopeRecord(Record):
    """A place of the organization tree. The details are what a cluster says beside its name and parent."""

    kind: str
    name: str
    scope: str
    parent: str | None
    details: JSON = field(default_factory=dict)
    managed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class AssetRecord(Record):
    """Requirements that somebody keeps for others: what compute resources and templates have in common."""

    name: str
    description: str = ""
    scope: str
    cluster: str | None = None
    requirements: JSON = field(default_factory=dict)
    archived: bool = False
    successor: str | None = None
    managed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class ComputeResourceRecord(AssetRecord):
    """A compute resource, with how many runs that are not finished and how many templates use it."""

    DERIVED = ("workloads", "templates", "last_used_at")

    workload_types: list[str] | None = None
    workloads: int = 0
    templates: int = 0
    last_used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class TemplateRecord(AssetRecord):
    """A template, with the compute resource that it names."""

    DERIVED = ("workloads", "last_used_at")

    compute_resource: str | None = None
    workloads: int = 0
    last_used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RevisionRecord:
    """What an asset was after one save. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    object_id: str
    number: int
    name: str
    content: JSON
    created_by: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class PolicyRecord(Record):
    """The policy of a scope, as it was written."""

    scope: str
    content: JSON
    managed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class SecretRecord(Record):
    """A secret of a project: its value only as it was sealed."""

    scope: str
    name: str
    sealed: bytes
    key_id: str


@dataclass(frozen=True, kw_only=True)
class VolumeRecord(Record):
    """A volume that the runs of a project may share."""

    scope: str
    name: str
    size: str
    storage_class: str | None = None
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class FunctionRecord(Record):
    """A function of a project as it was last written or run. The content is all of it but its name."""

    DERIVED = ("runs", "last_run_at")

    scope: str
    name: str
    kind: str
    content: JSON
    code: str | None = None  # the digest of the code that the content names
    runs: int = 0
    last_run_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class GrantRecord(Record):
    """A role of a user or a group at a scope, and so at all below it."""

    subject: str
    role: str
    scope: str


@dataclass(frozen=True, kw_only=True)
class TokenRecord(Record):
    """What lets a user in: only a digest of its text is kept."""

    user: str
    groups: list[str]
    name: str
    purpose: str
    digest: str
    expires_at: datetime | None
    created_with: str | None = None  # the id of the token that opened this session, or made this link: it ends with it


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """A run: what it executes, what it uses, and how far it is."""

    scope: str
    function: str
    action: str
    state: str
    reason: str
    message: str
    active: bool = True
    compute_resource: str | None = None
    compute_resource_id: str | None = None
    compute_resource_revision: int | None = None
    template: str | None = None
    template_id: str | None = None
    uses: list[str] = field(default_factory=list)
    gpus: int = 0  # what it holds while it has a place, all its pods together
    cpu_millicores: int = 0
    mem_bytes: int = 0
    code: str | None = None  # the digest of the code that it executes
    cluster: str | None = None  # whose executor executes it
    server_id: str | None = None  # the server that looks after it; of a local cluster, the one whose machine runs it
    stopped_by: str | None = None  # who asked for its end
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    priority: int = 0
    turn: str = ""  # where it stands among those that wait: runs with a lesser one come first
    attempt: int = 1  # which try of it this is
    retry_at: datetime | None = None  # before when it is not tried again
    idle_seconds: int | None = None  # after how long without use it is stopped
    last_used_at: datetime | None = None  # when somebody last used its URL
    schedule: str | None = None  # the name of the schedule that submitted it

    def __post_init__(self) -> None:
        """Without a priority, it stands where it was submitted: ids sort by time."""
        if not self.turn:
            object.__setattr__(self, "turn", self.id)


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One try of a run that has ended, under the id by which its executor knows it. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    run_id: str
    number: int
    state: str
    reason: str
    message: str
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    mem_bytes: int = 0  # what it held of memory, which may be more than the try before
    server_id: str | None = None  # the server that looked after it; of a local cluster, the one with its log and files
    error: JSON | None = None
    usage: JSON = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScheduleRecord(Record):
    """A request that is submitted again and again, on behalf of whoever wrote it last."""

    scope: str
    name: str
    function: str
    cron: str
    timezone: str
    missed: str
    overlap: str
    request: JSON
    code: str | None = None  # the digest of the code that the request names
    user: str
    groups: list[str] = field(default_factory=list)
    paused: bool = False
    next_at: datetime | None = None  # None: it is paused, or never comes
    last_at: datetime | None = None  # when it was last due
    last_run_id: str | None = None  # the run that was submitted then
    last_problem: str | None = None  # why none was


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """What was asked for in a run and what was decided, under the run's id. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    request: JSON
    plan: JSON


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """A change of a run's state or of its reason. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    run_id: str
    at: datetime
    state: str
    reason: str
    message: str
    revision: int = 0  # of the run: the order of its events, also where the clock was set

    @classmethod
    def of(cls, run: RunRecord, id: str, at: datetime) -> "EventRecord":
        """That a run came to the state that it is in."""
        told = {"state": run.state, "reason": run.reason, "message": run.message}
        return cls(id=id, run_id=run.id, at=at, revision=run.revision, **told)


@dataclass(frozen=True, kw_only=True)
class OutcomeRecord:
    """What came of a run, under its id: what it returned or how it failed, and the most that it used. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    result: JSON | None = None
    error: JSON | None = None
    usage: JSON = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFileRecord:
    """A file that was kept of a run. Never changed: another one of its path takes its place."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # of the run and the path
    run_id: str
    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, kw_only=True)
class FilePartRecord:
    """One part of what is in a file of a run, so that neither a list nor a look at its end reads all of it."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # of the file and the number
    file_id: str
    number: int
    content: bytes


@dataclass(frozen=True, kw_only=True)
class CodeRecord:
    """That a project keeps the packed code of a function. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # of the place and the digest: who knows a digest of another project has no code by it
    digest: str
    size: int
    created_by: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class BlobRecord:
    """The packed code itself, once for all projects, under its digest. Never changed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class ServerRecord(Record):
    """A server that looks after runs: where it is reached, and when it was last seen."""

    name: str
    url: str
    seen_at: datetime


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """Who did what to what, when and from where. Never changed, never removed."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    at: datetime
    user: str
    via: str
    address: str
    request_id: str
    action: str
    kind: str
    object_id: str
    name: str
    scope: str
    scope_id: str  # of the scope: another place may have its name one day
    before: JSON | None = None
    after: JSON | None = None


@dataclass(frozen=True, kw_only=True)
class AnswerRecord:
    """What a request with an idempotency key was answered, for when it is sent again."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    user: str
    digest: str
    answer: JSON | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class SettingsRecord(Record):
    """What administrators set for the whole platform: one record, with the id `settings`."""

    defaults: JSON = field(default_factory=dict)
