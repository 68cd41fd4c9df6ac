"""Cgroups on recorded trees: where groups are created, which limits they get, and what is measured."""

from pathlib import Path

import pytest

from fairlead.adapters.local.cgroups import Cgroup, Hierarchies, Hierarchy, create_cgroup, find_hierarchies
from fairlead.adapters.local.machines import find_protections
from fairlead.adapters.local.specs import Spec, UserMapping
from tests.adapters.local.cgroup_tree import CgroupTree

V2 = ("memory", "cpu", "pids", "cpuset")
SERVICE = "0::/system.slice/fairlead.service\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CgroupTree:
    return CgroupTree(tmp_path / "cgroup", monkeypatch)


def make_spec(**fields: object) -> Spec:
    return Spec("r1", "p", "train", "b", ["x"], {}, "/", "/", UserMapping(0, 0), **fields)  # type: ignore[arg-type]


def make_group(tree: CgroupTree, **fields: object) -> Cgroup:
    """A run's group below the root of the tree."""
    hierarchies = find_hierarchies(str(tree.root), "0::/\n")
    spec = make_spec(cgroup=hierarchies.folders_of(tree.root.parent / "runs" / "r1"), **fields)
    create_cgroup(spec)
    return Cgroup(spec.cgroup)


def read(group: Cgroup, name: str) -> str:
    (folder,) = group.unique
    return Path(folder, name).read_text().strip()


def test_root_creates_groups_next_to_its_own_and_enables_controllers_above(tree: CgroupTree) -> None:
    tree.add("system.slice", subtree_control="memory pids")
    tree.add("system.slice/fairlead.service", procs="7\n")
    hierarchies = find_hierarchies(str(tree.root), SERVICE)
    assert hierarchies == Hierarchies((Hierarchy(2, f"{tree.root}/system.slice", V2),), "", limits_swap=True)
    assert (tree.root / "system.slice/fairlead.service/cgroup.procs").read_text() == "7\n"
    assert sorted(path.name for path in tree.root.glob("system.slice/*/")) == ["fairlead.service"]


def test_user_with_delegation_moves_to_a_leaf_and_creates_groups_in_its_own(tree: CgroupTree) -> None:
    """The kernel does not enable controllers for the groups in a group that has processes of its own."""
    (tree.root / "cgroup.subtree_control").write_text("cpu memory pids")
    tree.add("system.slice", subtree_control="cpu memory pids")
    own = tree.add("system.slice/fairlead.service", procs="7\n8\n")
    tree.refused = "system.slice"
    hierarchies = find_hierarchies(str(tree.root), SERVICE)
    assert hierarchies.found == (Hierarchy(2, str(own), ("memory", "cpu", "pids")),)
    assert hierarchies.error == "this machine has no cgroup controller for cpuset"
    assert (own / "cgroup.procs").read_text() == ""
    assert (own / "fairlead-server/cgroup.procs").read_text() == "7\n8\n"


def test_processes_of_other_groups_are_not_moved(tree: CgroupTree) -> None:
    """A group above the server's own may have processes, for example in a login session."""
    session = tree.add("session", procs="5\n")
    own = tree.add("session/own", procs="7\n")
    assert find_hierarchies(str(tree.root), "0::/session/own\n").found == ()
    assert ((session / "cgroup.procs").read_text(), (own / "cgroup.procs").read_text()) == ("5\n", "7\n")


def test_restarted_server_in_its_leaf_finds_the_same_folder(tree: CgroupTree) -> None:
    (tree.root / "cgroup.subtree_control").write_text("cpuset cpu memory pids")
    own = tree.add("own", subtree_control="cpuset cpu memory pids")
    tree.add("own/fairlead-server", procs="9\n")
    tree.refused = "."
    assert find_hierarchies(str(tree.root), "0::/own/fairlead-server\n").found == (Hierarchy(2, str(own), V2),)


def test_nothing_is_found_without_permission(tree: CgroupTree) -> None:
    tree.add("own", procs="9\n")
    tree.refused = "own"
    (tree.root / "cgroup.subtree_control").write_text("")
    (tree.root / "cgroup.controllers").write_text("")
    hierarchies = find_hierarchies(str(tree.root), "0::/own\n")
    assert hierarchies.found == ()
    assert hierarchies.error.startswith("this machine has no cgroup controller for ")
    (tree.root / "own/cgroup.controllers").write_text("memory")
    assert find_hierarchies(str(tree.root), "0::/own\n").error == (
        f"cannot enable memory in {tree.root}/own: permission denied"
    )


def test_path_of_the_machine_in_a_container_is_the_mounted_folder(tree: CgroupTree) -> None:
    found = find_hierarchies(str(tree.root), "0::/docker/4f2a\n").found
    assert found == (Hierarchy(2, str(tree.root), V2),)


