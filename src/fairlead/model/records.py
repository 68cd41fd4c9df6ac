"""Records: the objects that the server stores.

Fields named in DERIVED are computed when a record is read and are not stored.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from fairlead.model.plans import Demand

JSON = dict[str, Any]
SETTINGS = "settings"  # the ID of the only SettingsRecord


@dataclass(frozen=True, kw_only=True)
class Record:
    """The fields that all mutable records have. The revision increases by one with each save."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    revision: int = 1
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class ScopeRecord(Record):
    """A scope in the organization tree. `details` contains the other fields of a cluster."""

    kind: str
    name: str
    scope: str  # the reference to this scope itself, such as project/forest
    parent: str | None
    details: JSON = field(default_factory=dict)
    managed_by: str | None = None  # the manager whose files define it, so users cannot edit it; None: no files


@dataclass(frozen=True, kw_only=True)
class AssetRecord(Record):
    """The fields that compute resources and templates have in common."""

    name: str
    description: str = ""
    scope: str
    cluster: str | None = None  # the cluster of its scope; updated without a new revision when the scope is moved
    requirements: JSON = field(default_factory=dict)
    archived: bool = False
    successor: str | None = None  # used for requests that still name this object after it was archived
    managed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class ComputeResourceRecord(AssetRecord):
    """A compute resource, with counts of the active runs and templates that use it."""

    DERIVED = ("workloads", "templates", "last_used_at")

    workload_types: list[str] | None = None
    workloads: int = 0
    templates: int = 0
    last_used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class TemplateRecord(AssetRecord):
    """A template, with the compute resource that it uses."""

    DERIVED = ("workloads", "last_used_at")

    compute_resource: str | None = None
    workloads: int = 0
    last_used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RevisionRecord:
    """One revision of a compute resource or template. Immutable."""

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
    """A scope's policy."""

    scope: str
    content: JSON
    managed_by: str | None = None


@dataclass(frozen=True, kw_only=True)
class SecretRecord(Record):
    """A project secret, with its encrypted value."""

    scope: str
    name: str
    sealed: bytes
    key_id: str  # the key that encrypted it, so that key rotation can find values encrypted with older keys


@dataclass(frozen=True, kw_only=True)
class VolumeRecord(Record):
    """A volume that a project's runs can share."""

    scope: str
    name: str
    size: str
    storage_class: str | None = None
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class FunctionRecord(Record):
    """A function in a project, as it was last saved or run. `content` is the function without its name."""

    DERIVED = ("runs", "last_run_at")

    scope: str
    name: str
    kind: str
    content: JSON
    code: str | None = None  # the digest of its code
    runs: int = 0
    last_run_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class GrantRecord(Record):
    """A role that a user or group has at a scope and at all scopes inside it."""

    subject: str
    role: str
    scope: str


