"""Requests generated from the OpenAPI document, valid and invalid: the server responds as documented.

The fast suite generates a few requests per operation, which is a smoke test; the complete suite (FAIRLEAD_SUITE=all)
generates more, and `make fuzz` as many as there is time for.
"""

import itertools
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from fairlead.server.application import ROUTERS
from tests.server.samples import fill, names_of
from tests.server.sites import API, CHECKED, PROBLEM, REQUIRED, Operation, Site, operations_of
from tests.suites import examples

EXAMPLES = examples(fast=4, all=12)  # per operation and mode
# DELETE comes last, so that the other operations find the objects that they need.
ROUTES = sorted(
    (
        f"{method} {route.path_format}"  # type: ignore[attr-defined]  # all routes of our routers are API routes
        for router in ROUTERS
        for route in router.routes
        if route.include_in_schema  # type: ignore[attr-defined]
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    ),
    key=lambda route: (route.startswith("DELETE"), route),
)


@pytest.fixture(scope="module")
def schema_and_objects(common_site: Site) -> tuple[Any, dict[str, str]]:
    """The schemathesis schema, and the names of one object of every kind."""
    load_all_checks()
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", common_site.app)
    return schema, fill(common_site, "alpha")


@pytest.mark.parametrize("route", ROUTES)
def test_operation_answers_generated_requests_as_documented(
    common_site: Site, schema_and_objects: tuple[Any, dict[str, str]], route: str
) -> None:
    schema, objects = schema_and_objects
    method, path = route.split()
    (operation,) = (item for item in operations_of(common_site.document) if (item.method, item.path) == (method, path))
    for mode in _modes(operation):
        _send_generated(common_site, schema[path][method].as_strategy(generation_mode=mode), operation, objects)


def _send_generated(
    site: Site, cases: SearchStrategy[Case[Any]], operation: Operation, objects: dict[str, str]
) -> None:
    headers = {} if operation.is_public else {"Authorization": f"Bearer {site.token}"}
    checks: list[Any] = [CHECKS.get_one(name) for name in CHECKED]
    numbers = itertools.count()

    @seed(7)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def send(case: Case[Any]) -> None:
        if next(numbers) % 2:  # every other request is for an object that exists
            case.path_parameters = names_of(operation, objects)
        response = case.call(headers=headers)
        case.validate_response(response, checks=checks)
        if response.status_code >= 400:
            assert response.headers["content-type"] == [PROBLEM]
            assert response.json().keys() >= REQUIRED

    send()


def _modes(operation: Operation) -> list[GenerationMode]:
    """An operation without parameters or a body has no invalid requests."""
    has_input = operation.body is not None or bool(operation.spec.get("parameters"))
    return [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if has_input else [])]
