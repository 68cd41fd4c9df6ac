"""All responses match the OpenAPI document exactly, because the web UI's types are generated from it."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tests.contracts.memory import MemoryStore
from tests.server.samples import address_of, body_of, fill
from tests.server.sites import Operation, Site, open_site, operations_of, problem_of

JSON = "application/json"
READ_ONLY = ("check", "fit", "validate", "preview")  # these operations change nothing


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server for this module."""
    with open_site(MemoryStore()) as opened:
        yield opened


@pytest.fixture(scope="module")
def objects(site: Site) -> dict[str, str]:
    """The site's objects."""
    created = fill(site, "alpha")
    policy = {
        "defaults": {"resources": {"cpu": "1"}},
        "limit_factor": {"mem": 1.5},
        "rules": {
            "resources.gpu": {"min": 1, "max": 8},
            "resources.mem.limits": {"required": True},
            "priority_class": {"options": ["low"], "locked": True},
        },
        "quota": {"gpu": 8, "cpu": "100", "mem": "1Ti", "runs": 50},
        "queue": {"max_waiting_runs": 1000, "weight": 2},
    }
    site.put("/policies/platform/platform", policy)
    return created


def test_responses_match_their_schema(site: Site, objects: dict[str, str]) -> None:
    checked = 0
    for item in operations_of(site.document):
        if item.method == "GET" or item.path.endswith(READ_ONLY):
            response = site.request(item.method, address_of(item, objects), body_of(item))
            if response.status_code == 200 and response.headers["content-type"] == JSON:
                check(site, item, response.json())
                checked += 1
    assert checked > 40


def test_findings_are_described_with_their_source(site: Site, objects: dict[str, str]) -> None:
    requested = {"name": "x", "requirements": {"resources": {"gpu": 9, "mem": "1Gi"}, "priority_class": "high"}}
    findings = site.post("/compute-resources/check", requested)
    assert {item["rule"] for item in findings["violations"]} == {"max", "options"}
    assert {item["kind"] for item in findings["sentences"]} == {"gets", "risk", "note"}
    check(site, find(site, "POST /compute-resources/check"), findings)
    plan = site.post(
        "/projects/alpha/runs/preview",
        {"function": "train", "template": objects["template"], "resources": {"gpu": 5, "mem": "9Gi"}},
    )
    assert [item["requested"]["source"]["layer"] for item in plan["warnings"] if "requested" in item]
    check(site, find(site, "POST /projects/{project}/runs/preview"), plan)
    draft = site.post("/policies/platform/platform/validate", {"rules": {"resources.gpu": {"max": 0}}})
    assert draft["rejected"]
    check(site, find(site, "POST /policies/{kind}/{name}/validate"), draft)


def test_effective_policy_matches_its_schema(site: Site, objects: dict[str, str]) -> None:
    policy = site.get(f"/policies/project/{objects['project']}/effective")
    assert set(policy) == {"scope", "rules", "switches", "limit_factor", "defaults", "quotas", "queue", "used"}
    platform = {"layer": "policy", "name": None, "scope": "platform", "revision": None}
    assert policy["rules"]["resources.gpu.devices"] == {
        "min": [{"value": 1, "source": platform}],
        "max": [{"value": 8, "source": platform}],
    }
    assert policy["rules"]["priority_class"]["locked"] == {"value": True, "source": platform}
    used = {"gpu": 0, "cpu": "0", "mem": "0", "runs": 0}  # the run is waiting
    assert policy["quotas"] == [{"scope": "platform", "gpu": 8, "cpu": "100", "mem": "1Ti", "runs": 50, "used": used}]
    assert policy["used"] == used
    assert policy["queue"] == {
        "max_waiting_runs": {"value": 1000, "source": platform},
        "weight": {"value": 2, "source": platform},
    }
    check(site, find(site, "GET /policies/{kind}/{name}/effective"), policy)


def test_conflict_response_lists_what_uses_the_object(site: Site, objects: dict[str, str]) -> None:
    problem = problem_of(site.request("DELETE", f"/compute-resources/{objects['compute_resource']}"), 409)
    assert {item["kind"] for item in problem["used_by"]} == {"run", "template"}
    validate(site, {"$ref": "#/components/schemas/Problem"}, problem)


def test_schemas_read_by_the_web_ui_describe_every_field(site: Site) -> None:
    undescribed = set()
    for name, schema in site.document["components"]["schemas"].items():
        for field, definition in schema.get("properties", {}).items():
            if definition.get("items", definition) in ({"additionalProperties": True, "type": "object"}, {}):
                undescribed.add((name, field))
    assert {
        field for name, field in undescribed if name in ("EffectivePolicy", "Findings", "CurrentUser", "RejectedItem")
    } == set()


def find(site: Site, key: str) -> Operation:
    [match] = [item for item in operations_of(site.document) if item.key == key]
    return match


def check(site: Site, item: Operation, body: Any) -> None:
    """Raise if a response does not match its description."""
    validate(site, item.spec["responses"]["200"]["content"][JSON]["schema"], body)


def validate(site: Site, schema: dict[str, Any], body: Any) -> None:
    """Raise if data does not match a schema. Undescribed fields do not match."""
    schemas = {name: _closed(definition) for name, definition in site.document["components"]["schemas"].items()}
    jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": schemas}}).validate(body)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if "properties" in schema else schema
