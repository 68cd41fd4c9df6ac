"""`fairlead fit`: without a server, on kubectl output, and with what-if changes."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.terminal import CommandResult, Terminal, run, write
from tests.docs.pages import ROOT

NODES = str(ROOT / "examples" / "nodes.json")
PLATFORM = str(ROOT / "examples" / "platform")
UNREACHABLE = {"FAIRLEAD_URL": "http://127.0.0.1:1", "FAIRLEAD_TOKEN": "fl_any"}


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is available."""
    monkeypatch.delenv("FAIRLEAD_PROJECT", raising=False)
    for name, value in UNREACHABLE.items():
        monkeypatch.setenv(name, value)


def fit(folder: Path, *args: str) -> CommandResult:
    return run(folder, "fit", "--nodes", NODES, *args)


def read(folder: Path, *args: str) -> Any:
    result = fit(folder, *args, "--json")
    assert result.err == ""
    return json.loads(result.out)


def test_a_fitting_request_is_shown_with_nodes_and_room(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "2")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "now: fits on 1 of 7 nodes (l4-2); room for 1 such run",
        "6 others do not: use --all-nodes to see why",
    ]


def test_a_waiting_request_is_shown_with_suitable_nodes(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "3")
    lines = result.out.splitlines()
    assert (result.code, result.err) == (1, "")
    assert lines[0].startswith("later: needs 3 GPUs on one node; at most 2 free on any of 3 suitable nodes")
    assert lines[1] == "of 7 nodes, 0 fit now, 4 later and 3 never"
    assert [line.split()[0] for line in lines[3:8]] == ["NODE", "a100-1", "a100-2", "l4-1", "l4-2"]
    assert lines[8:] == [
        "3 more nodes: use --all-nodes to see why",
        "",
        "Suggestions",
        "  1. request 2 GPUs instead of 3",
    ]


def test_the_exit_code_for_never_is_1(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "16")
    assert (result.code, result.out.splitlines()[0]) == (
        1,
        "never: needs 16 GPUs; the largest of 7 nodes has 8 (a100-1)",
    )


def test_every_node_is_listed_with_every_reason(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "2", "--cpu", "40", "--all-nodes")
    table = result.out.partition("\n\n")[2].partition("\n\n")[0]
    rows = [line.split()[0] for line in table.splitlines() if not line.startswith(" ")]
    assert rows[1:] == ["a100-1", "a100-2", "l4-1", "l4-2", "cp-1", "cpu-1", "cpu-2"]
    assert result.out.count("needs 40 CPU cores; ") == 5
    assert len(read(tmp_path, "--gpu", "2", "--all-nodes")["nodes"]) == 7


@pytest.mark.parametrize(
    ("args", "verdict"),
    [
        (("--gpu", "8"), "later"),
        (("--gpu", "8", "--add-nodes", "2xa100-1"), "now"),
        (("--gpu", "8", "--add-nodes", "gpu"), "now"),
        (("--gpu", "4", "--add-nodes", "NVIDIA-L4"), "now"),
        (("--gpu", "2", "--without", "l4-2"), "later"),
        (("--gpu", "2", "--without", "gpu"), "never"),
        (("--gpu", "2", "--without", "gpu", "--add-nodes", "l4-1"), "now"),
    ],
)
def test_nodes_can_be_added_and_removed(tmp_path: Path, args: tuple[str, ...], verdict: str) -> None:
    assert read(tmp_path, *args)["verdict"] == verdict


def test_what_if_changes_are_shown_first(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "8", "--add-nodes", "2xa100-1", "--without", "l4-2", "--without", "cpu-1")
    assert result.out.splitlines()[:3] == [
        "what if: 2 empty nodes like a100-1: a100-1+1 and a100-1+2",
        "what if: without 2 nodes: cpu-1 and l4-2; 7 pods there are not rescheduled",
        "now: fits on 2 of 7 nodes (a100-1+1 and a100-1+2); room for 2 such runs",
    ]


def test_unknown_nodes_are_rejected_with_the_nearest_names(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "1", "--add-nodes", "2xa100-3", "--without", "l4")
    assert (result.code, result.out) == (1, "")
    assert "add_nodes.0: no node, node group or GPU type is named 'a100-3'" in result.err
    assert "-> did you mean a100-2 or a100-1?" in result.err
    assert "without.0: no node, node group or GPU type is named 'l4'" in result.err


