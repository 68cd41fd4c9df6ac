"""Files that are huge, endless, binary or no files at all: one clear line, quickly, and never a traceback."""

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


def execute(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run the installed command as a process of its own."""
    return subprocess.run([*COMMAND, *words], check=False, cwd=folder, capture_output=True, text=True, timeout=30)


def laughs() -> str:
    """Ten lines that stand for ten thousand million values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "said"),
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
        (laughs().encode(), "has more than 100,000 values"),
        (b"inputs: {x: [" + b"1," * 150_000 + b"]}", "has more than 100,000 values"),
        (b"inputs: " + b"[" * 1000 + b"]" * 1000, "is nested more than 100 deep"),
        (b"inputs: " + b"{a: " * 1000 + b"1" + b"}" * 1000, "is nested more than 100 deep"),
        (b"inputs: &a [*a]", "is nested more than 100 deep"),
        (b"inputs: {a: " + b"9" * 5000 + b"}", "request.yaml: "),
    ],
)
def test_a_file_that_is_no_request_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "request.yaml").write_bytes(content)
    started = time.process_time()
    answer = run(tmp_path, "preview", "request.yaml")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("1 violation\n  request.yaml: ")
    assert said in answer.err
    assert "\x1b" not in answer.err
    assert time.process_time() - started < 5


def test_a_file_nested_a_hundred_thousand_deep_is_refused_and_the_process_survives(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "inputs: " + "[" * 100_000 + "]" * 100_000})
    answer = execute(tmp_path, "preview", "request.yaml")
    assert answer.returncode == 1, f"ended by signal {-answer.returncode}"
    assert "is nested more than 100 deep" in answer.stderr


def test_a_file_of_fifty_megabytes_is_refused_quickly_and_in_little_memory(tmp_path: Path) -> None:
    (tmp_path / "request.yaml").write_bytes(b"function: train\nargs: " + b"x" * 50_000_000)
    tracemalloc.start()
    started = time.process_time()
    answer = run(tmp_path, "preview", "request.yaml")
    seconds, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.code, seconds < 2, peak < 20 * 2**20) == (1, True, True), f"{seconds} s, {peak} bytes"
    assert answer.err.startswith("1 violation\n  request.yaml: is larger than 1,048,576 bytes\n    -> ")


def test_a_request_that_is_not_there_is_named(tmp_path: Path) -> None:
    answer = run(tmp_path, "preview", "nowhere.yaml")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("1 violation\n  nowhere.yaml: cannot be read: no such file or directory\n    -> ")


