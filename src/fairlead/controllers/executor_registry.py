"""What executes the runs of each cluster: it follows the clusters as they are added, changed and removed."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from fairlead.core import kubeconfigs
from fairlead.core.scope_tree import read_cluster
from fairlead.errors import FairleadError
from fairlead.model.connections import Connection
from fairlead.model.queries import Condition
from fairlead.model.records import ScopeRecord, SecretRecord
from fairlead.model.scopes import Cluster
from fairlead.ports import Executor, Generation, Keyring, Sealed, Store, Transaction

log = structlog.get_logger()


class ClusterExecutor(Executor, Protocol):
    """An executor of a cluster that is reached over a network."""

    def close(self) -> None:
        """Look after nothing any more. Runs go on."""


# A cluster, which one it is, and how it is reached; None where the server is in it.
Connect = Callable[[Cluster, str, Connection | None], ClusterExecutor]


@dataclass(frozen=True)
class _ConnectedCluster:
    """A cluster that is executed, as it was when it was connected to."""

    cluster: Cluster
    kubeconfig: tuple[str, int] | None
    executor: ClusterExecutor


class ExecutorRegistry:
    """Executors that are there from the start, by kind; and one for each cluster that is connected to."""

    def __init__(
        self,
        given: Mapping[str, Executor],
        store: Store | None = None,
        keyring: Keyring | None = None,
        connect: Connect | None = None,
    ) -> None:
        self._given, self._store, self._keyring, self._connect = given, store, keyring, connect
        self._lock = threading.Lock()
        self._seen: Generation | None = None
        self._known: dict[str, _ConnectedCluster] = {}  # by the ids of their places
        self._troubles: dict[str, str] = {}  # why some cannot be connected to
        self._by_scope: dict[str, Executor] = {}  # replaced as a whole, so that whoever reads needs no lock

    def find(self, cluster: Cluster | None) -> Executor | None:
        """What executes the runs of a cluster; None where nothing does."""
        if cluster is None:
            return None
        return self._given.get(cluster.executor) or self._by_scope.get(cluster.scope)

    def connection_error(self, cluster: Cluster) -> str:
        """Why a cluster cannot be connected to; empty where nobody has tried."""
        return self._troubles.get(cluster.scope, "")

    def all(self) -> Sequence[Executor]:
        """All of them."""
        return [*self._given.values(), *self._by_scope.values()]

    def refresh(self) -> None:
        """Take note of clusters that are new, changed or gone."""
        if self._store is None or self._connect is None:
            return
        with self._lock:
            with self._store.reading() as tx:
                if tx.generation == self._seen:
                    return
                seen, wanted = tx.generation, dict(self._read(tx))
            # One that cannot be connected to is tried again with the next look.
            self._seen = seen if self._follow(wanted) else None

    def close(self) -> None:
        """Let go of every cluster. Runs go on."""
        for known in self._known.values():
            known.executor.close()

    def _read(self, tx: Transaction) -> Iterator[tuple[str, tuple[Cluster, SecretRecord | None]]]:
        for place, cluster in load_clusters(tx):
            record = tx.get(SecretRecord, scope=place.scope, name=kubeconfigs.KUBECONFIG)
            if cluster.executor == "kubernetes" and (record is not None or cluster.connection == "in_cluster"):
                yield place.id, (cluster, record)

    def _follow(self, wanted: Mapping[str, tuple[Cluster, SecretRecord | None]]) -> bool:
        known, troubles, all_there = {}, dict[str, str](), True
        for scope_id, (cluster, record) in wanted.items():
            before = self._known.pop(scope_id, None)
            version = None if record is None else (record.id, record.revision)
            if before is not None and (before.cluster, before.kubeconfig) == (cluster, version):
                known[scope_id] = before
                continue
            if before is not None:
                before.executor.close()
            try:
                executor = self._open(cluster, scope_id, record)
                known[scope_id] = _ConnectedCluster(cluster, version, executor)
            except Exception as error:  # one that is not as it should be must not keep the others from being reached
                all_there = False
                troubles[cluster.scope] = str(error)
                expected = isinstance(error, FairleadError)
                log.error("cluster cannot be connected to", problem=str(error), exc_info=None if expected else error)
        for gone in self._known.values():
            gone.executor.close()
        self._known, self._troubles = known, troubles
        self._by_scope = {each.cluster.scope: each.executor for each in known.values()}
        return all_there

    def _open(self, cluster: Cluster, scope_id: str, record: SecretRecord | None) -> ClusterExecutor:
        assert self._connect is not None
        assert self._keyring is not None
        if cluster.connection == "in_cluster" or record is None:
            return self._connect(cluster, scope_id, None)
        content = self._keyring.open(Sealed(record.sealed, record.key_id), record.id)
        return self._connect(cluster, scope_id, kubeconfigs.parse_kept(content)[1])


def load_clusters(tx: Transaction) -> list[tuple[ScopeRecord, Cluster]]:
    """All clusters."""
    return [(place, read_cluster(place)) for place in tx.find(ScopeRecord, Condition("kind", "=", "cluster"))]
