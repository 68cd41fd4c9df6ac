"""GPUs: whole devices, memory shares and MIG slices, and contradictions between them."""

from typing import Any

import pytest

from fairlead.model.resources import Gpu, Requirements
from tests.making import container, find_violations, make_requirements, plan, violated_rules

DEVICES: list[tuple[Any, int]] = [
    ("1", 1),
    (1, 1),
    (1.0, 1),
    (0, 0),
    ("0", 0),
    (8, 8),
    ({"limits": "1"}, 1),
    ({"requests": 1}, 1),
    ({"requests": "2", "limits": 2}, 2),
    ({"devices": 3}, 3),
    ({"devices": "4"}, 4),
    ({"type": "A100"}, 1),
    ({"memory": "50%"}, 1),
    ({"mig": "1g.5gb"}, 1),
    ({"limits": 2, "type": "A100"}, 2),
]

MEMORY: list[tuple[Any, str | None, str | None]] = [
    ("50%", "50%", None),
    ("1%", "1%", None),
    ("10GB", "10GB", None),
    ("10000MB", "10GB", None),
    ("8Gi", "8Gi", None),
    ({"request": "50%"}, "50%", None),
    ({"request": "50%", "limit": "80%"}, "50%", "80%"),
    ({"request": "50%", "limit": "50%"}, "50%", "50%"),
    ({"requests": "10GB", "limits": "20GB"}, "10GB", "20GB"),
    ({"request": "1GB", "limit": "1Gi"}, "1GB", "1Gi"),
]

WHOLE_DEVICES: list[Any] = ["100%", {"request": "100%"}, {"request": "100%", "limit": "100%"}, {"limit": "100%"}]

INVALID: list[tuple[Any, str, str]] = [
    (-1, "devices", "range"),
    (1025, "devices", "range"),
    (True, "devices", "whole_number"),
    ("one", "devices", "whole_number"),
    (0.5, "devices", "whole_number"),
    ("0.5", "devices", "whole_number"),
    ("50%", "devices", "whole_number"),
    (float("inf"), "devices", "whole_number"),
    (float("nan"), "devices", "whole_number"),
    ("9" * 400 + ".5", "devices", "whole_number"),
    ({"requests": 1, "limits": 2}, "", "gpu_requests_differ"),
    ({"requests": 1, "devices": 1}, "", "duplicate"),
    ({"count": 1}, "count", "unknown_field"),
    ([1], "", "mapping"),
    ({"devices": 0, "type": "A100"}, "type", "gpu_contradiction"),
    ({"devices": 0, "memory": "50%"}, "memory", "gpu_contradiction"),
    ({"devices": 0, "memory": "100%"}, "memory", "gpu_contradiction"),
    ({"devices": 0, "mig": "1g.5gb"}, "mig", "gpu_contradiction"),
    ({"devices": 2, "memory": "50%"}, "memory", "gpu_share_of_many"),
    ({"devices": 2, "memory": "10GB"}, "memory", "gpu_share_of_many"),
    ({"devices": 2, "mig": "1g.5gb"}, "mig", "gpu_share_of_many"),
    ({"memory": "50%", "mig": "1g.5gb"}, "mig", "gpu_share_and_mig"),
    ({"memory": "0%"}, "memory.request", "range"),
    ({"memory": "101%"}, "memory.request", "range"),
    ({"memory": "12.5%"}, "memory.request", "range"),
    ({"memory": "-5%"}, "memory.request", "range"),
    ({"memory": "٣%"}, "memory.request", "range"),
    ({"memory": 50}, "memory.request", "unit"),
    ({"memory": 0.5}, "memory.request", "unit"),
    ({"memory": "10"}, "memory.request", "range"),
    ({"memory": "0GB"}, "memory.request", "range"),
    ({"memory": "-1GB"}, "memory.request", "range"),
    ({"memory": "10KB"}, "memory.request", "quantity"),
    ({"memory": {}}, "memory", "required"),
    ({"memory": {"request": "50%", "limit": "10GB"}}, "memory.limit", "unit"),
    ({"memory": {"request": "50%", "limit": "40%"}}, "memory.limit", "limit_under_request"),
    ({"memory": {"request": "2GB", "limit": "1GB"}}, "memory.limit", "limit_under_request"),
    ({"memory": {"request": "50%", "limit": "101%"}}, "memory.limit", "range"),
    ({"mig": "8g.5gb"}, "mig", "mig_profile"),
    ({"mig": "1g.5gb "}, "mig", "mig_profile"),
    ({"mig": "1g"}, "mig", "mig_profile"),
    ({"mig": 1}, "mig", "mig_profile"),
    ({"type": "A 100"}, "type", "label"),
    ({"type": 100}, "type", "text"),
]


def make_gpu(raw: Any) -> Gpu:
    gpu = make_requirements(resources={"gpu": raw}).resources.gpu
    assert gpu is not None
    return gpu


@pytest.mark.parametrize(("raw", "devices"), DEVICES)
def test_devices_are_parsed_from_every_form(raw: Any, devices: int) -> None:
    assert make_gpu(raw).devices == devices


@pytest.mark.parametrize(("raw", "request_", "limit"), MEMORY)
def test_a_share_is_a_percentage_or_an_amount(raw: Any, request_: str, limit: str | None) -> None:
    memory = make_gpu({"memory": raw}).memory
    assert memory is not None
    assert str(memory.request) == request_
    assert (None if memory.limit is None else str(memory.limit)) == limit


@pytest.mark.parametrize("raw", WHOLE_DEVICES)
def test_a_share_of_100_percent_is_a_whole_device(raw: Any) -> None:
    assert make_gpu({"devices": 1, "memory": raw}) == make_gpu(1)


@pytest.mark.parametrize("profile", ["1g.5gb", "3g.20gb", "7g.80gb", "1g.10gb+me"])
def test_mig_profiles_have_the_names_of_nvidia(profile: str) -> None:
    assert make_gpu({"mig": profile}).mig == profile


@pytest.mark.parametrize(("raw", "path", "rule"), INVALID)
def test_invalid_gpu_requests_are_rejected(raw: Any, path: str, rule: str) -> None:
    expected_path = f"resources.gpu.{path}".rstrip(".")
    assert violated_rules(find_violations(Requirements, {"resources": {"gpu": raw}})) == [(expected_path, rule)]


@pytest.mark.parametrize("empty", [{}, {"devices": None}, {"requests": None, "limits": None}])
def test_an_empty_gpu_request_requests_no_gpu(empty: Any) -> None:
    planned = plan({"resources": {"gpu": empty}})
    assert not [item.path for item in planned.settings if item.path.startswith("resources.gpu")]
    assert "resources" not in container(planned)


@pytest.mark.parametrize(
    ("raw", "percent"), [(0.5, "50%"), ("0.25", "25%"), (".5", "50%"), ("50%", "50%"), ("0.001", "1%")]
)
def test_the_hint_for_a_fraction_shows_how_to_request_a_share(raw: Any, percent: str) -> None:
    [violation] = find_violations(Requirements, {"resources": {"gpu": raw}})
    assert f"gpu: {{devices: 1, memory: {percent}}}" in str(violation.hint)
