"""Routes for policies."""

from typing import Annotated, Any, Literal

from fastapi import Depends, Response
from pydantic import ValidationError

from fairlead.errors import NotFound, RequestRejected
from fairlead.model.assets import EffectivePolicy, Policy
from fairlead.model.columns import Page
from fairlead.model.parsing import short_repr, violations_of
from fairlead.model.plans import Violation
from fairlead.model.records import PolicyRecord
from fairlead.model.scopes import PLATFORM
from fairlead.server.http.parameters import JsonBody, ListParams
from fairlead.server.http.request_context import Context
from fairlead.server.http.routing import make_router, responses
from fairlead.services.catalog.policies import PolicyImpact
from fairlead.services.transactions.pages import ListQuery

router = make_router("policies")
PATH = "/policies/{kind}/{name}"
ScopeKind = Literal["platform", "cluster", "department", "project"]
PolicyListParams = Annotated[ListQuery, Depends(ListParams(PolicyRecord))]
# Partial, because _parse() validates it together with the scope in the URL.
PolicyBody = Annotated[dict[str, Any], Depends(JsonBody(Policy, partial=True))]


@router.get("/policies", name="list_policies", **responses(Page[PolicyRecord], description="A page"))
async def list_policies(context: Context, params: PolicyListParams) -> Response:
    """List the policies of scopes that you can view."""
    return await context.respond(context.services.policies.page, params)


@router.get(PATH, name="show_policy", **responses(PolicyRecord))
async def show_policy(context: Context, kind: ScopeKind, name: str) -> Response:
    """Show the policy of a scope. The platform's policy is at /policies/platform/platform."""
    return await context.respond(context.services.policies.get, _scope(kind, name))


@router.put(PATH, name="put_policy", **responses(PolicyRecord, writing=True))
async def put(context: Context, kind: ScopeKind, name: str, content: PolicyBody, force: bool = False) -> Response:
    """Set the policy of a scope. Replacing a policy requires If-Match."""
    scope = _scope(kind, name)
    return await context.respond(context.services.policies.put, scope, _parse(content, scope), force=force)


@router.delete(PATH, name="delete_policy", **responses(status=204, writing=True, description="Deleted"))
async def delete(context: Context, kind: ScopeKind, name: str, force: bool = False) -> Response:
    """Delete the policy of a scope."""
    return await context.respond(context.services.policies.delete, _scope(kind, name), force=force)


@router.get(f"{PATH}/effective", name="show_effective_policy", **responses(EffectivePolicy))
async def effective(context: Context, kind: ScopeKind, name: str) -> Response:
    """Show the effective policy of a scope: each rule, switch and factor with the scope that sets it."""
    return await context.respond(context.services.policies.effective, _scope(kind, name))


@router.post(f"{PATH}/validate", name="validate_policy", **responses(PolicyImpact, writing=True))
async def validate(context: Context, kind: ScopeKind, name: str, content: PolicyBody) -> Response:
    """Check which compute resources, templates and recent runs a draft would reject, without saving it."""
    scope = _scope(kind, name)
    return await context.respond(context.services.policies.validate, scope, _parse(content, scope))


def _scope(kind: str, name: str) -> str:
    if kind != PLATFORM:
        return f"{kind}/{name}"
    if name != PLATFORM:
        raise NotFound(f"platform {short_repr(name)} does not exist", "use /policies/platform/platform")
    return PLATFORM


def _parse(content: dict[str, Any], scope: str) -> Policy:
    """Parse the policy in a body. Its scope may be left out, because the URL contains it."""
    if content.get("scope") not in (None, scope):
        message = f"{content['scope']!r} is not the scope in the URL, which is {scope}"
        raise RequestRejected([Violation("scope", "contradiction", message, "leave it out")])
    try:
        return Policy.model_validate({**content, "scope": scope})
    except ValidationError as error:
        raise RequestRejected(violations_of(error, Policy)) from error
