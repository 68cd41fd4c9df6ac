"""Interfaces to the outside world: the store, executors, authentication, encryption and the clock."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Literal, Protocol, TypeVar

from fairlead.model.columns import Condition, Page, Query
from fairlead.model.nodes import Capabilities, NodeTable
from fairlead.model.runs import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile
from fairlead.model.scopes import Cluster

RecordT = TypeVar("RecordT")
ConfigPart = Literal["organization", "assets"]
Clock = Callable[[], datetime]
MakeId = Callable[[], str]  # IDs sort by creation time


@dataclass(frozen=True)
class Generation:
    """A version number for each part of the configuration. Cached data is valid only for its generation.

    `organization`: scopes, policies, grants, tokens and settings. `assets`: compute resources, templates, secrets
    and volumes.
    """

    organization: int
    assets: int


class Transaction(Protocol):
    """A database transaction: either all of its changes are saved, or none."""

    @property
    def generation(self) -> Generation:
        """The generation this transaction reads; in `changing()`, the new generation."""

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """Return the record whose fields have these values."""

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Return the records that match all conditions, sorted by a text field; by default oldest first."""

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """Return one page of a list. The caller creates the page's cursor."""

    def scan_end(self, kind: type[Any], query: Query, most: int) -> tuple[Any, str] | None:
        """Return the sort value and ID of the last record that a page may examine, if no index finds the matches.

        The page then examines `most` records in the scopes. None if there is an index or there are fewer records.
        """

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """Count the records that match all conditions."""

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """Count the records that match all conditions, grouped by some of their fields."""

    def first_of_groups(
        self, kind: type[RecordT], names: Sequence[str], *conditions: Condition, by: str, most: int
    ) -> list[RecordT]:
        """Return the first record, sorted by a unique text field, of each group of records with equal fields `names`.

        At most `most` groups for each value of the first of these fields.
        """

    def now(self, otherwise: datetime) -> datetime:
        """Return the time of the database server; `otherwise` if the database has no clock of its own."""

    def add(self, record: Any) -> None:
        """Insert a record. Raises `Conflict` if its name or ID is taken."""

    def save(self, record: Any) -> None:
        """Update a record. Raises `Changed` unless its revision is the stored revision plus one."""

    def remove(self, record: Any) -> None:
        """Delete a record."""

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Delete all records that match the conditions and return their number."""

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Set the cluster of compute resources and templates in these scopes, without a new revision."""

    def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope, and update every record that references it as its scope, parent or cluster."""


class Store(Protocol):
    """Stores records. Transactions are isolated from each other."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """Open a read-only transaction on a consistent snapshot."""

    def recording(self, *, exclusive: bool = False) -> AbstractContextManager[Transaction]:
        """Open a transaction that adds records while the configuration is locked against changes.

        With `exclusive`, no other `recording()` transaction runs at the same time either.
        """

    def changing(self, part: ConfigPart, *more: ConfigPart) -> AbstractContextManager[Transaction]:
        """Open a transaction that changes parts of the configuration. Only one runs at a time."""

    def close(self) -> None:
        """Close files and connections."""


class Executor(Protocol):
    """Executes runs.

    Every method is idempotent, because the server may crash at any point and repeat the call after a restart.
    """

    @property
    def has_scheduler(self) -> bool:
        """Whether the executor schedules runs itself and so accepts them without waiting for free capacity."""

    @property
    def capabilities(self) -> Capabilities:
        """What the executor can do. Constant while the server runs."""

    def start(self, launch: LaunchSpec) -> None:
        """Start the run. Idempotent. `observe` reports a failure to start."""

    def stop(self, run_id: str) -> None:
        """Stop the run. Does nothing if the run has ended or does not exist."""

    def observe(self, run_id: str) -> Observation | None:
        """Return the current state of the run; None if it does not exist. Raises `Unavailable` if it is unknown."""

    def clean_up(self, run_id: str) -> None:
        """Remove the volumes and work files of a run that has ended. Its log, usage and output are kept.

        Raises `Unavailable` if it cannot finish yet; call it again later.
        """

    def delete_run(self, run_id: str) -> None:
        """Remove all of the run's data."""

    def list_volumes(self) -> list[str]:
        """Return the IDs of the shared volumes that exist."""

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume and its content."""

    def list_runs(self) -> list[str]:
        """Return the IDs of the runs that have any data here."""

    def nodes(self) -> NodeTable:
        """Return the nodes that execute runs, with their allocations. Raises `Unavailable` if they are unknown."""

    def read_log(self, run_id: str, cursor: int, max_bytes: int) -> LogPage:
        """Return the log starting at `cursor`, up to about `max_bytes`. Raises `NotFound` if the log was deleted."""

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """Return a run's usage samples, oldest first."""

    def list_files(self, run_id: str) -> list[OutputFile]:
        """List the files in the run's output folder."""

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """Open an output file. Raises `NotFound` if it does not exist."""

    def find_endpoint(self, run_id: str) -> Endpoint:
        """Return the address of a served run, which may not be ready yet.

        Raises `Unavailable` if nothing is listening yet, `NotFound` if the run does not exist or serves nothing.
        """

    def check(self, projects: Sequence[str]) -> list[Check]:
        """Check everything that these projects' runs need on the cluster, and give a hint for each problem."""


