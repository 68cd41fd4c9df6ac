"""All violations are reported together."""

import re
from pathlib import Path

import pytest

from tests.cli.terminal import preview

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def paths_in(output: str) -> list[str]:
    """The paths of the request's violations."""
    return re.findall(r"^  request\.yaml: ([^ ]+):", output, re.MULTILINE)


@pytest.mark.parametrize(
    ("request_text", "paths"),
    [
        ("envs: [{name: A, value: 1}, {name: B}, {value: c}]", ["envs.A.value", "envs.B.value", "envs.2.name"]),
        ("node_selector: [{key: a, value: 1}, {key: b}]", ["node_selector.a.value", "node_selector.b.value"]),
        (
            "volumes: [{volume_type: empty_dir, name: v, mount_path: data}, {volume_type: empty_dir, mount_path: /x}]",
            ["volumes.v.mount_path", "volumes.1.name"],
        ),
        ("retries: x\non_oom: grow\nresources: {cpu: 5foo}", ["retries", "on_oom", "resources.cpu.requests"]),
        ("retries: x\nfoo: 1", ["retries", "foo"]),
        ("args: [a, true, null, [b]]", ["args.1", "args.2", "args.3"]),
        ("resources: [{resource_type: cpuu}, {resource_type: mem, requests: x}, 5]", 3),
        (
            "function: {kind: container, name: a, image: b, source: c, handler: d}",
            ["function.source", "function.handler"],
        ),
        ("resources: {cpu: 5foo, mem: {requests: 2Gi, limits: 1Gi}, gpu: {devices: 2, memory: 50%}}", 3),
        ("tolerations: [{operator: Equal}, {key: a b}]\naffinity: []\ninputs: 5", 4),
        (
            f"affinity: {{nodeAffinity: {{{REQUIRED}: {{nodeSelectorTerms: [{{matchField: []}}]}}}}}}",
            [f"{TERMS}.0.matchField"],
        ),
        ("deadline: soon\nreplicas: 0\nstrict: 1\naction: x\nprofile: 5\nfs_group: x", 6),
    ],
)
def test_all_violations_of_a_request_are_reported_together(
    tmp_path: Path, request_text: str, paths: list[str] | int
) -> None:
    result = preview(tmp_path, request_text if "function" in request_text else f"function: train\n{request_text}")
    reported = paths_in(result.err)
    assert result.code == 1
    if isinstance(paths, int):
        assert len(reported) >= paths
    else:
        assert sorted(reported) == sorted(paths)


def test_profile_and_template_in_a_compute_resource_are_both_reported(tmp_path: Path) -> None:
    files = {"compute.yaml": "name: a\nrequirements: {profile: b, template: c}"}
    output = preview(tmp_path, "function: train", "--compute", "compute.yaml", files=files).err
    assert "requirements.profile" in output
    assert "requirements.template" in output


def test_violations_of_all_files_are_reported_together(
    tmp_path: Path,
) -> None:
    files = {"c/a.yaml": "name: a b", "c/b.yaml": "[", "p.yaml": "rules: {x: {}}", "d.yaml": "cpu: 1"}
    options = ("--compute", "c", "--policy", "p.yaml", "--defaults", "d.yaml", "--project", "a/b")
    output = preview(tmp_path, "function: 5", *options, files=files).err
    for location in (
        "request.yaml: function",
        "c/a.yaml: name",
        "c/b.yaml: ",
        "p.yaml: rules.x",
        "d.yaml: cpu",
        "project: ",
    ):
        assert f"\n  {location}" in output


def test_all_violated_rules_of_a_plan_are_reported_together(tmp_path: Path) -> None:
    files = {"p.yaml": "rules: {resources.gpu: {max: 2}, resources.mem: {required: true}}"}
    request = "function: train\nprofile: nope\nrun_as_user: 0\nsecrets: [A]\nresources: {gpu: 4}"
    result = preview(tmp_path, request, "--policy", "p.yaml", "--secrets", "B", files=files)
    for path in ("profile", "run_as_user", "secrets.A", "resources.gpu.devices", "resources.mem"):
        assert f"\n  {path}: " in result.err
    assert result.err.startswith("5 violations\n")
