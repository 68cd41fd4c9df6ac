"""Everything that people can write is on the page where they look for it."""

import inspect
import re

import pytest

from fairlead.cli.previews import preview
from fairlead.core.policies import merging
from fairlead.files.documents import KINDS
from fairlead.model import fields
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.parsing import Strict
from fairlead.model.plans import Layer
from fairlead.model.policies import LimitFactor, Policy, Quota, Rule, Switches
from fairlead.model.requests import WORKLOAD_TYPES, Function, RunRequest
from fairlead.model.requirements import Requirements
from fairlead.model.resources import BytesAmount, CpuAmount, Gpu, GpuMemoryAmount, Resources
from fairlead.model.scopes import Cluster, Department, Project
from fairlead.model.volumes import SPEC_FIELDS, Volume, VolumeSpec
from tests.docs.pages import ROOT

REQUIREMENTS = "docs/requirements.md"
ADMINISTRATION = "docs/administration.md"
RESOLUTION = "docs/resolution.md"
PREVIEW = "docs/preview.md"

MODELS: tuple[tuple[str, type[Strict]], ...] = (
    *((REQUIREMENTS, model) for model in (Requirements, RunRequest, Function, Resources, CpuAmount, BytesAmount)),
    *((REQUIREMENTS, model) for model in (Gpu, GpuMemoryAmount, Volume, VolumeSpec)),
    *((ADMINISTRATION, model) for model in (Policy, Rule, Switches, LimitFactor, Quota, Cluster)),
    *((ADMINISTRATION, model) for model in (Department, Project, ComputeResource, Template)),
)
WRITTEN = [
    *((page, field) for page, model in MODELS for field in model.model_fields),
    *((REQUIREMENTS, word) for word in (*SPEC_FIELDS, *WORKLOAD_TYPES)),
    *((ADMINISTRATION, word) for word in (*fields.KNOWN, *KINDS)),
    *((ADMINISTRATION, word) for word in WORKLOAD_TYPES.values()),
    *((RESOLUTION, layer.value) for layer in Layer),
]


@pytest.mark.parametrize(("page", "word"), sorted(set(WRITTEN)))
def test_what_can_be_written_is_documented(page: str, word: str) -> None:
    assert word in _words(page), f"{page} says nothing of `{word}`"


@pytest.mark.parametrize("option", inspect.signature(preview).parameters)
def test_every_option_of_preview_is_documented(option: str) -> None:
    assert (option.upper() if option == "request" else f"--{option}") in _words(PREVIEW)


@pytest.mark.parametrize("switch", Switches.model_fields)
def test_the_table_of_switches_has_the_shipped_and_the_stricter_value(switch: str) -> None:
    row = next(line for line in (ROOT / ADMINISTRATION).read_text("utf-8").splitlines() if f"| `{switch}` |" in line)
    shipped, stricter = [cell.strip(" `") for cell in row.split("|")][3:5]
    assert shipped == _word(merging.SHIPPED[switch], "any")
    assert stricter == _word(merging.STRICTER.get(switch), "fewer")


def _words(page: str) -> set[str]:
    """What stands between backticks, and the keys of YAML blocks."""
    text = (ROOT / page).read_text("utf-8")
    blocks = "\n".join(re.findall(r"^```yaml.*?^```$", text, re.MULTILINE | re.DOTALL))
    return {*re.findall(r"`([^`\n]+)`", text), *re.findall(r"kind: (\w+)", blocks)}


def _word(value: object, nothing: str) -> str:
    return nothing if value is None else str(value).lower()
