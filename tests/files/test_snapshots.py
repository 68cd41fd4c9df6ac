"""Project snapshots: objects from its scope and its parents, and no others."""

from pathlib import Path

import pytest

from fairlead.files.documents import load_library
from fairlead.files.snapshots import build_snapshot, tree_of
from fairlead.model.plans import Violation
from fairlead.resolution.drafts import Snapshot
from tests.cli.terminal import write

TREE = """
kind: Cluster
name: main
gpu_sharing: kai
---
kind: Cluster
name: spare
---
kind: Department
name: vision
parent: cluster/main
---
kind: Department
name: speech
parent: cluster/main
---
kind: Project
name: forest
parent: department/vision
---
kind: Project
name: voices
parent: department/speech
---
kind: Project
name: loose
parent: cluster/spare
"""
SCOPES = ["platform", "cluster/main", "cluster/spare", "department/vision", "department/speech"]
SCOPES += ["project/forest", "project/voices", "project/loose"]


def documents_at_every_scope(kind: str) -> str:
    """One document of a kind at each scope, lowest first."""
    pattern = "scope: {}" if kind == "Policy" else "name: at-{}\nscope: {}"
    texts = [
        pattern.format(*([scope.replace("/", "-")] if "name" in pattern else []), scope) for scope in reversed(SCOPES)
    ]
    return "\n---\n".join(f"kind: {kind}\n{text}" for text in texts)


def build(folder: Path, project: str, *texts: str) -> tuple[Snapshot, tuple[Violation, ...]]:
    write(folder, {f"{index}.yaml": text for index, text in enumerate(texts)})
    library = load_library([(folder, "Policy")])
    assert library.violations == ()
    return build_snapshot(library, project)


@pytest.mark.parametrize(
    ("project", "path"),
    [
        ("forest", ["platform", "cluster/main", "department/vision", "project/forest"]),
        ("voices", ["platform", "cluster/main", "department/speech", "project/voices"]),
        ("loose", ["platform", "cluster/spare", "project/loose"]),
    ],
)
def test_a_project_sees_objects_of_its_scope_and_its_parents(tmp_path: Path, project: str, path: list[str]) -> None:
    all_documents = [documents_at_every_scope(kind) for kind in ("Policy", "ComputeResource", "Template")]
    snapshot, violations = build(tmp_path, project, TREE, *all_documents)
    expected = {f"at-{scope.replace('/', '-')}" for scope in path}
    assert violations == ()
    assert [policy.scope for policy in snapshot.policies] == path, "must be ordered from the platform down"
    assert set(snapshot.compute_resources) == set(snapshot.templates) == expected


@pytest.mark.parametrize(("project", "cluster"), [("forest", "main"), ("voices", "main"), ("loose", "spare")])
def test_a_project_runs_on_its_parent_cluster(tmp_path: Path, project: str, cluster: str) -> None:
    snapshot, _ = build(tmp_path, project, TREE)
    assert snapshot.cluster.name == cluster
    assert snapshot.sharing_clusters == ("main",)


def test_a_parent_without_a_document_is_still_a_parent(tmp_path: Path) -> None:
    policies = "scope: department/undefined\n---\nscope: platform"
    snapshot, violations = build(tmp_path, "p", "kind: Project\nname: p\nparent: department/undefined", policies)
    assert violations == ()
    assert [policy.scope for policy in snapshot.policies] == ["platform", "department/undefined"]


def test_the_path_of_a_scope_starts_at_the_platform(tmp_path: Path) -> None:
    write(tmp_path, {"tree.yaml": TREE})
    tree = tree_of(load_library([(tmp_path, "Policy")]))
    assert tree.path("platform") == ["platform"]
    assert tree.path("department/vision") == ["platform", "cluster/main", "department/vision"]
    assert tree.path("department/unknown") == ["platform", "department/unknown"]


def test_a_project_without_documents_has_defaults(tmp_path: Path) -> None:
    snapshot, violations = build(tmp_path, "alone", "scope: platform")
    assert (snapshot.project, snapshot.cluster.gpu_sharing, violations) == ("alone", "none", ())


