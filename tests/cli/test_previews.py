"""`fairlead preview`: the plan on stdout, violations on stderr, and exit code 0 or 1."""

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fairlead.files import yamls
from tests.cli.terminal import preview, run, write

FAIRLEAD = str(Path(sys.executable).parent / "fairlead")
SOURCE = {"layer", "name", "scope", "revision"}
LAYERS = {"platform", "policy", "template", "user", "compute_resource", "enforced"}

PLATFORM = """
kind: ComputeResource
name: 1xa100
description: one A100
requirements: {resources: {gpu: 1, mem: {requests: 64Gi, limits: 80Gi}}, node_selector: {pool: a100}}
---
kind: Template
name: finetune
requirements: {profile: 1xa100, resources: {disk: 50Gi}, envs: {MODE: tune}}
---
kind: Policy
scope: platform
defaults: {resources: {cpu: 1, mem: 2Gi}}
limit_factor: {cpu: 1.5}
rules: {resources.gpu: {max: 2}}
"""
FULL_REQUEST = """
function: {name: train, source: train.py, handler: main}
template: finetune
inputs: {epochs: 3}
resources: {mem: 6Gi}
volumes: [{volume_type: persistent_volume_claim, name: data, mount_path: /data, spec: {size: 10Gi}}]
secrets: [HF_TOKEN]
envs: {LEVEL: debug}
fs_group: "8877"
"""
FILES = {"platform/all.yaml": PLATFORM, "train.py": "def main(epochs):\n    return epochs\n"}
OPTIONS = ("--compute", "platform", "--secrets", "HF_TOKEN", "--project", "forest")


def plan_of(folder: Path, request: str, *options: str, files: dict[str, str] | None = None) -> dict[str, Any]:
    result = preview(folder, request, *options, "-o", "json", files=files)
    assert result.code == (1 if result.err else 0)
    plan: dict[str, Any] = json.loads(result.out)
    return plan


def value_of(plan: dict[str, Any], path: str) -> Any:
    return next(setting["value"] for setting in plan["settings"] if setting["path"] == path)


def test_the_explanation_contains_sources_and_overridden_values(tmp_path: Path) -> None:
    result = preview(tmp_path, FULL_REQUEST, *OPTIONS, files=FILES)
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert (result.code, result.err) == (0, "")
    assert lines[0] == "job train in project forest"
    assert "resources.mem.requests 64Gi compute resource 1xa100" in lines
    assert "overrides 6Gi (request)" in lines
    assert "resources.cpu.requests 1 platform policy" in lines
    assert "envs.MODE tune template finetune" in lines
    assert (
        "resources.mem.requests: the request sets 6Gi; the compute resource 1xa100 overrides it and sets 64Gi" in lines
    )


def test_the_explanation_is_the_default_output(tmp_path: Path) -> None:
    assert preview(tmp_path, "function: a") == preview(tmp_path, "function: a", "--output", "explain")


def test_the_plan_as_json_has_the_shape_of_the_design(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, FULL_REQUEST, *OPTIONS, files=FILES)
    assert list(plan) == ["settings", "warnings", "violations", "manifests", "fit"]
    assert plan["fit"] == {"verdict": "unknown", "nodes": [], "reasons": [], "suggestions": [], "counts": {}}
    for setting in plan["settings"]:
        assert (
            {"path", "value", "source", "overridden"}
            <= setting.keys()
            <= {"path", "value", "source", "overridden", "combined", "reason"}
        )
        assert setting["source"].keys() == SOURCE
        assert setting["source"]["layer"] in LAYERS
        assert all(
            value.keys() == {"value", "source"} and value["source"].keys() == SOURCE for value in setting["overridden"]
        )
    assert [setting["path"] for setting in plan["settings"]] == sorted(setting["path"] for setting in plan["settings"])
    assert {"path", "rule", "message", "hint", "source"} <= plan["warnings"][0].keys()
    assert plan["violations"] == []
    kinds = [manifest["kind"] for manifest in plan["manifests"]]
    assert kinds == ["Job", "PersistentVolumeClaim", "Secret", "ConfigMap"]


def test_a_setting_in_json_has_its_source_and_overridden_values(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, FULL_REQUEST, *OPTIONS, files=FILES)
    (memory,) = [setting for setting in plan["settings"] if setting["path"] == "resources.mem.requests"]
    assert memory == {
        "path": "resources.mem.requests",
        "value": "64Gi",
        "source": {"layer": "compute_resource", "name": "1xa100", "scope": "platform", "revision": None},
        "overridden": [
            {"value": "6Gi", "source": {"layer": "user", "name": None, "scope": None, "revision": None}},
            {"value": "2Gi", "source": {"layer": "policy", "name": None, "scope": "platform", "revision": None}},
        ],
    }


