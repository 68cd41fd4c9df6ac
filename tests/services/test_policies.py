"""Policies: scope policies, effective policies, and the impact of drafts."""

from typing import Any

import msgspec
import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected, RevisionMissing
from fairlead.model.assets import Policy
from fairlead.services.catalog.policies import PolicyImpact
from tests.services.worlds import (
    FOREST,
    LAKE,
    SPEECH,
    VISION,
    World,
    call_as,
    finding_rules,
    listing,
    rejection_rules,
    setting,
)


def make(scope: str = "platform", **fields: Any) -> Policy:
    """A policy."""
    return Policy.model_validate({"scope": scope, **fields})


def summarize(impact: PolicyImpact) -> list[tuple[str, str, bool, list[str]]]:
    """A summary of a draft's impact."""
    assert all(item["message"] for rejection in impact.rejected for item in rejection.violations)
    return [(item.kind, item.name, item.already, [v["rule"] for v in item.violations]) for item in impact.rejected]


@pytest.mark.parametrize(
    "fields",
    [
        {"rules": {"resources.gpu": {"max": 0}}},
        {"rules": {"resources.gpu": {"min": 0, "max": 4}}},
        {"rules": {"run_as_user": {"options": [0, 1000]}}},
        {"rules": {"volumes.*.read_only": {"options": [False]}}},
        {"rules": {"resources.mem.limits": {"required": True, "max": "64Gi"}}},
        {"rules": {"deadline": {"max": 3600}}},
        {"rules": {"resources.gpu.memory": {"max": "50%"}}},
        {"rules": {"envs": {"locked": True}}},
        {"switches": {"allow_root": False, "registries": [], "storage_classes": ["fast"]}},
        {"switches": {"gpu_memory_limits": True, "compute_resource": "required", "existing_volumes": "allow"}},
        {"limit_factor": {"mem": 1.5, "cpu": 2}},
        {"quota": {"gpu": 0, "cpu": "10", "mem": "1Ti", "runs": 0}},
        {"queue": {"max_waiting_runs": 1000, "weight": 0.001}},
        {
            "defaults": {
                "resources": {"gpu": {"devices": 0}, "cpu": {"requests": "0"}},
                "envs": [{"name": "A", "value": ""}],
            }
        },
    ],
)
def test_policy_is_stored_unchanged_including_zero_values(world: World, fields: dict[str, Any]) -> None:
    policy = make(FOREST, **fields)
    world.services.policies.put(world.root, FOREST, policy)
    stored = world.services.policies.get(world.root, FOREST)
    assert Policy.model_validate({**stored.content, "scope": FOREST}) == policy
    assert policy.to_data() == Policy.model_validate(policy.to_data()).to_data()
    assert world.services.policies.effective(world.root, FOREST).scope == FOREST


def test_maximum_of_zero_gpus_rejects_every_gpu(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 0}})
    assert finding_rules(world.preview(resources={"gpu": 1})["violations"]) == [("resources.gpu.devices", "max")]


