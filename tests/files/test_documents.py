"""Loading files and folders: each document is loaded once, and each violation has its location."""

import os
from pathlib import Path

import pytest

from fairlead.files.documents import Library, list_files, load_library, load_object
from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest
from tests.cli.terminal import write


def load(*paths: Path, kind: str = "ComputeResource") -> Library:
    return load_library([(path, kind) for path in paths])


def names(library: Library) -> list[str]:
    return [document.name for document in library.documents]


def test_a_folder_is_loaded_recursively_in_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, {"b.yaml": "name: b", "a/z.yml": "name: az", "a/a/x.json": '{"name": "aax"}', "c.YAML": "name: c"})
    library = load(tmp_path)
    assert (names(library), library.violations) == (["aax", "az", "b", "c"], ())


def test_hidden_files_and_other_suffixes_are_skipped(tmp_path: Path) -> None:
    files = {".a.yaml": "name: a", ".git/b.yaml": "name: b", "c/.d/e.yaml": "name: e", "f.txt": "[", "g.yaml~": "["}
    write(tmp_path, {**files, "h.yaml": "name: h"})
    assert names(load(tmp_path)) == ["h"]


def test_a_hidden_folder_is_loaded_if_it_is_given(tmp_path: Path) -> None:
    write(tmp_path, {".config/a.yaml": "name: a"})
    assert names(load(tmp_path / ".config")) == ["a"]


def test_a_given_file_may_have_any_suffix(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "name: a"})
    assert names(load(tmp_path / "a.txt")) == ["a"]


@pytest.mark.parametrize("files", [{}, {"readme.md": "hello"}, {".hidden.yaml": "name: a"}])
def test_a_folder_without_yaml_is_a_violation(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)
    (violation,) = load(tmp_path).violations
    assert (violation.message, violation.location) == ("has no YAML files", str(tmp_path))


def test_a_missing_file_is_a_violation(tmp_path: Path) -> None:
    (violation,) = load(tmp_path / "nowhere").violations
    assert violation.message == "cannot be read: no such file or directory"


def test_broken_links_and_folders_with_a_yaml_suffix_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.symlink(tmp_path / "nowhere", tmp_path / "link.yaml")
    write(tmp_path, {"a.yaml": "name: a"})
    assert names(load(tmp_path)) == ["a"]


@pytest.mark.parametrize(
    ("kind", "model"), [("ComputeResource", ComputeResource), ("Template", Template), ("Policy", Policy)]
)
def test_a_document_without_a_kind_has_the_default_kind(tmp_path: Path, kind: str, model: type) -> None:
    write(tmp_path, {"a.yaml": "scope: platform" if kind == "Policy" else "name: a"})
    (document,) = load(tmp_path, kind=kind).documents
    assert isinstance(document.object, model)


def test_a_folder_may_contain_documents_of_any_kind(tmp_path: Path) -> None:
    kinds = ["ComputeResource", "Template", "Cluster", "Department", "Project"]
    text = "\n---\n".join([*(f"kind: {kind}\nname: a" for kind in kinds), "kind: Policy"])
    write(tmp_path, {"all.yaml": text})
    library = load(tmp_path, kind="Template")
    assert library.violations == ()
    assert sorted(document.kind for document in library.documents) == sorted([*kinds, "Policy"])
    assert [len(library.of(kind)) for kind in kinds] == [1] * 5


def test_names_are_unique_per_kind(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "name: x", "b.yaml": "name: x\nkind: Template", "c.yaml": "name: x\ndescription: again"})
    library = load(tmp_path)
    (violation,) = library.violations
    assert [document.kind for document in library.documents] == ["ComputeResource", "Template"]
    assert (violation.path, violation.rule, violation.location) == ("name", "duplicate", str(tmp_path / "c.yaml"))
    assert str(tmp_path / "a.yaml") in violation.message


def test_a_file_given_twice_is_loaded_once(tmp_path: Path) -> None:
    write(tmp_path, {"c/a.yaml": "kind: ComputeResource\nname: a"})
    os.symlink(tmp_path / "c", tmp_path / "link")
    same = [tmp_path / "c", tmp_path / "c" / "a.yaml", tmp_path / "c" / ".." / "c", tmp_path / "link"]
    library = load(*same)
    assert (names(library), library.violations) == (["a"], ())


def test_valid_documents_are_loaded_and_invalid_ones_reported(tmp_path: Path) -> None:
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


def test_documents_of_one_file_have_different_locations(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "name: one\nfoo: 1\n---\nfoo: 2"})
    locations = {violation.location for violation in load(tmp_path).violations}
    assert len(locations) == 2


@pytest.mark.parametrize("kind", ["[a]", "{a: 1}", "5", "true", "Nonsense"])
def test_unknown_kinds_are_rejected(tmp_path: Path, kind: str) -> None:
    write(tmp_path, {"a.yaml": f"kind: {kind}\nname: a"})
    (violation,) = load(tmp_path).violations
    assert (violation.path, violation.rule) == ("kind", "unknown_kind")


def test_the_function_of_a_request_defaults_to_its_file_name(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": "resources: {cpu: 1}", "other.yaml": "function: mine"})
    violations: list[Violation] = []
    default = load_object(RunRequest, tmp_path / "train.yaml", violations, function="train")
    explicit = load_object(RunRequest, tmp_path / "other.yaml", violations, function="other")
    assert (default.function.name, explicit.function.name, violations) == ("train", "mine", [])


@pytest.mark.parametrize(
    ("text", "rule"), [("", "yaml"), ("a: 1\n---\nb: 2", "yaml"), ("[a]", "mapping"), ("5", "mapping")]
)
def test_a_request_must_be_one_mapping(tmp_path: Path, text: str, rule: str) -> None:
    write(tmp_path, {"a.yaml": text})
    violations: list[Violation] = []
    assert load_object(RunRequest, tmp_path / "a.yaml", violations, function="a") is None
    assert [violation.rule for violation in violations] == [rule]


def test_list_files_returns_yaml_files_of_a_folder_or_the_file_itself(tmp_path: Path) -> None:
    write(tmp_path, {"c/a.yaml": "", "c/b.md": ""})
    assert list_files(tmp_path / "c", []) == [tmp_path / "c" / "a.yaml"]
    assert list_files(tmp_path / "c" / "b.md", []) == [tmp_path / "c" / "b.md"]
