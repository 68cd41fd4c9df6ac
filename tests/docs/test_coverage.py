"""Every field, kind and option that a user can write is documented on the right page."""

import inspect
import re
from functools import cache

from fairlead.cli.local_planning import preview
from fairlead.files.documents import KINDS
from fairlead.model import fields
from fairlead.model.assets import ComputeResource, LimitFactor, Policy, QueuePolicy, Quota, Rule, Switches, Template
from fairlead.model.parsing import StrictModel
from fairlead.model.plans import Layer
from fairlead.model.requests import WORKLOAD_TYPES, Function, RunRequest
from fairlead.model.resources import (
    SPEC_FIELDS,
    BytesAmount,
    CpuAmount,
    Gpu,
    GpuMemoryAmount,
    Requirements,
    Resources,
    Volume,
    VolumeSpec,
)
from fairlead.model.scopes import Cluster, Department, Project
from fairlead.resolution import policy_merging
from tests.docs.pages import ROOT

REQUIREMENTS = "docs/users/requirements.md"
CLUSTERS = "docs/admins/clusters.md"
COMPUTE_RESOURCES = "docs/admins/compute-resources.md"
POLICIES = "docs/admins/policies.md"
SCOPES = "docs/admins/scopes.md"
RESOLUTION = "docs/reference/resolution.md"
PREVIEW = "docs/users/preview.md"

PAGES_OF_KINDS = {
    "Cluster": CLUSTERS,
    "ComputeResource": COMPUTE_RESOURCES,
    "Department": SCOPES,
    "Policy": POLICIES,
    "Project": SCOPES,
    "Template": COMPUTE_RESOURCES,
}
MODELS: tuple[tuple[str, type[StrictModel]], ...] = (
    *((REQUIREMENTS, model) for model in (Requirements, RunRequest, Function, Resources, CpuAmount, BytesAmount)),
    *((REQUIREMENTS, model) for model in (Gpu, GpuMemoryAmount, Volume, VolumeSpec)),
    *((POLICIES, model) for model in (Policy, Rule, Switches, LimitFactor, Quota, QueuePolicy)),
    *((SCOPES, model) for model in (Department, Project)),
    *((COMPUTE_RESOURCES, model) for model in (ComputeResource, Template)),
    (CLUSTERS, Cluster),
)
DOCUMENTABLE = [
    *((page, field) for page, model in MODELS for field in model.model_fields),
    *((REQUIREMENTS, name) for name in (*SPEC_FIELDS, *WORKLOAD_TYPES)),
    *((POLICIES, name) for name in fields.KNOWN),
    *((PAGES_OF_KINDS[kind], kind) for kind in KINDS),
    *((COMPUTE_RESOURCES, name) for name in WORKLOAD_TYPES.values()),
    *((RESOLUTION, layer.value) for layer in Layer),
]


def test_every_field_and_kind_is_documented() -> None:
    missing = [f"{page}: {name}" for page, name in sorted(set(DOCUMENTABLE)) if name not in _documented_names(page)]
    assert not missing, "\n".join(missing)


def test_every_option_of_preview_is_documented() -> None:
    options = inspect.signature(preview).parameters
    missing = [
        name
        for name in options
        if (name.upper() if name == "request" else f"--{name}") not in _documented_names(PREVIEW)
    ]
    assert not missing, "\n".join(missing)


def test_the_table_of_switches_has_the_default_and_the_stricter_value() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|", (ROOT / POLICIES).read_text("utf-8"), re.MULTILINE)
    documented = {name: (default.strip(" `"), stricter.strip(" `")) for name, default, stricter in rows}
    expected = {
        name: (
            _format_value(policy_merging.DEFAULT_SWITCHES[name], "any"),
            _format_value(policy_merging.STRICTER.get(name), "fewer"),
        )
        for name in Switches.model_fields
    }
    assert {name: documented.get(name) for name in expected} == expected


@cache
def _documented_names(page: str) -> set[str]:
    """The code spans of a page, and the kinds in its YAML blocks."""
    text = (ROOT / page).read_text("utf-8")
    blocks = "\n".join(re.findall(r"^```yaml.*?^```$", text, re.MULTILINE | re.DOTALL))
    return {*re.findall(r"`([^`\n]+)`", text), *re.findall(r"kind: (\w+)", blocks)}


def _format_value(value: object, empty: str) -> str:
    return empty if value is None else str(value).lower()
