"""Plan tokens: each submits exactly the plan of one preview, once, as the same user and in the same project.

A token is the encrypted digest of the plan and the time when the token expires. The user and the project are
authenticated with it, but not contained in it. The keyring's encryption (AES-GCM) includes an authentication code, so
only a server with the platform's keys can make a token.
"""

import hashlib
from datetime import timedelta

import msgspec

from fairlead.errors import Conflict, PreviewOutdated, RequestRejected, Unavailable
from fairlead.model.columns import Condition
from fairlead.model.plans import Violation
from fairlead.model.records import JSON, IdempotencyRecord
from fairlead.model.requests import RunRequest
from fairlead.ports import Keyring, Sealed
from fairlead.run_tokens import format_sealed, parse_sealed
from fairlead.services.transactions.unit_of_work import IDEMPOTENCY_KEY_LIFETIME, UnitOfWork

PURPOSE = "plan-token"
LIFETIME = timedelta(minutes=15)  # enough to read a plan. Used tokens are remembered for longer than this.
PREVIEW_AGAIN = "preview again, and submit with the new token"


class PlanTokens:
    """Issues and redeems plan tokens."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring

    def issue(self, unit: UnitOfWork, scope: str, digest: str) -> str:
        """Create a token for the caller and a project."""
        content = f"{digest}.{int((unit.now + LIFETIME).timestamp())}"
        return format_sealed(self.keyring.seal(content.encode(), _purpose_of(unit, scope)))

    def redeem(self, unit: UnitOfWork, scope: str, token: str, digest: str, run_id: str) -> None:
        """Mark a token as used by a run. Raises an error unless it is valid for the caller, project and plan."""
        sealed, (previewed, _, expires) = self._open(unit, scope, token)
        # Do not hash the token's text: a different spelling of the same token would count as unused.
        record_id = hashlib.sha256(sealed.content).hexdigest()
        if (used := unit.tx.get(IdempotencyRecord, id=record_id)) is not None:
            raise _already_submitted((used.answer or {}).get("run_id"))
        if int(expires) <= unit.now.timestamp():
            minutes = int(LIFETIME.total_seconds() / 60)
            raise PreviewOutdated(f"the plan token has expired: it is valid for {minutes} minutes", PREVIEW_AGAIN)
        if previewed != digest:
            message = "the plan differs from the preview: the request or the configuration has changed"
            raise PreviewOutdated(message, PREVIEW_AGAIN)
        unit.tx.remove_all(IdempotencyRecord, Condition("created_at", "<", unit.now - IDEMPOTENCY_KEY_LIFETIME))
        user, answer = unit.principal.user, {"run_id": run_id}
        try:
            unit.tx.add(IdempotencyRecord(id=record_id, user=user, digest="", answer=answer, created_at=unit.now))
        except Conflict:  # another server has redeemed it since
            raise _already_submitted(None) from None

    def _open(self, unit: UnitOfWork, scope: str, token: str) -> tuple[Sealed, tuple[str, str, str]]:
        try:
            sealed = parse_sealed(token)
            return sealed, self.keyring.open(sealed, _purpose_of(unit, scope)).decode().partition(".")
        # The message is the same for wrong users, wrong projects and forged tokens, so that it reveals nothing.
        except (ValueError, Unavailable):
            message = f"is not valid for {unit.principal.user} in {scope}, or its key was deleted"
            raise RequestRejected([Violation("plan_token", "plan_token", message, PREVIEW_AGAIN)]) from None


def digest_of_plan(scope: str, request: RunRequest, plan: JSON) -> str:
    """Return a digest of a resolved request and its plan, without the fit."""
    return hashlib.sha256(msgspec.json.encode([scope, request.to_data(), plan])).hexdigest()


def _purpose_of(unit: UnitOfWork, scope: str) -> str:
    # Use the ID, because a new project may have the name of a deleted one. JSON keeps the three parts separate.
    binding = [PURPOSE, unit.principal.user, unit.organization.scopes[scope].id]
    return msgspec.json.encode(binding).decode()


def _already_submitted(run_id: str | None) -> Conflict:
    hint = "preview again to submit another run"
    return Conflict("this preview has already been submitted", f"see run {run_id}, or {hint}" if run_id else hint)
