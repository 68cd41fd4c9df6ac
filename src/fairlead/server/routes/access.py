"""Routes for the current user, roles, tokens, the audit log and platform settings."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec
from fastapi import Depends, Response
from fastapi.responses import StreamingResponse

from fairlead.model.assets import Defaults
from fairlead.model.columns import Page
from fairlead.model.parsing import StrictModel
from fairlead.model.project_objects import TokenRequest
from fairlead.model.records import AuditRecord, GrantRecord, TokenRecord
from fairlead.model.scopes import Grant, ScopeRef
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.access.tokens import CurrentUser, TokenView
from fairlead.services.catalog.policies import SettingsView
from fairlead.services.transactions.pages import ListQuery

router = make_router("access")
RoleListParams = Annotated[ListQuery, Depends(ListParams(GrantRecord))]
TokenListParams = Annotated[ListQuery, Depends(ListParams(TokenRecord))]
# An export contains all entries, oldest first: it has filters, but no sort order, cursor or limit.
AuditExportParams = Annotated[ListQuery, Depends(ListParams(AuditRecord, names=("search",)))]
AuditListParams = Annotated[ListQuery, Depends(ListParams(AuditRecord))]
GrantBody = Annotated[Grant, Depends(JsonBody(Grant))]
TokenBody = Annotated[TokenRequest, Depends(JsonBody(TokenRequest))]


class SettingsRequest(StrictModel):
    """Platform-wide settings."""

    EXAMPLE: ClassVar[Any] = {"defaults": {"resources": {"cpu": 1, "mem": "2Gi"}}}

    defaults: Defaults
    default_cluster: ScopeRef | None = None  # None: unchanged


SettingsBody = Annotated[SettingsRequest, Depends(JsonBody(SettingsRequest))]


@router.get("/me", name="show_me", **responses(CurrentUser))
async def me(context: Context) -> Response:
    """Show the current user with roles and scopes."""
    return await context.respond(context.services.tokens.me)


@router.get("/roles", name="list_roles", **responses(Page[GrantRecord]))
async def list_roles(context: Context, params: RoleListParams) -> Response:
    """List the roles in scopes that you administer."""
    return await context.respond(context.services.grants.page, params)


@router.post("/roles", name="grant_role", **responses(GrantRecord, status=201, writing=True))
async def grant_role(context: Context, grant: GrantBody) -> Response:
    """Grant a user or a group a role in a scope and everything below it."""
    return await context.respond(context.services.grants.create, grant, status=201)


@router.delete("/roles/{role_id}", name="revoke_role", **responses(status=204, writing=True, description="Revoked"))
async def revoke(context: Context, role_id: str) -> Response:
    """Revoke a role."""
    return await context.respond(context.services.grants.delete, role_id)


@router.get("/tokens", name="list_tokens", **responses(Page[TokenView]))
async def list_tokens(context: Context, params: TokenListParams) -> Response:
    """List your tokens without their values. Platform administrators see all tokens."""
    return await context.respond(context.services.tokens.page, params)


@router.post("/tokens", name="create_token", **responses(TokenView, status=201, writing=True, limited=True))
async def create_token(context: Context, request: TokenBody) -> Response:
    """Create a token. Only this response contains its value."""
    return await context.respond(context.services.tokens.create, request, status=201)


@router.delete("/tokens/{token_id}", name="revoke_token", **responses(status=204, writing=True, description="Revoked"))
async def revoke_token(context: Context, token_id: str) -> Response:
    """Revoke a token."""
    return await context.respond(context.services.tokens.delete, token_id)


@router.get("/audit", name="list_audit", **responses(Page[AuditRecord]))
async def list_audit(context: Context, params: AuditListParams) -> Response:
    """List the audit log of scopes that you administer, newest first."""
    return await context.respond(context.services.audits.page, params)


_LINES = {200: {"description": "JSON lines", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}}
_EXPORT = responses()


@router.get(
    "/audit/export",
    name="export_audit",
    response_class=StreamingResponse,
    **_EXPORT | {"responses": _EXPORT["responses"] | _LINES},
)
async def export_audit(context: Context, params: AuditExportParams) -> Response:
    """Export the audit log as JSON lines, oldest first."""
    # Errors must be found before the response starts, so the first page is read here.
    entries = context.services.audits.export(context.call, params)
    first = await context.run_in_thread(lambda _call: next(entries))

    def lines() -> Iterator[bytes]:
        for page in itertools.chain([first], entries):
            yield b"".join(msgspec.json.encode(entry) + b"\n" for entry in page)

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.get("/settings", name="show_settings", **responses(SettingsView))
async def show_settings(context: Context) -> Response:
    """Show the platform settings and the configuration of the server."""
    return await context.respond(context.services.settings.get)


@router.put("/settings", name="put_settings", **responses(SettingsView, writing=True))
async def put_settings(context: Context, settings: SettingsBody) -> Response:
    """Set the platform defaults, used when nothing else sets a value. Replacing them requires If-Match.

    `default_cluster` is the cluster in which new projects are created. If it is omitted, it does not change.
    """
    return await context.respond(context.services.settings.put, settings.defaults, settings.default_cluster)
