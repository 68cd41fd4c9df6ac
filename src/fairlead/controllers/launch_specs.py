"""Loads launch specs for executors, and the secret values that logs must not show."""

from collections.abc import Iterator

from fairlead.errors import FairleadError
from fairlead.lifecycle.attempts import execution_of, run_id_of
from fairlead.manifests.attempts import demand_of, manifests_of, name_of
from fairlead.model.plans import Demand
from fairlead.model.records import BlobRecord, PlanRecord, RunRecord, ScopeRecord, SecretRecord, VolumeRecord
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
    demand, execution = demand_of(run, plan), execution_of(run.id, run.attempt)
    project = tx.get(ScopeRecord, scope=run.scope)
    assert project is not None, "a project is deleted only after its runs have ended"
    blob = None if run.code is None else tx.get(BlobRecord, id=run.code)
    if run.code is not None and blob is None:
        raise LaunchInputMissing("CodeMissing", f"the run's code {run.code} was deleted")
    return LaunchSpec(
        execution_id=execution,  # executors treat each attempt as a separate execution
        project=project.name,
        project_id=project.id,
        name=name_of(run),
        manifests=manifests_of(run, plan),
        demand=demand,
        code=b"" if blob is None else blob.content,
        volumes={
            name: record
            for name in demand.volumes
            if (record := tx.get(VolumeRecord, scope=run.scope, name=name)) is not None
        },
        secrets=dict(_decrypt_secrets(tx, keyring, run, demand)),
        # Only pods that download code or upload results get a token.
        run_token=seal_run_token(keyring, execution) if demand.needs_token else "",
    )


def load_secret_values(store: Store, keyring: Keyring, execution: str) -> list[str]:
    """Return the current values of an attempt's secrets, for masking its log. Deleted secrets are left out."""
    run_id = run_id_of(execution)
    with store.reading() as tx:
        run, plan = tx.get(RunRecord, id=run_id), tx.get(PlanRecord, id=run_id)
        names = () if run is None or plan is None else plan.demand.secrets
        records = [tx.get(SecretRecord, scope=run.scope, name=name) for name in names] if run is not None else []
    return [
        keyring.open(Sealed(record.sealed, record.key_id), record.id).decode()
        for record in records
        if record is not None
    ]


def _decrypt_secrets(tx: Transaction, keyring: Keyring, run: RunRecord, demand: Demand) -> Iterator[tuple[str, str]]:
    for name in (*demand.secrets, *demand.pull_secrets):
        record = tx.get(SecretRecord, scope=run.scope, name=name)
        if record is None:
            raise LaunchInputMissing(
                "SecretMissing", f"secret {name} was deleted before the run started: set it and run again"
            )
        yield name, keyring.open(Sealed(record.sealed, record.key_id), record.id).decode()
