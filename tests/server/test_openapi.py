"""The OpenAPI document: valid, complete, and consistent with the responses to unauthenticated callers."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from fastapi.routing import APIRoute

from tests.server.samples import body_of
from tests.server.sites import API, PROBLEM, REQUIRED, Operation, Site, operations_of, problem_of

# Sign-in needs no token.
WITHOUT_TOKEN = {"POST /sessions"}
PUBLIC = {"GET /healthz", "GET /readyz", "GET /metrics", "GET /sessions"}


def test_document_is_openapi_3_1(common_site: Site) -> None:
    assert common_site.document["openapi"].startswith("3.1.")
    assert common_site.request("GET", "/openapi.json", token=None).json() == common_site.document


def test_every_schema_is_valid(common_site: Site) -> None:
    for name, schema in schemas_of(common_site.document):
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        assert schema != {}, f"{name} is empty"


def test_every_reference_resolves(common_site: Site) -> None:
    document = common_site.document
    for reference in references_in(document):
        assert reference.startswith("#/components/schemas/")
        assert reference.rpartition("/")[2] in document["components"]["schemas"], reference


def test_every_schema_is_used(common_site: Site) -> None:
    used = {reference.rpartition("/")[2] for reference in references_in(common_site.document)}
    assert set(common_site.document["components"]["schemas"]) == used


def test_every_route_is_described(common_site: Site, operations: list[Operation]) -> None:
    described = {(item.method, item.path) for item in operations}
    served = {
        (method, route.path_format)
        for route in common_site.app.routes
        if isinstance(route, APIRoute) and route.path.startswith(API)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert served == described


def test_every_operation_has_a_short_unique_id(operations: list[Operation]) -> None:
    names = [item.id for item in operations]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+){0,4}", name) or "_api_v1_" in name] == []


def test_every_operation_has_summary_description_and_tags(operations: list[Operation]) -> None:
    for item in operations:
        assert item.spec.get("summary"), item.key
        assert item.spec.get("description", "").endswith("."), item.key
        assert item.spec.get("tags"), item.key


def test_every_parameter_has_a_description_and_a_type(operations: list[Operation]) -> None:
    undescribed = [
        f"{item.key}: {parameter['name']}"
        for item in operations
        for parameter in item.spec.get("parameters", ())
        if not parameter.get("description") or not parameter["schema"].keys() & {"type", "enum", "anyOf", "const"}
    ]
    assert undescribed == []


def test_every_operation_describes_its_success_response(operations: list[Operation]) -> None:
    for item in operations:
        statuses = [status for status in item.spec["responses"] if status.startswith("2")]
        assert statuses, item.key
        for status in statuses:
            response = item.spec["responses"][status]
            assert response["description"], item.key
            assert (status == "204") == ("content" not in response), f"{item.key} {status}"


def test_every_operation_describes_its_problem_responses(operations: list[Operation]) -> None:
    for item in operations:
        errors = {status: response for status, response in item.spec["responses"].items() if status >= "400"}
        for status, response in errors.items():
            schema = response["content"][PROBLEM]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, f"{item.key} {status}"
            assert list(response["content"]) == [PROBLEM], f"{item.key} {status}"
        if not item.is_public:
            assert {"400", "401", "403", "422", "503"} <= errors.keys(), item.key
        if item.bodies:
            assert {"413", "415"} <= errors.keys(), item.key


def test_problem_schema_has_the_required_fields(common_site: Site) -> None:
    assert set(common_site.document["components"]["schemas"]["Problem"]["required"]) == REQUIRED


def test_every_body_has_a_valid_example(common_site: Site, operations: list[Operation]) -> None:
    schemas = common_site.document["components"]["schemas"]
    missing = []
    for name in sorted({item.body["$ref"].rpartition("/")[2] for item in operations if item.body is not None}):
        examples = schemas[name].get("examples") or []
        if not examples:
            missing.append(name)
        for example in examples:
            validator_of(common_site.document, name).validate(example)
    assert missing == []


def test_every_sample_body_matches_its_schema(common_site: Site, operations: list[Operation]) -> None:
    for item in operations:
        if item.body is not None:
            name = item.body["$ref"].rpartition("/")[2]
            validator_of(common_site.document, name).validate(body_of(item))


def test_every_field_of_a_body_has_a_type(common_site: Site, operations: list[Operation]) -> None:
    """Every field has a type, including quantities, names and rules."""
    document = common_site.document
    untyped = set()
    for item in operations:
        if item.body is not None:
            untyped |= {f"{path}" for path in untyped_paths(document, item.body)}
    assert sorted(untyped) == []


def test_every_operation_except_health_and_sign_in_needs_a_token(
    common_site: Site, operations: list[Operation]
) -> None:
    for item in operations:
        assert item.is_public == (item.key in PUBLIC), item.key
        if item.is_public or item.key in WITHOUT_TOKEN:
            continue
        path = re.sub(r"\{kind\}", "project", item.path)
        path = re.sub(r"\{\w+\}", "anything", path) + ("?old=1&new=2" if item.path.endswith("/diff") else "")
        for token in (None, "fl_nobody", "x.y.z"):
            response = common_site.request(item.method, path, body_of(item), token=token)
            problem_of(response, 401)
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_unauthenticated_request_learns_nothing_about_its_body(common_site: Site, operations: list[Operation]) -> None:
    for item in operations:
        if item.bodies and item.key not in WITHOUT_TOKEN:
            path = re.sub(r"\{\w+\}", "anything", re.sub(r"\{kind\}", "project", item.path))
            for body in (b"{", b'{"wrong": 1}', b""):
                problem_of(common_site.request(item.method, path, content=body, token=None), 401)


def schemas_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a document, with a name."""
    yield from document["components"]["schemas"].items()
    for item in operations_of(document):
        for parameter in item.spec.get("parameters", ()):
            yield f"{item.key} {parameter['name']}", parameter["schema"]
        for status, response in item.spec["responses"].items():
            for media in response.get("content", {}).values():
                yield f"{item.key} {status}", media.get("schema", {})


def references_in(data: Any) -> Iterator[str]:
    """Every reference in a document."""
    if isinstance(data, dict):
        if isinstance(data.get("$ref"), str):
            yield data["$ref"]
        for value in data.values():
            yield from references_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from references_in(value)


def validator_of(document: dict[str, Any], name: str) -> jsonschema_rs.Validator:
    """A validator for a schema in the document."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": document["components"]["schemas"]}}
    return jsonschema_rs.Draft202012Validator(schema)


def untyped_paths(
    document: dict[str, Any], schema: Any, path: str = "", visited: tuple[str, ...] = ()
) -> Iterator[str]:
    """The paths in a schema that have no type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in visited:
            yield from untyped_paths(document, document["components"]["schemas"][name], name, (*visited, name))
        return
    if not schema.keys() & {"type", "enum", "const", "anyOf", "oneOf", "allOf"}:
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from untyped_paths(document, child, f"{path}.{name}", visited)
    for key in ("anyOf", "oneOf", "allOf"):
        for child in schema.get(key, ()):
            yield from untyped_paths(document, child, path, visited)
    if isinstance(schema.get("items"), dict):
        yield from untyped_paths(document, schema["items"], f"{path}[]", visited)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from untyped_paths(document, schema["additionalProperties"], f"{path}{{}}", visited)