def test_the_manifests_as_yaml_equal_those_in_json(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, FULL_REQUEST, *OPTIONS, files=FILES)
    result = preview(tmp_path, FULL_REQUEST, *OPTIONS, "-o", "yaml", files=FILES)
    assert result.code == 0
    assert yamls.parse_documents(result.out.encode()) == plan["manifests"]


@pytest.mark.parametrize("output", ["explain", "yaml", "json"])
def test_the_output_is_deterministic(tmp_path: Path, output: str) -> None:
    first = preview(tmp_path, FULL_REQUEST, *OPTIONS, "-o", output, files=FILES)
    second = preview(tmp_path, FULL_REQUEST, *OPTIONS, "-o", output, files=FILES)
    assert first == second


def test_violations_go_to_stderr_and_the_exit_code_is_1(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: a\nrun_as_user: 0")
    assert result.code == 1
    assert result.out.startswith("job a in project default\n")
    assert "violation" not in result.out
    assert result.err.startswith("1 violation\n  run_as_user: 0 is root")


def test_a_plan_with_violations_has_no_manifests(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: a\nrun_as_user: 0", "-o", "yaml")
    plan = plan_of(tmp_path, "function: a\nrun_as_user: 0")
    assert (result.code, result.out) == (1, "")
    assert plan["manifests"] == []
    (violation,) = plan["violations"]
    assert (violation["path"], violation["rule"]) == ("run_as_user", "allow_root")
    assert violation["source"]["layer"] == "platform"


def test_an_invalid_request_as_json_has_violations_and_no_settings(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "functio: a")
    (violation,) = plan["violations"]
    assert (plan["settings"], plan["manifests"]) == ([], [])
    assert (violation["path"], violation["rule"], violation["location"]) == ("functio", "unknown_field", "request.yaml")


@pytest.mark.parametrize("output", ["explain", "yaml"])
def test_an_invalid_request_leaves_stdout_empty(tmp_path: Path, output: str) -> None:
    result = preview(tmp_path, "functio: a", "-o", output)
    assert (result.code, result.out) == (1, "")


def test_warnings_are_shown_with_every_output(tmp_path: Path) -> None:
    request = "function: a\nprofile: 1xa100\nresources: {mem: 6Gi}"
    message = "the request sets 6Gi; the compute resource 1xa100 overrides it and sets 64Gi"
    assert message in preview(tmp_path, request, *OPTIONS, files=FILES).out
    assert message in preview(tmp_path, request, *OPTIONS, "-o", "yaml").err
    plan = json.loads(preview(tmp_path, request, *OPTIONS, "-o", "json").out)
    assert message in [warning["message"] for warning in plan["warnings"]]


def test_warnings_change_the_exit_code_only_if_the_request_is_strict(tmp_path: Path) -> None:
    request = "function: a\nprofile: 1xa100\nresources: {mem: 6Gi}\n"
    assert preview(tmp_path, request, *OPTIONS, files=FILES).code == 0
    strict = preview(tmp_path, request + "strict: true", *OPTIONS, files=FILES)
    assert strict.code == 1
    assert "remove strict" in strict.err


def test_options_may_be_repeated_before_and_after_the_request(tmp_path: Path) -> None:
    write(tmp_path, {"r.yaml": "function: a\nprofile: y", "one/a.yaml": "name: x", "two.yaml": "name: y"})
    result = run(tmp_path, "preview", "--compute", "one", "r.yaml", "--compute", "two.yaml", "-o", "json")
    assert (result.code, value_of(json.loads(result.out), "profile")) == (0, "y")


def test_templates_are_loaded_with_their_option(tmp_path: Path) -> None:
    files = {"t.yaml": "name: finetune\nrequirements: {resources: {disk: 50Gi}}"}
    plan = plan_of(tmp_path, "function: a\ntemplate: finetune", "--templates", "t.yaml", files=files)
    assert value_of(plan, "resources.disk.requests") == "50Gi"


def test_a_policy_sets_defaults_and_rules(tmp_path: Path) -> None:
    files = {"p.yaml": "defaults: {resources: {mem: 2Gi}}\nrules: {resources.gpu: {max: 1}}"}
    assert (
        value_of(plan_of(tmp_path, "function: a", "--policy", "p.yaml", files=files), "resources.mem.requests") == "2Gi"
    )
    assert preview(tmp_path, "function: a\nresources: {gpu: 2}", "--policy", "p.yaml", files=files).code == 1


def test_platform_defaults_are_the_weakest_layer(tmp_path: Path) -> None:
    files = {"d.yaml": "resources: {cpu: 2, mem: 1Gi}", "p.yaml": "defaults: {resources: {mem: 2Gi}}"}
    plan = plan_of(tmp_path, "function: a", "--defaults", "d.yaml", "--policy", "p.yaml", files=files)
    assert value_of(plan, "resources.cpu.requests") == "2"
    assert value_of(plan, "resources.mem.requests") == "2Gi"


@pytest.mark.parametrize(
    ("secrets", "code"), [(None, 0), ("HF_TOKEN", 0), (" OTHER , HF_TOKEN ,", 0), ("OTHER", 1), ("", 1)]
)
def test_secrets_are_checked_if_they_are_given(tmp_path: Path, secrets: str | None, code: int) -> None:
    options = () if secrets is None else ("--secrets", secrets)
    assert preview(tmp_path, "function: a\nsecrets: [HF_TOKEN]", *options).code == code


def test_the_project_determines_the_namespace(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "function: a", "--project", "forest")
    assert plan["manifests"][0]["metadata"]["namespace"] == "forest"
    assert preview(tmp_path, "function: a").out.startswith("job a in project default\n")


def test_a_project_sees_the_compute_resources_of_its_department_only(tmp_path: Path) -> None:
    resources = [("ours", "a"), ("theirs", "b")]
    texts = [f"kind: ComputeResource\nname: {name}\nscope: department/{department}" for name, department in resources]
    files = {"c.yaml": "\n---\n".join(["kind: Project\nname: p\nparent: department/a", *texts])}
    options = ("--compute", "c.yaml", "--project", "p")
    assert preview(tmp_path, "function: a\nprofile: ours", *options, files=files).code == 0
    result = preview(tmp_path, "function: a\nprofile: theirs", *options, files=files)
    assert (result.code, result.err.splitlines()[1].split(":")[0].strip()) == (1, "profile")


def test_a_request_without_a_function_is_named_after_its_file(tmp_path: Path) -> None:
    write(tmp_path, {"night-job.yaml": "resources: {cpu: 1}", "my job.yaml": "resources: {cpu: 1}"})
    assert run(tmp_path, "preview", "night-job.yaml").out.startswith("job night-job in project")
    assert run(tmp_path, "preview", "my job.yaml").code == 0, "the name is derived, not written by the user"


@pytest.mark.parametrize("source", ["train.py", "src/train.py", "src"])
def test_the_source_next_to_the_request_is_packed(tmp_path: Path, source: str) -> None:
    files = {"work/train.py": "print(1)", "work/src/train.py": "print(2)", "work/src/lib.py": ""}
    write(tmp_path, {**files, "work/r.yaml": f"function: {{name: a, source: {source}, handler: train:main}}"})
    result = run(tmp_path, "preview", "work/r.yaml", "-o", "json")
    (code,) = [manifest for manifest in json.loads(result.out)["manifests"] if manifest["kind"] == "ConfigMap"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(code["binaryData"]["code.tar.gz"]))) as packed:
        names = packed.getnames()
    assert (result.code, result.err) == (0, "")
    assert names == (["src/lib.py", "src/train.py"] if source == "src" else [source])


def test_a_missing_source_is_a_warning(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "function: {name: a, source: nowhere.py}")
    (warning,) = plan["warnings"]
    assert (warning["path"], warning["rule"]) == ("function.source", "missing")


def test_a_python_function_without_a_source_is_reported(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: {name: a, kind: python}")
    assert "function.source" in result.out + result.err


@pytest.mark.parametrize(
    "request_text",
    ["action: serve\nfunction: {name: a, source: a.py}", "function: {name: a, source: folder}"],
)
def test_code_without_a_handler_is_rejected(tmp_path: Path, request_text: str) -> None:
    result = preview(tmp_path, request_text, files={"a.py": "", "folder/b.py": ""})
    assert result.code == 1
    assert "function.handler: " in result.err


@pytest.mark.parametrize("source", ["/etc/passwd", "../train.py", "a/../../b.py", "", "~/train.py/.."])
def test_a_source_outside_the_folder_of_the_request_is_rejected(tmp_path: Path, source: str) -> None:
    result = preview(tmp_path, f"function: {{name: a, source: '{source}'}}")
    assert result.code == 1
    assert "request.yaml: function.source: " in result.err


@pytest.mark.parametrize("action", ["job", "serve", "workspace"])
def test_every_action_can_be_previewed(tmp_path: Path, action: str) -> None:
    request = f"action: {action}\nfunction: {{name: a, source: train.py, handler: main}}"
    result = preview(tmp_path, request, files=FILES)
    assert (result.code, result.out.splitlines()[0]) == (0, f"{action} a in project default")


def test_the_installed_command_gives_the_same_output(tmp_path: Path) -> None:
    expected = preview(tmp_path, FULL_REQUEST, *OPTIONS, "-o", "json", files=FILES)
    args = [FAIRLEAD, "preview", "request.yaml", *OPTIONS, "-o", "json"]
    process = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (expected.code, expected.out, expected.err)
