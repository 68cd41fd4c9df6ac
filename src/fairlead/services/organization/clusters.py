"""Connections to clusters: encrypted kubeconfigs, and checks for everything that runs need."""

import ipaddress
import re
import socket
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from fairlead.errors import Conflict, NotFound, RequestRejected, Unreadable
from fairlead.files import kubeconfigs, yamls
from fairlead.files.kubeconfigs import KUBECONFIG, SelectedContext
from fairlead.model.columns import Condition
from fairlead.model.plans import Violation
from fairlead.model.project_objects import Connection
from fairlead.model.records import RunRecord, SecretRecord
from fairlead.model.runs import Check
from fairlead.model.scopes import PLATFORM, Cluster, Permission
from fairlead.ports import Executors, Keyring, Sealed
from fairlead.services.catalog.assets import format_objects
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory

MAX_LISTED = 50
INSECURE_TLS = Check(
    "certificate",
    "warning",
    "insecure-skip-tls-verify is true: an attacker on the network can impersonate the cluster and get the token",
    "replace it with certificate-authority-data, and connect again",
)


@dataclass(frozen=True, kw_only=True)
class KubeconfigView:
    """A kubeconfig without its credentials."""

    id: str
    scope: str
    context: str
    server: str
    user: list[str]  # token, certificate, or both
    authority: bool  # whether it has a CA certificate; otherwise the machine's CAs are trusted
    verified: bool  # whether the API server's certificate is verified
    revision: int
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


class Connections:
    """Manages and checks the connections to clusters."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring, executors: Executors) -> None:
        self.units, self.keyring, self.executors = units, keyring, executors

    def get(self, call: Call, scope: str) -> KubeconfigView:
        """Return a cluster's kubeconfig without its credentials."""
        with self.units.reading(call) as unit:
            self._find_cluster(unit, scope, Permission.VIEW)
            return self._view_of(self._find(unit, scope))

    def put(self, call: Call, scope: str, text: str, context: str | None) -> tuple[KubeconfigView, bool]:
        """Connect a cluster using one context of a kubeconfig. Returns the view, and whether the connection is new."""
        self._check_server(call, scope, text, context)
        with self.units.changing(call, "assets") as unit:
            cluster = self._find_cluster(unit, scope, Permission.ADMINISTER)
            if cluster.executor != "kubernetes" or cluster.connection != "kubeconfig":
                setting = "executor: local" if cluster.executor == "local" else f"connection: {cluster.connection}"
                hint = "set executor: kubernetes and connection: kubeconfig first"
                raise Conflict(f"{scope} has {setting} and does not use a kubeconfig", hint)
            # Only the selected context is stored, because the file may contain credentials for other clusters.
            record, new = self._store(unit, scope, kubeconfigs.serialize_kubeconfig(_parse(text, context)))
        # This must come after the commit, because it reads the stored kubeconfig. It saves waiting for the next resync.
        self.executors.refresh()
        return self._view_of(record), new

    def delete(self, call: Call, scope: str) -> None:
        """Disconnect a cluster. Raises `Conflict` if it has active runs."""
        with self.units.changing(call, "assets") as unit:
            self._find_cluster(unit, scope, Permission.ADMINISTER)
            record = self._find(unit, scope)
            unit.check_revision(record)
            _reject_active_runs(unit, scope, f"{scope} is executing")
            unit.remove(record, "kubeconfig", KUBECONFIG, scope)
        self.executors.refresh()

    def check(self, call: Call, scope: str) -> list[Check]:
        """Check that a cluster has everything that runs need. Creates a short-lived pod."""
        with self.units.reading(call) as unit:
            cluster = self._find_cluster(unit, scope, Permission.ADMINISTER)
            projects = unit.organization.tree.projects_in(scope)
            record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        self.executors.refresh()  # the connection may be new
        executor = self.executors.find(cluster)
        if executor is None:
            error = self.executors.connection_error(cluster)
            return [_explain_missing_executor(cluster, error, has_kubeconfig=record is not None)]
        # This is outside the transaction, because the checks wait for the cluster.
        insecure = record is not None and not self._view_of(record).verified
        return [*([INSECURE_TLS] if insecure else []), *executor.check(projects)]

    def _check_server(self, call: Call, scope: str, text: str, context: str | None) -> None:
        """Reject an API server on this machine, unless the caller administers the platform.

        Otherwise, administrators of a cluster could reach programs that only listen on this machine.
        """
        with self.units.reading(call) as unit:
            self._find_cluster(unit, scope, Permission.ADMINISTER)
            if unit.permissions.may(Permission.ADMINISTER, PLATFORM):
                return
        host = urlsplit(kubeconfigs.to_connection(_parse(text, context)).server).hostname or ""
        # This is outside the transaction, because it may wait for a name server.
        if _is_local(host):
            message = f"{host} is an address of the server's own machine or a link-local address"
            hint = "use an address of the API server on the network, or ask a platform administrator to connect it"
            raise RequestRejected([Violation(f"{kubeconfigs.ROOT}.clusters", "server", message, hint)])

    def _check_address(self, unit: UnitOfWork, record: SecretRecord, content: bytes) -> None:
        """Raise `Conflict` if the address would change while runs are active.

        A different address may be a different cluster, and the runs would then be considered lost.
        """
        before = kubeconfigs.parse_serialized(self.keyring.open(Sealed(record.sealed, record.key_id), record.id))[
            1
        ].server
        after = kubeconfigs.parse_serialized(content)[1].server
        if before != after:
            message = f"the address would change from {before} to {after} while {record.scope} is executing"
            _reject_active_runs(unit, record.scope, message)

    def _find_cluster(self, unit: UnitOfWork, scope: str, permission: Permission) -> Cluster:
        unit.require(permission, scope, scope)
        cluster = unit.organization.clusters.get(scope)
        if cluster is None:
            raise NotFound(f"{scope} is not a cluster")
        return cluster

    def _find(self, unit: UnitOfWork, scope: str) -> SecretRecord:
        record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        if record is None:
            raise NotFound(f"{scope} has no kubeconfig", "connect it: fairlead clusters connect")
        return record

    def _store(self, unit: UnitOfWork, scope: str, content: bytes) -> tuple[SecretRecord, bool]:
        """Encrypt and store a kubeconfig. Returns the record, and whether it is new."""
        record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        if record is None:
            unit.check_absent(f"kubeconfig of {scope}")
            stamps = unit.creation_fields()
            sealed = self.keyring.seal(content, stamps["id"])
            record = SecretRecord(**stamps, scope=scope, name=KUBECONFIG, sealed=sealed.content, key_id=sealed.key_id)
            return unit.add(record, "kubeconfig", KUBECONFIG, scope), True
        unit.check_revision(record)
        self._check_address(unit, record, content)
        sealed = self.keyring.seal(content, record.id)
        after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.update_fields(record))
        return unit.save(record, after, "kubeconfig.edit", KUBECONFIG, scope), False

    def _view_of(self, record: SecretRecord) -> KubeconfigView:
        content = self.keyring.open(Sealed(record.sealed, record.key_id), record.id)
        context, connection = kubeconfigs.parse_serialized(content)
        return KubeconfigView(context=context, **_describe(connection), **_stamps_of(record))


