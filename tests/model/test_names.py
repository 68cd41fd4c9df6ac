"""Names of Kubernetes objects: always valid, and unique."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.model import names
from fairlead.model.names import NAME

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
ODD_NAMES = ["a", "A", "1", "a.b", "a_b", "a-b", "A" * 128, "a" * 128, "a" * 63, "a-12345678", "0", "a+", "r-1", "a--b"]

NAMES = st.sampled_from(ODD_NAMES) | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}", fullmatch=True).filter(
    NAME.matches
)
NAMESPACE_PATTERNS = st.sampled_from(
    ["{project}", "ai-{project}", "{project}-runs", "k{project}", "kub{project}", "0-{project}-9"]
)
NAMESPACE_PATTERNS |= st.sampled_from(["a" * 30 + "{project}", "{project}" + "-z" * 15, "kube{project}"])
RUN_IDS = st.sampled_from(["r7", "0", "a-b", "b", "A", "x" * 40, "x" * 100, "0199-ab"]) | st.uuids().map(str) | NAMES


@given(NAMES, RUN_IDS)
def test_a_run_name_is_a_dns_label_that_starts_with_a_letter(function: str, run: str) -> None:
    name = names.run_name(function, run)
    assert LABEL.fullmatch(name)
    # Pods of an indexed Job are named after it, with an index of up to four digits.
    assert len(f"{name}-9999") <= 63


@given(NAMES, NAMESPACE_PATTERNS)
def test_a_namespace_is_a_dns_label(project: str, pattern: str) -> None:
    namespace = names.namespace_of(project, pattern)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", namespace, re.ASCII)
    assert len(namespace) <= 63
    before, _, after = pattern.partition("{project}")
    assert namespace.startswith(before)
    assert namespace.endswith(after)


KUBERNETES_NAMESPACES = ["kube-system", "kube-public", "kube-node-lease", "Kube-System", "kube_system"]


@example(project="ube-system", pattern="k{project}")
@example(project="system", pattern="kube{project}")
@given(NAMES | st.sampled_from(KUBERNETES_NAMESPACES), NAMESPACE_PATTERNS)
def test_a_project_never_uses_a_namespace_of_kubernetes(project: str, pattern: str) -> None:
    assert not names.namespace_of(project, pattern).startswith("kube-")


def test_a_valid_project_name_is_used_unchanged_in_its_namespace() -> None:
    assert names.namespace_of("forest", "{project}") == "forest"
    assert names.namespace_of("forest", "ai-{project}-runs") == "ai-forest-runs"


@example(one="forest", other="Forest", pattern="{project}")
@example(one="a.b", other="a-b", pattern="{project}")
@example(one="1", other="r-1", pattern="{project}")
@example(one="a" * 40, other="a" * 41, pattern="x" * 30 + "{project}")
@example(one="kube-system", other="project-kube-system", pattern="{project}")
@example(one="ube-system", other="project-ube-system", pattern="k{project}")
@given(NAMES, NAMES, NAMESPACE_PATTERNS)
def test_different_projects_have_different_namespaces(one: str, other: str, pattern: str) -> None:
    assert (names.namespace_of(one, pattern) == names.namespace_of(other, pattern)) == (one == other)


@example(one=("a", "b-c"), other=("a-b", "c"))
@example(one=("a", "X"), other=("a", names.run_name("a", "X").removeprefix("a-")))
@example(one=("a" * 128, "r7"), other=("a" * 127, "r7"))
@example(one=("Train", "r7"), other=("train", "r7"))
@given(st.tuples(NAMES, RUN_IDS), st.tuples(NAMES, RUN_IDS))
def test_different_runs_have_different_names(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (names.run_name(*one) == names.run_name(*other)) == (one == other)


@given(NAMES | RUN_IDS | st.text(max_size=80))
def test_any_text_is_converted_to_a_valid_label_value(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", names.label_value(text), re.ASCII)
    assert len(names.label_value(text)) <= 63


@pytest.mark.parametrize("text", ["train", "Train", "a.b_c-d", "a" * 63])
def test_valid_label_values_are_unchanged(text: str) -> None:
    assert names.label_value(text) == text


@pytest.mark.parametrize("text", ["train", "a-b", "a" * 63])
def test_the_slug_of_a_valid_name_is_unchanged(text: str) -> None:
    assert names.slug(text) == text