def test_request_files_are_those_of_preview(tmp_path: Path) -> None:
    request = str(ROOT / "examples" / "requests" / "train.yaml")
    result = fit(tmp_path, request, "--compute", PLATFORM, "--project", "forest")
    assert result.out.startswith("now: fits on 1 of 7 nodes (a100-2); room for 1 such run\n")
    result = fit(tmp_path, request, "--compute", PLATFORM, "--project", "forest", "--gpu", "9")
    assert "the compute resource" not in result.err, "overridden by the compute resource"


def test_options_override_the_file(tmp_path: Path) -> None:
    write(tmp_path, {"r.yaml": "resources: {gpu: 1, cpu: 2}", "more.yaml": "node_selector: {pool: cpu}"})
    assert read(tmp_path, "r.yaml")["verdict"] == "now"
    assert read(tmp_path, "r.yaml", "--gpu", "8")["verdict"] == "later"
    assert read(tmp_path, "r.yaml", "-f", "more.yaml")["verdict"] == "never"


def test_programs_are_given_as_for_run(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "def main(): ..."})
    assert read(tmp_path, "train.py:main", "--gpu", "1", "-i", "n=3", "-e", "A=b")["verdict"] == "now"
    assert fit(tmp_path, "train.py", "--gpu", "1", "--", "--lr", "7").code == 0
    assert read(tmp_path, "train", "--image", "hub.example.org/train:1")["verdict"] == "now"
    assert "trian.py does not exist" in fit(tmp_path, "trian.py").err


def test_the_action_is_an_option(tmp_path: Path) -> None:
    args = ("--profile", "half-gpu", "--compute", PLATFORM, "--project", "forest")
    assert "allows workspace, inference; action job is of type training" in fit(tmp_path, *args).err
    assert read(tmp_path, *args, "--action", "workspace")["verdict"] == "now"


def test_a_request_that_violates_rules_is_rejected(tmp_path: Path) -> None:
    result = fit(tmp_path, "--gpu", "9", "--policy", PLATFORM, "--project", "forest")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("1 violation\n  resources.gpu.devices: 9 requested; the department/vision policy")
    assert "add the folder that defines it: --compute DIR" in fit(tmp_path, "--profile", "big").err
    write(tmp_path, {"r.yaml": "resources: {gpus: 1}"})
    assert "r.yaml: resources.gpus: unknown field" in fit(tmp_path, "r.yaml").err


def test_an_autoscaled_cluster_never_has_the_verdict_never(tmp_path: Path) -> None:
    write(tmp_path, {"cluster.yaml": "{kind: Cluster, name: main, autoscaled: true}"})
    assert read(tmp_path, "--gpu", "16", "--compute", "cluster.yaml")["verdict"] == "later"


def test_the_gpu_resource_is_detected_from_the_nodes(tmp_path: Path) -> None:
    write(tmp_path, {"amd.json": Path(NODES).read_text("utf-8").replace("nvidia.com/gpu", "amd.com/gpu")})
    assert run(tmp_path, "fit", "--nodes", "amd.json", "--gpu", "2").code == 0


def test_without_a_request_all_compute_resources_are_checked(tmp_path: Path) -> None:
    result = fit(tmp_path, "--compute", PLATFORM, "--project", "forest", "--without", "a100-2")
    assert (result.code, result.err) == (0, "")
    rows = [line.split()[:2] for line in result.out.splitlines()[2:]]
    assert rows == [["1xa100", "later"], ["cpu-small", "now"], ["half-gpu", "now"]]
    resources = read(tmp_path, "--compute", PLATFORM, "--project", "forest")["compute_resources"]
    assert [(resource["name"], resource["verdict"]) for resource in resources[:2]] == [
        ("1xa100", "now"),
        ("cpu-small", "now"),
    ]
    assert "specify --gpu 1" in fit(tmp_path).err


def test_pending_pods_of_the_file_are_scheduled_one_by_one(tmp_path: Path) -> None:
    result = fit(tmp_path, "--pending")
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines()[0] == "0 of 3 pending pods would be scheduled now"
    assert "remove one of them" in fit(tmp_path, "--pending", "--gpu", "1").err
    pods = read(tmp_path, "--pending", "--add-nodes", "2xa100-1")["pods"]
    assert [(pod["pod"], pod["verdict"], pod["node"]) for pod in pods] == [
        ("forest/pretrain-9a02", "now", "a100-1+1"),
        ("lake/asr-train-81d7", "now", "a100-1+2"),
        ("meadow/map-tiles-4410", "never", None),
    ]
    assert pods[2]["reasons"] == ["needs 40 CPU cores; the largest of 2 matching nodes has 32 (cpu-1)"]