class Executors(Protocol):
    """The executors of all clusters."""

    @property
    def server_id(self) -> str:
        """The ID of the server that executes runs with these executors."""

    def find(self, cluster: Cluster | None) -> Executor | None:
        """Return a cluster's executor; None if the cluster has none."""

    def connection_error(self, cluster: Cluster) -> str:
        """Return why the connection to a cluster failed; empty if it did not fail."""

    def all(self) -> Sequence[Executor]:
        """Return all executors."""

    def refresh(self) -> None:
        """Connect to new and changed clusters, and close the executors of deleted ones."""


OWN_USERS = "@localhost"  # suffix of local user names; the server rejects it in names from an issuer


@dataclass(frozen=True)
class Principal:
    """An authenticated user with the groups that the identity provider reported."""

    user: str
    groups: tuple[str, ...] = ()
    via: str = ""  # how the user was authenticated, for the audit log
    # When the token expires. Not compared, so that all of a user's tokens share one cached set of permissions.
    until: datetime | None = field(default=None, compare=False)


class Authenticator(Protocol):
    """Verifies signed tokens."""

    def authenticate(self, bearer: str) -> Principal:
        """Return the owner of a token. Raises `Unauthenticated` for an invalid token, `Unavailable` if unverifiable."""


@dataclass(frozen=True)
class LoginAttempt:
    """Values for one OpenID Connect sign-in, known only to the browser that started it."""

    state: str = field(repr=False)  # returned with the redirect
    nonce: str = field(repr=False)  # returned in the ID token
    verifier: str = field(repr=False)  # sent with the code (PKCE)


class Login(Protocol):
    """Signs users in with the OpenID Connect authorization code flow."""

    @property
    def issuer(self) -> str:
        """The issuer URL."""

    def begin(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """Return the URL to which the browser is redirected. Raises `Unavailable` if the issuer cannot be reached."""

    def finish(self, attempt: LoginAttempt, redirect_uri: str, code: str) -> Principal:
        """Exchange the code for the user. Raises `Unauthenticated` if it is invalid, `Unavailable` if unverifiable."""


@dataclass(frozen=True)
class Sealed:
    """An encrypted value, and the ID of the key that decrypts it."""

    content: bytes
    key_id: str


class Keyring(Protocol):
    """Encrypts values. A value can be decrypted only for the purpose it was encrypted for."""

    @property
    def key_id(self) -> str:
        """The ID of the key that encrypts new values."""

    def seal(self, value: bytes, purpose: str) -> Sealed:
        """Encrypt a value for a purpose."""

    def open(self, sealed: Sealed, purpose: str) -> bytes:
        """Decrypt a value. Raises `Unavailable` if that fails."""
