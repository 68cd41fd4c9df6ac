"""Access to runs that serve HTTP: programs use a token, browsers a session cookie on the run's own host.

A browser signs in with a one-time code: encrypted claims that contain the run, the user and an expiry time. When a code
is redeemed, its digest is stored for longer than the code is valid, so that no server accepts it again, even after a
restart. The session cookie also contains encrypted claims, and is not stored. It expires after twelve hours, or with
the token or session that opened the run. Permissions are checked on each request.
"""

import contextlib
import hashlib
import hmac
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from urllib.parse import urlencode, urlsplit

import msgspec

from fairlead.errors import Conflict, FairleadError, NotFound, Unauthenticated, Unavailable
from fairlead.lifecycle.attempts import execution_of
from fairlead.model.columns import Condition
from fairlead.model.names import is_loopback
from fairlead.model.records import IdempotencyRecord, RunRecord, TokenRecord
from fairlead.model.runs import Endpoint, State
from fairlead.model.scopes import Permission
from fairlead.ports import Keyring, Principal
from fairlead.run_tokens import format_sealed, parse_sealed
from fairlead.services.runs.executions import Executions, find_run
from fairlead.services.transactions.unit_of_work import (
    IDEMPOTENCY_KEY_LIFETIME,
    Call,
    UnitOfWork,
    UnitOfWorkFactory,
    digest_of,
)

CODE_PURPOSE, SESSION_PURPOSE = "run-code", "run-session"  # encryption contexts: neither is valid as the other
# A code is part of a URL, which may end up in logs, but a redirect takes only seconds.
CODE_LIFETIME, SESSION_LIFETIME = timedelta(seconds=60), timedelta(hours=12)
USE_RECORDED_EVERY = timedelta(minutes=1)  # limits writes; idle timeouts are at least five minutes
MAX_COOKIE_LENGTH = 3800  # browsers drop cookies larger than 4096 bytes, including name and attributes
SERVING_STATES = (State.RUNNING, State.DEGRADED)
RETRY_SECONDS = 2
LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")
RUN_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
ANONYMOUS = Principal("nobody", via="run-session")
SYSTEM_CALL = Call(principal=Principal("fairlead", via="serving"), trusted=True)
NO_HOSTS = "browsers cannot open it: served_host is not set on this server"
SET_HOST = "set served_host to a domain with a wildcard DNS record for this server, such as apps.example.com"


@dataclass(frozen=True)
class ServedHosts:
    """URLs of runs: under the server URL for programs, on a separate host per run for browsers."""

    url: str
    domain: str | None = None  # parent domain of the run hosts

    @classmethod
    def of(cls, url: str, served_host: str | None = None) -> "ServedHosts":
        """The hosts of a server. A local server uses localhost, whose subdomains always resolve to this machine."""
        is_local = is_loopback(urlsplit(url).hostname or "")
        return cls(url.rstrip("/"), served_host or ("localhost" if is_local else None))

    def url_of(self, run_id: str) -> str:
        """A run's URL for programs."""
        return f"{self.url}/served/{run_id}/"

    def origin_of(self, run_id: str) -> str | None:
        """A run's origin for browsers, or None if no domain is configured. No other run shares it."""
        # Separate origins prevent a run's code from using the browser session of another run or of the web UI.
        if self.domain is None:
            return None
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{run_id}.{self.domain}" + (f":{parts.port}" if parts.port else "")

    def url_at(self, host: str) -> str:
        """The server's URL with the host name that a browser uses: local users may use localhost or an address."""
        parts = urlsplit(self.url)
        # Any other name would make redirects to this URL open redirects.
        if host not in LOOPBACK_NAMES or not is_loopback(parts.hostname or ""):
            return self.url
        name = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{name}" + (f":{parts.port}" if parts.port else "")

    def find_run(self, host: str) -> str | None:
        """The run that a Host header refers to, or None."""
        # Host names are case-insensitive and may end with a dot.
        name = re.sub(r":[0-9]*$", "", host.strip().lower()).removesuffix(".")
        run_id, _, domain = name.partition(".")
        return run_id if self.domain is not None and domain == self.domain and RUN_ID.fullmatch(run_id) else None


@dataclass(frozen=True)
class ServedUrl:
    """A run's URL for programs, whether browsers can open it, and whether it is ready."""

    url: str
    browser: bool
    ready: bool
    message: str


@dataclass(frozen=True)
class OpenedUrl:
    """A URL that signs a browser in to a run once."""

    url: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True)
class ProxyAccess:
    """A run's endpoint, and a description of its state for error messages."""

    endpoint: Endpoint = field(repr=False)
    state: str


@dataclass(frozen=True)
class SessionCookie:
    """A browser's session cookie and its lifetime."""

    value: str = field(repr=False)
    lifetime: timedelta


