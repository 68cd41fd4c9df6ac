"""`fairlead preview`: the plan of a request, from files alone."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fairlead.cli.printing import print_violations
from fairlead.core import explaining
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.files import documents, snapshots, sources, yamls
from fairlead.model.names import NAME
from fairlead.model.plans import Plan, Violation, Warning
from fairlead.model.requests import RunRequest
from fairlead.model.requirements import Requirements

RUN_ID = "preview"


def preview(
    request: Path,
    /,
    *,
    compute: Sequence[Path] = (),
    templates: Sequence[Path] = (),
    policy: Sequence[Path] = (),
    defaults: Path | None = None,
    secrets: str | None = None,
    project: str = "default",
    output: Annotated[Literal["explain", "yaml", "json"], Parameter(name=["--output", "-o"])] = "explain",
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
    violations = list(library.violations)
    snapshot, unclear = snapshots.build_snapshot(library, project)
    violations += unclear
    if not NAME.matches(project):
        violations.append(Violation("project", "name", f"is no valid name: {project!r}", f"use {NAME.words}"))
    if defaults is not None:
        platform = documents.load_object(Requirements, defaults, violations)
        snapshot = replace(snapshot, platform=platform or Requirements())
    if secrets is not None:
        snapshot = replace(snapshot, secrets=frozenset(name.strip() for name in secrets.split(",") if name.strip()))
    asked = documents.load_object(RunRequest, request, violations, function=request.stem)
    if violations:
        return print_violations(violations)
    return _print(_plan(asked, request.parent, snapshot), asked, snapshot, output)


def _plan(asked: RunRequest, folder: Path, snapshot: Snapshot) -> Plan:
    """The plan, with the function's code where its source lies beside the request."""
    source = folder / asked.function.source if asked.function.source else None
    plan = plan_run(asked, replace(snapshot, code=sources.load_code(source)), RUN_ID)
    if source is not None and not source.exists():
        message = f"there is no file {source}: the manifests are without the function's code"
        missing = Warning("function.source", "missing", message, "give its path, seen from the request's folder")
        plan = replace(plan, warnings=(*plan.warnings, missing))
    return plan


def _print(plan: Plan, asked: RunRequest, snapshot: Snapshot, output: str) -> int:
    match output:
        case "json":
            print(json.dumps(explaining.to_data(plan), indent=2))
        case "yaml":
            print(yamls.print_documents(plan.manifests), end="")
        case _:
            print(explaining.explain(plan, f"{asked.action} {asked.function.name} in project {snapshot.project}"))
    sys.stdout.flush()
    return print_violations(plan.violations)