def _parse(text: str, context: str | None) -> SelectedContext:
    """Parse a kubeconfig and select a context. Error messages do not quote its content, which may be secret."""
    try:
        documents = yamls.parse_documents(text.encode("utf-8", "surrogatepass"))
    except Unreadable as error:
        # The parser's message may quote a line with a token, so only the line number is used.
        line = re.search(r"line [0-9]+", str(error))
        message = f"is not valid YAML{f': see {line[0]}' if line else ''}"
        hint = "use the output of kubectl config view --raw --flatten --minify"
        raise RequestRejected([Violation(kubeconfigs.ROOT, "yaml", message, hint)]) from None
    if len(documents) != 1:
        message = f"must be one document, found {len(documents) or 'nothing'}"
        hint = "use the output of kubectl config view --raw --flatten --minify"
        raise RequestRejected([Violation(kubeconfigs.ROOT, "documents", message, hint)])
    selected = kubeconfigs.select_context(documents[0], context)
    kubeconfigs.to_connection(selected)  # raises an error if it is not valid
    return selected


def _is_local(host: str) -> bool:
    """Whether a host is, or resolves to, a loopback, link-local or unspecified address."""
    try:
        # Also normalizes spellings such as 127.1 and 0x7f000001.
        found = socket.getaddrinfo(host.partition("%")[0], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False  # connecting to the host will also fail
    addresses = [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
    plain = [getattr(address, "ipv4_mapped", None) or address for address in addresses]
    return any(address.is_loopback or address.is_link_local or address.is_unspecified for address in plain)


def _reject_active_runs(unit: UnitOfWork, scope: str, beginning: str) -> None:
    """Raise `Conflict` if a cluster has active runs. The message starts with `beginning` and names the runs."""
    active = (Condition("cluster", "=", scope), Condition("active", "=", True))
    runs = unit.tx.find(RunRecord, *active, limit=MAX_LISTED)
    usages = [{"kind": "run", "name": run.id, "scope": run.scope} for run in runs]
    if usages:
        raise Conflict(f"{beginning} {format_objects(usages)}", "wait for the runs to end, or stop them", usages)


def _explain_missing_executor(cluster: Cluster, error: str, *, has_kubeconfig: bool) -> Check:
    message = f"this server does not execute runs on {cluster.scope}" + (f": {error}" if error else "")
    hint = "fix the cluster's kubeconfig" if error else "start a server with execute = true"
    if cluster.executor == "local":
        message, hint = "this server does not execute runs on its own machine", "start a server with execute = true"
    elif cluster.connection == "in_cluster":
        hint = "run the server as a pod in the cluster, with the fairlead service account"
    elif not has_kubeconfig:
        message = f"{cluster.scope} has no kubeconfig, so it cannot execute runs"
        hint = f"fairlead clusters connect {cluster.name} --kubeconfig FILE"
    return Check("connection", "problem", message, hint)


def _describe(connection: Connection) -> dict[str, Any]:
    user = {"token": bool(connection.token), "certificate": connection.certificate is not None}
    return {
        "server": connection.server,
        "user": [kind for kind, present in user.items() if present],
        "authority": connection.ca is not None,
        "verified": not connection.insecure,
    }


def _stamps_of(record: SecretRecord) -> dict[str, Any]:
    names = ("id", "scope", "revision", "created_by", "created_at", "updated_by", "updated_at")
    return {name: getattr(record, name) for name in names}