@dataclass(frozen=True)
class Claims:
    """Claims in one-time codes and session cookies. Groups are included only if no stored token contains them."""

    run_id: str
    user: str
    groups: tuple[str, ...]
    token_id: str | None
    until: datetime
    # For a code that was requested in a browser: the digest of the nonce in that browser's cookie at the run's host.
    state: str | None = None
    ends: datetime | None = None  # when the identity provider's assertion about the user expires


class Serving:
    """Gives programs and browsers access to runs that serve HTTP."""

    def __init__(self, units: UnitOfWorkFactory, executions: Executions, keyring: Keyring) -> None:
        self.units, self.executions, self.keyring = units, executions, keyring

    def describe_url(self, call: Call, run_id: str, hosts: ServedHosts) -> ServedUrl:
        """A run's URL, and whether the run is ready."""
        with self.units.reading(call) as unit:
            run = find_served(unit, run_id)
        ready, message = True, run.message
        try:
            self._find_endpoint(call, run)
        except Unavailable as error:
            ready, message = False, str(error)
        browser = hosts.domain is not None
        return ServedUrl(hosts.url_of(run_id), browser, ready, message if browser else f"{message}; {NO_HOSTS}")

    def begin(self, call: Call, run_id: str, hosts: ServedHosts, host: str) -> OpenedUrl:
        """A URL at which the caller's browser can sign in. It contains no secret.

        `host` is the host at which the browser has its session.
        """
        with self.units.reading(call) as unit:
            origin = _find_origin(find_served(unit, run_id), hosts)
            return OpenedUrl(f"{origin}/.fairlead/start?{urlencode({'at': host})}", unit.now + CODE_LIFETIME)

    def open(self, call: Call, run_id: str, hosts: ServedHosts, state: str | None = None) -> OpenedUrl:
        """A URL that signs a browser in as the caller, once and within a minute.

        With `state`, only a browser whose nonce has this digest can use the URL.
        """
        with self.units.reading(call) as unit:
            run = find_served(unit, run_id)
            origin = _find_origin(run, hosts)
            token = None if call.bearer is None else unit.tx.get(TokenRecord, digest=digest_of(call.bearer))
            # A stored token is read again on each request, so that revoking it ends the session. Users from an identity
            # provider have no stored token, so the claims contain their groups.
            groups, token_id = (unit.principal.groups, None) if token is None else ((), token.id)
            until = unit.now + CODE_LIFETIME
            claims = Claims(run.id, unit.principal.user, groups, token_id, until, state, unit.principal.until)
        code = self._encrypt(claims, CODE_PURPOSE)
        # The cookie will contain the same claims. Failing here is better than sending a cookie that the browser drops.
        if len(code) > MAX_COOKIE_LENGTH:
            message = f"{unit.principal.user} is in {len(unit.principal.groups)} groups, more than a cookie can hold"
            raise Conflict(message, "open the run from the web UI, or with a token from this server")
        return OpenedUrl(f"{origin}/.fairlead/sign-in?code={code}", claims.until)

    def redeem_code(self, call: Call, run_id: str, code: str, nonce: str | None = None) -> SessionCookie:
        """Exchange a one-time code for a session cookie. Each code is accepted only once.

        `nonce` is from the browser's cookie.
        """
        claims, digest = self._decrypt(code, CODE_PURPOSE, run_id)
        if claims.state is not None and not hmac.compare_digest(claims.state, digest_of(nonce or "")):
            raise _invalid("this link was requested in another browser")
        with self.units.recording(replace(call, principal=ANONYMOUS, key=None)) as anonymous:
            unit, token = _authenticate(anonymous, claims)
            run = find_served(unit, run_id)
            _mark_redeemed(unit, digest)
            unit.audit("run.open", run, run.id, run.scope)
            ends = claims.ends if token is None else token.expires_at
            lifetime = SESSION_LIFETIME if ends is None else min(SESSION_LIFETIME, ends - unit.now)
            return SessionCookie(
                self._encrypt(replace(claims, until=unit.now + lifetime, state=None), SESSION_PURPOSE), lifetime
            )

    def authorize(self, call: Call, run_id: str, cookie: str | None = None) -> ProxyAccess:
        """Check access to a run with a token or a session cookie, record its use, and return its endpoint."""
        with self.units.reading(call if cookie is None else replace(call, principal=ANONYMOUS)) as unit:
            if cookie is not None:
                unit, _ = _authenticate(unit, self._decrypt(cookie, SESSION_PURPOSE, run_id)[0])
            run = find_served(unit, run_id)
        # This must come before finding the endpoint, because a request to a run that is not ready also counts as use.
        if _must_record_use(run, unit.now):
            self._record_use(run.id)
        return ProxyAccess(
            self._find_endpoint(replace(call, principal=unit.principal), run), f"{run.state}: {run.message}"
        )

    def _find_endpoint(self, call: Call, run: RunRecord) -> Endpoint:
        """A run's endpoint. Raises `Unavailable` if the run is not ready."""
        hint = "try again in a moment"
        if run.state not in SERVING_STATES:
            raise Unavailable(f"run {run.id} is {run.state} ({run.reason}): {run.message}", hint, RETRY_SECONDS)
        executor, _ = self.executions.find_executor(call, run.id)
        try:
            if executor is None:
                raise NotFound("its executor is not connected")
            return executor.find_endpoint(execution_of(run.id, run.attempt))
        except (NotFound, Unavailable) as error:
            message = f"run {run.id} is not reachable: {error}; state {run.state}: {run.message}"
            raise Unavailable(message, error.hint or hint, RETRY_SECONDS) from error

    def _record_use(self, run_id: str) -> None:
        """Record that a run is being used. Failures are ignored, because the next request tries again."""
        with contextlib.suppress(FairleadError), self.units.recording(SYSTEM_CALL) as unit:
            run = unit.tx.get(RunRecord, id=run_id)
            # Checked again, because another request may have recorded it. `updated_at` does not change, so event
            # streams do not send the run.
            if run is not None and run.active and _must_record_use(run, unit.now):
                unit.tx.save(replace(run, last_used_at=unit.now, revision=run.revision + 1))

    def _encrypt(self, claims: Claims, purpose: str) -> str:
        return format_sealed(self.keyring.seal(msgspec.json.encode(claims), purpose))

    def _decrypt(self, text: str, purpose: str, run_id: str) -> tuple[Claims, str]:
        """The claims for a run, and a digest of their ciphertext."""
        try:
            sealed = parse_sealed(text)
            claims = msgspec.json.decode(self.keyring.open(sealed, purpose), type=Claims)
        except (ValueError, Unavailable):
            raise _invalid("this link or session is not valid") from None
        if claims.run_id != run_id:
            raise _invalid("this link or session is for another run")
        # Do not hash the code's text: a different encoding of the same ciphertext would count as an unused code.
        return claims, hashlib.sha256(sealed.content).hexdigest()


