"""Plan tokens: what they are bound to, when they expire, and that the server makes every run ID."""

import hashlib
import string
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fairlead.errors import Conflict, Forbidden, PreviewOutdated, RequestRejected
from fairlead.model import explanations
from fairlead.model.assets import Defaults
from fairlead.model.plans import Fit
from fairlead.model.records import RunRecord
from fairlead.model.requests import MAX_TOKEN_LENGTH
from fairlead.model.scopes import Project
from fairlead.planning.plan import NO_RUN
from fairlead.run_tokens import format_sealed, seal_run_token
from fairlead.services.runs.plan_tokens import LIFETIME, PREVIEW_AGAIN
from tests.services.worlds import (
    FOREST,
    KEY,
    LAKE,
    MAIN,
    MEADOW,
    OTHER_KEY,
    SPEECH,
    VISION,
    World,
    call_as,
    listing,
    make_request,
    make_world,
    rejection_rules,
    setting,
)

Request = dict[str, Any]
REQUEST: Request = {"profile": "big", "secrets": ["TOKEN"], "resources": {"disk": "1Gi"}}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def ready(world: World) -> World:
    """A platform with a compute resource and a secret."""
    world.add_compute_resource("big", resources={"cpu": 4, "mem": "8Gi"})
    world.services.secrets.put(world.root, FOREST, "TOKEN", "x")
    return world


def check_invalid(world: World, token: str, **options: Any) -> None:
    """Check that a token is rejected as a violation with a hint, and that no run is stored."""
    before = world.services.runs.page(world.root, listing()).items
    with pytest.raises(RequestRejected) as caught:
        world.submit(**options, plan_token=token)
    assert rejection_rules(caught) == [("plan_token", "plan_token")]
    assert caught.value.violations[0].hint == PREVIEW_AGAIN
    assert world.services.runs.page(world.root, listing()).items == before


def test_plan_token_submits_exactly_the_previewed_plan(ready: World) -> None:
    plan = ready.preview(**REQUEST)
    run = ready.submit(**REQUEST, plan_token=plan["token"])
    stored = ready.services.runs.plan(ready.root, run.id)
    as_json = msgspec.json.encode({name: value for name, value in plan.items() if name != "token"}).decode()
    assert NO_RUN in as_json
    assert stored.plan == msgspec.json.decode(as_json.replace(NO_RUN, run.id))
    assert "plan_token" not in stored.request


def test_run_id_is_made_when_the_run_is_submitted(ready: World) -> None:
    """Otherwise a caller could choose the ID, which is also the run's place in the queue."""
    token = ready.preview(**REQUEST)["token"]
    earlier = ready.submit(**REQUEST)
    run = ready.submit(**REQUEST, plan_token=token)
    assert run.id > earlier.id
    assert run.queue_key > earlier.queue_key
    assert run.id not in token


def test_caller_cannot_make_a_token_with_a_chosen_run_id(ready: World) -> None:
    """Tokens were a run ID and an unkeyed digest, which anyone could compute."""
    plan = {name: value for name, value in ready.preview(**REQUEST).items() if name != "token"}
    plan["fit"] = explanations.fit_data(Fit())
    chosen = "0" * 31 + "1"
    text = msgspec.json.encode(plan).decode().replace(setting(plan, "labels.fairlead.dev/run"), chosen)
    forged = msgspec.json.encode([FOREST, make_request(**REQUEST).to_data(), msgspec.json.decode(text)])
    check_invalid(ready, f"{chosen}.{hashlib.sha256(forged).hexdigest()}", **REQUEST)


def _edit(world: World) -> None:
    world.services.compute_resources.edit(world.root, "big", {"requirements": {"resources": {"cpu": 5, "mem": "8Gi"}}})


CHANGES: dict[str, Callable[[World], Any]] = {
    "the compute resource is edited": _edit,
    "the compute resource is renamed": lambda w: w.services.compute_resources.edit(w.root, "big", {"name": "large"}),
    "the compute resource is archived": lambda w: w.services.compute_resources.archive(w.root, "big", None),
    "a policy forbids it": lambda w: w.put_policy(VISION, rules={"resources.cpu": {"max": 1}}),
    "a policy has a default": lambda w: w.put_policy(MAIN, defaults={"envs": {"A": "1"}}),
    "a policy has a factor": lambda w: w.put_policy(limit_factor={"mem": 2}),
    "the platform has a default": lambda w: w.services.settings.put(w.root, Defaults.model_validate({"fs_group": 7})),
    "the secret is removed": lambda w: w.services.secrets.delete(w.root, FOREST, "TOKEN"),
    "the project is moved to another department": lambda w: _move(w),
}


