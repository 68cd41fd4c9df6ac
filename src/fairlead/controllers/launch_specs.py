"""What an executor needs to start a run, gathered from the store: manifests, code, and secrets in the open."""

from collections.abc import Iterator
from typing import Any

from fairlead.core.attempts import execution_of, run_of
from fairlead.core.manifests.attempts import manifests_of
from fairlead.core.manifests.functions import RUN_TOKEN, read_names
from fairlead.core.manifests.names import SECRET_NAME
from fairlead.errors import FairleadError
from fairlead.model.observations import LaunchSpec
from fairlead.model.records import BlobRecord, PlanRecord, RunRecord, SecretRecord, VolumeRecord
from fairlead.ports import Keyring, Sealed, Store, Transaction
from fairlead.run_tokens import seal_run_token


class LaunchInputMissing(FairleadError):
    """Something that the run needs was removed since it was submitted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def load_launch_spec(tx: Transaction, keyring: Keyring, run: RunRecord) -> LaunchSpec:
    """What is to be started. Raise `Incomplete` where something of it is gone."""
    kept = tx.get(PlanRecord, id=run.id)
    if kept is None:
        raise LaunchInputMissing("PlanMissing", "its plan is gone")
    manifests, execution = manifests_of(run, kept), execution_of(run.id, run.attempt)
    blob = None if run.code is None else tx.get(BlobRecord, id=run.code)
    if run.code is not None and blob is None:
        raise LaunchInputMissing("CodeMissing", f"its code {run.code} is gone")
    return LaunchSpec(
        run_id=execution,
        project=run.scope.partition("/")[2],
        name=manifests[0]["metadata"]["name"],
        manifests=manifests,
        code=b"" if blob is None else blob.content,
        volumes=dict(_find_volumes(tx, run, manifests)),
        secrets=dict(_open_secrets(tx, keyring, run, manifests)),
        run_token=seal_run_token(keyring, execution) if RUN_TOKEN in _secrets_of(manifests) else "",
    )


def load_secret_values(store: Store, keyring: Keyring, execution: str) -> list[str]:
    """The values of the secrets that a try was given, as far as they are still there: what its log must not show."""
    run_id = run_of(execution)
    with store.reading() as tx:
        run, kept = tx.get(RunRecord, id=run_id), tx.get(PlanRecord, id=run_id)
        names = [] if run is None or kept is None else sorted(read_names(kept.plan["manifests"]))
        records = [tx.get(SecretRecord, scope=run.scope, name=name) for name in names] if run is not None else []
    return [keyring.open(Sealed(found.sealed, found.key_id), found.id).decode() for found in records if found is not None]


def _open_secrets(
    tx: Transaction, keyring: Keyring, run: RunRecord, manifests: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, str]]:
    for name in _secrets_of(manifests):
        if name == RUN_TOKEN:
            continue
        record = tx.get(SecretRecord, scope=run.scope, name=name)
        if record is None:
            raise LaunchInputMissing(
                "SecretMissing", f"secret {name} was deleted before it started: set it and run again"
            )
        yield name, keyring.open(Sealed(record.sealed, record.key_id), record.id).decode()


def _secrets_of(manifests: tuple[dict[str, Any], ...]) -> list[str]:
    """The names of what the Secrets hold: each key is one, unless an annotation says whose value it is."""
    names: dict[str, None] = {}
    for manifest in manifests:
        if manifest["kind"] == "Secret":
            named = manifest["metadata"].get("annotations", {}).get(SECRET_NAME)
            names |= dict.fromkeys(manifest["data"] if named is None else [named])
    return list(names)


def _find_volumes(
    tx: Transaction, run: RunRecord, manifests: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, VolumeRecord]]:
    for volume in manifests[0]["spec"]["template"]["spec"].get("volumes", ()):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        record = None if claim is None else tx.get(VolumeRecord, scope=run.scope, name=claim)
        if record is not None:
            yield claim, record
