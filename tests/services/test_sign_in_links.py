"""User sign-in links: permissions, sign-in, and lifetimes that end with the token."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from fairlead.errors import Conflict, Forbidden, Unauthenticated
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import IdempotencyRecord, TokenRecord
from fairlead.services.access.tokens import TokenView
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import World, call_as, error_text, listing, names


def make_token(world: World, call: Call | None = None, **fields: Any) -> TokenView:
    """Create a token. The view contains its text."""
    return world.services.tokens.create(call or world.root, TokenRequest.model_validate({"name": "laptop", **fields}))


def make_link(world: World, token: str | None, **options: Any) -> TokenView:
    """Create a sign-in link with a token."""
    return world.services.tokens.make_link(Call(bearer=token, **options))


def sign_in(world: World, code: str | None) -> TokenView:
    """Sign in with the code from a link or with a token."""
    return world.services.tokens.sign_in(Call(), code or "")


def is_valid(world: World, session: TokenView) -> bool:
    """Whether a session is valid."""
    try:
        return world.services.tokens.me(Call(bearer=session.token)).user != ""
    except Unauthenticated:
        return False


def test_link_signs_its_creator_in_once_with_their_groups(world: World) -> None:
    token = make_token(world, call_as("mia", "team"))
    link = make_link(world, token.token)
    assert link.token is not None
    assert link.token.startswith("fl_")
    assert link.expires_at == link.created_at + timedelta(minutes=15)
    with pytest.raises(Unauthenticated):  # it is not a valid token
        world.services.tokens.me(Call(bearer=link.token))
    me = world.services.tokens.me(Call(bearer=sign_in(world, link.token).token))
    assert (me.user, me.groups, me.via) == ("mia", ["team"], "session:browser")
    with pytest.raises(Unauthenticated, match="already used or expired") as caught:
        sign_in(world, link.token)
    assert "fairlead open" in error_text(caught)


def test_local_token_can_create_links(world: World) -> None:
    text, _ = world.first_run.issue_local_token("root", "host", None)
    session = sign_in(world, make_link(world, text).token)
    assert session.user == "root"
    assert session.expires_at == session.created_at + timedelta(hours=12)


def test_link_expires_soon(world: World) -> None:
    link = make_link(world, make_token(world).token)
    world.clock.pass_by(minutes=15)
    with pytest.raises(Unauthenticated, match="already used or expired"):
        sign_in(world, link.token)


def test_session_or_link_cannot_create_a_link(world: World) -> None:
    api_token = make_token(world)
    session, link = sign_in(world, api_token.token), make_link(world, api_token.token)
    with pytest.raises(Forbidden, match="requires a token from this server, not session:browser") as caught:
        make_link(world, session.token)
    assert "POST /tokens" in error_text(caught)
    for token in (link.token, "fl_nobody", None):
        with pytest.raises(Unauthenticated):
            make_link(world, token)


def test_oidc_user_cannot_create_a_link(world: World) -> None:
    """The lifetime of an OIDC identity is unknown, so a session could outlive it."""
    with pytest.raises(Forbidden, match="not test"):
        world.services.tokens.make_link(call_as("mia"))


def test_link_creation_is_audited_without_its_code(world: World) -> None:
    token = make_token(world, call_as("mia"))
    link = make_link(world, token.token, address="192.0.2.7")
    assert link.token is not None
    entry = world.audit(action="token.create")[-1]
    assert (entry.user, entry.via, entry.address, entry.name) == ("mia", "api:laptop", "192.0.2.7", "sign-in link")
    assert entry.after is not None
    assert entry.after["created_with"] == token.id
    sign_in(world, link.token)
    assert world.audit_actions()[-2:] == [("token.delete", "sign-in link"), ("token.create", "browser")]
    with world.store.reading() as tx:
        outputs = [tx.find(TokenRecord), tx.find(IdempotencyRecord), world.audit()]
    assert link.token not in repr(link)
    for output in outputs:
        assert link.token.encode() not in msgspec.json.encode(output)


def test_links_are_not_listed(world: World) -> None:
    make_link(world, make_token(world).token)
    assert names(world.services.tokens.page(world.root, listing()).items) == ["laptop"]


def test_link_is_shown_once_even_with_the_same_idempotency_key(world: World) -> None:
    token = make_token(world)
    make_link(world, token.token, key="k", fingerprint="f")
    with pytest.raises(Conflict, match="cannot be shown again"):
        make_link(world, token.token, key="k", fingerprint="f")


@pytest.mark.every_store
def test_unused_links_are_deleted(world: World) -> None:
    token = make_token(world)
    old = make_link(world, token.token)
    world.clock.pass_by(hours=13)
    make_link(world, token.token)
    with world.store.reading() as tx:
        assert tx.get(TokenRecord, id=old.id) is None


# Nothing outlives its token


def test_link_expires_with_its_token(world: World) -> None:
    token = make_token(world, expires_in="5m")
    link = make_link(world, token.token)
    assert link.expires_at == token.expires_at
    world.clock.pass_by(minutes=5)
    with pytest.raises(Unauthenticated, match="already used or expired"):
        sign_in(world, link.token)


@pytest.mark.parametrize(("lifetime", "hours"), [("1h", 1), ("30d", 12), (None, 12)])
def test_session_from_a_link_expires_with_the_token_of_the_link(world: World, lifetime: str | None, hours: int) -> None:
    token = make_token(world, expires_in=lifetime)
    world.clock.pass_by(minutes=10)
    link = make_link(world, token.token)
    world.clock.pass_by(minutes=10)
    session = sign_in(world, link.token)
    last = session.created_at + timedelta(hours=12)
    assert session.expires_at == (last if token.expires_at is None else min(last, token.expires_at))
    world.clock.pass_by(hours=hours)
    assert not is_valid(world, session)


def test_session_from_a_session_expires_with_the_token(world: World) -> None:
    token = make_token(world, expires_in="1h")
    first = sign_in(world, make_link(world, token.token).token)
    second = sign_in(world, sign_in(world, first.token).token)
    assert second.expires_at == token.expires_at
    unlimited = make_token(world, name="other")
    third = sign_in(world, sign_in(world, unlimited.token).token)
    world.clock.pass_by(hours=11)
    fourth = sign_in(world, third.token)
    assert fourth.expires_at == third.expires_at
    world.services.tokens.delete(world.root, unlimited.id)
    assert not is_valid(world, fourth)


@pytest.mark.every_store
def test_revoked_token_ends_its_links_and_sessions(world: World) -> None:
    tokens = world.services.tokens
    token, other = make_token(world), make_token(world, name="other")
    by_token, by_link, unrelated = (
        sign_in(world, code) for code in (token.token, make_link(world, token.token).token, other.token)
    )
    unused = make_link(world, token.token)
    assert is_valid(world, by_token)
    assert is_valid(world, by_link)
    sessions = tokens.page(world.root, listing(purpose="session")).items
    assert sorted(str(session.created_with) for session in sessions) == sorted([token.id, token.id, other.id])
    tokens.delete(world.root, token.id)
    assert not is_valid(world, by_token)
    assert not is_valid(world, by_link)
    with pytest.raises(Unauthenticated, match="already used or expired"):
        sign_in(world, unused.token)
    assert is_valid(world, unrelated)
    deleted = sorted(entry.name for entry in world.audit(action="token.delete"))
    assert deleted == ["browser", "browser", "laptop", "sign-in link", "sign-in link"]  # one of the links had been used


def test_revoked_session_ends_nothing_else(world: World) -> None:
    token = make_token(world)
    first, second = sign_in(world, token.token), sign_in(world, make_link(world, token.token).token)
    world.services.tokens.delete(world.root, first.id)
    assert not is_valid(world, first)
    assert is_valid(world, second)
    assert world.services.tokens.me(Call(bearer=token.token)).user == "root"


def test_sessions_of_a_local_token_end_when_it_is_replaced(world: World) -> None:
    text, code = world.first_run.issue_local_token("root", "host", None)
    from_printed_link, from_token = sign_in(world, code), sign_in(world, make_link(world, text).token)
    world.first_run.issue_local_token("root", "host", text)
    assert is_valid(world, from_token)
    world.first_run.issue_local_token("root", "host", None)
    assert not is_valid(world, from_token)
    assert is_valid(world, from_printed_link), "the link that the server printed was made with no token"