def test_effective_policy_names_the_scope_of_each_rule(world: World) -> None:
    world.put_policy(
        rules={"resources.gpu": {"max": 8}, "resources.mem.limits": {"required": True}},
        switches={"gpu_memory_limits": True},
        limit_factor={"mem": 2},
        defaults={"resources": {"cpu": 1}},
        quota={"mem": "1Ti", "gpu": 4},
        queue={"max_waiting_runs": 100, "weight": 2},
    )
    world.put_policy(
        VISION,
        rules={"resources.gpu": {"max": 2, "min": 1}, "priority_class": {"options": ["low", "high"]}},
        switches={"gpu_memory_limits": False},
        limit_factor={"mem": 1.5},
        queue={"max_waiting_runs": 500, "weight": 0.5},
    )
    world.put_policy(
        FOREST, rules={"resources.gpu": {"max": 4}, "priority_class": {"options": ["low"]}, "envs": {"locked": True}}
    )
    effective = msgspec.json.decode(msgspec.json.encode(world.services.policies.effective(world.root, FOREST)))
    rules = effective["rules"]

    def with_scopes(entries: Any) -> list[tuple[Any, str]]:
        return [
            (item["value"], item["source"]["scope"]) for item in (entries if isinstance(entries, list) else [entries])
        ]

    assert with_scopes(rules["resources.gpu.devices"]["max"]) == [(2, VISION)]
    assert with_scopes(rules["resources.gpu.devices"]["min"]) == [(1, VISION)]
    assert with_scopes(rules["resources.mem.limits"]["required"]) == [(True, "platform")]
    assert with_scopes(rules["priority_class"]["options"]) == [(["low", "high"], VISION), (["low"], FOREST)]
    assert with_scopes(rules["envs"]["locked"]) == [(True, FOREST)]
    assert all(rules.values()), "an empty rule is not stored"
    assert with_scopes(effective["switches"]["gpu_memory_limits"]) == [(False, VISION)]
    assert with_scopes(effective["limit_factor"]["mem"]) == [(1.5, VISION)]
    assert with_scopes(effective["queue"]["max_waiting_runs"]) == [(100, "platform")]
    assert with_scopes(effective["queue"]["weight"]) == [(0.5, VISION)]
    no_usage = {"gpu": 0, "cpu": "0", "mem": "0", "runs": 0}
    assert effective["quotas"] == [{"scope": "platform", "mem": "1Ti", "gpu": 4, "used": no_usage}]
    assert effective["used"] == no_usage
    assert effective["defaults"] == [{"scope": "platform", "requirements": {"resources": {"cpu": {"requests": "1"}}}}]


@pytest.mark.every_store
def test_policies_are_listed_sorted_and_filtered(world: World) -> None:
    for scope in (VISION, "platform", FOREST):
        world.put_policy(scope, rules={"resources.gpu": {"max": 2}})
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})

    def scopes(**query: Any) -> list[str]:
        return [item.scope for item in world.services.policies.page(world.root, listing(**query)).items]

    assert scopes() == [VISION, "platform", FOREST]
    assert scopes(sort="-revision")[0] == VISION
    assert scopes(search="forest") == [FOREST]
    assert scopes(scope="platform") == ["platform"]
    assert scopes(revision=">1") == [VISION]
    assert scopes(managed_by="files") == []
    page = world.services.policies.page(world.root, listing(limit=2, total=True))
    assert (len(page.items), page.total, page.next_cursor is None) == (2, 3, False)


def test_only_policies_of_visible_scopes_are_listed(world: World) -> None:
    for scope in ("platform", VISION, SPEECH, FOREST, LAKE):
        world.put_policy(scope, rules={"resources.gpu": {"max": 2}})
    vic = world.grant("vic", "viewer", FOREST)
    page = world.services.policies.page(vic, listing(total=True))
    assert [item.scope for item in page.items] == [VISION, "platform", FOREST]
    assert page.total == 3
    assert world.services.policies.page(call_as("nobody"), listing()).items == []


def test_replacing_a_policy_requires_its_revision(world: World) -> None:
    put = world.services.policies.put
    assert put(world.root, VISION, make(VISION, rules={"resources.gpu": {"max": 1}})).revision == 1
    draft = make(VISION, rules={"resources.gpu": {"max": 2}})
    with pytest.raises(RevisionMissing):
        put(world.root, VISION, draft)
    assert put(call_as(revision=1), VISION, draft).revision == 2
    with pytest.raises(Changed):
        put(call_as(revision=1), VISION, make(VISION))
    assert put(call_as(any_revision=True), VISION, make(VISION)).revision == 3
    with pytest.raises(Changed, match="policy of department/speech that you read was deleted"):
        put(call_as(revision=1), SPEECH, make(SPEECH))
    with pytest.raises(Changed):
        world.services.policies.delete(call_as(revision=1), VISION)


def test_unchanged_policy_creates_no_revision(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})
    before = world.audit_actions()
    assert world.put_policy(VISION, rules={"resources.gpu": {"max": "1"}}).revision == 1
    assert world.audit_actions() == before


