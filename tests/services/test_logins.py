"""Sign-in with OpenID Connect: validating the response, and the session that it creates."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairlead.errors import NotFound, Unauthenticated
from fairlead.model.records import TokenRecord
from fairlead.ports import LoginAttempt, Principal
from fairlead.services.access.tokens import AuthorizationResponse, Logins
from fairlead.services.transactions.unit_of_work import Call, UnitOfWorkFactory
from tests.services.worlds import World, listing

CALLBACK_URL = "https://fairlead.example.org/login/callback"


class FakeIssuer:
    """An issuer that accepts every user and records the calls."""

    issuer = "https://login.example.org"

    def __init__(self, user: str = "mia") -> None:
        self.user = user
        self.finished: list[tuple[LoginAttempt, str, str]] = []

    def begin(self, attempt: LoginAttempt, redirect_uri: str) -> str:
        """The URL of the sign-in page."""
        return f"{self.issuer}/authorize?state={attempt.state}&redirect_uri={redirect_uri}"

    def finish(self, attempt: LoginAttempt, redirect_uri: str, code: str) -> Principal:
        """The user who signed in."""
        self.finished.append((attempt, redirect_uri, code))
        return Principal(self.user, ("team",), "oidc")


def open_logins(world: World, user: str = "mia") -> tuple[Logins, FakeIssuer]:
    """Logins over a world's tokens."""
    issuer = FakeIssuer(user)
    return Logins(world.services.tokens, issuer), issuer


def test_attempt_is_random_and_its_browser_gets_a_session(world: World) -> None:
    logins, issuer = open_logins(world)
    (attempt, address), (other, _) = logins.begin(Call(), CALLBACK_URL), logins.begin(Call(), CALLBACK_URL)
    assert attempt.state in address
    values = {*vars(attempt).values(), *vars(other).values()}
    assert len(values) == 6
    assert all(len(value) == 43 for value in values)
    session = logins.finish(
        Call(address="192.0.2.7"), attempt, CALLBACK_URL, AuthorizationResponse(attempt.state, "code")
    )
    assert issuer.finished == [(attempt, CALLBACK_URL, "code")]
    me = world.services.tokens.me(Call(bearer=session.token))
    assert (me.user, me.groups, me.via) == ("mia", ["team"], "session:browser")
    entry = world.audit(action="token.create")[-1]
    assert (entry.user, entry.via, entry.address, entry.name) == ("mia", "oidc", "192.0.2.7", "browser")


def test_session_expires_after_twelve_hours_and_is_deleted_at_a_later_sign_in(world: World) -> None:
    logins, _ = open_logins(world)
    attempt, _ = logins.begin(Call(), CALLBACK_URL)
    session = logins.finish(Call(), attempt, CALLBACK_URL, AuthorizationResponse(attempt.state, "code"))
    world.clock.pass_by(hours=11, minutes=59)
    assert world.services.tokens.me(Call(bearer=session.token)).user == "mia"
    world.clock.pass_by(minutes=1)
    with pytest.raises(Unauthenticated):
        world.services.tokens.me(Call(bearer=session.token))
    world.clock.pass_by(hours=12, minutes=1)
    attempt, _ = logins.begin(Call(), CALLBACK_URL)
    later = logins.finish(Call(), attempt, CALLBACK_URL, AuthorizationResponse(attempt.state, "code"))
    with world.store.reading() as tx:
        assert [token.id for token in tx.find(TokenRecord) if token.purpose == "session"] == [later.id]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda good: replace(good, state="other"), "does not belong to this browser's last sign-in"),
        (lambda good: replace(good, state=""), "does not belong to this browser's last sign-in"),
        (lambda good: replace(good, state="ä"), "does not belong to this browser's last sign-in"),
        (lambda good: replace(good, state="", error="access_denied"), "does not belong to this browser's last sign-in"),
        (lambda good: replace(good, iss="https://evil.example.org"), "is from 'https://evil.example.org'"),
        (lambda good: replace(good, error="access_denied"), "rejected the sign-in: 'access_denied'"),
        (lambda good: replace(good, code=""), "rejected the sign-in: nothing"),
    ],
)
def test_response_to_another_attempt_is_not_sent_to_the_issuer(
    world: World, change: Callable[[AuthorizationResponse], AuthorizationResponse], message: str
) -> None:
    logins, issuer = open_logins(world)
    attempt, _ = logins.begin(Call(), CALLBACK_URL)
    with pytest.raises(Unauthenticated, match=message) as caught:
        logins.finish(
            Call(), attempt, CALLBACK_URL, change(AuthorizationResponse(attempt.state, "code", issuer.issuer))
        )
    assert caught.value.hint
    assert issuer.finished == []
    assert world.services.tokens.page(world.root, listing()).items == []


def test_issuer_cannot_assign_reserved_user_names(world: World) -> None:
    logins, _ = open_logins(world, "root@localhost")
    attempt, _ = logins.begin(Call(), CALLBACK_URL)
    with pytest.raises(Unauthenticated, match="is reserved for the server"):
        logins.finish(Call(), attempt, CALLBACK_URL, AuthorizationResponse(attempt.state, "code"))
    assert world.services.tokens.page(world.root, listing()).items == []


def test_bearer_token_of_an_issuer_cannot_identify_a_reserved_user(world: World) -> None:
    class Issuer:
        def authenticate(self, bearer: str) -> Principal:
            """The issuer lets its users choose their own names."""
            return Principal(bearer)

    units = UnitOfWorkFactory(world.store, world.clock, lambda: "x", Issuer())
    with pytest.raises(Unauthenticated, match="the user name root@localhost is reserved for the server") as caught:
        units.authenticate(Call(bearer="root@localhost"))
    assert caught.value.hint == "use a different name in the identity provider, or a different claim for the user"
    assert not units.is_recently_authenticated(Call(bearer="root@localhost"))
    units.authenticate(Call(bearer="ada@example.org"))
    assert units.is_recently_authenticated(Call(bearer="ada@example.org"))


def test_sign_in_without_an_issuer_is_not_found(world: World) -> None:
    logins = world.services.logins
    assert (logins.issuer, logins.link) == (None, False)
    with pytest.raises(NotFound, match="sign-in with OpenID Connect is not configured"):
        logins.begin(Call(), CALLBACK_URL)
    with pytest.raises(NotFound):
        logins.finish(Call(), LoginAttempt("s", "n", "v"), CALLBACK_URL, AuthorizationResponse("s", "code"))