def test_limits_are_written(tree: CgroupTree) -> None:
    group = make_group(tree, memory=64 << 20, cpu=500, cpus=[0, 2], max_processes=99)
    values = {name: read(group, name) for name in ("memory.max", "memory.swap.max", "memory.oom.group")}
    assert values == {"memory.max": str(64 << 20), "memory.swap.max": "0", "memory.oom.group": "1"}
    assert [read(group, name) for name in ("cpu.max", "cpuset.cpus", "pids.max")] == ["50000 100000", "0,2", "99"]


def test_only_runs_with_a_cpu_limit_have_a_cpu_group() -> None:
    """A cpu group delays the start of a run on a busy machine."""
    hierarchies = Hierarchies((Hierarchy(1, "/cpu", ("cpu",)), Hierarchy(1, "/pids", ("pids",))))
    assert set(hierarchies.folders_of(Path("/data/runs/r1"))) == {"cpu", "pids"}
    assert set(hierarchies.folders_of(Path("/data/runs/r1"), limits_cpu=False)) == {"pids"}


def test_run_without_limits_is_limited_only_in_processes(tree: CgroupTree) -> None:
    group = make_group(tree, serves=True)
    names = ("memory.max", "memory.swap.max", "cpu.max", "cpuset.cpus", "pids.max", "memory.oom.group")
    # A served run is restarted by its init process, which the kernel must not kill with it.
    assert [read(group, name) for name in names] == ["max", "max", "max 100000", "", "4096", "0"]


def test_usage_is_read_from_the_group(tree: CgroupTree) -> None:
    group = make_group(tree)
    folder = Path(group.unique[0])
    (folder / "memory.current").write_text("5000\n")
    (folder / "memory.stat").write_text("anon 3000\nfile 2000\ninactive_file 1500\n")
    (folder / "memory.peak").write_text("9000\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 2000000\n")
    assert group.read_usage() == {"mem": 3500, "cpu_seconds": 2.5}
    assert group.read_peaks() == {"mem": 9000, "cpu_seconds": 2.5}


@pytest.mark.parametrize(("ooms", "exceeded"), [(1, True), (0, False)], ids=["own limit", "machine"])
def test_killed_processes_are_counted_since_the_last_start(tree: CgroupTree, ooms: int, *, exceeded: bool) -> None:
    group = make_group(tree)
    events = Path(group.unique[0], "memory.events")
    assert not group.has_oom()
    events.write_text(f"low 0\nmax 5\noom {ooms}\noom_kill 1\n")
    assert group.has_oom()
    assert group.has_exceeded(1) == exceeded
    group.reset_ooms()
    assert not group.has_oom()


def test_group_can_be_used_again_after_an_interrupted_start_and_removed_twice(tree: CgroupTree) -> None:
    group = make_group(tree)
    make_group(tree, max_processes=7)
    assert read(group, "pids.max") == "7"
    hierarchies = find_hierarchies(str(tree.root), "0::/\n")
    runs = tree.root.parent / "runs"
    assert hierarchies.list_runs(runs) == [runs / "r1"]
    group.remove()
    group.remove()
    assert hierarchies.list_runs(runs) == []


def test_all_processes_are_killed_by_the_kernel(tree: CgroupTree) -> None:
    group = make_group(tree)
    group.kill()
    assert (read(group, "cgroup.kill"), read(group, "pids.max")) == ("1", "0")


def test_groups_of_another_data_folder_are_not_listed(tree: CgroupTree) -> None:
    make_group(tree)
    assert find_hierarchies(str(tree.root), "0::/\n").list_runs(tree.root.parent / "others") == []


def test_table_of_protections_names_the_mechanism_and_the_gap() -> None:
    def find(hierarchies: Hierarchies, isolation_error: str | None, *, is_root: bool) -> dict[str, tuple[str, str]]:
        rows = find_protections(isolation_error, hierarchies, is_root=is_root)
        names = ("memory", "swap", "cpu", "process_count")
        return {name: (rows[name].mechanism, rows[name].gap) for name in names}  # type: ignore[index]

    complete = Hierarchies((Hierarchy(2, "/", V2),), "", limits_swap=True)
    assert set(find(complete, None, is_root=False).values()) == {("cgroup v2", "")}
    assert set(find(complete, "no namespaces", is_root=True).values()) == {("cgroup v2", "")}
    changed = ("cgroup v2", "a run can change its own limits")
    assert set(find(complete, "no namespaces", is_root=False).values()) == {changed}
    partial = find(Hierarchies((Hierarchy(1, "/", ("cpu",)),), "why"), None, is_root=True)
    assert partial["cpu"] == ("cgroup v1", "a run can change its CPU affinity (why)")
    assert (partial["memory"][0], partial["swap"][0], partial["process_count"]) == ("polling", "", ("RLIMIT_NPROC", ""))
    without = find(Hierarchies((), "why"), None, is_root=False)
    assert without["process_count"] == ("", "why")
    assert without["cpu"] == (
        "affinity",
        "CPU limits are rounded up to whole cores; a run can change its CPU affinity (why)",
    )
