"""`fairlead nodes` and fits in `fairlead compute ls`: with a real server, and with larger clusters."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import fairlead
from fairlead.cli import nodes as command
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.errors import NotFound
from fairlead.model.nodes import PROTECTION_NAMES, Node, NodeTable
from fairlead.model.quantities import NANOS
from fairlead.model.scopes import Cluster, Project
from fairlead.sdk import projects
from fairlead.sdk.api_client import ApiClient
from fairlead.services import registry
from tests.cli.terminal import CommandResult, Terminal, run
from tests.contracts.executors import MemoryExecutor
from tests.contracts.memory import MemoryStore
from tests.scheduling.nodes import make_node, make_scheduled_pod
from tests.services.worlds import World, initialize_world

NVIDIA, AMD, GROUP = "nvidia.com/gpu.product", "amd.com/gpu.product-name", "karpenter.sh/nodepool"
A100 = {NVIDIA: "A100", GROUP: "train"}
MIG = "nvidia.com/mig-1g.5gb"


class ManyNodesExecutor(MemoryExecutor):
    """An executor with several nodes."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__()
        self.node_table = NodeTable(nodes)

    def nodes(self) -> NodeTable:
        """All nodes."""
        return self.node_table.copy()


class FakeClient:
    """An API client that calls a world's services directly."""

    def __init__(self, world: World) -> None:
        self.world = world

    def get(self, path: str, **parameters: str) -> Any:
        """GET an API path."""
        services = self.world.services
        show: dict[str, Callable[..., Any]] = {
            "/nodes": services.executions.nodes,
            "/capacity": services.capacity.show,
        }
        return json.loads(msgspec.json.encode(show[path](self.world.root, **parameters)))


def make_fake_server(monkeypatch: pytest.MonkeyPatch, *nodes: Node, **fields: Any) -> World:
    """A world with a cluster of these nodes. The CLI uses it from now on."""
    tree = (Cluster(name="main", **fields), Project(name="forest", parent="cluster/main"))
    executor = ManyNodesExecutor()
    execution = registry.ExecutionOptions(ExecutorRegistry({"kubernetes": executor}))
    world = initialize_world(MemoryStore(), monkeypatch, execution=execution, tree=tree)
    forest = world.services.scopes.get(world.root, "project/forest").id
    executor.node_table = NodeTable(
        replace(node, pods=tuple(replace(pod, project_id=forest) if pod.name else pod for pod in node.pods))
        for node in nodes
    )
    monkeypatch.setattr(command, "connect_to_server", lambda: FakeClient(world))
    return world


