"""All responses match the OpenAPI document exactly, because the types of the web UI are generated from it."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tests.contracts.memory import MemoryStore
from tests.server.samples import address_of, body_of, fill
from tests.server.sites import Operation, Site, open_site, operations_of, problem_of

JSON = "application/json"
SAYING = ("check", "fit", "validate", "preview")  # they change nothing


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A server of this module alone, with one thing of every kind."""
    with open_site(MemoryStore()) as opened:
        yield opened


@pytest.fixture(scope="module")
def things(site: Site) -> dict[str, str]:
    """The objects of the site."""
    found = fill(site, "alpha")
    policy = {
        "defaults": {"resources": {"cpu": "1"}},
        "limit_factor": {"mem": 1.5},
        "rules": {
            "resources.gpu": {"min": 1, "max": 8},
            "resources.mem.limits": {"required": True},
            "priority_class": {"options": ["low"], "locked": True},
        },
        "quota": {"gpu": 8, "cpu": "100", "mem": "1Ti", "runs": 50},
    }
    site.put("/policies/platform/platform", policy)
    return found


def test_responses_match_their_schema(site: Site, things: dict[str, str]) -> None:
    looked = 0
    for item in operations_of(site.document):
        if item.method == "GET" or item.path.endswith(SAYING):
            answer = site.ask(item.method, address_of(item, things), body_of(item))
            if answer.status_code == 200 and answer.headers["content-type"] == JSON:
                check(site, item, answer.json())
                looked += 1
    assert looked > 40


def test_findings_are_described_with_their_source(site: Site, things: dict[str, str]) -> None:
    requested = {"name": "x", "requirements": {"resources": {"gpu": 9, "mem": "1Gi"}, "priority_class": "high"}}
    found = site.make("/compute-resources/check", requested)
    assert {item["rule"] for item in found["violations"]} == {"max", "options"}
    assert {item["kind"] for item in found["sentences"]} == {"gets", "risk", "note"}
    check(site, find(site, "POST /compute-resources/check"), found)
    plan = site.make(
        "/projects/alpha/runs/preview",
        {"function": "train", "template": things["template"], "resources": {"gpu": 5, "mem": "9Gi"}},
    )
    assert [item["requested"]["source"]["layer"] for item in plan["warnings"] if "requested" in item]
    check(site, find(site, "POST /projects/{project}/runs/preview"), plan)
    draft = site.make("/policies/platform/platform/validate", {"rules": {"resources.gpu": {"max": 0}}})
    assert draft["rejected"]
    check(site, find(site, "POST /policies/{kind}/{name}/validate"), draft)


def test_effective_policy_matches_its_schema(site: Site, things: dict[str, str]) -> None:
    told = site.get(f"/policies/project/{things['project']}/effective")
    assert set(told) == {"scope", "rules", "switches", "limit_factor", "defaults", "quotas", "used"}
    platform = {"layer": "policy", "name": None, "scope": "platform", "revision": None}
    assert told["rules"]["resources.gpu.devices"] == {
        "min": [{"value": 1, "source": platform}],
        "max": [{"value": 8, "source": platform}],
    }
    assert told["rules"]["priority_class"]["locked"] == {"value": True, "source": platform}
    used = {"gpu": 0, "cpu": "0", "mem": "0", "runs": 0}  # its run waits
    assert told["quotas"] == [{"scope": "platform", "gpu": 8, "cpu": "100", "mem": "1Ti", "runs": 50, "used": used}]
    assert told["used"] == used
    check(site, find(site, "GET /policies/{kind}/{name}/effective"), told)


def test_conflict_response_lists_what_uses_the_object(site: Site, things: dict[str, str]) -> None:
    problem = problem_of(site.ask("DELETE", f"/compute-resources/{things['compute_resource']}"), 409)
    assert {item["kind"] for item in problem["used_by"]} == {"run", "template"}
    validate(site, {"$ref": "#/components/schemas/Problem"}, problem)


def test_schemas_read_by_the_web_ui_describe_every_field(site: Site) -> None:
    silent = set()
    for name, schema in site.document["components"]["schemas"].items():
        for field, said in schema.get("properties", {}).items():
            if said.get("items", said) in ({"additionalProperties": True, "type": "object"}, {}):
                silent.add((name, field))
    assert {
        field for name, field in silent if name in ("EffectivePolicy", "Findings", "CurrentUser", "RejectedItem")
    } == set()


def find(site: Site, key: str) -> Operation:
    [found] = [item for item in operations_of(site.document) if item.key == key]
    return found


def check(site: Site, item: Operation, answer: Any) -> None:
    """Raise if a response does not match its description."""
    validate(site, item.said["responses"]["200"]["content"][JSON]["schema"], answer)


def validate(site: Site, schema: dict[str, Any], answer: Any) -> None:
    """Raise if data does not match a schema. Undescribed fields do not match."""
    known = {name: _closed(said) for name, said in site.document["components"]["schemas"].items()}
    jsonschema_rs.Draft202012Validator({**schema, "components": {"schemas": known}}).validate(answer)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if "properties" in schema else schema
