"""Files and folders become a library: every document once, every mistake with its place."""

import os
from pathlib import Path

import pytest

from fairlead.files.documents import Library, list_files, load_library, load_object
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.plans import Violation
from fairlead.model.policies import Policy
from fairlead.model.requests import RunRequest
from tests.cli.terminal import write


def load(*paths: Path, kind: str = "ComputeResource") -> Library:
    return load_library([(path, kind) for path in paths])


def names(library: Library) -> list[str]:
    return [document.name for document in library.documents]


def test_a_folder_is_read_with_all_folders_in_it_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, {"b.yaml": "name: b", "a/z.yml": "name: az", "a/a/x.json": '{"name": "aax"}', "c.YAML": "name: c"})
    library = load(tmp_path)
    assert (names(library), library.violations) == (["aax", "az", "b", "c"], ())


def test_hidden_files_and_other_endings_are_left_alone(tmp_path: Path) -> None:
    files = {".a.yaml": "name: a", ".git/b.yaml": "name: b", "c/.d/e.yaml": "name: e", "f.txt": "[", "g.yaml~": "["}
    write(tmp_path, {**files, "h.yaml": "name: h"})
    assert names(load(tmp_path)) == ["h"]


def test_a_hidden_folder_is_read_when_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {".config/a.yaml": "name: a"})
    assert names(load(tmp_path / ".config")) == ["a"]


def test_a_file_is_read_whatever_its_ending(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "name: a"})
    assert names(load(tmp_path / "a.txt")) == ["a"]


@pytest.mark.parametrize("files", [{}, {"readme.md": "hello"}, {".hidden.yaml": "name: a"}])
def test_a_folder_without_yaml_is_said_not_ignored(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    (violation,) = load(tmp_path).violations
    assert (violation.message, violation.location) == ("has no YAML files", str(tmp_path))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    (violation,) = load(tmp_path / "nowhere").violations
    assert violation.message == "cannot be read: no such file or directory"


def test_a_link_to_nowhere_and_a_folder_with_an_ending_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.symlink(tmp_path / "nowhere", tmp_path / "link.yaml")
    write(tmp_path, {"a.yaml": "name: a"})
    assert names(load(tmp_path)) == ["a"]


@pytest.mark.parametrize(
    ("kind", "model"), [("ComputeResource", ComputeResource), ("Template", Template), ("Policy", Policy)]
)
def test_a_document_without_a_kind_is_of_the_kind_that_its_option_says(tmp_path: Path, kind: str, model: type) -> None:
    write(tmp_path, {"a.yaml": "scope: platform" if kind == "Policy" else "name: a"})
    (document,) = load(tmp_path, kind=kind).documents
    assert isinstance(document.object, model)


def test_any_document_may_be_in_any_folder(tmp_path: Path) -> None:
    kinds = ["ComputeResource", "Template", "Cluster", "Department", "Project"]
    text = "\n---\n".join([*(f"kind: {kind}\nname: a" for kind in kinds), "kind: Policy"])
    write(tmp_path, {"all.yaml": text})
    library = load(tmp_path, kind="Template")
    assert library.violations == ()
    assert sorted(document.kind for document in library.documents) == sorted([*kinds, "Policy"])
    assert [len(library.of(kind)) for kind in kinds] == [1] * 5


def test_one_name_may_stand_for_one_thing_of_each_kind_only(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "name: x", "b.yaml": "name: x\nkind: Template", "c.yaml": "name: x\ndescription: again"})
    library = load(tmp_path)
    (violation,) = library.violations
    assert [document.kind for document in library.documents] == ["ComputeResource", "Template"]
    assert (violation.path, violation.rule, violation.location) == ("name", "duplicate", str(tmp_path / "c.yaml"))
    assert str(tmp_path / "a.yaml") in violation.message


def test_a_file_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, {"c/a.yaml": "kind: ComputeResource\nname: a"})
    os.symlink(tmp_path / "c", tmp_path / "link")
    same = [tmp_path / "c", tmp_path / "c" / "a.yaml", tmp_path / "c" / ".." / "c", tmp_path / "link"]
    library = load(*same)
    assert (names(library), library.violations) == (["a"], ())


def test_good_documents_are_kept_beside_bad_ones_and_every_bad_one_is_said(tmp_path: Path) -> None:
    text = "name: good\n---\nname: a b\nfoo: 1\n---\n[1]\n---\nkind: Nonsense\n---\nname: better"
    write(tmp_path, {"a.yaml": text, "b.yaml": "[", "c.yaml": "name: best"})
    library = load(tmp_path)
    assert names(library) == ["good", "better", "best"]
    assert [violation.rule for violation in library.violations] == [
        "name",
        "unknown_field",
        "mapping",
        "unknown_kind",
        "yaml",
    ]
    assert all(str(tmp_path) in str(violation.location) for violation in library.violations)


def test_documents_of_one_file_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "name: one\nfoo: 1\n---\nfoo: 2"})
    places = {violation.location for violation in load(tmp_path).violations}
    assert len(places) == 2


@pytest.mark.parametrize("kind", ["[a]", "{a: 1}", "5", "true", "Nonsense"])
def test_a_kind_that_there_is_not_is_refused(tmp_path: Path, kind: str) -> None:
    write(tmp_path, {"a.yaml": f"kind: {kind}\nname: a"})
    (violation,) = load(tmp_path).violations
    assert (violation.path, violation.rule) == ("kind", "unknown_kind")


def test_a_request_may_leave_out_what_its_file_already_says(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": "resources: {cpu: 1}", "other.yaml": "function: mine"})
    violations: list[Violation] = []
    unnamed = load_object(RunRequest, tmp_path / "train.yaml", violations, function="train")
    named = load_object(RunRequest, tmp_path / "other.yaml", violations, function="other")
    assert (unnamed.function.name, named.function.name, violations) == ("train", "mine", [])


@pytest.mark.parametrize(
    ("text", "rule"), [("", "yaml"), ("a: 1\n---\nb: 2", "yaml"), ("[a]", "mapping"), ("5", "mapping")]
)
def test_a_request_is_one_mapping(tmp_path: Path, text: str, rule: str) -> None:
    write(tmp_path, {"a.yaml": text})
    violations: list[Violation] = []
    assert load_object(RunRequest, tmp_path / "a.yaml", violations, function="a") is None
    assert [violation.rule for violation in violations] == [rule]


def test_a_folder_stands_for_its_files_and_a_file_for_itself(tmp_path: Path) -> None:
    write(tmp_path, {"c/a.yaml": "", "c/b.md": ""})
    assert list_files(tmp_path / "c", []) == [tmp_path / "c" / "a.yaml"]
    assert list_files(tmp_path / "c" / "b.md", []) == [tmp_path / "c" / "b.md"]
