"""What is needed from outside: a store, executors, somebody who knows who people are, a safe for secrets, a clock."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Literal, Protocol, TypeVar

from fairlead.core.fitting.node_tables import NodeTable
from fairlead.model.observations import Check, Endpoint, LaunchSpec, LogPage, Observation, OutputFile
from fairlead.model.queries import Condition, Page, Query
from fairlead.model.scopes import Cluster

RecordT = TypeVar("RecordT")
ConfigPart = Literal["organization", "assets"]
Clock = Callable[[], datetime]
MakeId = Callable[[], str]
Notify = Callable[[str], None]  # says that something changed about a run


@dataclass(frozen=True)
class Generation:
    """How often the stored configuration was changed: what was read at a generation holds for all of it.

    `organization`: places, policies, grants, tokens and settings. `assets`: compute resources, templates, secrets
    and volumes.
    """

    organization: int
    assets: int


class Transaction(Protocol):
    """One look at the store, or one change of it: all of it happens, or nothing."""

    @property
    def generation(self) -> Generation:
        """The generation that this transaction sees; in a changing one, the new generation."""

    def get(self, kind: type[RecordT], **key: Any) -> RecordT | None:
        """The one record whose fields have these values."""

    def find(
        self, kind: type[RecordT], *conditions: Condition, by: str = "id", limit: int | None = None
    ) -> list[RecordT]:
        """Records for which all conditions hold, in the order of one of their texts; without one, oldest first."""

    def page(self, kind: type[RecordT], query: Query) -> Page[RecordT]:
        """One page of a list; its cursor is left for the caller to make."""

    def count(self, kind: type[Any], *conditions: Condition, search: str = "") -> int:
        """How many records there are for which all conditions hold."""

    def tally(self, kind: type[Any], names: Sequence[str], *conditions: Condition) -> dict[tuple[Any, ...], int]:
        """How many records there are for which all conditions hold, by the values of some of their fields."""

    def add(self, record: Any) -> None:
        """Keep a new record. Raise `Conflict` where its name or id is taken."""

    def save(self, record: Any) -> None:
        """Keep a changed record. Raise `Changed` unless its revision is the next after the kept one."""

    def remove(self, record: Any) -> None:
        """Forget a record."""

    def remove_all(self, kind: type[Any], *conditions: Condition) -> int:
        """Forget all records for which the conditions hold; how many there were."""

    def move_to_cluster(self, scopes: Sequence[str], cluster: str | None) -> None:
        """Note that compute resources and templates at these scopes are on a cluster. That is no change of theirs."""

    def rename_scope(self, old: str, new: str) -> None:
        """Give a place a new name: whatever names it as its scope, parent or cluster follows."""


class Store(Protocol):
    """Where records are kept. Transactions of one store never see half of another."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A look at the store as it is at one moment."""

    def recording(self, *, alone: bool = False) -> AbstractContextManager[Transaction]:
        """A change that rests on the configuration, which nobody changes meanwhile; alone, nobody records either."""

    def changing(self, part: ConfigPart, *more: ConfigPart) -> AbstractContextManager[Transaction]:
        """A change of parts of the configuration, one at a time."""

    def close(self) -> None:
        """Let go of files and connections."""


