"""`fairlead preview`: the plan of a request, from files alone."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fairlead.cli.grounds import Files, Paths, load_ground, plan_request
from fairlead.cli.printing import print_violations, print_warnings
from fairlead.core import explanations
from fairlead.files import documents, snapshots, yamls
from fairlead.model.names import NAME
from fairlead.model.plans import Plan
from fairlead.model.requests import RunRequest

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
    ground = load_ground(Files(compute, templates, policy, defaults), project)
    violations = list(ground.violations)
    if secrets is not None:
        named = frozenset(filter(None, map(str.strip, secrets.split(","))))
        ground = replace(ground, snapshot=replace(ground.snapshot, secrets=named))
    unnamed = request.stem if NAME.matches(request.stem) else "run"
    asked = documents.load_object(RunRequest, request, violations, function=unnamed)
    if asked is None or violations:
        return _print(Plan(settings=(), violations=tuple(violations)), "", output)
    plan = plan_request(asked, request.parent, ground)
    warnings = (*plan.warnings, *snapshots.warn_out_of_reach(ground.library, project))
    title = f"{asked.action} {asked.function.name} in project {project}"
    return _print(replace(plan, warnings=warnings), title, output)


def _print(plan: Plan, title: str, output: Output) -> int:
    if output == "json":
        print(json.dumps(explanations.to_data(plan), indent=2))
    elif output == "yaml":
        print(yamls.format_documents(plan.manifests) if plan.manifests else "", end="")
        print_warnings(plan.warnings)
    elif plan.settings:
        print(explanations.explain(plan, title))
    sys.stdout.flush()
    return print_violations(plan.violations)
