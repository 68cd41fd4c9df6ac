"""Launch specs: the token of a run is included only if its manifests need it."""

from typing import Any

import pytest

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.controllers.launch_specs import LaunchInputMissing, load_launch_spec, load_secret_values
from fairlead.core import explanations
from fairlead.core.fitting.pod_requests import read_pod_request
from fairlead.core.manifests.functions import RUN_TOKEN
from fairlead.model.observations import LaunchSpec
from fairlead.model.quantities import Quantity
from fairlead.model.records import PlanRecord, RunRecord, SecretRecord
from fairlead.run_tokens import open_run_token
from tests.contracts.memory import MemoryStore
from tests.contracts.samples import add_records, make, make_scopes
from tests.making import PYTHON, make_cluster, make_request, plan
from tests.services.worlds import KEY

KEYRING = AesKeyring(parse_keys(KEY))
HOME = "project/forest"


def load(secrets: list[str] | None, *kept: Any) -> LaunchSpec:
    """The work of a run whose Secret has these keys; without any, it has no Secret."""
    store, run = MemoryStore(), make(RunRecord, "r1", scope=HOME)
    job: dict[str, Any] = {"kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}}
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": dict.fromkeys(secrets or (), "")}
    manifests = [job, *([secret] if secrets is not None else [])]
    add_records(store, *make_scopes(), run, make(PlanRecord, "r1", plan={"manifests": manifests}), *kept)
    with store.reading() as tx:
        return load_launch_spec(tx, KEYRING, run)


def make_secret(name: str, value: bytes) -> SecretRecord:
    """A secret of the project."""
    sealed = KEYRING.seal(value, f"id-{name}")
    return make(SecretRecord, f"id-{name}", scope=HOME, name=name, sealed=sealed.content, key_id=sealed.key_id)


@pytest.mark.parametrize("secrets", [None, ["HF_TOKEN"]])
def test_run_without_uploads_has_no_token(secrets: list[str] | None) -> None:
    assert load(secrets, make_secret("HF_TOKEN", b"hf")).run_token == ""


def test_run_token_is_separate_from_the_secrets() -> None:
    work = load([RUN_TOKEN, "HF_TOKEN"], make_secret("HF_TOKEN", b"hf"))
    assert work.secrets == {"HF_TOKEN": "hf"}
    assert open_run_token(KEYRING, work.run_token) == "r1"
    assert work.run_token not in repr(work)


def test_secret_named_like_the_run_token_is_not_used_as_the_token() -> None:
    work = load([RUN_TOKEN], make_secret(RUN_TOKEN, b"mine"))
    assert work.secrets == {}
    assert open_run_token(KEYRING, work.run_token) == "r1"


def test_missing_secret_is_reported() -> None:
    with pytest.raises(LaunchInputMissing, match="HF_TOKEN"):
        load([RUN_TOKEN, "HF_TOKEN"])


def test_later_attempt_has_its_own_token_and_objects() -> None:
    store, run_id = MemoryStore(), "0198c0de" * 4
    asked = {"function": PYTHON, "resources": {"mem": "4Gi"}, "secrets": ["HF_TOKEN"]}
    planned = explanations.to_data(plan(asked, make_cluster(server_url="https://fairlead.example"), run_id=run_id))
    run = make(RunRecord, run_id, scope=HOME, attempt=2, mem_bytes=6 * 2**30)
    kept = PlanRecord(id=run_id, request=make_request(**asked).to_data(), plan=planned)
    add_records(store, *make_scopes(), run, kept, make_secret("HF_TOKEN", b"hf"))
    with store.reading() as tx:
        work = load_launch_spec(tx, KEYRING, run)
    assert (work.run_id, work.name) == (f"{run_id}-2", f"train-{run_id}attempt2")
    assert open_run_token(KEYRING, work.run_token) == f"{run_id}-2"
    assert work.secrets == {"HF_TOKEN": "hf"}
    assert read_pod_request(work.manifests).amounts["memory"] == Quantity.parse("6Gi").nanos
    assert load_secret_values(store, KEYRING, work.run_id) == ["hf"]  # which its log must not show