def test_default_profile_must_be_a_reachable_compute_resource(world: World) -> None:
    world.add_compute_resource("far", scope=LAKE)
    world.add_compute_resource("gone")
    world.services.compute_resources.archive(world.root, "gone", None)
    for profile in ("far", "gone", "nothing"):
        with pytest.raises(RequestRejected) as caught:
            world.put_policy(VISION, defaults={"profile": profile})
        assert rejection_rules(caught) == [("defaults.profile", "unknown_profile")]
        with pytest.raises(RequestRejected):
            world.services.policies.validate(world.root, VISION, make(VISION, defaults={"profile": profile}))


def test_deleted_policy_no_longer_applies(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 0}}, defaults={"resources": {"cpu": 3}})
    assert setting(world.preview(), "resources.cpu.requests") == "3"
    world.services.policies.delete(world.root, VISION)
    assert world.preview(resources={"gpu": 4})["violations"] == []
    assert setting(world.preview(), "resources.cpu.requests") is None
    with pytest.raises(NotFound, match="policy of department/vision does not exist"):
        world.services.policies.get(world.root, VISION)


@pytest.mark.every_store
def test_validate_lists_exactly_what_the_draft_would_reject(world: World) -> None:
    world.add_compute_resource("one", resources={"gpu": 1})
    world.add_compute_resource("two", resources={"gpu": 2})
    world.add_compute_resource("four", scope=FOREST, resources={"gpu": 4})
    world.add_compute_resource("six", scope=LAKE, resources={"gpu": 6})
    world.add_compute_resource("old", resources={"gpu": 9})
    world.services.compute_resources.archive(world.root, "old", None)
    world.add_template("t-two", scope=VISION, profile="two")
    world.add_template("t-one", scope=VISION, resources={"gpu": 1})
    big, small = world.submit(resources={"gpu": 3}), world.submit(profile="one")
    elsewhere = world.submit(LAKE, resources={"gpu": 5})
    before = world.audit_actions()
    impact = world.services.policies.validate(world.root, VISION, make(VISION, rules={"resources.gpu": {"max": 1}}))
    assert summarize(impact) == [
        ("compute resource", "two", False, ["max"]),
        ("compute resource", "four", False, ["max"]),
        ("template", "t-two", False, ["max"]),
        ("run", big.id, False, ["max"]),
    ]
    assert impact.checked == {"compute resource": 3, "template": 2, "run": 2}
    assert impact.skipped == {"compute resource": 0, "template": 0, "run": 0}
    assert {small.id, elsewhere.id}.isdisjoint(item.name for item in impact.rejected)
    assert world.audit_actions() == before
    with pytest.raises(NotFound):
        world.services.policies.get(world.root, VISION)
    msgspec.json.encode(impact)


def test_validate_marks_what_is_already_rejected(world: World) -> None:
    world.add_compute_resource("two", resources={"gpu": 2})
    run = world.submit(profile="two")
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})
    impact = world.services.policies.validate(world.root, VISION, make(VISION, rules={"resources.gpu": {"max": 1}}))
    assert summarize(impact) == [("compute resource", "two", True, ["max"]), ("run", run.id, True, ["max"])]
    without_rules = world.services.policies.validate(world.root, VISION, make(VISION))
    assert summarize(without_rules) == []


def test_validate_ignores_renames(world: World) -> None:
    world.add_compute_resource("two", resources={"gpu": 2})
    world.add_template("t", profile="two")
    world.submit(profile="two")
    world.submit(template="t")
    world.services.compute_resources.edit(world.root, "two", {"name": "zwei"})
    world.services.templates.edit(world.root, "t", {"name": "tt"})
    assert summarize(world.services.policies.validate(world.root, "platform", make())) == []