class Executor(Protocol):
    """Executes runs. Each of these may be called again after a crash at any line: nothing starts twice."""

    @property
    def has_scheduler(self) -> bool:
        """Whether it finds places for runs by itself, and takes them as they come, several at once."""

    def start(self, work: LaunchSpec) -> None:
        """See to it that a run executes, unless it does or did. What keeps it from starting is observed."""

    def stop(self, run_id: str) -> None:
        """See to it that a run ends. One that is not there, or has ended, stays so."""

    def observe(self, run_id: str) -> Observation | None:
        """What is seen of a run; None where nothing is there. Raise `Unavailable` where that cannot be told."""

    def clean_up(self, run_id: str) -> None:
        """Remove the volumes and work files of a run that has ended. Its log, usage and output stay.

        Raises `Unavailable` if it cannot finish yet: call it again.
        """

    def forget(self, run_id: str) -> None:
        """Remove everything of a run."""

    def list_volumes(self) -> list[str]:
        """The ids of shared volumes of which something is there."""

    def remove_volume(self, volume_id: str) -> None:
        """Remove a shared volume with all that is on it."""

    def list_runs(self) -> list[str]:
        """The runs of which something is there."""

    def nodes(self) -> NodeTable:
        """Where runs are executed, with what is taken. Raise `Unavailable` where that cannot be told."""

    def read_log(self, run_id: str, cursor: int, most: int) -> LogPage:
        """The log from a cursor on, up to about so many bytes. Raise `NotFound` where it is not there any more."""

    def read_usage(self, run_id: str) -> list[dict[str, Any]]:
        """What a run used over time, the oldest sample first."""

    def list_files(self, run_id: str) -> list[OutputFile]:
        """The files that a run left in its output folder."""

    def open_file(self, run_id: str, path: str) -> BinaryIO:
        """One of those files. Raise `NotFound` where there is none."""

    def find_endpoint(self, run_id: str) -> Endpoint:
        """How to speak to what a run serves, also while it is not ready.

        Raise `Unavailable` where nothing listens yet, `NotFound` where the run serves nothing or is not there.
        """

    def check(self, projects: Sequence[str]) -> list[Check]:
        """Look at all that runs of these projects need here: what is there, what is not, and what to do about it."""


class Executors(Protocol):
    """What executes the runs of each cluster."""

    def find(self, cluster: Cluster | None) -> Executor | None:
        """What executes the runs of a cluster; None where nothing does."""

    def connection_error(self, cluster: Cluster) -> str:
        """Why a cluster cannot be connected to; empty where nobody has tried."""

    def all(self) -> Sequence[Executor]:
        """All of them."""

    def refresh(self) -> None:
        """Take note of clusters that are new, changed or gone."""


OWN_USERS = "@localhost"  # how the names of a server's own users end


@dataclass(frozen=True)
class Principal:
    """Who somebody is, as far as an identity provider says."""

    user: str
    groups: tuple[str, ...] = ()
    via: str = ""
    until: datetime | None = field(default=None, compare=False)  # for how long the provider says so


class Authenticator(Protocol):
    """Knows who a bearer of a signed token is."""

    def authenticate(self, bearer: str) -> Principal:
        """Who it is. Raise `Unauthenticated` where the token is not good, `Unavailable` where that cannot be told."""


@dataclass(frozen=True)
class LoginAttempt:
    """One try to sign in at an issuer: what only the browser knows that began it."""

    state: str = field(repr=False)  # comes back with the browser
    nonce: str = field(repr=False)  # comes back in the token
    verifier: str = field(repr=False)  # exchanges the code


class Login(Protocol):
    """Signs people in at an issuer: their browser goes there, and comes back with a code."""

    @property
    def issuer(self) -> str:
        """Who signs them in."""

    def begin(self, attempt: LoginAttempt, back: str) -> str:
        """Where a browser goes that is to come back to an address. Raise `Unavailable`."""

    def finish(self, attempt: LoginAttempt, back: str, code: str) -> Principal:
        """Who came back. Raise `Unauthenticated` where that is nobody, `Unavailable` where it cannot be told."""


@dataclass(frozen=True)
class Sealed:
    """A sealed value, and which key opens it."""

    content: bytes
    key_id: str


class Keyring(Protocol):
    """Seals values so that only it can open them, and only for what they were sealed for."""

    @property
    def key_id(self) -> str:
        """The key with which values are sealed now."""

    def seal(self, value: bytes, purpose: str) -> Sealed:
        """The value, sealed for a purpose."""

    def open(self, sealed: Sealed, purpose: str) -> bytes:
        """The value. Raise `Unavailable` where it cannot be opened."""