def make_world_without_clusters(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a project and no clusters. The CLI uses it from now on."""
    world = initialize_world(MemoryStore(), monkeypatch, tree=())
    world.remove_cluster()
    world.services.scopes.create(world.root, Project(name="lost"))
    monkeypatch.setattr(command, "connect_to_server", lambda: FakeClient(world))
    return world


def lines_of(result: CommandResult) -> list[str]:
    """The lines that a command printed."""
    assert (result.code, result.err) == (0, "")
    return result.out.splitlines()


def with_mig(node: Node) -> Node:
    return replace(node, capacity={**node.capacity, MIG: 7 * NANOS})


def test_nodes_are_listed_with_free_resources_and_runs(terminal: Terminal) -> None:
    lines = terminal.succeed("nodes", "ls").splitlines()
    assert [heading for heading in lines[0].split() if heading not in ("GPU", "TYPE")] == [
        "NAME",
        "CPU",
        "MEM",
        "DISK",
        "RUNS",
    ]
    assert len(lines) == 2
    (node,) = terminal.read("nodes", "ls")
    assert (node["cluster"], node["runs"], node["taints"]) == ("local", [], [])
    assert terminal.read("nodes", "ls", "--cluster", "local") == [node]
    assert terminal.fail("nodes", "ls", "--cluster", "none") == "error: cluster/none does not exist\n"


def test_node_is_shown_with_how_it_limits_and_isolates_runs(terminal: Terminal) -> None:
    (node,) = terminal.read("nodes", "ls")
    output = terminal.succeed("nodes", "show", node["name"])
    assert output.startswith(f"name: {node['name']}\n")
    table = output[output.index("PROTECTION") :].splitlines()
    assert [line.split()[0] for line in table[1:]] == list(PROTECTION_NAMES)
    assert terminal.read("nodes", "show", node["name"]) == node
    error = terminal.fail("nodes", "show", node["name"] + "x")
    assert error.startswith(f"error: node '{node['name']}x' does not exist\n")
    assert node["name"] in error.splitlines()[1]


def test_capacity_is_shown_per_cluster_with_fitting_compute_resources(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "fitting", "--cpu", "1m")
    terminal.succeed("compute", "create", "never-fitting", "--cpu", "9000")
    output = terminal.succeed("nodes", "capacity", "--cluster", "local")
    assert output.startswith("cluster local: 1 node\nNODES ")
    assert "COMPUTE RESOURCE" in output
    (entry,) = terminal.read("nodes", "capacity", "--project", "default")
    assert entry["total"]["nodes"] == 1
    fits = {resource["name"]: resource["fits_now"] for resource in entry["compute_resources"]}
    assert fits["fitting"] > 0 == fits["never-fitting"]


def test_compute_resources_are_listed_with_the_number_that_fits_now(terminal: Terminal) -> None:
    terminal.succeed("compute", "create", "counted", "--cpu", "9000")
    terminal.succeed("projects", "create", "elsewhere", "--in", "cluster/local")
    terminal.succeed("compute", "create", "counted-elsewhere", "--cpu", "9000", "--scope", "project/elsewhere")
    command_line = ("compute", "ls", "--filter", "name=counted")
    assert [line.split()[3:5] for line in terminal.succeed(*command_line).splitlines()[1:]] == [["-", "-"], ["-", "-"]]
    assert {item["name"]: item["fits_now"] for item in terminal.read(*command_line)} == {
        "counted": 0,
        "counted-elsewhere": None,
    }
    for scope in (("--project", "elsewhere"), ("--cluster", "local")):
        assert [item["fits_now"] for item in terminal.read(*command_line, *scope)] == [0, 0]
    assert terminal.fail(*command_line, "--project", "none") == "error: project/none does not exist\n"


def test_the_sdk_returns_the_same_capacity(terminal: Terminal) -> None:
    (entry,) = terminal.read("nodes", "capacity", "--project", "default")
    assert fairlead.project("default").capacity() == entry


def test_the_sdk_reports_a_project_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world_without_clusters(monkeypatch)
    with pytest.raises(NotFound, match="project lost is not in a cluster"):
        projects.Project(cast(ApiClient, FakeClient(world)), "lost").capacity()


def test_groups_gpu_types_and_taints_are_shown_if_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fake_server(
        monkeypatch,
        make_node(
            make_scheduled_pod("train-a", gpu=1),
            make_scheduled_pod(None),
            name="a",
            labels=A100,
            taints=["team=x:NoSchedule"],
        ),
        make_node(name="b", gpu=0, cordoned=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
    )
    assert lines_of(run(tmp_path, "nodes", "ls")) == [
        "NAME  GROUP  GPU TYPE  CPU     MEM           DISK            GPU     RUNS           TAINTS",
        "a     train  A100      8 of 8  32Gi of 32Gi  100Gi of 100Gi  1 of 2  1 and 1 other  team=x:NoSchedule",
        "b     -      -         8 of 8  32Gi of 32Gi  100Gi of 100Gi  -       0              cordoned",
    ]


def test_gpus_of_two_vendors_and_slices_have_separate_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(make_node(name="b"), capacity={"cpu": 8 * NANOS, "amd.com/gpu": 4 * NANOS})
    make_fake_server(monkeypatch, with_mig(make_node(name="a")), other)
    lines = [line.split("  ") for line in lines_of(run(tmp_path, "nodes", "ls"))]
    assert [cell.strip() for cell in lines[0] if cell.strip()][5:] == ["nvidia.com/gpu", MIG, "amd.com/gpu", "RUNS"]
    assert [cell.strip() for cell in lines[2] if cell.strip()][5:] == ["-", "-", "4 of 4", "0"]


def test_a_single_gpu_vendor_has_the_column_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capacity = {"cpu": 8 * NANOS, "amd.com/gpu": 4 * NANOS}
    make_fake_server(monkeypatch, replace(make_node(name="b", labels={AMD: "MI300X"}), capacity=capacity))
    assert lines_of(run(tmp_path, "nodes", "ls")) == [
        "NAME  GPU TYPE  CPU     MEM  DISK  GPU     RUNS",
        "b     MI300X    8 of 8  -    -     4 of 4  0",
    ]


def test_capacity_is_shown_in_total_by_group_and_by_gpu_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_fake_server(
        monkeypatch,
        make_node(make_scheduled_pod(gpu=1, cpu=2), name="a", labels=A100),
        make_node(name="b", labels=A100, cordoned=True),
        make_node(name="c", gpu=0),
        autoscaled=True,
    )
    world.add_compute_resource("gpu", resources={"gpu": 1})
    world.add_compute_resource("gpus", resources={"gpu": 4}, scope="project/forest")
    world.add_compute_resource("tiny", resources={"cpu": "1m"})
    assert lines_of(run(tmp_path, "nodes", "capacity", "--project", "forest")) == [
        "cluster main: 3 nodes, 1 unavailable, autoscaled",
        "NODES        COUNT  UNAVAILABLE  RESOURCE  FREE            LARGEST FREE",
        "all          3      1            CPU       22 of 24        8 on c",
        "all          3      1            MEM       96Gi of 96Gi    32Gi on a",
        "all          3      1            DISK      300Gi of 300Gi  100Gi on a",
        "all          3      1            GPU       3 of 4          1 on a",
        "all          3      1            PODS      47 of 48        16 on c",
        "no group     1      0            CPU       8 of 8          8 on c",
        "no group     1      0            MEM       32Gi of 32Gi    32Gi on c",
        "group train  2      1            CPU       14 of 16        6 on a",
        "group train  2      1            MEM       64Gi of 64Gi    32Gi on a",
        "group train  2      1            GPU       3 of 4          1 on a",
        "GPU A100     2      1            CPU       14 of 16        6 on a",
        "GPU A100     2      1            MEM       64Gi of 64Gi    32Gi on a",
        "GPU A100     2      1            GPU       3 of 4          1 on a",
        "",
        "COMPUTE RESOURCE  SCOPE           FITS NOW  WHY",
        "gpu               platform        1         -",
        "gpus              project/forest  0         needs 4 GPUs; the largest of 3 nodes has 2 (a)",
        "tiny              platform        31        -",
    ]


def test_a_cluster_without_an_executor_shows_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fake_server(monkeypatch, make_node(name="a", gpu=0))
    lines = lines_of(run(tmp_path, "nodes", "capacity"))
    assert lines[0] == "cluster local: no server executes the runs of cluster/local yet"
    assert lines[1:4] == ["", "cluster main: 1 node", "NODES  COUNT  RESOURCE  FREE            LARGEST FREE"]
    assert lines[-1].startswith("all    1      PODS ")


def test_missing_clusters_are_reported_on_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_world_without_clusters(monkeypatch)
    assert run(tmp_path, "nodes", "capacity", "--project", "lost") == CommandResult(0, "", "no clusters\n")
    assert run(tmp_path, "nodes", "capacity", "--project", "lost", "--json") == CommandResult(0, "[]\n", "")
    assert run(tmp_path, "nodes", "ls") == CommandResult(0, "", "no nodes\n")


def test_incomplete_counts_are_marked() -> None:
    assert command.show_fits({"fits_now": 1000, "more": True}) == "1000+"
    assert command.show_fits({"fits_now": 3, "more": False}) == "3"
    assert command.show_fits({"fits_now": None, "more": False}) is None