def _move(world: World) -> None:
    world.put_policy(SPEECH, defaults={"envs": {"A": "1"}})
    world.services.scopes.edit(world.root, FOREST, {"parent": SPEECH})


@pytest.mark.parametrize("change", CHANGES)
def test_plan_token_is_rejected_after_a_change(ready: World, change: str) -> None:
    token = ready.preview(**REQUEST)["token"]
    CHANGES[change](ready)
    with pytest.raises(PreviewOutdated) as caught:
        ready.submit(**REQUEST, plan_token=token)
    assert caught.value.hint == PREVIEW_AGAIN
    assert ready.services.runs.page(ready.root, listing()).items == []


@pytest.mark.parametrize(
    "change",
    [
        {"envs": {"A": "1"}},
        {"replicas": 2},
        {"function": {"name": "train", "kind": "container", "image": "other:1"}},
        {"resources": {"disk": "2Gi"}},
        {"strict": True},
        {"action": "workspace", "function": {"name": "t", "kind": "container", "image": "i", "port": 80}},
    ],
)
def test_changed_request_differs_from_the_preview(world: World, change: Request) -> None:
    request: Request = {"resources": {"disk": "1Gi"}}
    token = world.preview(**request)["token"]
    with pytest.raises(PreviewOutdated, match="differs from the preview"):
        world.submit(**{**request, **change}, plan_token=token)
    world.submit(**request, plan_token=token)


def test_unrelated_change_leaves_the_plan_token_valid(ready: World) -> None:
    token = ready.preview(**REQUEST)["token"]
    ready.add_compute_resource("other")
    ready.services.secrets.put(ready.root, FOREST, "MORE", "x")
    ready.put_policy(SPEECH, rules={"resources.cpu": {"max": 1}})
    assert ready.submit(**REQUEST, plan_token=token).state == "queued"


@pytest.mark.every_store
def test_plan_token_works_once_even_after_its_run_is_deleted(ready: World) -> None:
    token = ready.preview(**REQUEST)["token"]
    run = ready.submit(**REQUEST, plan_token=token)
    for _ in range(2):
        with pytest.raises(Conflict, match="already been submitted") as caught:
            ready.submit(**REQUEST, plan_token=token)
        assert run.id in str(caught.value.hint)
        if ready.services.runs.page(ready.root, listing(active="true")).items:
            ready.services.runs.stop(ready.root, run.id)
            ready.services.runs.delete(ready.root, run.id)


@pytest.mark.parametrize(
    "token", ["", "x", ".", "0" * 32, "٣" * 32 + "." + "0" * 64, "\0", "a.\n", "=" * MAX_TOKEN_LENGTH]
)
def test_unknown_plan_token_is_a_violation(world: World, token: str) -> None:
    check_invalid(world, token)


def test_token_with_any_changed_character_is_rejected(ready: World) -> None:
    token = ready.preview()["token"]
    assert len(token) <= MAX_TOKEN_LENGTH
    characters = f"{string.ascii_letters}{string.digits}-_.=+/ "
    for position, original in enumerate(token):
        # The last character carries fewer bits than the others, so all of its values are tried.
        others = characters if position == len(token) - 1 else (chr(ord(original) ^ 1), chr(ord(original) ^ 32), "A.")
        for other in others:
            if other != original:
                check_invalid(ready, token[:position] + other + token[position + 1 :])
    for changed in (
        f"{token}A",
        f"{token}=",
        f" {token}",
        f"{token}\n",
        token[:-1],
        token[1:],
        token.upper(),
        token * 2,
    ):
        check_invalid(ready, changed[:MAX_TOKEN_LENGTH])
    assert ready.submit(plan_token=token).state == "queued"


def test_token_of_another_user_is_rejected(ready: World) -> None:
    mia, joe = (ready.grant(user, "admin", FOREST) for user in ("mia", "joe"))
    token = ready.preview(call=mia)["token"]
    check_invalid(ready, token, call=joe)
    check_invalid(ready, token)
    assert ready.submit(call=mia, plan_token=token).created_by == "mia"