def test_validate_and_create_agree_on_templates(world: World) -> None:
    share = {"gpu": {"devices": 1, "memory": "50%"}}
    world.services.scopes.edit(world.root, "cluster/local", {"executor": "kubernetes", "gpu_sharing": "kai"})
    world.add_template("t", scope="project/default", resources=share)
    world.add_compute_resource("c", scope="project/default", resources=share)
    world.services.scopes.edit(world.root, "cluster/local", {"executor": "local", "gpu_sharing": "none"})
    impact = world.services.policies.validate(world.root, "project/default", make("project/default"))
    assert [(item.kind, item.already) for item in impact.rejected] == [("compute resource", True), ("template", True)]


@pytest.mark.parametrize("operation", ["put", "validate", "delete"])
def test_only_editors_can_change_policies(world: World, operation: str) -> None:
    world.put_policy(VISION)
    world.put_policy(FOREST)
    eve, mia = world.grant("eve", "editor", FOREST), world.grant("mia", "member", FOREST)

    def execute(call: Any, scope: str) -> None:
        call = call_as(call.principal.user, any_revision=True)
        use_case = getattr(world.services.policies, operation)
        use_case(call, scope) if operation == "delete" else use_case(call, scope, make(scope))

    for user, scope in ((mia, FOREST), (eve, VISION), (eve, "platform")):
        with pytest.raises(Forbidden):
            execute(user, scope)
    with pytest.raises(NotFound):
        execute(eve, LAKE)
    execute(eve, FOREST)


WEIGHT = [("queue.weight", "weight")]


@pytest.mark.every_store
def test_only_editors_of_the_platform_can_change_weights(world: World) -> None:
    policies = world.services.policies
    world.put_policy(FOREST, queue={"weight": 2})
    world.grant("ada", "admin", VISION)
    world.grant("pia", "editor", "platform")
    ada, pia = (call_as(user, any_revision=True) for user in ("ada", "pia"))
    for queue in ({"weight": 1000}, {"weight": 1}, {}):
        for operation in (policies.put, policies.validate):
            with pytest.raises(RequestRejected) as caught:
                operation(ada, FOREST, make(FOREST, queue=queue))
            assert rejection_rules(caught) == WEIGHT
    with pytest.raises(RequestRejected) as caught:
        policies.put(ada, VISION, make(VISION, queue={"weight": 1000}))
    (violation,) = caught.value.violations
    changed = "is 1000 instead of not set"
    assert violation.message == f"{changed}; only editors and administrators of the platform can change a weight"
    assert violation.hint == "keep the current weight, or ask an editor or administrator of the platform"
    with pytest.raises(RequestRejected, match="is not set instead of 2"):
        policies.delete(ada, FOREST)
    # The other parts of the policy can change if the weight stays.
    after = policies.put(ada, FOREST, make(FOREST, queue={"weight": 2, "max_waiting_runs": 5}, quota={"gpu": 1}))
    assert after.content["queue"] == {"weight": 2, "max_waiting_runs": 5}
    assert policies.put(pia, FOREST, make(FOREST, queue={"weight": 3})).content["queue"] == {"weight": 3}
    policies.delete(pia, FOREST)


def test_effective_policies_at_and_above_a_visible_project_are_visible(world: World) -> None:
    world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})
    vic = world.grant("vic", "viewer", FOREST)
    assert world.services.policies.get(vic, VISION).scope == VISION
    for scope in ("platform", "cluster/main", VISION, FOREST):
        assert world.services.policies.effective(vic, scope).scope == scope
    for scope in (SPEECH, LAKE, "cluster/local"):
        with pytest.raises(NotFound):
            world.services.policies.effective(vic, scope)


def test_managed_policy_rejects_edits_unless_forced(world: World) -> None:
    with world.services.policies.units.changing(world.root, "organization") as unit:
        world.services.policies.store(unit, make(VISION), None, "files")
    with pytest.raises(Conflict, match="managed by files"):
        world.put_policy(VISION, rules={"resources.gpu": {"max": 1}})
    with pytest.raises(Conflict, match="managed by files"):
        world.services.policies.delete(world.root, VISION)
    forced = world.services.policies.put(call_as(any_revision=True), VISION, make(VISION, quota={"gpu": 1}), force=True)
    assert (forced.revision, forced.managed_by) == (2, "files")
