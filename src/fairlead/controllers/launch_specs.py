"""Loads launch specs for executors, and the secret values that logs must not show."""

from collections.abc import Iterator
from typing import Any

from fairlead.errors import FairleadError
from fairlead.lifecycle.attempts import execution_of, run_id_of
from fairlead.manifests.attempts import manifests_of
from fairlead.manifests.functions import RUN_TOKEN, read_secret_names
from fairlead.model.names import SECRET_NAME
from fairlead.model.records import BlobRecord, PlanRecord, RunRecord, SecretRecord, VolumeRecord
from fairlead.model.runs import LaunchSpec
from fairlead.ports import Keyring, Sealed, Store, Transaction
from fairlead.run_tokens import seal_run_token


class LaunchInputMissing(FairleadError):
    """The run's plan, its code or one of its secrets was deleted after submission."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def load_launch_spec(tx: Transaction, keyring: Keyring, run: RunRecord) -> LaunchSpec:
    """Load the launch spec of the current attempt. Raises `LaunchInputMissing` if a part is missing."""
    plan = tx.get(PlanRecord, id=run.id)
    if plan is None:
        raise LaunchInputMissing("PlanMissing", "the run's plan was deleted")
    manifests, execution = manifests_of(run, plan), execution_of(run.id, run.attempt)
    blob = None if run.code is None else tx.get(BlobRecord, id=run.code)
    if run.code is not None and blob is None:
        raise LaunchInputMissing("CodeMissing", f"the run's code {run.code} was deleted")
    return LaunchSpec(
        run_id=execution,  # executors treat each attempt as a separate execution
        project=run.scope.partition("/")[2],
        name=manifests[0]["metadata"]["name"],
        manifests=manifests,
        code=b"" if blob is None else blob.content,
        volumes=dict(_find_volumes(tx, run, manifests)),
        secrets=dict(_decrypt_secrets(tx, keyring, run, manifests)),
        # Only pods that download code or upload results get a token.
        run_token=seal_run_token(keyring, execution) if RUN_TOKEN in _secret_names(manifests) else "",
    )


def load_secret_values(store: Store, keyring: Keyring, execution: str) -> list[str]:
    """Return the current values of an attempt's secrets, for masking its log. Deleted secrets are left out."""
    run_id = run_id_of(execution)
    with store.reading() as tx:
        run, plan = tx.get(RunRecord, id=run_id), tx.get(PlanRecord, id=run_id)
        names = [] if run is None or plan is None else sorted(read_secret_names(plan.plan["manifests"]))
        records = [tx.get(SecretRecord, scope=run.scope, name=name) for name in names] if run is not None else []
    return [
        keyring.open(Sealed(record.sealed, record.key_id), record.id).decode()
        for record in records
        if record is not None
    ]


def _decrypt_secrets(
    tx: Transaction, keyring: Keyring, run: RunRecord, manifests: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, str]]:
    for name in _secret_names(manifests):
        # A project secret with this name must not replace the run token.
        if name == RUN_TOKEN:
            continue
        record = tx.get(SecretRecord, scope=run.scope, name=name)
        if record is None:
            raise LaunchInputMissing(
                "SecretMissing", f"secret {name} was deleted before the run started: set it and run again"
            )
        yield name, keyring.open(Sealed(record.sealed, record.key_id), record.id).decode()


def _secret_names(manifests: tuple[dict[str, Any], ...]) -> list[str]:
    """Return the names of the secrets in Secret manifests, from the annotation or, without one, from the keys."""
    names: dict[str, None] = {}
    for manifest in manifests:
        if manifest["kind"] == "Secret":
            annotated = manifest["metadata"].get("annotations", {}).get(SECRET_NAME)
            names |= dict.fromkeys(manifest["data"] if annotated is None else [annotated])
    return list(names)


def _find_volumes(
    tx: Transaction, run: RunRecord, manifests: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, VolumeRecord]]:
    for volume in manifests[0]["spec"]["template"]["spec"].get("volumes", ()):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        record = None if claim is None else tx.get(VolumeRecord, scope=run.scope, name=claim)
        # All other claims are created just for this run and are described by its manifests.
        if record is not None:
            yield claim, record
