"""Every `fairlead fit` option and every field of its report is in docs/reference/fit.md."""

import inspect
from dataclasses import fields

from fairlead.cli.fit import fit
from fairlead.cli.local_planning import Files
from fairlead.model.plans import FitReport, NodeFit, WhatIfChanges
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "fit.md").read_text("utf-8")
SHARED = ("request", "args", "options", "files")  # not options, or documented on another page
OPTIONS = [
    *(name for name in inspect.signature(fit).parameters if name not in SHARED),
    *(field.name for field in fields(Files)),
]
REPORT_FIELDS = {field.name for kind in (FitReport, WhatIfChanges, NodeFit) for field in fields(kind)} - {
    "pods_left_out"
}


def test_every_option_is_in_the_table() -> None:
    table = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    options = [f"--{name.removeprefix('as_').replace('_', '-')}" for name in OPTIONS]
    missing = [option for option in options if f"`{option}`" not in table]
    assert not missing, "\n".join(missing)


def test_every_field_of_the_report_is_documented() -> None:
    section = PAGE.partition("\n## JSON output\n")[2]
    missing = [field for field in sorted(REPORT_FIELDS) if f"`{field}`" not in section]
    assert not missing, "\n".join(missing)


def test_every_verdict_is_explained() -> None:
    missing = [verdict for verdict in ("now", "later", "never", "unknown") if f"| `{verdict}` | " not in PAGE]
    assert not missing, "\n".join(missing)
