"""Who may speak to what a run serves: programs with a token, browsers with a ticket at the host of that run alone.

A browser is let in with a word: the run, who opens it and until when, sealed. Nothing of a word is kept before it is
used. Then its digest is, in the store and for longer than the word is good: whichever server it is brought to, also one
that was started anew, a word lets in once. A ticket is sealed in the same way and kept nowhere. It ends after twelve
hours, with the token or session that opened it, and as soon as its user may not do this any more: every request asks.
"""

import contextlib
import hashlib
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import msgspec

from fairlead.core.attempts import execution_of
from fairlead.errors import Conflict, FairleadError, NotFound, Unauthenticated, Unavailable
from fairlead.model.hosts import is_loopback
from fairlead.model.observations import Endpoint
from fairlead.model.queries import Condition
from fairlead.model.records import AnswerRecord, RunRecord, TokenRecord
from fairlead.model.roles import Permission
from fairlead.model.states import State
from fairlead.ports import Keyring, Principal
from fairlead.run_tokens import format_sealed, parse_sealed
from fairlead.services.calls import Call, digest_of
from fairlead.services.executions import Executions, find_run
from fairlead.services.unit_of_work import REMEMBERED, UnitOfWork, UnitOfWorkFactory

WORD, TICKET = "run-word", "run-ticket"  # what values are sealed for
WORD_LASTS, TICKET_LASTS = timedelta(seconds=60), timedelta(hours=12)
USE_RECORDED_EVERY = timedelta(minutes=1)
LONGEST_TICKET = 3800  # browsers drop cookies of more than 4096 bytes, name and attributes with them
ANSWERING = (State.RUNNING, State.DEGRADED)
AGAIN_SECONDS = 2
RUN_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
NOBODY = Principal("nobody", via="entrance")
NOTER = Call(principal=Principal("fairlead", via="serving"), trusted=True)
NO_HOSTS = "browsers cannot open it: this server has no hosts for runs"
SET_HOST = "set served_host to a name below which every name leads to this server, such as apps.example.com"


def _is_news(run: RunRecord, now: datetime) -> bool:
    """Whether that a run is used is to be noted again; also where that was noted by a clock that was ahead."""
    return run.last_used_at is None or not timedelta(0) <= now - run.last_used_at < USE_RECORDED_EVERY


@dataclass(frozen=True)
class ServedHosts:
    """Where runs are reached: by programs below the server's own address, by browsers at a host of each run."""

    url: str
    domain: str | None = None  # below which each run has its host

    @classmethod
    def of(cls, url: str, served_host: str | None = None) -> "ServedHosts":
        """The hosts of a server at an address. On this machine, every name below localhost leads to itself."""
        here = is_loopback(urlsplit(url).hostname or "")
        return cls(url.rstrip("/"), served_host or ("localhost" if here else None))

    def url_of(self, run_id: str) -> str:
        """Where programs reach a run."""
        return f"{self.url}/served/{run_id}/"

    def origin_of(self, run_id: str) -> str | None:
        """Where browsers reach a run: an origin that it shares with nobody; None where there is none."""
        if self.domain is None:
            return None
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{run_id}.{self.domain}" + (f":{parts.port}" if parts.port else "")

    def find_run(self, host: str) -> str | None:
        """The run whose host a request names, however that is written."""
        name = re.sub(r":[0-9]*$", "", host.strip().lower()).removesuffix(".")
        run_id, _, domain = name.partition(".")
        return run_id if self.domain is not None and domain == self.domain and RUN_ID.fullmatch(run_id) else None


@dataclass(frozen=True)
class ServedUrl:
    """Where programs reach a run, whether browsers can open it as well, and whether it answers."""

    url: str
    browser: bool
    ready: bool
    message: str


@dataclass(frozen=True)
class OpenedUrl:
    """An address that lets a browser in at a run, once."""

    url: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True)
class Admitted:
    """How to speak to a run, and how it is, for when it does not answer."""

    endpoint: Endpoint = field(repr=False)
    told: str


@dataclass(frozen=True)
class SessionCookie:
    """What a browser that was let in keeps, and for how long."""

    text: str = field(repr=False)
    lasts: timedelta


@dataclass(frozen=True)
class Claims:
    """What is sealed in words and tickets. Groups are told where no token is kept that has them."""

    run_id: str
    user: str
    groups: tuple[str, ...]
    token_id: str | None
    until: datetime
    ends: datetime | None = None  # what an identity provider said of its user


