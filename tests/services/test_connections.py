"""Cluster connections: kubeconfigs are set, described and deleted, and their credentials are never shown."""

import json
from dataclasses import asdict
from typing import Any

import msgspec
import pytest
import yaml

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected
from fairlead.files import kubeconfigs
from fairlead.model.project_objects import SharedVolume
from fairlead.model.records import AuditRecord, IdempotencyRecord, SecretRecord
from fairlead.model.runs import Check
from fairlead.model.scopes import Cluster, Project
from fairlead.ports import Sealed
from fairlead.services import registry
from fairlead.services.organization.clusters import KubeconfigView
from tests.contracts.executors import MemoryExecutor
from tests.contracts.memory import MemoryStore
from tests.kubeconfigs import CERTIFICATE, KEY, SERVER, TOKEN, encode, make_kubeconfig
from tests.services.worlds import (
    FOREST,
    LAKE,
    MAIN,
    OTHER_KEY,
    World,
    call_as,
    initialize_world,
    listing,
    make_world,
    names,
    rejection_rules,
    users_of,
)
from tests.services.worlds import (
    KEY as SAFE_KEY,
)

TEXT = yaml.safe_dump(make_kubeconfig())


def put(world: World, text: str = TEXT, scope: str = MAIN, context: str | None = None) -> KubeconfigView:
    return world.services.connections.put(world.root, scope, text, context)[0]


def load_kubeconfig(world: World, scope: str = MAIN) -> SecretRecord | None:
    with world.store.reading() as tx:
        return tx.get(SecretRecord, scope=scope, name="KUBECONFIG")


def test_kubeconfig_is_set_described_and_deleted(world: World) -> None:
    connections, root = world.services.connections, world.root
    created, new = connections.put(root, MAIN, TEXT, None)
    assert (created.context, created.server, created.user, created.revision, new) == (
        "main",
        SERVER,
        ["token"],
        1,
        True,
    )
    assert (created.authority, created.verified, created.scope, created.created_by) == (True, True, MAIN, "root")
    assert connections.get(root, MAIN) == created
    other = make_kubeconfig(
        cluster={"server": "https://other.example", "insecure-skip-tls-verify": True},
        user={"client-certificate-data": encode(CERTIFICATE), "client-key-data": encode(KEY)},
    )
    updated, new = connections.put(root, MAIN, yaml.safe_dump(other), "main")
    assert (updated.server, updated.user, updated.revision, new) == ("https://other.example", ["certificate"], 2, False)
    assert (updated.authority, updated.verified) == (False, False)
    connections.delete(root, MAIN)
    for operation in (connections.get, connections.delete):
        with pytest.raises(NotFound, match="cluster/main has no kubeconfig"):
            operation(root, MAIN)
    assert [entry for entry in world.audit_actions() if entry[0].startswith("kubeconfig")] == [
        ("kubeconfig.create", "KUBECONFIG"),
        ("kubeconfig.edit", "KUBECONFIG"),
        ("kubeconfig.delete", "KUBECONFIG"),
    ]


@pytest.mark.every_store
def test_only_the_selected_context_is_stored_and_sealed(world: World) -> None:
    put(world)
    record = load_kubeconfig(world)
    assert record is not None
    assert TOKEN.encode() not in record.sealed
    content = world.keyring.open(Sealed(record.sealed, record.key_id), record.id)
    assert kubeconfigs.parse_serialized(content)[1].token == TOKEN
    assert b"elsewhere" not in content


def test_credentials_are_never_shown(world: World) -> None:
    services, root = world.services, world.root
    outputs: list[Any] = [
        services.connections.put(root, MAIN, TEXT, None),
        services.connections.put(root, MAIN, TEXT, None),
    ]
    outputs += [services.connections.get(root, MAIN), services.connections.check(root, MAIN)]
    outputs += [services.scopes.get(root, MAIN), services.secrets.page(root, FOREST, listing())]
    outputs += [services.config_files.export(root), world.preview()]
    services.connections.delete(root, MAIN)
    outputs.append(world.audit())
    with world.store.reading() as tx:
        outputs += [tx.find(kind) for kind in (AuditRecord, IdempotencyRecord)]
    for item in outputs:
        assert TOKEN not in repr(item)
        assert TOKEN.encode() not in msgspec.json.encode(item)


def test_audit_contains_neither_value_nor_seal(world: World) -> None:
    put(world)
    record = load_kubeconfig(world)
    assert record is not None
    entry = world.audit(kind="kubeconfig")[0]
    assert record.key_id not in json.dumps(asdict(entry), default=str)
    assert entry.after is not None
    assert "sealed" not in entry.after


def test_kubeconfig_is_not_a_project_secret(world: World) -> None:
    put(world)
    assert names(world.services.secrets.page(world.root, FOREST, listing()).items) == []
    violations = world.preview(secrets=["KUBECONFIG"])["violations"]
    assert [(item["path"], item["rule"]) for item in violations] == [("secrets.KUBECONFIG", "unknown_secret")]


