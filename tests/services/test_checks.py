"""Compute resource and template checks: findings and descriptions, without storing anything."""

import pytest

from fairlead.errors import RequestRejected
from fairlead.model.assets import ComputeResource, Template
from fairlead.model.plans import Violation
from fairlead.model.scopes import Cluster
from tests.services.worlds import FOREST, VISION, World, listing, rejection_rules


def test_check_reports_what_create_would_reject_and_stores_nothing(world: World) -> None:
    world.put_policy(rules={"resources.gpu": {"max": 1}})
    asset = ComputeResource.model_validate({"name": "big", "requirements": {"resources": {"gpu": 2}}})
    findings = world.services.compute_resources.check(world.root, asset).findings
    assert [(item.path, item.rule) for item in findings if isinstance(item, Violation)] == [
        ("requirements.resources.gpu.devices", "max")
    ]
    with pytest.raises(RequestRejected) as caught:
        world.services.compute_resources.create(world.root, asset)
    assert rejection_rules(caught) == [("requirements.resources.gpu.devices", "max")]
    assert world.services.compute_resources.page(world.root, listing()).items == []


def test_check_describes_the_pod_with_effective_defaults(world: World) -> None:
    world.put_policy(
        VISION, defaults={"resources": {"cpu": 1}}, limit_factor={"mem": 2}, rules={"resources.gpu": {"max": 1}}
    )
    data = {"name": "big", "scope": FOREST, "requirements": {"resources": {"gpu": 2, "mem": "4Gi"}}}
    checked = world.services.compute_resources.check(world.root, ComputeResource.model_validate(data))
    assert [item.rule for item in checked.findings] == ["max"]
    sentences = {(item.path, item.kind, item.text) for item in checked.sentences}
    assert ("resources.gpu", "gets", "2 whole GPUs per pod.") in sentences
    assert ("resources.cpu", "note", "(department/vision policy default)") in sentences
    assert ("resources.mem.limits", "risk", "Killed above 8 GiB (out of memory).") in sentences


def test_check_names_only_visible_clusters(world: World) -> None:
    world.services.scopes.create(world.root, Cluster(name="hidden"))
    vic = world.grant("vic", "viewer", FOREST)
    asset = ComputeResource.model_validate({"name": "a", "requirements": {"resources": {"gpu": {"memory": "50%"}}}})
    for caller, visible in ((vic, False), (world.root, True)):
        checked = world.services.compute_resources.check(caller, asset)
        assert ("hidden" in str(checked)) == visible


def test_template_is_checked_with_its_compute_resource(world: World) -> None:
    world.add_compute_resource("big", resources={"gpu": 2})
    template = Template.model_validate({"name": "start", "requirements": {"profile": "big"}})
    sentences = {
        (item.path, item.kind, item.text) for item in world.services.templates.check(world.root, template).sentences
    }
    assert ("profile", "gets", "Uses compute resource big by default.") in sentences
    assert ("resources.gpu", "gets", "2 whole GPUs per pod.") in sentences
