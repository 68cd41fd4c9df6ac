"""Huge, deeply nested, binary and missing files: the CLI prints one clear message quickly, and never a traceback."""

import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from tests.cli.terminal import preview, run, write

COMMAND = (str(Path(sys.executable).parent / "fairlead"),)


def execute(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the installed command in a separate process."""
    return subprocess.run([*COMMAND, *args], check=False, cwd=folder, capture_output=True, text=True, timeout=30)


def billion_laughs() -> str:
    """Ten lines of YAML aliases that expand to ten billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"   \n\n", "is empty"),
        (b"---\n", "is empty"),
        (b"null\n", "is empty"),
        (b"function: tr\xffain", "is not UTF-8 text"),
        (bytes(range(256)) * 10, "is not a text file"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "is not a text file"),
        (b"function: a\x00b", "request.yaml: is no"),
        (b"function: \x1b[31mred", "request.yaml: is no"),
        ("function: train".encode("utf-16"), "is not a text file"),
        (billion_laughs().encode(), "has more than 100,000 values"),
        (b"inputs: {x: [" + b"1," * 150_000 + b"]}", "has more than 100,000 values"),
        (b"inputs: " + b"[" * 1000 + b"]" * 1000, "is nested more than 100 levels deep"),
        (b"inputs: " + b"{a: " * 1000 + b"1" + b"}" * 1000, "is nested more than 100 levels deep"),
        (b"inputs: &a [*a]", "is nested more than 100 levels deep"),
        (b"inputs: {a: " + b"9" * 5000 + b"}", "request.yaml: "),
    ],
)
def test_invalid_files_are_rejected_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "request.yaml").write_bytes(content)
    started = time.process_time()
    result = run(tmp_path, "preview", "request.yaml")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("1 violation\n  request.yaml: ")
    assert message in result.err
    assert "\x1b" not in result.err
    assert time.process_time() - started < 5


def test_extreme_nesting_is_rejected_without_a_crash(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "inputs: " + "[" * 100_000 + "]" * 100_000})
    result = execute(tmp_path, "preview", "request.yaml")
    assert result.returncode == 1, f"ended by signal {-result.returncode}"
    assert "is nested more than 100 levels deep" in result.stderr


def test_a_huge_file_is_rejected_quickly_and_with_little_memory(tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_bytes(b"function: train\nargs: " + b"x" * 50_000_000)
    tracemalloc.start()
    started = time.process_time()
    result = run(tmp_path, "preview", "request.yaml")
    seconds, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (result.code, seconds < 2, peak < 20 * 2**20) == (1, True, True), f"{seconds} s, {peak} bytes"
    assert result.err.startswith("1 violation\n  request.yaml: is larger than 1,048,576 bytes\n    -> ")


def test_a_missing_request_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, "preview", "nowhere.yaml")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("1 violation\n  nowhere.yaml: cannot be read: no such file or directory\n    -> ")