class Serving:
    """The use cases of runs that serve something."""

    def __init__(self, units: UnitOfWorkFactory, executions: Executions, keyring: Keyring) -> None:
        self.units, self.executions, self.keyring = units, executions, keyring

    def describe_url(self, call: Call, run_id: str, hosts: ServedHosts) -> ServedUrl:
        """Where a run is reached, and whether it answers now."""
        with self.units.reading(call) as unit:
            run = find_served(unit, run_id)
        ready, message = True, run.message
        try:
            self._reach(call, run)
        except Unavailable as error:
            ready, message = False, str(error)
        browser = hosts.domain is not None
        return ServedUrl(hosts.url_of(run_id), browser, ready, message if browser else f"{message}; {NO_HOSTS}")

    def open(self, call: Call, run_id: str, hosts: ServedHosts) -> OpenedUrl:
        """An address that lets a browser in as the caller, once and within a minute."""
        with self.units.reading(call) as unit:
            run = find_served(unit, run_id)
            origin = hosts.origin_of(run.id)
            if origin is None:
                raise Conflict(NO_HOSTS, SET_HOST)
            token = None if call.bearer is None else unit.tx.get(TokenRecord, digest=digest_of(call.bearer))
            groups, token_id = (unit.principal.groups, None) if token is None else ((), token.id)
            until = unit.now + WORD_LASTS
            passed = Claims(run.id, unit.principal.user, groups, token_id, until, unit.principal.until)
        word = self._seal(passed, WORD)
        if len(word) > LONGEST_TICKET:
            message = f"{unit.principal.user} is in {len(unit.principal.groups)} groups, more than a cookie can hold"
            raise Conflict(message, "open it with a session of the web page, or with a token of this server")
        return OpenedUrl(f"{origin}/.fairlead/enter?word={word}", passed.until)

    def enter(self, call: Call, run_id: str, word: str) -> SessionCookie:
        """A ticket for a browser that comes with a word. No word is taken twice."""
        passed, digest = self._read(word, WORD, run_id)
        with self.units.recording(replace(call, principal=NOBODY, key=None)) as nobody:
            unit, token = _let_in(nobody, passed)
            run = find_served(unit, run_id)
            _use_up(unit, digest)
            unit.audit("run.open", run, run.id, run.scope)
            ends = passed.ends if token is None else token.expires_at
            lasts = TICKET_LASTS if ends is None else min(TICKET_LASTS, ends - unit.now)
            return SessionCookie(self._seal(replace(passed, until=unit.now + lasts), TICKET), lasts)

    def admit(self, call: Call, run_id: str, ticket: str | None = None) -> Admitted:
        """How to speak to a run: for the bearer of a token, or of a ticket. That it is used is noted."""
        with self.units.reading(call if ticket is None else replace(call, principal=NOBODY)) as unit:
            if ticket is not None:
                unit, _ = _let_in(unit, self._read(ticket, TICKET, run_id)[0])
            run = find_served(unit, run_id)
        if _is_news(run, unit.now):
            self._note_use(run.id)
        return Admitted(self._reach(replace(call, principal=unit.principal), run), f"{run.state}: {run.message}")

    def _reach(self, call: Call, run: RunRecord) -> Endpoint:
        """How to speak to a run. Raise `Unavailable` where it is not that far."""
        hint = "try again in a moment"
        if run.state not in ANSWERING:
            raise Unavailable(f"run {run.id} is {run.state} ({run.reason}): {run.message}", hint, AGAIN_SECONDS)
        executor, _ = self.executions.find_executor(call, run.id)
        try:
            if executor is None:
                raise NotFound("nobody executes it here")
            return executor.find_endpoint(execution_of(run.id, run.attempt))
        except (NotFound, Unavailable) as error:
            message = f"run {run.id} does not answer now: {error}; it is {run.state}: {run.message}"
            raise Unavailable(message, error.hint or hint, AGAIN_SECONDS) from error

    def _note_use(self, run_id: str) -> None:
        """Keep that a run is used. Nobody waits for that to succeed: the next request tries again."""
        with contextlib.suppress(FairleadError), self.units.recording(NOTER) as unit:
            run = unit.tx.get(RunRecord, id=run_id)
            if run is not None and run.active and _is_news(run, unit.now):
                unit.tx.save(replace(run, last_used_at=unit.now, revision=run.revision + 1))

    def _seal(self, passed: Claims, purpose: str) -> str:
        return format_sealed(self.keyring.seal(msgspec.json.encode(passed), purpose))

    def _read(self, text: str, purpose: str, run_id: str) -> tuple[Claims, str]:
        """What was sealed for a run, and its digest: of what was sealed, which can be written in several ways."""
        try:
            sealed = parse_sealed(text)
            passed = msgspec.json.decode(self.keyring.open(sealed, purpose), type=Claims)
        except (ValueError, Unavailable):
            raise _unknown("is none that this server made") from None
        if passed.run_id != run_id:
            raise _unknown("is for another run")
        return passed, hashlib.sha256(sealed.content).hexdigest()


def find_served(unit: UnitOfWork, run_id: str) -> RunRecord:
    """A run that the caller may speak to. Raise `Conflict` where it has no URL, or not any more."""
    run = find_run(unit, run_id)
    if run.action == "job":
        raise Conflict(f"run {run_id} is a job, and serves nothing", "submit it with action serve or workspace")
    if run.action == "workspace":
        unit.require(Permission.RUN, run.scope, f"run {run_id}")  # what is typed there is executed
    if not run.active or run.state == State.STOPPING:
        raise Conflict(f"run {run_id} is {run.state}: {run.message}", "submit it again")
    return run


def _let_in(nobody: UnitOfWork, passed: Claims) -> tuple[UnitOfWork, TokenRecord | None]:
    """The use case as one of whoever a word or ticket is for, and the token with which that ends."""
    token = None if passed.token_id is None else nobody.tx.get(TokenRecord, id=passed.token_id)
    if passed.until <= nobody.now:
        raise _unknown("is too old")
    if passed.token_id is not None and (token is None or (token.expires_at or passed.until) <= nobody.now):
        raise _unknown("was opened with a session or token that has ended")
    groups = passed.groups if token is None else tuple(token.groups)
    principal = Principal(passed.user, groups, "entrance" if token is None else f"{token.purpose}:{token.name}")
    permissions = nobody.organization.permissions_of(principal)
    return replace(nobody, principal=principal, permissions=permissions), token


def _use_up(unit: UnitOfWork, digest: str) -> None:
    """Keep that a word was used. Of two that come at once, to whichever servers, the later finds its place taken."""
    unit.tx.remove_all(AnswerRecord, Condition("created_at", "<", unit.now - REMEMBERED))
    used = AnswerRecord(id=digest, user=unit.principal.user, digest="", answer=None, created_at=unit.now)
    try:
        unit.tx.add(used)
    except Conflict:
        raise _unknown("was used already") from None


def _unknown(why: str) -> Unauthenticated:
    return Unauthenticated(f"what lets this browser in {why}", "open the run again, from its page or a terminal")