def test_a_folder_is_no_request(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    answer = run(tmp_path, "preview", "folder")
    assert answer.code == 1
    assert answer.err.startswith("1 violation\n  folder: cannot be read: is a directory\n    -> ")


@pytest.mark.parametrize("option", ["--compute", "--templates", "--policy", "--defaults"])
def test_a_path_that_no_file_system_takes_is_refused_without_a_traceback(tmp_path: Path, option: str) -> None:
    answer = preview(tmp_path, "function: train", option, "x" * 5000)
    assert answer.code == 1
    assert "cannot be read: file name too long" in answer.err


@pytest.mark.parametrize("source", ["x" * 5000, "a\\0b"])
def test_a_source_that_no_file_system_takes_is_refused_without_a_traceback(tmp_path: Path, source: str) -> None:
    answer = preview(tmp_path, f'function: {{name: train, source: "{source}"}}')
    assert "function.source: " in answer.out + answer.err


@pytest.mark.parametrize("kind", ["[a]", "{a: 1}", "5", "true"])
def test_a_kind_that_is_no_text_is_refused_without_a_traceback(tmp_path: Path, kind: str) -> None:
    answer = preview(tmp_path, "function: train", "--compute", "c.yaml", files={"c.yaml": f"kind: {kind}\nname: a"})
    assert answer.code == 1
    assert answer.err.startswith("1 violation\n  c.yaml: kind: ")


@pytest.mark.parametrize(
    "value",
    ["!!binary aGVsbG8=", "!!set {x, y}", "!!timestamp 2026-01-01", "!!float .nan", "[!!float .inf]", "1.0e400"],
)
def test_inputs_that_json_cannot_hold_are_refused_at_their_place(tmp_path: Path, value: str) -> None:
    answer = preview(tmp_path, f"function: train\ninputs: {{model: {{depth: {value}}}}}")
    assert answer.code == 1
    assert answer.err.startswith("1 violation\n  request.yaml: inputs.model.depth")
    assert "-> " in answer.err


@pytest.mark.parametrize("key", ["1", "true", "null", "1.5"])
def test_keys_of_inputs_are_text_however_deep(tmp_path: Path, key: str) -> None:
    answer = preview(tmp_path, f"function: train\ninputs: {{model: [{{{key}: x}}]}}")
    assert answer.code == 1
    assert "request.yaml: inputs.model.0" in answer.err


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
def test_a_name_of_300_characters_is_refused_and_shown_short(tmp_path: Path, request_text: str, path: str) -> None:
    answer = preview(tmp_path, request_text)
    problem, hint = answer.err.splitlines()[1:]
    assert answer.code == 1
    assert problem.startswith(f"  request.yaml: {path}")
    assert "has 300 characters, at most " in problem
    assert "302" not in problem, "the quotes are not part of the name"
    assert len(problem) < 300, "a path is shown as short as a value"
    assert hint.startswith("    -> use ")


def test_a_project_of_300_characters_is_refused_and_shown_short(tmp_path: Path) -> None:
    answer = preview(tmp_path, "function: train", "--project", "p" * 300)
    assert answer.code == 1
    assert "project: has 300 characters, at most 128 are allowed" in answer.err
    assert len(answer.err.splitlines()[1]) < 300


def test_a_compute_resource_of_300_characters_is_refused_and_shown_short(tmp_path: Path) -> None:
    answer = preview(tmp_path, "function: train", "--compute", "c.yaml", files={"c.yaml": f"name: {'a' * 300}"})
    assert answer.code == 1
    assert "c.yaml: name: has 300 characters, at most 63 are allowed" in answer.err
    assert len(answer.err.splitlines()[1]) < 300


def test_what_a_file_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    request = 'function: train\nenvs: {A: "\\e[31mred\\nplain"}\n"\\e[2J": 1\n"a\\nb": 2\nsecrets: ["\\e[2J"]'
    refused = preview(tmp_path, request)
    planned = preview(tmp_path, 'function: train\nenvs: {A: "\\e[31mred\\nplain"}')
    assert "\x1b" not in refused.err + planned.out
    assert len(refused.err.splitlines()) == 7, "a line break in a name does not break the line"
    assert not [line for line in planned.out.splitlines() if line.startswith("plain")]


def test_an_env_that_no_process_can_hold_is_refused(tmp_path: Path) -> None:
    answer = preview(tmp_path, 'function: train\nenvs: {A: "a\\0b"}')
    assert answer.code == 1
    assert "request.yaml: envs.A: " in answer.err


def test_words_that_older_yaml_takes_for_something_else_stay_text(tmp_path: Path) -> None:
    odd = ["yes", "NO", "off", "1:30", "010", "2026-01-01", "0x1f", "0o17", "1_000", ".inf", ".nan", "=", "y"]
    request = "function: train\nenvs:\n" + "\n".join(f"  V{n}: {word}" for n, word in enumerate(odd))
    plan = json.loads(preview(tmp_path, request, "-o", "json").out)
    values = {setting["path"]: setting["value"] for setting in plan["settings"]}
    assert [values[f"envs.V{n}"] for n in range(len(odd))] == odd


def test_what_yaml_offers_for_saying_things_once_works(tmp_path: Path) -> None:
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
def test_a_field_without_a_value_says_nothing(tmp_path: Path, field: str) -> None:
    answer = preview(tmp_path, f"function: train\n{field}:\n")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("name", ["cpu", "mem", "disk", "gpu", "shm", "extended"])
def test_a_resource_without_a_value_says_nothing(tmp_path: Path, name: str) -> None:
    answer = preview(tmp_path, f"function: train\nresources: {{{name}: }}\n")
    assert (answer.code, answer.err) == (0, "")


def test_a_template_in_the_platforms_defaults_is_refused_not_ignored(tmp_path: Path) -> None:
    answer = preview(tmp_path, "function: train", "--defaults", "d.yaml", files={"d.yaml": "template: finetune"})
    assert answer.code == 1
    assert "d.yaml: template: " in answer.err


def test_a_name_inside_a_volume_that_differs_from_its_key_is_refused_not_ignored(tmp_path: Path) -> None:
    answer = preview(tmp_path, "function: train\nvolumes: {a: {name: b, volume_type: empty_dir, mount_path: /a}}")
    assert answer.code == 1
    assert "request.yaml: volumes.a" in answer.err


def test_bad_requests_end_a_real_process_with_1_and_without_a_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train\nresources: {gpu: 0.5}"})
    answer = execute(tmp_path, "preview", "request.yaml")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "1 violation\n"
        "  request.yaml: resources.gpu.devices: GPUs are whole devices, found 0.5\n"
        "    -> for a share of one GPU's memory write gpu: {devices: 1, memory: 50%}\n"
    )


def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train"})
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*COMMAND, "preview", "request.yaml"], check=False, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert b"Traceback" not in ended.stderr


def test_a_terminal_that_knows_only_ascii_is_no_reason_for_a_traceback(tmp_path: Path) -> None:
    write(tmp_path, {"request.yaml": "function: train\nenvs: {A: é}"})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [*COMMAND, "preview", "request.yaml"], check=False, cwd=tmp_path, capture_output=True, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
