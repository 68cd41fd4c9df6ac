"""The tables of limits and isolation in the documentation say what the server finds on a machine."""

import re

import pytest

from fairlead.adapters.local import landlock, seccomp
from fairlead.adapters.local.cgroups import Hierarchies, Hierarchy
from fairlead.adapters.local.machines import find_protections
from fairlead.model.nodes import Protection
from tests.architecture.modules import ROOT

PAGE = (ROOT / "docs/admins/local-execution.md").read_text("utf-8")
ERROR = "unshare: operation not permitted"
V2 = Hierarchies((Hierarchy(2, "/sys/fs/cgroup", ("memory", "cpu", "pids", "cpuset")),), "", limits_swap=True)


def find(error: str | None, *, is_root: bool, cgroups: Hierarchies = V2) -> dict[str, Protection]:
    """The protections on a machine with Landlock and seccomp."""
    return {str(name): each for name, each in find_protections(error, cgroups, is_root=is_root).items()}


def table_after(heading: str) -> list[list[str]]:
    """The cells of the first table after a line, without its head."""
    lines = PAGE[PAGE.index(f"\n{heading}\n") :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def shown(mechanism: str) -> str:
    return mechanism or "not enforced"


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with everything that the tables assume."""
    monkeypatch.setattr(landlock, "find_abi", lambda: 7)
    monkeypatch.setattr(seccomp, "is_supported", lambda: True)


def test_isolation_table_lists_the_mechanisms_of_each_mode() -> None:
    modes = (find(None, is_root=True), find(None, is_root=False), find(ERROR, is_root=False))
    rows = table_after("## Isolation")
    for name, *cells in rows:
        written = [re.sub(r" \(Linux [\d.]+\)", "", cell) for cell in cells]
        assert [shown(mode[name.strip("`")].mechanism) for mode in modes] == written, name
    limits = {"memory", "swap", "cpu", "process_count", "disk"}
    assert {name.strip("`") for name, *_ in rows} | limits == set(modes[0])


def test_table_of_limits_without_cgroups_lists_the_mechanisms() -> None:
    names = {"memory": "memory", "swap": "swap", "CPU": "cpu", "processes": "process_count"}
    mode = find(None, is_root=True, cgroups=Hierarchies((), "no cgroups"))
    as_user = find(None, is_root=False, cgroups=Hierarchies((), "no cgroups"))
    for label, enforcement, _gap in table_after("Without cgroups:"):
        assert enforcement.replace("`", "").startswith(mode[names[label]].mechanism or "none"), label
    assert as_user["process_count"].mechanism == ""


def test_all_limits_use_cgroups_if_there_are_any() -> None:
    mode = find(None, is_root=True)
    assert {mode[name].mechanism for name in ("memory", "swap", "cpu", "process_count")} == {"cgroup v2"}
    assert {mode[name].gap for name in ("memory", "swap", "cpu", "process_count")} == {""}


def test_user_without_namespaces_can_change_the_limits_of_its_group() -> None:
    mode = find(ERROR, is_root=False)
    assert "a run can change its own limits" in mode["memory"].gap
    assert "can change the limits of its own group" in PAGE
