"""Who is who over HTTP: the caller, roles, tokens, the audit and the settings."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
from fastapi import Depends, Response
from fastapi.responses import StreamingResponse

from fairlead.model.compute_resources import Defaults
from fairlead.model.parsing import Strict
from fairlead.model.queries import Page
from fairlead.model.records import AuditRecord, GrantRecord, TokenRecord
from fairlead.model.roles import Grant
from fairlead.model.tokens import TokenRequest
from fairlead.server.list_params import Asked
from fairlead.server.request_bodies import Written
from fairlead.server.request_context import Door
from fairlead.server.routing import answers, make_router
from fairlead.services.listing import Listing
from fairlead.services.settings import SettingsView
from fairlead.services.tokens import Me, TokenView

router = make_router("access")
GrantsListed = Annotated[Listing, Depends(Asked(GrantRecord))]
TokensListed = Annotated[Listing, Depends(Asked(TokenRecord))]
AuditExported = Annotated[Listing, Depends(Asked(AuditRecord, words=("search",)))]
AuditListed = Annotated[Listing, Depends(Asked(AuditRecord))]
WrittenGrant = Annotated[Grant, Depends(Written(Grant))]
WrittenToken = Annotated[TokenRequest, Depends(Written(TokenRequest))]


class PlatformSettings(Strict):
    """What administrators set for the whole platform."""

    EXAMPLE: ClassVar[Any] = {"defaults": {"resources": {"cpu": 1, "mem": "2Gi"}}}

    defaults: Defaults


WrittenSettings = Annotated[PlatformSettings, Depends(Written(PlatformSettings))]


@router.get("/me", name="show_me", **answers(Me))
async def me(door: Door) -> Response:
    """Say who you are, and what you are at which scope."""
    return await door.answer(door.services.tokens.me)


@router.get("/roles", name="list_roles", **answers(Page[GrantRecord]))
async def list_roles(door: Door, asked: GrantsListed) -> Response:
    """List the roles at scopes that you govern."""
    return await door.answer(door.services.grants.page, asked)


@router.post("/roles", name="grant_role", **answers(GrantRecord, status=201, writing=True))
async def grant(door: Door, said: WrittenGrant) -> Response:
    """Give a user or a group a role at a scope, and so at all below it."""
    return await door.answer(door.services.grants.create, said, status=201)


@router.delete("/roles/{role_id}", name="revoke_role", **answers(status=204, writing=True, about="Taken away"))
async def revoke(door: Door, role_id: str) -> Response:
    """Take a role away."""
    return await door.answer(door.services.grants.delete, role_id)


@router.get("/tokens", name="list_tokens", **answers(Page[TokenView]))
async def list_tokens(door: Door, asked: TokensListed) -> Response:
    """List your tokens, without their text; administrators of the platform see everybody's."""
    return await door.answer(door.services.tokens.page, asked)


@router.post("/tokens", name="create_token", **answers(TokenView, status=201, writing=True))
async def create_token(door: Door, asked: WrittenToken) -> Response:
    """Make a token. Its text is in this answer and nowhere else."""
    return await door.answer(door.services.tokens.create, asked, status=201)


@router.delete("/tokens/{token_id}", name="revoke_token", **answers(status=204, writing=True, about="Revoked"))
async def revoke_token(door: Door, token_id: str) -> Response:
    """Revoke a token."""
    return await door.answer(door.services.tokens.delete, token_id)


@router.get("/audit", name="list_audit", **answers(Page[AuditRecord]))
async def list_audit(door: Door, asked: AuditListed) -> Response:
    """List who did what to what, the newest first, at scopes that you govern."""
    return await door.answer(door.services.audits.page, asked)


_LINES = {200: {"description": "JSON lines", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}
_EXPORT = answers()


@router.get(
    "/audit/export",
    name="export_audit",
    response_class=StreamingResponse,
    **_EXPORT | {"responses": _EXPORT["responses"] | _LINES},
)
async def export_audit(door: Door, asked: AuditExported) -> Response:
    """Export the audit as JSON lines, the oldest first."""
    # The first page is read before the answer begins, so that a refusal is one.
    entries = door.services.audits.export(door.call, asked)
    first = await door.perform(lambda _call: next(entries))

    def lines() -> Iterator[bytes]:
        for page in itertools.chain([first], entries):
            yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in page)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.get("/settings", name="show_settings", **answers(SettingsView))
async def show_settings(door: Door) -> Response:
    """Show what is set for the whole platform, and what the server was started with."""
    return await door.answer(door.services.settings.get)


@router.put("/settings", name="put_settings", **answers(SettingsView, writing=True))
async def put_settings(door: Door, said: WrittenSettings) -> Response:
    """Set the platform's defaults: what holds where nobody says anything. Replacing them needs If-Match."""
    return await door.answer(door.services.settings.put, said.defaults)