def test_token_of_a_viewer_does_not_allow_to_submit(ready: World) -> None:
    viewer = ready.grant("vera", "viewer", FOREST)
    token = ready.preview(call=viewer)["token"]
    with pytest.raises(Forbidden):
        ready.submit(call=viewer, plan_token=token)


@pytest.mark.parametrize("scope", [LAKE, MEADOW])
def test_token_of_another_project_is_rejected(ready: World, scope: str) -> None:
    check_invalid(ready, ready.preview()["token"], scope=scope)


def test_token_of_a_deleted_project_is_rejected_in_a_new_one_with_the_same_name(world: World) -> None:
    token = world.preview(LAKE)["token"]
    world.services.scopes.delete(world.root, LAKE)
    world.services.scopes.create(world.root, Project(name="lake", parent=SPEECH))
    check_invalid(world, token, scope=LAKE)


@pytest.mark.parametrize("purpose", ["plan-token", "run-token"])
def test_other_value_encrypted_with_the_same_keys_is_not_a_plan_token(ready: World, purpose: str) -> None:
    check_invalid(ready, format_sealed(ready.keyring.seal(b"0" * 64 + b".9999999999", purpose)))
    check_invalid(ready, seal_run_token(ready.keyring, NO_RUN))


def test_token_expires_after_15_minutes(ready: World) -> None:
    early, late = (ready.preview(**REQUEST)["token"] for _ in range(2))
    ready.clock.now += LIFETIME - MINUTE
    assert ready.submit(**REQUEST, plan_token=early).state == "queued"
    ready.clock.now += MINUTE
    with pytest.raises(PreviewOutdated, match="valid for 15 minutes") as caught:
        ready.submit(**REQUEST, plan_token=late)
    assert caught.value.hint == PREVIEW_AGAIN
    assert ready.submit(**REQUEST, plan_token=ready.preview(**REQUEST)["token"]).state == "queued"


def test_each_preview_has_its_own_token(ready: World) -> None:
    tokens = [ready.preview(**REQUEST)["token"] for _ in range(3)]
    runs = [ready.submit(**REQUEST, plan_token=token).id for token in tokens]
    assert len({*tokens, *runs}) == 6


def test_rejected_submission_does_not_use_up_the_token(ready: World) -> None:
    token = ready.preview(**REQUEST)["token"]
    with pytest.raises(PreviewOutdated):
        ready.submit(**REQUEST, replicas=2, plan_token=token)
    assert ready.submit(**REQUEST, plan_token=token).state == "queued"


@pytest.mark.every_store
def test_repeated_request_gets_the_same_run_after_its_token_has_expired(ready: World) -> None:
    token = ready.preview(**REQUEST)["token"]
    call = call_as(key="k1", fingerprint="a")
    run = ready.submit(**REQUEST, plan_token=token, call=call)
    ready.clock.now += LIFETIME
    assert ready.submit(**REQUEST, plan_token=token, call=call) == run
    with pytest.raises(Conflict, match="already been submitted"):
        ready.submit(**REQUEST, plan_token=token, call=call_as(key="k2", fingerprint="a"))
    with ready.store.reading() as tx:
        assert [stored.id for stored in tx.find(RunRecord)] == [run.id]


def test_expired_token_with_a_new_idempotency_key_stores_nothing(ready: World) -> None:
    token = ready.preview(**REQUEST)["token"]
    ready.clock.now += LIFETIME
    call = call_as(key="k1", fingerprint="a")
    with pytest.raises(PreviewOutdated):
        ready.submit(**REQUEST, plan_token=token, call=call)
    # The key was not used up, so a client can send the new token with it.
    assert ready.submit(**REQUEST, plan_token=ready.preview(**REQUEST)["token"], call=call).state == "queued"


def test_token_is_valid_until_its_key_is_deleted(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (ready.preview(**REQUEST)["token"] for _ in range(2))
    rotated = make_world(ready.store, monkeypatch, keys=f"{OTHER_KEY},{KEY}")
    assert rotated.submit(**REQUEST, plan_token=first).state == "queued"
    new = rotated.preview(**REQUEST)["token"]
    with_new_key_only = make_world(ready.store, monkeypatch, keys=OTHER_KEY)
    check_invalid(with_new_key_only, second, **REQUEST)
    assert with_new_key_only.submit(**REQUEST, plan_token=new).state == "queued"
    check_invalid(ready, rotated.preview(**REQUEST)["token"], **REQUEST)  # a server that does not have the new key yet
