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
from fairlead.server.list_params import ListParams
from fairlead.server.request_bodies import JsonBody
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.services.pages import Listing
from fairlead.services.settings import SettingsView
from fairlead.services.tokens import Me, TokenView

router = make_router("access")
GrantsListed = Annotated[Listing, Depends(ListParams(GrantRecord))]
TokensListed = Annotated[Listing, Depends(ListParams(TokenRecord))]
AuditExported = Annotated[Listing, Depends(ListParams(AuditRecord, words=("search",)))]
AuditListed = Annotated[Listing, Depends(ListParams(AuditRecord))]
WrittenGrant = Annotated[Grant, Depends(JsonBody(Grant))]
WrittenToken = Annotated[TokenRequest, Depends(JsonBody(TokenRequest))]


class PlatformSettings(Strict):
    """What administrators set for the whole platform."""

    EXAMPLE: ClassVar[Any] = {"defaults": {"resources": {"cpu": 1, "mem": "2Gi"}}}

    defaults: Defaults


WrittenSettings = Annotated[PlatformSettings, Depends(JsonBody(PlatformSettings))]


@router.get("/me", name="show_me", **responses(Me))
async def me(context: Context) -> Response:
    """Say who you are, and what you are at which scope."""
    return await context.respond(context.services.tokens.me)


@router.get("/roles", name="list_roles", **responses(Page[GrantRecord]))
async def list_roles(context: Context, asked: GrantsListed) -> Response:
    """List the roles at scopes that you govern."""
    return await context.respond(context.services.grants.page, asked)


@router.post("/roles", name="grant_role", **responses(GrantRecord, status=201, writing=True))
async def grant(context: Context, said: WrittenGrant) -> Response:
    """Give a user or a group a role at a scope, and so at all below it."""
    return await context.respond(context.services.grants.create, said, status=201)


@router.delete("/roles/{role_id}", name="revoke_role", **responses(status=204, writing=True, description="Taken away"))
async def revoke(context: Context, role_id: str) -> Response:
    """Take a role away."""
    return await context.respond(context.services.grants.delete, role_id)


@router.get("/tokens", name="list_tokens", **responses(Page[TokenView]))
async def list_tokens(context: Context, asked: TokensListed) -> Response:
    """List your tokens, without their text; administrators of the platform see everybody's."""
    return await context.respond(context.services.tokens.page, asked)


@router.post("/tokens", name="create_token", **responses(TokenView, status=201, writing=True))
async def create_token(context: Context, asked: WrittenToken) -> Response:
    """Make a token. Its text is in this answer and nowhere else."""
    return await context.respond(context.services.tokens.create, asked, status=201)


@router.delete("/tokens/{token_id}", name="revoke_token", **responses(status=204, writing=True, description="Revoked"))
async def revoke_token(context: Context, token_id: str) -> Response:
    """Revoke a token."""
    return await context.respond(context.services.tokens.delete, token_id)


@router.get("/audit", name="list_audit", **responses(Page[AuditRecord]))
async def list_audit(context: Context, asked: AuditListed) -> Response:
    """List who did what to what, the newest first, at scopes that you govern."""
    return await context.respond(context.services.audits.page, asked)


_LINES = {200: {"description": "JSON lines", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}
_EXPORT = responses()


@router.get(
    "/audit/export",
    name="export_audit",
    response_class=StreamingResponse,
    **_EXPORT | {"responses": _EXPORT["responses"] | _LINES},
)
async def export_audit(context: Context, asked: AuditExported) -> Response:
    """Export the audit as JSON lines, the oldest first."""
    # The first page is read before the answer begins, so that a refusal is one.
    entries = context.services.audits.export(context.call, asked)
    first = await context.run_in_thread(lambda _call: next(entries))

    def lines() -> Iterator[bytes]:
        for page in itertools.chain([first], entries):
            yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in page)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.get("/settings", name="show_settings", **responses(SettingsView))
async def show_settings(context: Context) -> Response:
    """Show what is set for the whole platform, and what the server was started with."""
    return await context.respond(context.services.settings.get)


@router.put("/settings", name="put_settings", **responses(SettingsView, writing=True))
async def put_settings(context: Context, said: WrittenSettings) -> Response:
    """Set the platform's defaults: what holds where nobody says anything. Replacing them needs If-Match."""
    return await context.respond(context.services.settings.put, said.defaults)