def test_a_folder_is_rejected_as_request(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    result = run(tmp_path, "preview", "folder")
    assert result.code == 1
    assert result.err.startswith("1 violation\n  folder: cannot be read: is a directory\n    -> ")


@pytest.mark.parametrize("option", ["--compute", "--templates", "--policy", "--defaults"])
def test_an_impossible_path_is_rejected_without_a_traceback(tmp_path: Path, option: str) -> None:
    result = preview(tmp_path, "function: train", option, "x" * 5000)
    assert result.code == 1
    assert "cannot be read: file name too long" in result.err


@pytest.mark.parametrize("source", ["x" * 5000, "a\\0b"])
def test_an_impossible_source_is_rejected_without_a_traceback(tmp_path: Path, source: str) -> None:
    result = preview(tmp_path, f'function: {{name: train, source: "{source}"}}')
    assert "function.source: " in result.out + result.err


@pytest.mark.parametrize("kind", ["[a]", "{a: 1}", "5", "true"])
def test_a_kind_that_is_not_text_is_rejected_without_a_traceback(tmp_path: Path, kind: str) -> None:
    result = preview(tmp_path, "function: train", "--compute", "c.yaml", files={"c.yaml": f"kind: {kind}\nname: a"})
    assert result.code == 1
    assert result.err.startswith("1 violation\n  c.yaml: kind: ")


@pytest.mark.parametrize(
    "value",
    ["!!binary aGVsbG8=", "!!set {x, y}", "!!timestamp 2026-01-01", "!!float .nan", "[!!float .inf]", "1.0e400"],
)
def test_inputs_that_are_not_json_are_rejected_with_their_path(tmp_path: Path, value: str) -> None:
    result = preview(tmp_path, f"function: train\ninputs: {{model: {{depth: {value}}}}}")
    assert result.code == 1
    assert result.err.startswith("1 violation\n  request.yaml: inputs.model.depth")
    assert "-> " in result.err


@pytest.mark.parametrize("key", ["1", "true", "null", "1.5"])
def test_keys_of_inputs_must_be_text_at_any_depth(tmp_path: Path, key: str) -> None:
    result = preview(tmp_path, f"function: train\ninputs: {{model: [{{{key}: x}}]}}")
    assert result.code == 1
    assert "request.yaml: inputs.model.0" in result.err


@pytest.mark.parametrize(
    ("request_text", "path"),
    [
        (f"function: {'a' * 300}", "function.name"),
        (f"function: train\nprofile: {'a' * 300}", "profile"),
        (f"function: train\ntemplate: {'a' * 300}", "template"),
        (f"function: train\nsecrets: [{'A' * 300}]", "secrets.0"),
        (f"function: train\nruntime_class: {'a' * 300}", "runtime_class"),
        (f"function: train\nnode_selector: {{zone: {'a' * 300}}}", "node_selector.zone"),
        (f"function: train\nvolumes: [{{volume_type: empty_dir, name: {'a' * 300}, mount_path: /d}}]", "volumes."),
        (f"function: train\nenvs: {{{'A' * 300}: x}}", "envs."),
        (f"function: train\nenvs: [{{name: {'A' * 300}, value: x}}]", "envs."),
    ],
)
def test_a_name_of_300_characters_is_rejected_and_shortened(tmp_path: Path, request_text: str, path: str) -> None:
    result = preview(tmp_path, request_text)
    message, hint = result.err.splitlines()[1:]
    assert result.code == 1
    assert message.startswith(f"  request.yaml: {path}")
    assert "has 300 characters; at most " in message
    assert "302" not in message, "the quotes must not count as characters of the name"
    assert len(message) < 300, "a path must be shortened like a value"
    assert hint.startswith("    -> use ")


def test_a_project_of_300_characters_is_rejected_and_shortened(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: train", "--project", "p" * 300)
    assert result.code == 1
    assert "project: has 300 characters; at most 128 are allowed" in result.err
    assert len(result.err.splitlines()[1]) < 300


def test_a_compute_resource_of_300_characters_is_rejected_and_shortened(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: train", "--compute", "c.yaml", files={"c.yaml": f"name: {'a' * 300}"})
    assert result.code == 1
    assert "c.yaml: name: has 300 characters; at most 63 are allowed" in result.err
    assert len(result.err.splitlines()[1]) < 300


def test_control_characters_of_a_file_are_not_printed(tmp_path: Path) -> None:
    request = 'function: train\nenvs: {A: "\\e[31mred\\nplain"}\n"\\e[2J": 1\n"a\\nb": 2\nsecrets: ["\\e[2J"]'
    rejected = preview(tmp_path, request)
    planned = preview(tmp_path, 'function: train\nenvs: {A: "\\e[31mred\\nplain"}')
    assert "\x1b" not in rejected.err + planned.out
    assert len(rejected.err.splitlines()) == 7, "a line break in a name must not break the output line"
    assert not [line for line in planned.out.splitlines() if line.startswith("plain")]


def test_a_variable_with_a_null_byte_is_rejected(tmp_path: Path) -> None:
    result = preview(tmp_path, 'function: train\nenvs: {A: "a\\0b"}')
    assert result.code == 1
    assert "request.yaml: envs.A: " in result.err


def test_ambiguous_yaml_scalars_stay_text(tmp_path: Path) -> None:
    ambiguous = ["yes", "NO", "off", "1:30", "010", "2026-01-01", "0x1f", "0o17", "1_000", ".inf", ".nan", "=", "y"]
    request = "function: train\nenvs:\n" + "\n".join(f"  V{n}: {text}" for n, text in enumerate(ambiguous))
    plan = json.loads(preview(tmp_path, request, "-o", "json").out)
    values = {setting["path"]: setting["value"] for setting in plan["settings"]}
    assert [values[f"envs.V{n}"] for n in range(len(ambiguous))] == ambiguous


def test_yaml_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    request = """
        function: train
        inputs:
          small: &small {depth: 3, width: 4}
          again: *small
          large: {<<: *small, depth: 9}
          both: {<<: [*small, {extra: 1}], own: true}
    """
    job, code = json.loads(preview(tmp_path, request, "-o", "json").out)["manifests"]
    assert job["kind"] == "Job"
    assert json.loads(code["data"]["call.json"])["inputs"] == {
        "small": {"depth": 3, "width": 4},
        "again": {"depth": 3, "width": 4},
        "large": {"depth": 9, "width": 4},
        "both": {"depth": 3, "width": 4, "extra": 1, "own": True},
    }


@pytest.mark.parametrize(
    "field",
    [
        "resources",
        "node_selector",
        "tolerations",
        "affinity",
        "volumes",
        "secrets",
        "envs",
        "fs_group",
        "run_as_user",
        "runtime_class",
        "priority_class",
        "profile",
        "template",
        "args",
        "deadline",
        "inputs",
    ],
)
def test_an_empty_field_is_ignored(tmp_path: Path, field: str) -> None:
    result = preview(tmp_path, f"function: train\n{field}:\n")
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("name", ["cpu", "mem", "disk", "gpu", "shm", "extended"])
def test_an_empty_resource_is_ignored(tmp_path: Path, name: str) -> None:
    result = preview(tmp_path, f"function: train\nresources: {{{name}: }}\n")
    assert (result.code, result.err) == (0, "")


def test_a_template_in_the_platform_defaults_is_rejected(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: train", "--defaults", "d.yaml", files={"d.yaml": "template: finetune"})
    assert result.code == 1
    assert "d.yaml: template: " in result.err


def test_a_volume_name_that_differs_from_its_key_is_rejected(tmp_path: Path) -> None:
    result = preview(tmp_path, "function: train\nvolumes: {a: {name: b, volume_type: empty_dir, mount_path: /a}}")
    assert result.code == 1
    assert "request.yaml: volumes.a" in result.err


def test_the_exit_code_for_an_invalid_request_is_1(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train\nresources: {gpu: 0.5}"})
    result = execute(tmp_path, "preview", "request.yaml")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "1 violation\n"
        "  request.yaml: resources.gpu.devices: must be a whole number of GPUs, found 0.5\n"
        "    -> to request part of a GPU, use gpu: {devices: 1, memory: 50%}\n"
    )


def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train"})
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [*COMMAND, "preview", "request.yaml"], check=False, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert b"Traceback" not in process.stderr


def test_an_ascii_terminal_causes_no_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train\nenvs: {A: é}"})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        [*COMMAND, "preview", "request.yaml"], check=False, cwd=tmp_path, capture_output=True, env=environment
    )
    assert (process.returncode, process.stderr) == (0, b"")
