"""What an executor cannot do is rejected before a run is accepted; what it does not enforce is a warning."""

from dataclasses import replace
from typing import Any

import pytest

from fairlead.model.nodes import Capabilities, Protection
from fairlead.model.plans import Plan
from fairlead.planning.plan import plan_run
from tests.making import (
    PYTHON,
    RUN_ID,
    make_cluster,
    make_policy,
    make_request,
    make_snapshot,
    setting,
    violated_rules,
    warning_rules,
)

LOCAL = make_cluster(name="here", executor="local")
ERROR = "unshare: operation not permitted"
WITHOUT_NAMESPACES = Capabilities(mount_error=ERROR, user_ids=False, more_groups=False)
ORDINARY_USER = Capabilities(more_groups=False, networks=("host", "none"))
ROOT = Capabilities(networks=("host", "none"))
CLAIM = {"data": {"volume_type": "persistent_volume_claim", "mount_path": "/data", "spec": {"size": "1Gi"}}}
NO_NETWORK = make_policy(switches={"network": "none"})


def plan_with(capabilities: Capabilities | None, *policies: Any, **requested: Any) -> Plan:
    """The plan for a run on a local cluster with these capabilities; None if they are unknown."""
    snapshot = replace(make_snapshot(LOCAL, *policies), capabilities=capabilities)
    return plan_run(make_request(**{"function": PYTHON, **requested}), snapshot, RUN_ID)


@pytest.mark.parametrize(
    ("requested", "path", "rule"),
    [
        ({"volumes": CLAIM}, "volumes.data", "mounts"),
        ({"run_as_user": 1234}, "run_as_user", "user_ids"),
        ({"run_as_group": 77}, "run_as_group", "user_ids"),
    ],
)
def test_machine_without_namespaces_rejects_what_it_cannot_do(requested: dict[str, Any], path: str, rule: str) -> None:
    planned = plan_with(WITHOUT_NAMESPACES, **requested)
    assert violated_rules(planned) == [(path, rule)]
    (violation,) = planned.violations
    assert ERROR in violation.message
    assert "cluster/here" in violation.message
    assert violation.hint
    for capabilities in (ORDINARY_USER, ROOT, None):
        assert violated_rules(plan_with(capabilities, **requested)) == []


def test_default_user_is_accepted_by_machine_without_namespaces() -> None:
    planned = plan_with(WITHOUT_NAMESPACES)
    assert setting(planned, "run_as_user").value == 1000
    assert (violated_rules(planned), warning_rules(planned)) == ([], [])


def test_run_as_user_of_a_policy_names_the_policy() -> None:
    planned = plan_with(WITHOUT_NAMESPACES, make_policy(defaults={"run_as_user": 1234}))
    assert [str(violation.source) for violation in planned.violations] == ["platform policy"]


def test_config_map_is_rejected_by_local_clusters() -> None:
    volume = {"cm": {"volume_type": "config_map", "mount_path": "/cm", "spec": {"name": "settings"}}}
    planned = plan_with(ROOT, make_policy(switches={"existing_volumes": "allow"}), volumes=volume)
    assert violated_rules(planned) == [("volumes.cm.volume_type", "local")]


@pytest.mark.parametrize("capabilities", [ORDINARY_USER, WITHOUT_NAMESPACES])
def test_group_without_effect_is_a_warning(capabilities: Capabilities) -> None:
    assert ("fs_group", "no_effect") in warning_rules(plan_with(capabilities, fs_group=99))
    assert warning_rules(plan_with(capabilities, fs_group=1000)) == []
    assert warning_rules(plan_with(ROOT, fs_group=99)) == []


def test_shared_memory_without_mounts_is_a_warning() -> None:
    planned = plan_with(WITHOUT_NAMESPACES, resources={"shm": "1Gi"})
    assert (violated_rules(planned), warning_rules(planned)) == ([], [("resources.shm", "not_enforced")])


@pytest.mark.parametrize(
    ("protection", "limits", "warned"),
    [
        (Protection("memory", "cgroup v2"), {"mem": "1Gi"}, []),
        (Protection("memory", "polling", "brief excess usage is not detected"), {"mem": "1Gi"}, []),
        (Protection("memory"), {"mem": "1Gi"}, [("resources.mem.limits", "not_enforced")]),
        (Protection("disk"), {"disk": "1Gi"}, [("resources.disk.limits", "not_enforced")]),
        (Protection("cpu", "affinity"), {"cpu": "500m"}, [("resources.cpu.limits", "not_enforced")]),
        (Protection("cpu", "affinity"), {"cpu": "2"}, []),
        (Protection("cpu", "cgroup v1"), {"cpu": "500m"}, []),
        (Protection("cpu"), {}, []),
    ],
)
def test_limits_that_are_not_enforced_are_warnings(
    protection: Protection, limits: dict[str, str], warned: list[tuple[str, str]]
) -> None:
    resources = {name: {"limits": limit} for name, limit in limits.items()}
    capabilities = replace(ROOT, protections={protection.name: protection})
    planned = plan_with(capabilities, resources=resources)
    assert (violated_rules(planned), warning_rules(planned)) == ([], warned)


def test_network_is_a_setting_of_the_policy_and_part_of_the_demand() -> None:
    planned = plan_with(ROOT, NO_NETWORK)
    assert violated_rules(planned) == []
    assert (setting(planned, "network").value, str(setting(planned, "network").source)) == ("none", "platform policy")
    assert planned.demand is not None
    assert planned.demand.network == "none"
    default = plan_with(ROOT)
    assert default.demand is not None
    assert default.demand.network == "host"
    assert "network" not in [each.path for each in default.settings]


def test_network_of_a_lower_scope_cannot_loosen_the_switch() -> None:
    lower = make_policy("project/forest", switches={"network": "host"})
    assert setting(plan_with(ROOT, NO_NETWORK, lower), "network").value == "none"


def test_network_is_rejected_by_executors_without_it() -> None:
    assert violated_rules(plan_with(WITHOUT_NAMESPACES, NO_NETWORK)) == [("network", "network")]
    on_kubernetes = plan_run(make_request(function=PYTHON), make_snapshot(NO_NETWORK), RUN_ID)
    assert violated_rules(on_kubernetes) == [("network", "network")]


def test_command_cannot_be_served_without_a_network() -> None:
    command = {"name": "web", "command": ["python", "-m", "http.server"]}
    planned = plan_with(ROOT, NO_NETWORK, function=command, action="serve")
    assert violated_rules(planned) == [("function.command", "network")]
    handler = {**PYTHON, "handler": "main"}
    assert violated_rules(plan_with(ROOT, NO_NETWORK, function=handler, action="serve")) == []
