"""What an executor needs to start a run, gathered from the store: manifests, code, and secrets in the open."""

from collections.abc import Iterator
from typing import Any

from fairlead.errors import FairleadError
from fairlead.model.observations import Work
from fairlead.model.records import BlobRecord, PlanRecord, RunRecord, SecretRecord, VolumeRecord
from fairlead.ports import Safe, Sealed, Transaction


class Incomplete(FairleadError):
    """Something that the run needs was removed since it was submitted."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def load_work(tx: Transaction, safe: Safe, run: RunRecord) -> Work:
    """What is to be started. Raise `Incomplete` where something of it is gone."""
    kept = tx.get(PlanRecord, id=run.id)
    if kept is None:
        raise Incomplete("PlanMissing", "its plan is gone")
    manifests = tuple(kept.plan["manifests"])
    blob = None if run.code is None else tx.get(BlobRecord, id=run.code)
    if run.code is not None and blob is None:
        raise Incomplete("CodeMissing", f"its code {run.code} is gone")
    return Work(
        run_id=run.id,
        project=run.scope.partition("/")[2],
        name=manifests[0]["metadata"]["name"],
        manifests=manifests,
        code=b"" if blob is None else blob.content,
        volumes=dict(_find_volumes(tx, run, manifests)),
        secrets=dict(_open_secrets(tx, safe, run, manifests)),
    )


def _open_secrets(
    tx: Transaction, safe: Safe, run: RunRecord, manifests: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, str]]:
    for manifest in manifests:
        for name in manifest["data"] if manifest["kind"] == "Secret" else ():
            record = tx.get(SecretRecord, scope=run.scope, name=name)
            if record is None:
                raise Incomplete("SecretMissing", f"secret {name} was deleted before it started: set it and run again")
            yield name, safe.open(Sealed(record.sealed, record.key_id), record.id).decode()


def _find_volumes(tx: Transaction, run: RunRecord, manifests: tuple[dict[str, Any], ...]) -> Iterator[tuple[str, str]]:
    for volume in manifests[0]["spec"]["template"]["spec"].get("volumes", ()):
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        record = None if claim is None else tx.get(VolumeRecord, scope=run.scope, name=claim)
        if record is not None:
            yield claim, record.id
