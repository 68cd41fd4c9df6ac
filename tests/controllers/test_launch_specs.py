"""Launch specs: a run's token is included only if its manifests need it."""

from typing import Any

import pytest

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.controllers.launch_specs import LaunchInputMissing, load_launch_spec, load_secret_values
from fairlead.manifests.pods import RUN_TOKEN
from fairlead.model import explanations
from fairlead.model.nodes import PodRequest
from fairlead.model.plans import Demand, RunResources
from fairlead.model.quantities import Quantity
from fairlead.model.records import PlanRecord, RunRecord, SecretRecord
from fairlead.model.runs import LaunchSpec
from fairlead.run_tokens import open_run_token
from fairlead.scheduling.pod_requests import read_pod_request
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import add_records, make, make_scopes
from tests.making import PYTHON, make_cluster, make_request, plan
from tests.services.worlds import KEY

KEYRING = AesKeyring(parse_keys(KEY))
HOME = "project/forest"


def load(secrets: list[str] | None, *stored_records: Any) -> LaunchSpec:
    """The launch spec of a run with these secrets, where a run token counts as one."""
    store, run = MemoryStore(), make(RunRecord, "r1", scope=HOME)
    names = tuple(name for name in secrets or () if name != RUN_TOKEN)
    demand = Demand(PodRequest({}), RunResources(), secrets=names, needs_token=RUN_TOKEN in (secrets or ()))
    plan_record = make(PlanRecord, "r1", plan={"manifests": []}, demand=demand)
    add_records(store, *make_scopes(), run, plan_record, *stored_records)
    with store.reading() as tx:
        return load_launch_spec(tx, KEYRING, run)


def make_secret(name: str, value: bytes) -> SecretRecord:
    """A project secret."""
    sealed = KEYRING.seal(value, f"id-{name}")
    return make(SecretRecord, f"id-{name}", scope=HOME, name=name, sealed=sealed.content, key_id=sealed.key_id)


@pytest.mark.parametrize("secrets", [None, ["HF_TOKEN"]])
def test_run_without_uploads_has_no_token(secrets: list[str] | None) -> None:
    assert load(secrets, make_secret("HF_TOKEN", b"hf")).run_token == ""


def test_run_token_is_separate_from_the_secrets() -> None:
    launch = load([RUN_TOKEN, "HF_TOKEN"], make_secret("HF_TOKEN", b"hf"))
    assert launch.secrets == {"HF_TOKEN": "hf"}
    assert open_run_token(KEYRING, launch.run_token) == "r1"
    assert launch.run_token not in repr(launch)


def test_secret_named_like_the_run_token_is_not_used_as_the_token() -> None:
    launch = load([RUN_TOKEN], make_secret(RUN_TOKEN, b"mine"))
    assert launch.secrets == {}
    assert open_run_token(KEYRING, launch.run_token) == "r1"


def test_missing_secret_is_reported() -> None:
    with pytest.raises(LaunchInputMissing, match="HF_TOKEN"):
        load([RUN_TOKEN, "HF_TOKEN"])


def test_later_attempt_has_its_own_token_and_objects() -> None:
    store, run_id = MemoryStore(), "0198c0de" * 4
    requested = {"function": PYTHON, "resources": {"mem": "4Gi"}, "secrets": ["HF_TOKEN"]}
    planned = plan(requested, make_cluster(server_url="https://fairlead.example"), run_id=run_id)
    assert planned.demand is not None
    run = make(RunRecord, run_id, scope=HOME, attempt=2, mem_bytes=6 * 2**30)
    data = explanations.to_data(planned)
    plan_record = PlanRecord(id=run_id, request=make_request(**requested).to_data(), plan=data, demand=planned.demand)
    add_records(store, *make_scopes(), run, plan_record, make_secret("HF_TOKEN", b"hf"))
    with store.reading() as tx:
        launch = load_launch_spec(tx, KEYRING, run)
    assert (launch.execution_id, launch.name) == (f"{run_id}-2", f"train-{run_id}attempt2")
    assert open_run_token(KEYRING, launch.run_token) == f"{run_id}-2"
    assert launch.secrets == {"HF_TOKEN": "hf"}
    assert read_pod_request(launch.manifests).amounts["memory"] == Quantity.parse("6Gi").nanos
    assert load_secret_values(store, KEYRING, launch.execution_id) == ["hf"]  # values that are masked in the log