def test_project_can_have_a_secret_named_kubeconfig(world: World) -> None:
    world.services.secrets.put(world.root, FOREST, "KUBECONFIG", "a value of the project")
    put(world)
    assert world.submit(secrets=["KUBECONFIG"]).uses == ["secret/KUBECONFIG"]
    with pytest.raises(Conflict, match="secret KUBECONFIG"):
        world.services.scopes.delete(world.root, FOREST)


@pytest.mark.every_store
def test_kubeconfig_follows_the_name_of_its_cluster_and_is_deleted_with_it(world: World) -> None:
    services, root = world.services, world.root
    services.scopes.create(root, Cluster(name="spare"))
    put(world, scope="cluster/spare")
    services.scopes.edit(root, "cluster/spare", {"name": "other"})
    assert load_kubeconfig(world, "cluster/spare") is None
    assert services.connections.get(root, "cluster/other").server == SERVER
    services.scopes.delete(root, "cluster/other")
    assert load_kubeconfig(world, "cluster/other") is None
    assert ("kubeconfig.delete", "KUBECONFIG") in world.audit_actions()


def test_kubeconfig_of_a_cluster_with_departments_is_retained(world: World) -> None:
    put(world)
    with pytest.raises(Conflict) as caught:
        world.services.scopes.delete(world.root, MAIN)
    assert [kind for kind, _ in users_of(caught)] == ["department", "department"]
    assert load_kubeconfig(world) is not None


def test_kubeconfig_is_resealed_after_a_key_rotation(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world)
    rotated = make_world(world.store, monkeypatch, keys=f"{OTHER_KEY},{SAFE_KEY}")
    assert rotated.services.secrets.reseal(world.root) == 1
    record = load_kubeconfig(world)
    assert record is not None
    content = AesKeyring(parse_keys(OTHER_KEY)).open(Sealed(record.sealed, record.key_id), record.id)
    assert kubeconfigs.parse_serialized(content)[1].token == TOKEN


def test_only_cluster_administrators_can_change_or_check_it(world: World) -> None:
    put(world)
    connections = world.services.connections
    for role in ("viewer", "member", "editor"):
        user = world.grant(role, role, MAIN)
        assert connections.get(user, MAIN).server == SERVER
        for operation in (
            lambda user=user: connections.put(user, MAIN, TEXT, None),
            lambda user=user: connections.delete(user, MAIN),
            lambda user=user: connections.check(user, MAIN),
        ):
            with pytest.raises(Forbidden):
                operation()
    admin = world.grant("pat", "admin", FOREST)  # administers only a project under the cluster
    with pytest.raises(Forbidden):
        connections.put(admin, MAIN, TEXT, None)
    with pytest.raises(NotFound):
        connections.get(call_as("nobody"), MAIN)


@pytest.mark.parametrize("server", [
    "https://127.0.0.1:6443",
    "http://127.0.0.1:8470",
    "https://localhost:6443",
    "https://[::1]:6443",
    "https://[::ffff:127.0.0.1]:6443",
    "https://0.0.0.0:6443",
    "https://127.1:6443",
    "https://2130706433:6443",
    "https://169.254.169.254",
])  # fmt: skip
def test_only_platform_administrators_connect_to_the_servers_own_machine(world: World, server: str) -> None:
    admin, put_kubeconfig = world.grant("pat", "admin", MAIN), world.services.connections.put
    text = yaml.safe_dump(make_kubeconfig(cluster={"server": server}))
    with pytest.raises(RequestRejected) as caught:
        put_kubeconfig(admin, MAIN, text, None)
    assert next(violation.rule for violation in caught.value.violations) in ("server", "url")
    assert load_kubeconfig(world) is None
    remote = yaml.safe_dump(make_kubeconfig(cluster={"server": "https://192.0.2.1:6443"}))
    assert put_kubeconfig(admin, MAIN, remote, None)[0].server == "https://192.0.2.1:6443"


def test_second_write_of_the_same_revision_is_rejected(world: World) -> None:
    connections, call = world.services.connections, call_as(revision=1)
    with pytest.raises(Changed):
        connections.put(call, MAIN, TEXT, None)
    put(world)
    connections.put(call, MAIN, TEXT, None)
    with pytest.raises(Changed):
        connections.put(call, MAIN, TEXT, None)
    with pytest.raises(Changed):
        connections.delete(call, MAIN)


@pytest.mark.parametrize("scope", ["cluster/none", "platform", LAKE, "department/vision", "cluster/"])
def test_only_clusters_have_connections(world: World, scope: str) -> None:
    for operation in (world.services.connections.get, world.services.connections.check):
        with pytest.raises(NotFound):
            operation(world.root, scope)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"executor": "local"}, "executor: local"), ({"connection": "in_cluster"}, "connection: in_cluster")],
)
def test_cluster_with_another_access_method_accepts_no_kubeconfig(
    world: World, fields: dict[str, Any], message: str
) -> None:
    world.services.scopes.create(world.root, Cluster(name="near", **fields))
    with pytest.raises(Conflict, match=f"cluster/near has {message}"):
        put(world, scope="cluster/near")


