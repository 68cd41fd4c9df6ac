"""Tokens: shown once, stored as a digest, invalid once revoked or expired; sessions and sign-in links."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, Unauthenticated
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import AuditRecord, IdempotencyRecord, TokenRecord
from fairlead.services.transactions.unit_of_work import Call, digest_of
from tests.making import find_violations
from tests.services.worlds import FOREST, World, call_as, listing, make_request, names

LONGEST_SECONDS = 2**31 - 1


def make(world: World, call: Call | None = None, **fields: Any) -> Any:
    """Create a token. The view contains its text."""
    return world.services.tokens.create(call or world.root, TokenRequest.model_validate({"name": "laptop", **fields}))


def bearer(view: Any) -> Call:
    """A call with a token."""
    return Call(bearer=view.token)


@pytest.mark.every_store
def test_token_authenticates_its_user_and_only_its_digest_is_stored(world: World) -> None:
    world.grant("mia", "member", FOREST)
    view = make(world, call_as("mia", "team"))
    assert view.token.startswith("fl_")
    assert len(view.token) > 40
    me = world.services.tokens.me(bearer(view))
    assert (me.user, me.groups, me.via) == ("mia", ["team"], "api:laptop")
    assert world.services.runs.submit(bearer(view), FOREST, make_request()).created_by == "mia"
    with world.store.reading() as tx:
        records = [tx.find(kind) for kind in (TokenRecord, AuditRecord, IdempotencyRecord)]
        record = tx.get(TokenRecord, id=view.id)
    assert record is not None
    assert record.digest == digest_of(view.token)
    for output in (*records, world.services.tokens.page(world.root, listing()), world.audit()):
        assert view.token not in repr(output)
        assert view.token.encode() not in msgspec.json.encode(output)
    assert record.digest not in repr(world.audit())
    assert view.token not in repr(view)
    assert view.token not in repr(bearer(view))


@pytest.mark.parametrize("text", [None, "", "fl_", "fl_wrong", "wrong", "\0", "é" * 100, "fl_" + "x" * 10_000])
def test_invalid_token_is_rejected(world: World, text: str | None) -> None:
    with pytest.raises(Unauthenticated):
        world.services.tokens.me(Call(bearer=text))
    with pytest.raises(Unauthenticated):
        world.services.runs.preview(Call(bearer=text), "project/none", make_request())


def test_token_expires(world: World) -> None:
    view = make(world, expires_in="1h")
    assert view.expires_at - view.created_at == timedelta(hours=1)
    assert world.services.tokens.me(bearer(view)).user == "root"
    world.clock.pass_by(minutes=59)
    assert world.services.tokens.me(bearer(view)).user == "root"
    world.clock.pass_by(minutes=1)
    with pytest.raises(Unauthenticated, match="expired"):
        world.services.tokens.me(bearer(view))


def test_revoked_token_is_rejected_immediately(world: World) -> None:
    view, other = make(world), make(world, name="phone")
    assert world.services.tokens.me(bearer(view)).user == "root"
    world.services.tokens.delete(world.root, view.id)
    with pytest.raises(Unauthenticated):
        world.services.tokens.me(bearer(view))
    with pytest.raises(Unauthenticated):
        world.services.scopes.get(bearer(view), FOREST)
    assert world.services.tokens.me(bearer(other)).user == "root"
    with pytest.raises(NotFound):
        world.services.tokens.delete(world.root, view.id)


def test_token_can_revoke_itself(world: World) -> None:
    view = make(world)
    world.services.tokens.delete(bearer(view), view.id)
    with pytest.raises(Unauthenticated):
        world.services.tokens.me(bearer(view))


def test_only_platform_administrators_create_tokens_for_others(world: World) -> None:
    ada = world.grant("ada", "admin", "department/vision")
    with pytest.raises(Forbidden, match="ada may not create tokens for mia"):
        make(world, ada, user="mia")
    assert make(world, ada, user="ada").user == "ada"
    view = make(world, call_as("root", "wheel"), user="mia")
    me = world.services.tokens.me(bearer(view))
    assert (me.user, me.groups, view.created_by) == ("mia", [], "root")


def test_users_see_and_revoke_only_their_own_tokens(world: World) -> None:
    mine, theirs = make(world, call_as("mia")), make(world, call_as("una"), name="hers")
    tokens = world.services.tokens
    assert names(tokens.page(call_as("mia"), listing()).items) == ["laptop"]
    assert names(tokens.page(call_as("mia"), listing(user="una")).items) == []
    assert names(tokens.page(world.root, listing()).items) == ["hers", "laptop"]
    assert all(view.token is None for view in tokens.page(world.root, listing()).items)
    with pytest.raises(NotFound):
        tokens.delete(call_as("mia"), theirs.id)
    tokens.delete(call_as("mia"), mine.id)
    tokens.delete(world.root, theirs.id)


def test_token_is_shown_once_even_with_the_same_idempotency_key(world: World) -> None:
    call = call_as(key="k", fingerprint="f")
    make(world, call)
    with pytest.raises(Conflict, match="cannot be shown again"):
        make(world, call)
    assert len(world.services.tokens.page(world.root, listing()).items) == 1


@pytest.mark.parametrize(
    ("expires_in", "rule"),
    [
        (0, "range"),
        ("-1h", "duration"),
        ("x", "duration"),
        ("", "duration"),
        ("9" * 30, "whole_number"),
        ("1000000d", "range"),
        (LONGEST_SECONDS + 1, "range"),
    ],
)
def test_invalid_lifetime_is_rejected(expires_in: Any, rule: str) -> None:
    (violation,) = find_violations(TokenRequest, {"name": "laptop", "expires_in": expires_in})
    assert (violation.path, violation.rule) == ("expires_in", rule)
    assert violation.hint


@pytest.mark.every_store
def test_token_can_have_the_longest_lifetime(world: World) -> None:
    view = make(world, expires_in=LONGEST_SECONDS)
    assert view.expires_at - view.created_at == timedelta(seconds=LONGEST_SECONDS)
    assert world.services.tokens.me(bearer(view)).user == "root"


def test_sign_in_link_works_once_and_creates_a_session(world: World) -> None:
    tokens = world.services.tokens
    _, code = world.first_run.issue_local_token("mia", "host", None)
    with pytest.raises(Unauthenticated):  # it is not a valid token
        tokens.me(Call(bearer=code))
    session = tokens.sign_in(Call(), code)
    me = tokens.me(bearer(session))
    assert (me.user, me.groups, me.via) == ("mia", [], "session:browser")
    with pytest.raises(Unauthenticated, match="already used or expired"):
        tokens.sign_in(Call(), code)
    world.clock.pass_by(hours=13)
    with pytest.raises(Unauthenticated):
        tokens.me(bearer(session))


def test_sign_in_link_expires_soon(world: World) -> None:
    _, code = world.first_run.issue_local_token("root", "host", None)
    world.clock.pass_by(minutes=16)
    with pytest.raises(Unauthenticated, match="already used or expired"):
        world.services.tokens.sign_in(Call(), code)


def test_sign_in_links_are_not_listed(world: World) -> None:
    world.first_run.issue_local_token("root", "host", None)
    assert names(world.services.tokens.page(world.root, listing()).items) == ["host"]
    assert world.services.tokens.page(world.root, listing(purpose="login")).items == []


def test_session_expires_with_its_token(world: World) -> None:
    tokens = world.services.tokens
    view = make(world, expires_in="1h")
    session = tokens.sign_in(Call(), view.token)
    assert session.expires_at == view.expires_at
    unlimited = tokens.sign_in(Call(), make(world, name="other").token)
    assert unlimited.expires_at is not None
    assert unlimited.expires_at - unlimited.created_at == timedelta(hours=12)


def test_sign_out_ends_the_session_and_leaves_the_token(world: World) -> None:
    tokens = world.services.tokens
    view = make(world)
    session = tokens.sign_in(Call(), view.token)
    tokens.sign_out(bearer(session))
    with pytest.raises(Unauthenticated):
        tokens.me(bearer(session))
    tokens.sign_out(bearer(view))
    assert tokens.me(bearer(view)).user == "root"


@pytest.mark.parametrize("code", ["", "nonsense", "fl_x", "\0"])
def test_unknown_code_is_rejected(world: World, code: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        world.services.tokens.sign_in(Call(), code)
    assert caught.value.hint


def test_local_token_is_retained_until_it_is_revoked(world: World) -> None:
    first, _ = world.first_run.issue_local_token("root", "host", None)
    elsewhere, _ = world.first_run.issue_local_token("root", "other", None)
    assert world.first_run.issue_local_token("root", "host", first)[0] == first
    view = world.services.tokens.page(world.root, listing(name="host")).items[0]
    world.services.tokens.delete(world.root, view.id)
    second, _ = world.first_run.issue_local_token("root", "host", first)
    third, _ = world.first_run.issue_local_token("root", "host", None)
    for token in (first, second):
        with pytest.raises(Unauthenticated):
            world.services.tokens.me(Call(bearer=token))
    assert world.services.tokens.me(Call(bearer=third)).via == "local:host"
    assert world.services.tokens.me(Call(bearer=elsewhere)).user == "root"


@pytest.mark.parametrize("user", ["mia", "root"])
def test_local_token_belongs_to_the_user_who_started_the_server(world: World, user: str) -> None:
    text, code = world.first_run.issue_local_token("root", "host", make(world, call_as(user)).token)
    for call in (Call(bearer=text), bearer(world.services.tokens.sign_in(Call(), code))):
        assert world.services.tokens.me(call).user == "root"
    assert world.services.tokens.me(Call(bearer=text)).via == "local:host"
