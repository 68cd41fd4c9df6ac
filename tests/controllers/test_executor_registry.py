"""The executor registry follows new, changed, deleted and unreachable clusters."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.errors import Unavailable
from fairlead.files import kubeconfigs
from fairlead.model.project_objects import Connection
from fairlead.model.records import ScopeRecord, SecretRecord
from fairlead.model.scopes import Cluster
from tests.contracts.executors import MemoryExecutor
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import add_records, make
from tests.kubeconfigs import SERVER, make_kubeconfig
from tests.services.worlds import KEY, OTHER_KEY

KEYRING = AesKeyring(parse_keys(KEY))


class RemoteExecutor(MemoryExecutor):
    """An executor that records its connection and whether it was closed."""

    def __init__(self, cluster: Cluster, connection: Connection | None) -> None:
        super().__init__()
        self.cluster, self.connection, self.closed = cluster, connection, False

    def close(self) -> None:
        """Record that it was closed."""
        self.closed = True


class Network:
    """Connects to clusters. Connecting to some of them can fail."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.opened: list[RemoteExecutor] = []
        self.connect_errors: dict[str, Exception] = {}
        add_records(self.store, make(ScopeRecord, "p", kind="platform", name="platform", scope="platform", parent=None))
        self.registry = ExecutorRegistry({}, self.store, KEYRING, self.connect)

    def connect(self, cluster: Cluster, _scope_id: str, connection: Connection | None) -> RemoteExecutor:
        """Connect to a cluster."""
        if cluster.name in self.connect_errors:
            raise self.connect_errors[cluster.name]
        self.opened.append(RemoteExecutor(cluster, connection))
        return self.opened[-1]

    def add(self, name: str, *, kubeconfig: bool = True) -> Cluster:
        """Add a cluster, with a kubeconfig by default."""
        scope = f"cluster/{name}"
        add_records(self.store, make(ScopeRecord, name, kind="cluster", name=name, scope=scope))
        if kubeconfig:
            content = kubeconfigs.serialize_kubeconfig(kubeconfigs.select_context(make_kubeconfig(), None))
            sealed = KEYRING.seal(content, f"k-{name}")
            secret_fields = {"scope": scope, "sealed": sealed.content, "key_id": sealed.key_id}
            add_records(self.store, make(SecretRecord, f"k-{name}", name=kubeconfigs.KUBECONFIG, **secret_fields))
        return Cluster(name=name)


@pytest.fixture
def network() -> Network:
    """A network without clusters."""
    return Network()


def test_cluster_is_connected_once_and_closed_when_it_is_deleted(network: Network) -> None:
    main, without_kubeconfig = network.add("main"), network.add("bare", kubeconfig=False)
    for _ in range(2):
        network.registry.refresh()
    (remote,) = network.opened
    assert remote.connection is not None
    assert remote.connection.server == SERVER
    assert (network.registry.find(main), network.registry.find(without_kubeconfig), network.registry.find(None)) == (
        remote,
        None,
        None,
    )
    with network.store.changing("organization", "assets") as tx:
        for kind, record_id in ((SecretRecord, "k-main"), (ScopeRecord, "main")):
            record = tx.get(kind, id=record_id)
            tx.remove(record)
    network.registry.refresh()
    assert (network.registry.find(main), remote.closed, network.registry.all()) == (None, True, [])


@pytest.mark.parametrize("changed", ["the cluster", "its kubeconfig"])
def test_changed_cluster_is_reconnected(network: Network, changed: str) -> None:
    main, other = network.add("main"), network.add("other")
    network.registry.refresh()
    first, second = network.opened
    kind, record_id = (ScopeRecord, "main") if changed == "the cluster" else (SecretRecord, "k-main")
    with network.store.changing("organization", "assets") as tx:
        record: Any = tx.get(kind, id=record_id)
        details = {"details": {**record.details, "autoscaled": True}} if kind is ScopeRecord else {}
        tx.save(replace(record, revision=record.revision + 1, **details))
    network.registry.refresh()
    (renewed,) = network.opened[2:]
    assert (first.closed, second.closed, renewed.closed) == (True, False, False)
    assert (network.registry.find(main), network.registry.find(other)) == (renewed, second)
    assert renewed.cluster.autoscaled is (changed == "the cluster")


def test_unrelated_change_does_not_reconnect(network: Network) -> None:
    network.add("main")
    network.registry.refresh()
    network.add("bare", kubeconfig=False)
    network.registry.refresh()
    assert [remote.closed for remote in network.opened] == [False]


def test_kubeconfig_that_cannot_be_decrypted_is_reported_and_retried(network: Network) -> None:
    main = network.add("main")
    keyring = network.registry._keyring
    network.registry._keyring = AesKeyring(parse_keys(OTHER_KEY))
    network.registry.refresh()
    assert (network.registry.find(main), network.opened) == (None, [])
    assert network.registry.connection_error(main)
    network.registry._keyring = keyring
    network.registry.refresh()
    assert network.registry.find(main) is network.opened[0]


def test_failed_reconnection_leaves_no_executor(network: Network) -> None:
    main = network.add("main")
    network.registry.refresh()
    network.connect_errors["main"] = Unavailable("no answer")
    with network.store.changing("assets") as tx:
        record: Any = tx.get(SecretRecord, id="k-main")
        tx.save(replace(record, revision=record.revision + 1))
    network.registry.refresh()
    assert (network.registry.find(main), network.opened[0].closed) == (None, True)


def test_close_closes_every_cluster(network: Network) -> None:
    for name in ("main", "other"):
        network.add(name)
    network.registry.refresh()
    network.registry.close()
    assert [remote.closed for remote in network.opened] == [True, True]


def test_unreachable_cluster_does_not_block_others(network: Network) -> None:
    unreachable, main = network.add("bad"), network.add("main")
    network.connect_errors["bad"] = ValueError("that is not a certificate")
    for _ in range(2):
        network.registry.refresh()
    assert (network.registry.find(unreachable), network.registry.find(main)) == (None, network.opened[0])
    assert network.registry.connection_error(unreachable) == "that is not a certificate"
    assert len(network.opened) == 1
    network.connect_errors.clear()
    network.registry.refresh()
    assert network.registry.find(unreachable) is network.opened[1]
    assert network.registry.connection_error(unreachable) == ""