def test_a_project_without_a_document_is_in_the_only_cluster_and_department(tmp_path: Path) -> None:
    policies = "scope: department/vision\n---\nscope: cluster/main\n---\nscope: platform\n---\nscope: project/p"
    snapshot, violations = build(tmp_path, "p", "kind: Cluster\nname: main\ngpu_sharing: hami", policies)
    assert violations == ()
    assert snapshot.cluster.name == "main"
    assert [policy.scope for policy in snapshot.policies] == [
        "platform",
        "cluster/main",
        "department/vision",
        "project/p",
    ]


def test_an_ambiguous_department_is_a_violation(tmp_path: Path) -> None:
    _, (violation,) = build(tmp_path, "p", "scope: department/a\n---\nscope: department/b")
    assert (violation.path, violation.rule) == ("project", "scope")
    assert violation.message == "project/p could be in department/a or department/b"
    assert violation.hint is not None
    assert "kind: Project, name: p, parent: department/a" in violation.hint


def test_a_project_document_resolves_the_ambiguity(tmp_path: Path) -> None:
    project = "kind: Project\nname: p\nparent: department/b"
    snapshot, violations = build(tmp_path, "p", "scope: department/a\n---\nscope: department/b", project)
    assert violations == ()
    assert [policy.scope for policy in snapshot.policies] == ["department/b"]


def test_the_only_department_determines_the_cluster(tmp_path: Path) -> None:
    tree = "kind: Cluster\nname: a\n---\nkind: Cluster\nname: b\n---\nkind: Department\nname: d\nparent: cluster/b"
    snapshot, violations = build(tmp_path, "p", tree)
    assert (violations, snapshot.cluster.name) == ((), "b")


def test_only_the_ambiguous_department_is_reported(tmp_path: Path) -> None:
    departments = "kind: Department\nname: d\nparent: cluster/a\n---\nkind: Department\nname: e\nparent: cluster/b"
    _, (violation,) = build(tmp_path, "p", f"kind: Cluster\nname: a\n---\nkind: Cluster\nname: b\n---\n{departments}")
    assert violation.message == "project/p could be in department/d or department/e"


@pytest.mark.parametrize(
    ("documents", "scope"),
    [
        ("kind: Project\nname: p", "project/p"),
        ("kind: Department\nname: d\n---\nkind: Project\nname: p\nparent: department/d", "department/d"),
    ],
)
def test_a_described_project_that_several_clusters_could_contain_is_a_violation(
    tmp_path: Path, documents: str, scope: str
) -> None:
    clusters = "kind: Cluster\nname: b\n---\nkind: Cluster\nname: a"
    _, (violation,) = build(tmp_path, "p", f"{clusters}\n---\n{documents}")
    assert violation.message == "project/p could be in cluster/a or cluster/b"
    assert violation.hint == f"set the parent of {scope}, for example to cluster/a"


def test_policies_of_other_projects_do_not_apply(tmp_path: Path) -> None:
    snapshot, violations = build(tmp_path, "p", "scope: project/q\n---\nscope: project/p")
    assert (violations, [policy.scope for policy in snapshot.policies]) == ((), ["project/p"])


def test_the_policy_of_the_only_cluster_applies(tmp_path: Path) -> None:
    tree = "kind: Cluster\nname: main\n---\nkind: Project\nname: forest\n"
    policy = "kind: Policy\nscope: cluster/main\nrules: {resources.gpu: {max: 1}}\n"
    snapshot, violations = build(tmp_path, "forest", tree, policy)
    assert violations == ()
    assert snapshot.cluster.name == "main"
    assert [snapshot_policy.scope for snapshot_policy in snapshot.policies] == ["cluster/main"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Policy\nscope: department/visoin\n", "department/visoin does not exist"),
        ("kind: Project\nname: more\nparent: department/visoin\n", "department/visoin does not exist"),
        ("kind: Template\nname: t\nscope: project/forrest\n", "project/forrest does not exist"),
    ],
)
def test_misspelled_scopes_are_rejected_if_the_tree_is_described(tmp_path: Path, text: str, message: str) -> None:
    _, [violation] = build(tmp_path, "forest", TREE, text)
    assert violation.message == message
    assert violation.hint is not None
    assert "did you mean" in violation.hint