@dataclass(frozen=True, kw_only=True)
class TokenRecord(Record):
    """An API token, session or sign-in link. Only a digest of the token is stored."""

    user: str
    groups: list[str]  # as of the sign-in; later changes at the identity provider have no effect
    name: str
    purpose: str  # api, local (for the server's own machine), session or login (one-time link)
    digest: str
    expires_at: datetime | None
    created_with: str | None = None  # the ID of the token that created this session or link, which expires with it


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """A run: its function, resources and state."""

    scope: str
    function: str
    action: str
    state: str
    reason: str
    message: str
    active: bool = True
    compute_resource: str | None = None
    compute_resource_id: str | None = None  # stays the same if the compute resource is renamed
    compute_resource_revision: int | None = None
    template: str | None = None
    template_id: str | None = None
    uses: list[str] = field(default_factory=list)  # secret/NAME and volume/NAME; a volume in use cannot be deleted
    gpus: int = 0  # this field and the next three: total resources of its pods, for quotas and fair shares
    cpu_millicores: int = 0
    mem_bytes: int = 0
    disk_bytes: int = 0
    code: str | None = None  # the digest of its code
    cluster: str | None = None  # the cluster that executes it
    server_id: str | None = None  # the server that manages it; for a local cluster, the server on whose machine it runs
    stopped_by: str | None = None  # the user who stopped it
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    priority: int = 0
    queue_key: str = ""  # sort key among the runs of a project; lower keys run first
    request_key: str = ""  # equal for runs that request the same, so that the queue examines only the first of them
    reserved_by: str | None = None  # the server whose machine reserves what the run requests until it starts
    attempt: int = 1  # the number of the current attempt
    retry_at: datetime | None = None  # the earliest start of the next attempt
    idle_seconds: int | None = None  # the idle timeout
    last_used_at: datetime | None = None  # when its URL was last used
    schedule: str | None = None  # the name of the schedule that submitted it

    def __post_init__(self) -> None:
        if not self.queue_key:  # without a priority, runs are ordered by creation time, and IDs sort by time
            object.__setattr__(self, "queue_key", self.id)


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """A finished attempt of a run. Its ID is the execution ID. Immutable."""

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
    mem_bytes: int = 0  # total memory of its pods, which may be more than in the previous attempt
    server_id: str | None = None  # the server that managed it; for a local cluster, the server with its log and files
    error: JSON | None = None
    usage: JSON = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ScheduleRecord(Record):
    """A schedule: a request that is submitted repeatedly on behalf of the user who last saved it."""

    scope: str
    name: str
    function: str
    cron: str
    timezone: str
    missed: str
    overlap: str
    request: JSON
    code: str | None = None  # the digest of the request's code
    user: str
    groups: list[str] = field(default_factory=list)  # the user's groups when the schedule was saved
    paused: bool = False
    next_at: datetime | None = None  # None: paused, or no more due times
    last_at: datetime | None = None  # the last due time
    last_run_id: str | None = None  # the run that was submitted at that time
    last_problem: str | None = None  # why no run was submitted at that time


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """A run's request and plan, and the demand of its first attempt, stored under the run ID.

    Immutable. It is replaced only if the run is planned again for another cluster before it starts.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    request: JSON
    plan: JSON
    demand: Demand


@dataclass(frozen=True, kw_only=True)
class EventRecord:
    """A change to a run's state or reason. Immutable."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    run_id: str
    at: datetime
    state: str
    reason: str
    message: str
    revision: int = 0  # the run's revision; orders its events even if the clock was set back

    @classmethod
    def of(cls, run: RunRecord, id: str, at: datetime) -> "EventRecord":
        """The event for a run's current state."""
        status = {"state": run.state, "reason": run.reason, "message": run.message}
        return cls(id=id, run_id=run.id, at=at, revision=run.revision, **status)


@dataclass(frozen=True, kw_only=True)
class OutcomeRecord:
    """A run's outcome, stored under the run ID: result or error, and peak usage. Immutable."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    result: JSON | None = None
    error: JSON | None = None
    usage: JSON = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunFileRecord:
    """A run's stored output file. Immutable: a new upload to the same path replaces it."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # derived from the run and the path
    run_id: str
    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, kw_only=True)
class FilePartRecord:
    """A chunk of an output file. Chunks let the server list files or read the end of a file without loading it all."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # derived from the file and the number
    file_id: str
    number: int
    content: bytes


@dataclass(frozen=True, kw_only=True)
class CodeRecord:
    """A reference from a project to packed code. Immutable."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str  # derived from scope and digest, so knowing a digest gives no access to other projects' code
    digest: str
    size: int
    created_by: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class BlobRecord:
    """Packed code, stored once for all projects under its digest. Immutable."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class ServerRecord(Record):
    """A server that manages runs, with its URL and last heartbeat."""

    name: str
    url: str
    seen_at: datetime


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """An audit log entry. Immutable and permanent."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    at: datetime
    user: str
    via: str  # how the user was authenticated, such as session:browser
    address: str
    request_id: str
    action: str
    kind: str
    object_id: str
    name: str
    scope: str
    scope_id: str  # the scope's name may later be reused for a different scope
    before: JSON | None = None  # None: it was created
    after: JSON | None = None  # None: it was deleted


@dataclass(frozen=True, kw_only=True)
class IdempotencyRecord:
    """The response to a request with an idempotency key, returned again if the request is repeated."""

    DERIVED: ClassVar[tuple[str, ...]] = ()

    id: str
    user: str
    digest: str  # the request's digest; the same key must not be used for a different request
    answer: JSON | None  # None: the response contained a new secret, so it is not stored
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class SettingsRecord(Record):
    """The platform settings: a single record with the ID `settings`."""

    defaults: JSON = field(default_factory=dict)
    default_cluster: str | None = None  # the scope of the cluster for new projects; None: the oldest cluster
