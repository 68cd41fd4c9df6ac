"""`fairlead preview`: plan a request from files, without a server."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fairlead.cli.local_planning import Files, Paths, load_config, plan_request
from fairlead.cli.printing import print_violations, print_warnings
from fairlead.files import documents, snapshots, yamls
from fairlead.model.names import NAME
from fairlead.model.plans import Plan
from fairlead.model.requests import RunRequest
from fairlead.planning import explanations

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
    """Show the plan for a request: all values and their sources. Needs no server and creates nothing.

    Parameters
    ----------
    request
        A YAML file with a request.
    compute
        A file or folder with compute resources. Folders may contain documents of any kind.
    templates
        A file or folder with templates.
    policy
        A file or folder with policies.
    defaults
        A YAML file with the platform defaults.
    secrets
        The project's secret names, separated by commas. Default: secrets are not checked.
    project
        The project of the run.
    output
        Print the explanation, the manifests as YAML, or the plan as JSON.
    """
    config = load_config(Files(compute, templates, policy, defaults), project)
    violations = list(config.violations)
    # Files do not contain secret names, so secrets are checked only if their names are given.
    if secrets is not None:
        named = frozenset(filter(None, map(str.strip, secrets.split(","))))
        config = replace(config, snapshot=replace(config.snapshot, secrets=named))
    unnamed = request.stem if NAME.matches(request.stem) else "run"
    parsed = documents.load_object(RunRequest, request, violations, function=unnamed)
    if parsed is None or violations:
        return _print(Plan(settings=(), violations=tuple(violations)), "", output)
    plan = plan_request(parsed, request.parent, config)
    warnings = (*plan.warnings, *snapshots.warn_unrelated_policies(config.library, project))
    title = f"{parsed.action} {parsed.function.name} in project {project}"
    return _print(replace(plan, warnings=warnings), title, output)


def _print(plan: Plan, title: str, output: Output) -> int:
    if output == "json":
        print(json.dumps(explanations.to_data(plan), indent=2))
    elif output == "yaml":
        print(yamls.format_documents(plan.manifests) if plan.manifests else "", end="")
        print_warnings(plan.warnings)
    elif plan.settings:
        print(explanations.explain(plan, title))
    sys.stdout.flush()  # stdout is buffered and stderr is not, so lines could be out of order
    return print_violations(plan.violations)
