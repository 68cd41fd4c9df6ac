"""Whatever the OpenAPI document allows, and much that it does not: the server answers as it says that it does.

More examples for each operation: FAIRLEAD_EXAMPLES=100.
"""

import itertools
import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from fairlead.server.applications import ROUTERS
from tests.server.samples import fill, names_of
from tests.server.sites import API, PROBLEM, REQUIRED, Operation, Site, operations_of

EXAMPLES = int(os.environ.get("FAIRLEAD_EXAMPLES", "2"))
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
ROUTES = sorted(
    f"{method} {route.path_format}"  # type: ignore[attr-defined]  # routers have routes of ours alone
    for router in ROUTERS
    for route in router.routes
    if route.include_in_schema  # type: ignore[attr-defined]
    for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
)


@pytest.fixture(scope="module")
def described(common_site: Site) -> tuple[Any, dict[str, str]]:
    """The operations as schemathesis knows them, and something of every kind to ask for."""
    load_all_checks()
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", common_site.app)
    return schema, fill(common_site, "alpha")


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("route", ROUTES)
def test_an_operation_answers_as_it_is_described(
    common_site: Site, described: tuple[Any, dict[str, str]], route: str, mode: GenerationMode
) -> None:
    schema, things = described
    method, path = route.split()
    operation = schema[path][method]
    (known,) = (item for item in operations_of(common_site.document) if (item.method, item.path) == (method, path))
    checks: list[Any] = [CHECKS.get_one(name) for name in CHECKED]
    turns = itertools.count()

    @seed(7)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        if next(turns) % 2:  # every other time for something that is there
            case.path_parameters = names_of(known, things)
        headers = {} if known.is_public else {"Authorization": f"Bearer {common_site.token}"}
        answer = case.call(headers=headers)
        case.validate_response(answer, checks=checks)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == [PROBLEM]
            assert answer.json().keys() >= REQUIRED

    if mode is GenerationMode.POSITIVE or _can_be_wrong(known):
        ask()


def _can_be_wrong(known: Operation) -> bool:
    return known.body is not None or bool(known.said.get("parameters"))