def find_served(unit: UnitOfWork, run_id: str) -> RunRecord:
    """A run that the caller may access. Raises `Conflict` if it is a job or has ended."""
    run = find_run(unit, run_id)
    if run.action == "job":
        raise Conflict(f"run {run_id} is a job and has no URL", "submit it with action serve or workspace")
    if run.action == "workspace":
        unit.require(Permission.RUN, run.scope, f"run {run_id}")  # a workspace executes any code that is entered in it
    if not run.active or run.state == State.STOPPING:
        raise Conflict(f"run {run_id} is {run.state}: {run.message}", "submit it again")
    return run


def _find_origin(run: RunRecord, hosts: ServedHosts) -> str:
    origin = hosts.origin_of(run.id)
    if origin is None:
        raise Conflict(NO_HOSTS, SET_HOST)
    return origin


def _authenticate(unit: UnitOfWork, claims: Claims) -> tuple[UnitOfWork, TokenRecord | None]:
    """The unit of work as the user in the claims, and the token whose expiry ends the user's access."""
    token = None if claims.token_id is None else unit.tx.get(TokenRecord, id=claims.token_id)
    if claims.until <= unit.now:
        raise _invalid("this link or session has expired")
    if claims.token_id is not None and (token is None or (token.expires_at or claims.until) <= unit.now):
        raise _invalid("the token or session that opened this run has expired")
    groups = claims.groups if token is None else tuple(token.groups)
    # Roles are read again on each request, so that a revoked role takes effect immediately.
    principal = Principal(claims.user, groups, "run-session" if token is None else f"{token.purpose}:{token.name}")
    permissions = unit.organization.permissions_of(principal)
    return replace(unit, principal=principal, permissions=permissions), token


def _must_record_use(run: RunRecord, now: datetime) -> bool:
    """Whether the last recorded use was too long ago, or is in the future because a clock was ahead."""
    return run.last_used_at is None or not timedelta(0) <= now - run.last_used_at < USE_RECORDED_EVERY


def _mark_redeemed(unit: UnitOfWork, digest: str) -> None:
    """Record that a one-time code was redeemed. If two servers do so at once, the second gets a conflict."""
    unit.tx.remove_all(IdempotencyRecord, Condition("created_at", "<", unit.now - IDEMPOTENCY_KEY_LIFETIME))
    used = IdempotencyRecord(id=digest, user=unit.principal.user, digest="", answer=None, created_at=unit.now)
    try:
        unit.tx.add(used)
    except Conflict:
        raise _invalid("this link has already been used") from None


def _invalid(message: str) -> Unauthenticated:
    return Unauthenticated(message, "open the run again from its page or the CLI")
