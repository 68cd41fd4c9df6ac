"""How clusters are reached: their kubeconfigs, sealed like secrets; and whether all is there that runs need."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fairlead.core import kubeconfigs
from fairlead.core.kubeconfigs import KUBECONFIG, SelectedContext
from fairlead.errors import Conflict, NotFound, RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.model.connections import Connection
from fairlead.model.observations import Check
from fairlead.model.plans import Violation
from fairlead.model.queries import Condition
from fairlead.model.records import RunRecord, SecretRecord
from fairlead.model.roles import Permission
from fairlead.model.scopes import Cluster
from fairlead.ports import Executors, Keyring, Sealed
from fairlead.services.assets import name_some
from fairlead.services.calls import Call
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

MOST_TOLD = 50
TRUSTS_ALL = Check(
    "certificate",
    "warning",
    "insecure-skip-tls-verify is true: whoever answers at the address of the cluster is believed, and gets the token",
    "put certificate-authority-data in its place, and connect again",
)


@dataclass(frozen=True, kw_only=True)
class KubeconfigView:
    """What is told of a kubeconfig: where it leads and as whom, and nothing with which others could go there."""

    id: str
    scope: str
    context: str
    server: str
    user: list[str]  # token, certificate, or both
    authority: bool  # whether it says whom to believe to be the server; else any authority of the machine is
    verified: bool  # whether the server must show who it is
    revision: int
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime


class Connections:
    """The use cases of connections to clusters."""

    def __init__(self, units: UnitOfWorkFactory, keyring: Keyring, executors: Executors) -> None:
        self.units, self.keyring, self.executors = units, keyring, executors

    def get(self, call: Call, scope: str) -> KubeconfigView:
        """Where the kubeconfig of a cluster leads."""
        with self.units.reading(call) as unit:
            self._find_cluster(unit, scope, Permission.VIEW)
            return self._view_of(self._find(unit, scope))

    def put(self, call: Call, scope: str, text: str, context: str | None) -> tuple[KubeconfigView, bool]:
        """Reach a cluster by a context of a kubeconfig; whether it had none before."""
        with self.units.changing(call, "assets") as unit:
            cluster = self._find_cluster(unit, scope, Permission.ADMINISTER)
            if cluster.executor != "kubernetes" or cluster.connection != "kubeconfig":
                found = "executor: local" if cluster.executor == "local" else f"connection: {cluster.connection}"
                raise Conflict(f"{scope} has {found}, and needs no kubeconfig", "change that first")
            record, new = self._keep(unit, scope, kubeconfigs.serialize_kubeconfig(_read(text, context)))
        self.executors.refresh()
        return self._view_of(record), new

    def delete(self, call: Call, scope: str) -> None:
        """Reach a cluster no more, unless it executes runs."""
        with self.units.changing(call, "assets") as unit:
            self._find_cluster(unit, scope, Permission.ADMINISTER)
            record = self._find(unit, scope)
            unit.check_revision(record)
            _refuse_live(unit, scope, f"{scope} executes")
            unit.remove(record, "kubeconfig", KUBECONFIG, scope)
        self.executors.refresh()

    def check(self, call: Call, scope: str) -> list[Check]:
        """Whether all is there that runs need on a cluster, and what to do where not. Makes a pod for a moment."""
        with self.units.reading(call) as unit:
            cluster = self._find_cluster(unit, scope, Permission.ADMINISTER)
            projects = unit.organization.tree.projects_below(scope)
            record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        self.executors.refresh()  # it may be a moment old
        executor = self.executors.find(cluster)
        if executor is None:
            trouble = self.executors.connection_error(cluster)
            return [_explain_absence(cluster, trouble, has_kubeconfig=record is not None)]
        trusts_all = record is not None and not self._view_of(record).verified
        return [*([TRUSTS_ALL] if trusts_all else []), *executor.check(projects)]

    def _check_address(self, unit: UnitOfWork, record: SecretRecord, content: bytes) -> None:
        """Another address may be another cluster, on which live runs would be taken for gone."""
        before = kubeconfigs.parse_serialized(self.keyring.open(Sealed(record.sealed, record.key_id), record.id))[
            1
        ].server
        after = kubeconfigs.parse_serialized(content)[1].server
        if before != after:
            _refuse_live(unit, record.scope, f"{record.scope} is at {before} and not at {after}, and executes")

    def _find_cluster(self, unit: UnitOfWork, scope: str, permission: Permission) -> Cluster:
        unit.require(permission, scope, scope)
        cluster = unit.organization.clusters.get(scope)
        if cluster is None:
            raise NotFound(f"{scope} is no cluster")
        return cluster

    def _find(self, unit: UnitOfWork, scope: str) -> SecretRecord:
        record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        if record is None:
            raise NotFound(f"{scope} has no kubeconfig", "give it one: fairlead clusters connect")
        return record

    def _keep(self, unit: UnitOfWork, scope: str, content: bytes) -> tuple[SecretRecord, bool]:
        """Seal what is new; whether there was nothing before."""
        record = unit.tx.get(SecretRecord, scope=scope, name=KUBECONFIG)
        if record is None:
            unit.check_absent(f"kubeconfig of {scope}")
            stamps = unit.stamps()
            sealed = self.keyring.seal(content, stamps["id"])
            record = SecretRecord(**stamps, scope=scope, name=KUBECONFIG, sealed=sealed.content, key_id=sealed.key_id)
            return unit.add(record, "kubeconfig", KUBECONFIG, scope), True
        unit.check_revision(record)
        self._check_address(unit, record, content)
        sealed = self.keyring.seal(content, record.id)
        after = replace(record, sealed=sealed.content, key_id=sealed.key_id, **unit.next(record))
        return unit.save(record, after, "kubeconfig.edit", KUBECONFIG, scope), False

    def _view_of(self, record: SecretRecord) -> KubeconfigView:
        content = self.keyring.open(Sealed(record.sealed, record.key_id), record.id)
        context, connection = kubeconfigs.parse_serialized(content)
        return KubeconfigView(context=context, **_describe(connection), **_stamps_of(record))


def _read(text: str, context: str | None) -> SelectedContext:
    """One context of a kubeconfig that is right. Of what is wrong, nothing is repeated that may be secret."""
    try:
        documents = yamls.parse_documents(text.encode("utf-8", "surrogatepass"))
    except Unreadable as error:
        line = re.search(r"line [0-9]+", str(error))
        message = f"is no YAML that can be read{f': see {line[0]}' if line else ''}"
        hint = "give what kubectl config view --raw --flatten --minify prints"
        raise RequestRejected([Violation(kubeconfigs.ROOT, "yaml", message, hint)]) from None
    if len(documents) != 1:
        message = f"must be one document, found {len(documents) or 'nothing'}"
        hint = "give what kubectl config view --raw --flatten --minify prints"
        raise RequestRejected([Violation(kubeconfigs.ROOT, "documents", message, hint)])
    chosen = kubeconfigs.select_context(documents[0], context)
    kubeconfigs.to_connection(chosen)
    return chosen


def _refuse_live(unit: UnitOfWork, scope: str, beginning: str) -> None:
    """Raise `Conflict` where a cluster executes runs."""
    there = (Condition("cluster", "=", scope), Condition("active", "=", True))
    runs = unit.tx.find(RunRecord, *there, limit=MOST_TOLD)
    users = [{"kind": "run", "name": run.id, "scope": run.scope} for run in runs]
    if users:
        raise Conflict(f"{beginning} {name_some(users)}", "wait for the runs to end, or stop them", users)


def _explain_absence(cluster: Cluster, trouble: str, *, has_kubeconfig: bool) -> Check:
    """Why nothing executes the runs of a cluster."""
    message = f"this server executes nothing on {cluster.scope}" + (f": {trouble}" if trouble else "")
    hint = "mend its kubeconfig" if trouble else "start a server with execute = true"
    if cluster.executor == "local":
        message, hint = "no server executes runs on its machine here", "start one with execute = true"
    elif cluster.connection == "in_cluster":
        hint = "run the server as a pod of the cluster, with the service account fairlead"
    elif not has_kubeconfig:
        message = f"{cluster.scope} has no kubeconfig, so that nothing can be executed there"
        hint = f"fairlead clusters connect {cluster.name} --kubeconfig FILE"
    return Check("connection", "problem", message, hint)


def _describe(connection: Connection) -> dict[str, Any]:
    user = {"token": bool(connection.token), "certificate": connection.certificate is not None}
    return {
        "server": connection.server,
        "user": [kind for kind, has in user.items() if has],
        "authority": connection.ca is not None,
        "verified": not connection.insecure,
    }


def _stamps_of(record: SecretRecord) -> dict[str, Any]:
    names = ("id", "scope", "revision", "created_by", "created_at", "updated_by", "updated_at")
    return {name: getattr(record, name) for name in names}