def test_the_exit_code_without_pending_pods_is_0(tmp_path: Path) -> None:
    items = json.loads(Path(NODES).read_text("utf-8"))["items"]
    placed = [item for item in items if item["kind"] == "Node" or "nodeName" in item["spec"]]
    write(tmp_path, {"placed.json": json.dumps({"kind": "List", "items": placed})})
    result = run(tmp_path, "fit", "--nodes", "placed.json", "--pending")
    assert (result.code, result.out) == (0, "0 of no pending pods would be scheduled now\n")


def test_nodes_and_pods_may_be_in_several_files_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = json.loads(Path(NODES).read_text("utf-8"))["items"]
    parts = {kind: json.dumps([item for item in items if item["kind"] == kind]) for kind in ("Node", "Pod")}
    write(tmp_path, {"nodes.json": parts["Node"]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(parts["Pod"].encode())))
    result = run(tmp_path, "fit", "--gpu", "3", "--nodes", "nodes.json", "--nodes", "-")
    assert result == fit(tmp_path, "--gpu", "3")


def test_missing_pods_are_a_warning(tmp_path: Path) -> None:
    items = json.loads(Path(NODES).read_text("utf-8"))["items"]
    write(tmp_path, {"nodes.json": json.dumps([item for item in items if item["kind"] == "Node"])})
    result = run(tmp_path, "fit", "--gpu", "8", "--nodes", "nodes.json")
    assert result.code == 0
    assert "nodes.json: has no pods: every node counts as empty\n    -> include pods: kubectl get" in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [("hello", "is not the output of kubectl"), ("{", "is not valid JSON"), ("", "is empty"), (None, "cannot be read")],
)
def test_files_that_are_not_output_of_kubectl_are_rejected(tmp_path: Path, text: str | None, message: str) -> None:
    write(tmp_path, {} if text is None else {"nodes.json": text})
    result = run(tmp_path, "fit", "--gpu", "1", "--nodes", "nodes.json")
    assert (result.code, result.out) == (1, "")
    assert f"nodes.json: {message}" in result.err


@pytest.mark.parametrize("args", [("--pending",), ("--compute", "x"), ("--policy", "x", "--gpu", "1")])
def test_file_options_require_nodes(tmp_path: Path, args: tuple[str, ...]) -> None:
    result = run(tmp_path, "fit", *args)
    assert (result.code, result.out) == (1, "")
    assert "add --nodes FILE" in result.err


def test_no_server_and_no_network_is_needed(tmp_path: Path) -> None:
    check = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "import fairlead.cli\n"
        f"assert fairlead.cli.run(['fit', '--gpu', '2', '--nodes', {NODES!r}]) == 0\n"
        "loaded = {'fastapi', 'sqlalchemy', 'msgspec', 'fairlead.services', 'fairlead.server', 'fairlead.app'}\n"
        "sys.exit(str(loaded & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", check], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.stderr.strip() == "set()"


def test_a_server_uses_its_own_nodes(terminal: Terminal, tmp_path: Path) -> None:
    report = terminal.read("fit", "--cpu", "100m", "--mem", "64Mi")
    (node,) = report["nodes"]
    assert (report["verdict"], node["fits"], report["violations"]) == ("now", True, [])
    assert terminal.succeed("fit", "--cpu", "100m", "--mem", "64Mi").startswith("now: fits on 1 of 1 node")
    assert terminal("fit", "--cpu", "100000").out.startswith("never: needs 100000 CPU cores; ")
    what_if = terminal("fit", "--cpu", "1", "--mem", "1Mi", "--add-nodes", f"3x{node['name']}", "--all-nodes")
    assert (what_if.code, what_if.out.splitlines()[0].partition(":")[0]) == (0, "what if")
    assert "did you mean" in terminal.fail("fit", "--cpu", "1", "--without", f"{node['name']}x")
    write(tmp_path, {"r.yaml": "resources: {cpu: 100m}", "train.py": ""})
    assert terminal("fit", "r.yaml").code == terminal("fit", "train.py", "--mem", "1Mi").code == 0


def test_a_server_requires_a_request_and_a_valid_project(terminal: Terminal) -> None:
    assert "specify --gpu 1, --profile NAME" in terminal.fail("fit")
    assert "did you mean default?" in terminal.fail("fit", "--cpu", "1", "--project", "defualt")
    assert "run_as_user" not in terminal.fail("fit", "--profile", "nothing-of-this-name")
