"""Signing in at an issuer: who is believed to come back, and what their session is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fairlead.errors import NotFound, Unauthenticated
from fairlead.model.records import TokenRecord
from fairlead.ports import LoginAttempt, Principal
from fairlead.services.calls import Call
from fairlead.services.logins import AuthorizationResponse, Logins
from fairlead.services.unit_of_work import UnitOfWorkFactory
from tests.services.worlds import World, listing

BACK = "https://fairlead.example.org/login/callback"


class Welcoming:
    """An issuer that knows everybody, and remembers who asked."""

    issuer = "https://login.example.org"

    def __init__(self, user: str = "mia") -> None:
        self.user = user
        self.finished: list[tuple[LoginAttempt, str, str]] = []

    def begin(self, attempt: LoginAttempt, back: str) -> str:
        """An address."""
        return f"{self.issuer}/authorize?state={attempt.state}&redirect_uri={back}"

    def finish(self, attempt: LoginAttempt, back: str, code: str) -> Principal:
        """Somebody."""
        self.finished.append((attempt, back, code))
        return Principal(self.user, ("team",), "oidc")


def open_logins(world: World, user: str = "mia") -> tuple[Logins, Welcoming]:
    """Logins over the tokens of a world."""
    issuer = Welcoming(user)
    return Logins(world.services.tokens, issuer), issuer


def test_attempt_is_random_and_its_browser_gets_a_session(world: World) -> None:
    logins, issuer = open_logins(world)
    (attempt, address), (other, _) = logins.begin(Call(), BACK), logins.begin(Call(), BACK)
    assert attempt.state in address
    words = {*vars(attempt).values(), *vars(other).values()}
    assert len(words) == 6
    assert all(len(word) == 43 for word in words)
    session = logins.finish(Call(address="192.0.2.7"), attempt, BACK, AuthorizationResponse(attempt.state, "code"))
    assert issuer.finished == [(attempt, BACK, "code")]
    me = world.services.tokens.me(Call(bearer=session.token))
    assert (me.user, me.groups, me.via) == ("mia", ["team"], "session:browser")
    entry = world.audit(action="token.create")[-1]
    assert (entry.user, entry.via, entry.address, entry.name) == ("mia", "oidc", "192.0.2.7", "browser")


def test_session_expires_after_twelve_hours_and_is_deleted_at_a_later_sign_in(world: World) -> None:
    logins, _ = open_logins(world)
    attempt, _ = logins.begin(Call(), BACK)
    session = logins.finish(Call(), attempt, BACK, AuthorizationResponse(attempt.state, "code"))
    world.clock.pass_by(hours=11, minutes=59)
    assert world.services.tokens.me(Call(bearer=session.token)).user == "mia"
    world.clock.pass_by(minutes=1)
    with pytest.raises(Unauthenticated):
        world.services.tokens.me(Call(bearer=session.token))
    world.clock.pass_by(hours=12, minutes=1)
    attempt, _ = logins.begin(Call(), BACK)
    later = logins.finish(Call(), attempt, BACK, AuthorizationResponse(attempt.state, "code"))
    with world.store.reading() as tx:
        assert [token.id for token in tx.find(TokenRecord) if token.purpose == "session"] == [later.id]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda good: replace(good, state="other"), "does not belong to the last sign-in"),
        (lambda good: replace(good, state=""), "does not belong to the last sign-in"),
        (lambda good: replace(good, state="ä"), "does not belong to the last sign-in"),
        (lambda good: replace(good, state="", error="access_denied"), "does not belong to the last sign-in"),
        (lambda good: replace(good, iss="https://evil.example.org"), "is from 'https://evil.example.org'"),
        (lambda good: replace(good, error="access_denied"), "rejected the sign-in: 'access_denied'"),
        (lambda good: replace(good, code=""), "rejected the sign-in: nothing"),
    ],
)
def test_response_to_another_attempt_is_not_sent_to_the_issuer(
    world: World, spoil: Callable[[AuthorizationResponse], AuthorizationResponse], said: str
) -> None:
    logins, issuer = open_logins(world)
    attempt, _ = logins.begin(Call(), BACK)
    with pytest.raises(Unauthenticated, match=said) as caught:
        logins.finish(Call(), attempt, BACK, spoil(AuthorizationResponse(attempt.state, "code", issuer.issuer)))
    assert caught.value.hint
    assert issuer.finished == []
    assert world.services.tokens.page(world.root, listing()).items == []


def test_issuer_cannot_assign_reserved_user_names(world: World) -> None:
    logins, _ = open_logins(world, "root@localhost")
    attempt, _ = logins.begin(Call(), BACK)
    with pytest.raises(Unauthenticated, match="is reserved for the server"):
        logins.finish(Call(), attempt, BACK, AuthorizationResponse(attempt.state, "code"))
    assert world.services.tokens.page(world.root, listing()).items == []


def test_bearer_token_of_an_issuer_cannot_identify_a_reserved_user(world: World) -> None:
    class Issuer:
        def authenticate(self, bearer: str) -> Principal:
            """The issuer lets its users choose their names."""
            return Principal(bearer)

    units = UnitOfWorkFactory(world.store, world.clock, lambda: "x", Issuer())
    with pytest.raises(Unauthenticated, match="the user name root@localhost is reserved for the server") as caught:
        units.authenticate(Call(bearer="root@localhost"))
    assert caught.value.hint == "use another name at the identity provider, or another claim for the user"
    assert not units.is_recently_authenticated(Call(bearer="root@localhost"))
    units.authenticate(Call(bearer="ada@example.org"))
    assert units.is_recently_authenticated(Call(bearer="ada@example.org"))


def test_sign_in_without_an_issuer_is_not_found(world: World) -> None:
    logins = world.services.logins
    assert (logins.issuer, logins.link) == (None, False)
    with pytest.raises(NotFound, match="sign-in with OpenID Connect is not configured"):
        logins.begin(Call(), BACK)
    with pytest.raises(NotFound):
        logins.finish(Call(), LoginAttempt("s", "n", "v"), BACK, AuthorizationResponse("s", "code"))
