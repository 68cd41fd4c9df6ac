"""Registry of executors: connects and disconnects as clusters are added, changed and removed."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from fairlead.errors import FairleadError
from fairlead.files import kubeconfigs
from fairlead.model.columns import Condition
from fairlead.model.project_objects import Connection
from fairlead.model.records import ScopeRecord, SecretRecord
from fairlead.model.scopes import Cluster, read_cluster
from fairlead.ports import Executor, Generation, Keyring, Sealed, Store, Transaction

log = structlog.get_logger()


class ClusterExecutor(Executor, Protocol):
    """An executor that is connected to a cluster."""

    def close(self) -> None:
        """Disconnect. Runs that have started continue."""


# Arguments: the cluster, its scope ID, and the connection, which is None if the server runs in the cluster.
Connect = Callable[[Cluster, str, Connection | None], ClusterExecutor]


@dataclass(frozen=True)
class _ConnectedCluster:
    """A connected cluster, with the configuration that was used to connect."""

    cluster: Cluster
    kubeconfig: tuple[str, int] | None  # ID and revision of its secret, to detect changes; None if it has no secret
    executor: ClusterExecutor


class ExecutorRegistry:
    """Finds a cluster's executor: a built-in one, chosen by kind, or the one connected to that cluster."""

    def __init__(
        self,
        built_in: Mapping[str, Executor],
        store: Store | None = None,
        keyring: Keyring | None = None,
        connect: Connect | None = None,
        *,
        server_id: str = "",
    ) -> None:
        self.server_id = server_id
        self._built_in, self._store, self._keyring, self._connect = built_in, store, keyring, connect
        self._lock = threading.Lock()  # the controller, retention and requests call `refresh` from different threads
        self._generation: Generation | None = None
        self._connected: dict[str, _ConnectedCluster] = {}  # by scope ID
        self._errors: dict[str, str] = {}  # by scope: why the last connection attempt failed
        self._by_scope: dict[str, Executor] = {}  # only ever replaced as a whole, so it can be read without a lock

    def find(self, cluster: Cluster | None) -> Executor | None:
        """The cluster's executor, or None if it is not connected."""
        if cluster is None:
            return None
        return self._built_in.get(cluster.executor) or self._by_scope.get(cluster.scope)

    def connection_error(self, cluster: Cluster) -> str:
        """Why the last attempt to connect to a cluster failed; empty if it succeeded."""
        return self._errors.get(cluster.scope, "")

    def all(self) -> Sequence[Executor]:
        return [*self._built_in.values(), *self._by_scope.values()]

    def refresh(self) -> None:
        """Connect to new and changed clusters, and disconnect from removed ones."""
        if self._store is None or self._connect is None:
            return
        with self._lock:
            with self._store.reading() as tx:
                # Both parts are compared: clusters belong to the organization, their kubeconfigs to the assets.
                if tx.generation == self._generation:
                    return
                generation, wanted = tx.generation, dict(self._read(tx))
            # If a connection fails, the next refresh must try again.
            self._generation = generation if self._connect_to(wanted) else None

    def close(self) -> None:
        """Disconnect from every cluster. Runs that have started continue."""
        for connected in self._connected.values():
            connected.executor.close()

    def _read(self, tx: Transaction) -> Iterator[tuple[str, tuple[Cluster, SecretRecord | None]]]:
        for scope, cluster in load_clusters(tx):
            record = tx.get(SecretRecord, scope=scope.scope, name=kubeconfigs.KUBECONFIG)
            if cluster.executor == "kubernetes" and (record is not None or cluster.connection == "in_cluster"):
                yield scope.id, (cluster, record)

    def _connect_to(self, wanted: Mapping[str, tuple[Cluster, SecretRecord | None]]) -> bool:
        connected, errors, all_connected = {}, dict[str, str](), True
        for scope_id, (cluster, record) in wanted.items():
            # After the loop, only clusters that were removed or disconnected are left in `_connected`.
            before = self._connected.pop(scope_id, None)
            version = None if record is None else (record.id, record.revision)
            if before is not None and (before.cluster, before.kubeconfig) == (cluster, version):
                connected[scope_id] = before
                continue
            if before is not None:
                before.executor.close()
            try:
                executor = self._open(cluster, scope_id, record)
                connected[scope_id] = _ConnectedCluster(cluster, version, executor)
            except Exception as error:  # one broken cluster must not affect the others
                all_connected = False
                errors[cluster.scope] = str(error)
                expected = isinstance(error, FairleadError)
                log.error("connecting to cluster failed", problem=str(error), exc_info=None if expected else error)
        for removed in self._connected.values():
            removed.executor.close()
        self._connected, self._errors = connected, errors
        self._by_scope = {each.cluster.scope: each.executor for each in connected.values()}
        return all_connected

    def _open(self, cluster: Cluster, scope_id: str, record: SecretRecord | None) -> ClusterExecutor:
        assert self._connect is not None
        assert self._keyring is not None
        if cluster.connection == "in_cluster" or record is None:
            return self._connect(cluster, scope_id, None)
        content = self._keyring.open(Sealed(record.sealed, record.key_id), record.id)
        return self._connect(cluster, scope_id, kubeconfigs.parse_serialized(content)[1])


def load_clusters(tx: Transaction) -> list[tuple[ScopeRecord, Cluster]]:
    """All clusters, with their scope records."""
    return [(record, read_cluster(record)) for record in tx.find(ScopeRecord, Condition("kind", "=", "cluster"))]