INVALID = {
    "invalid YAML": ("token: [planted", ("kubeconfig", "yaml")),
    "an undefined alias": ("token: *planted", ("kubeconfig", "yaml")),
    "a tag": ("token: !planted x", ("kubeconfig", "yaml")),
    "a key twice": ("planted: 1\nplanted: 2", ("kubeconfig", "yaml")),
    "nothing": ("", ("kubeconfig", "documents")),
    "two documents": (f"{TEXT}---\n{TEXT}", ("kubeconfig", "documents")),
    "a list": ("- planted", ("kubeconfig", "mapping")),
    "half a character": ("a: \ud800", ("kubeconfig", "yaml")),
    "files": (
        yaml.safe_dump(make_kubeconfig(user={"tokenFile": "/etc/passwd"})),
        ("kubeconfig.users[1].user.tokenFile", "file"),
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_kubeconfig_is_rejected_and_not_repeated(world: World, case: str) -> None:
    text, expected = INVALID[case]
    with pytest.raises(RequestRejected) as caught:
        put(world, text)
    assert rejection_rules(caught) == [expected]
    assert "planted" not in str(caught.value)
    assert load_kubeconfig(world) is None


def test_rejected_kubeconfig_leaves_the_stored_one_unchanged(world: World) -> None:
    put(world)
    with pytest.raises(RequestRejected):
        put(world, "- nothing")
    assert world.services.connections.get(world.root, MAIN).revision == 1


# Checks


class RecordingExecutor(MemoryExecutor):
    """An executor that records the projects of its last check."""

    projects: list[str] | None = None

    def check(self, projects: Any) -> list[Check]:
        self.projects = list(projects)
        return [Check("all", "ok", "is well")]


def test_check_passes_the_projects_of_the_cluster_to_the_executor(
    memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = RecordingExecutor()
    execution = registry.ExecutionOptions(ExecutorRegistry({"kubernetes": executor}))
    world = initialize_world(memory_store, monkeypatch, execution=execution)
    world.services.scopes.create(world.root, Cluster(name="spare"))
    world.services.scopes.create(world.root, Project(name="elsewhere", parent="cluster/spare"))
    assert world.services.connections.check(world.root, MAIN) == [Check("all", "ok", "is well")]
    assert executor.projects == ["forest", "lake", "meadow"]


def test_disabled_certificate_verification_is_reported(
    memory_store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = initialize_world(
        memory_store,
        monkeypatch,
        execution=registry.ExecutionOptions(ExecutorRegistry({"kubernetes": RecordingExecutor()})),
    )
    put(world)
    assert [check.name for check in world.services.connections.check(world.root, MAIN)] == ["all"]
    put(world, yaml.safe_dump(make_kubeconfig(cluster={"server": SERVER, "insecure-skip-tls-verify": True})))
    first, _ = world.services.connections.check(world.root, MAIN)
    assert (first.name, first.state) == ("certificate", "warning")


def test_check_without_an_executor_reports_what_is_missing(world: World) -> None:
    services, root = world.services, world.root
    (check,) = services.connections.check(root, MAIN)
    assert (check.name, check.state) == ("connection", "problem")
    assert "no kubeconfig" in check.message
    assert "fairlead clusters connect main" in (check.hint or "")
    put(world)
    (check,) = services.connections.check(root, MAIN)
    assert (check.state, "kubeconfig" in check.message) == ("problem", False)
    services.scopes.create(root, Cluster(name="box", executor="local"))
    (check,) = services.connections.check(root, "cluster/box")
    assert "machine" in check.message


def test_server_of_a_cluster_with_active_runs_cannot_change(world: World) -> None:
    """A different address may be a different cluster. The server would consider the runs lost while they continue."""
    put(world)
    run = world.submit(FOREST)
    put(world, yaml.safe_dump(make_kubeconfig(user={"token": "another"})))
    elsewhere = yaml.safe_dump(make_kubeconfig(cluster={"server": "https://10.9.9.9:6443"}))
    with pytest.raises(Conflict, match=r"from .* to https://10\.9\.9\.9:6443") as caught:
        put(world, elsewhere)
    assert users_of(caught) == [("run", run.id)]
    world.services.runs.stop(world.root, run.id)
    assert put(world, elsewhere).server == "https://10.9.9.9:6443"


def test_namespace_change_that_would_orphan_volumes_is_rejected(world: World) -> None:
    scopes, root = world.services.scopes, world.root
    world.services.volumes.create(root, FOREST, SharedVolume.model_validate({"name": "sets", "size": "1Gi"}))
    scopes.edit(root, MAIN, {"namespace": "ai-{project}"})  # the cluster has no runs yet
    put(world)
    for scope, change in (
        (MAIN, {"namespace": "{project}"}),
        (FOREST, {"name": "woods"}),
        (FOREST, {"parent": "platform"}),
    ):
        with pytest.raises(Conflict, match="volume sets is in namespace ai-forest"):
            scopes.edit(root, scope, change)
    scopes.edit(root, MAIN, {"name": "prod"})
    world.services.volumes.delete(root, FOREST, "sets")
    scopes.edit(root, FOREST, {"name": "woods"})
