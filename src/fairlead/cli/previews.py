"""`fairlead preview`: the plan of a request, from files alone."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fairlead.cli.printing import print_violations, print_warnings
from fairlead.core import explaining
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.files import documents, snapshots, sources, yamls
from fairlead.files.documents import Library
from fairlead.model.compute_resources import Defaults
from fairlead.model.names import NAME
from fairlead.model.parsing import collect
from fairlead.model.plans import Plan, Violation, Warning
from fairlead.model.requests import RunRequest

RUN_ID = "preview"

Paths = Annotated[Sequence[Path], Parameter(negative=(), show_default=False)]
Output = Literal["explain", "yaml", "json"]


def preview(
    request: Path,
    /,
    *,
    compute: Paths = (),
    templates: Paths = (),
    policy: Paths = (),
    defaults: Path | None = None,
    secrets: str | None = None,
    project: str = "default",
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "explain",
) -> int:
    """Show what would run, with which values and why. No server, no cluster: nothing is created.

    Parameters
    ----------
    request
        A YAML file with what is asked for.
    compute
        A file or folder with compute resources, for `profile:`. Any document may be in any of these folders.
    templates
        A file or folder with templates, for `template:`.
    policy
        A file or folder with policies: defaults, rules, switches and quota.
    defaults
        A YAML file with the platform's defaults: requirements that hold where nobody says anything.
    secrets
        Names of the project's secrets, separated by commas. Left out, secrets are not checked.
    project
        The project in which it would run.
    output
        The explanation, the manifests as YAML, or the whole plan as JSON.
    """
    given = [(compute, "ComputeResource"), (templates, "Template"), (policy, "Policy")]
    library = documents.load_library((path, kind) for paths, kind in given for path in paths)
    snapshot, unclear = snapshots.build_snapshot(library, project)
    violations = [*library.violations, *unclear]
    violations += [Violation(*mistake) for mistake in collect("project", NAME.check, project)]
    if defaults is not None:
        snapshot = replace(snapshot, platform=documents.load_object(Defaults, defaults, violations) or Defaults())
    if secrets is not None:
        snapshot = replace(snapshot, secrets=frozenset(filter(None, map(str.strip, secrets.split(",")))))
    unnamed = request.stem if NAME.matches(request.stem) else "run"
    asked = documents.load_object(RunRequest, request, violations, function=unnamed)
    if asked is None or violations:
        return _print(Plan(settings=(), violations=tuple(violations)), "", output)
    plan = _plan(asked, request.parent, snapshot)
    warnings = (*plan.warnings, *snapshots.warn_out_of_reach(library, project))
    refused = tuple(_point_to_options(plan.violations, library))
    title = f"{asked.action} {asked.function.name} in project {project}"
    return _print(replace(plan, warnings=warnings, violations=refused), title, output)


def _plan(asked: RunRequest, folder: Path, snapshot: Snapshot) -> Plan:
    """The plan, with the function's code where its source lies beside the request."""
    code, found = sources.load_code(folder, asked.function)
    plan = plan_run(asked, replace(snapshot, code=code), RUN_ID)
    refused = tuple(item for item in found if isinstance(item, Violation))
    # What keeps the code away is known better here.
    told = [item for item in plan.warnings if not (found and (item.path, item.rule) == ("function.source", "missing"))]
    return replace(
        plan,
        warnings=(*told, *(item for item in found if isinstance(item, Warning))),
        violations=(*plan.violations, *refused),
        manifests=() if refused else plan.manifests,
    )


def _point_to_options(violations: Iterable[Violation], library: Library) -> Iterator[Violation]:
    """Say which option was left out, where a name is unknown because nothing was given to look it up in."""
    options = {"unknown_profile": ("ComputeResource", "--compute"), "unknown_template": ("Template", "--templates")}
    for violation in violations:
        kind, option = options.get(violation.rule, ("", ""))
        if option and not library.of(kind):
            violation = replace(violation, hint=f"give the folder that has it: {option} DIR")
        yield violation


def _print(plan: Plan, title: str, output: Output) -> int:
    if output == "json":
        print(json.dumps(explaining.to_data(plan), indent=2))
    elif output == "yaml":
        print(yamls.format_documents(plan.manifests) if plan.manifests else "", end="")
        print_warnings(plan.warnings)
    elif plan.settings:
        print(explaining.explain(plan, title))
    sys.stdout.flush()
    return print_violations(plan.violations)
