"""Whatever can be asked of `fairlead fit`, and whatever it answers, is on its page."""

import inspect
from dataclasses import fields

import pytest

from fairlead.cli.fit import fit
from fairlead.cli.grounds import Files
from fairlead.core.fitting.surveying import NodeFit, Supposition, Survey
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "fit.md").read_text("utf-8")
SHARED = ("request", "args", "wanted", "files")  # which are no options, or have a page of their own
OPTIONS = [
    *(name for name in inspect.signature(fit).parameters if name not in SHARED),
    *(field.name for field in fields(Files)),
]
ANSWERED = {field.name for kind in (Survey, Supposition, NodeFit) for field in fields(kind)} - {"pods_left_out"}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_in_the_table(option: str) -> None:
    table = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    assert f"`--{option.removeprefix('as_').replace('_', '-')}`" in table


@pytest.mark.parametrize("part", sorted(ANSWERED))
def test_a_part_of_the_answer_is_named(part: str) -> None:
    assert f"`{part}`" in PAGE.partition("\n## For programs\n")[2]


@pytest.mark.parametrize("verdict", ["now", "later", "never", "unknown"])
def test_a_verdict_is_explained(verdict: str) -> None:
    assert f"| `{verdict}` | " in PAGE
