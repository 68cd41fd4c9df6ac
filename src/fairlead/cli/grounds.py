"""What a run depends on and what it would be, from files alone: for commands that need no server."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.files import documents, snapshots, sources
from fairlead.files.documents import Library
from fairlead.model.compute_resources import Defaults
from fairlead.model.names import NAME
from fairlead.model.parsing import collect
from fairlead.model.plans import Plan, Violation, PlanWarning
from fairlead.model.requests import RunRequest

RUN_ID = "preview"

Paths = Annotated[Sequence[Path], Parameter(negative=(), show_default=False)]


@dataclass(frozen=True)
class Files:
    """The files with what administrators define."""

    compute: Annotated[
        Paths,
        Parameter(
            help="A file or folder with compute resources, for `profile:`. Any document may be in any of these folders."
        ),
    ] = ()
    templates: Annotated[Paths, Parameter(help="A file or folder with templates, for `template:`.")] = ()
    policy: Annotated[
        Paths, Parameter(help="A file or folder with policies: defaults, rules, switches and quota.")
    ] = ()
    defaults: Annotated[
        Path | None,
        Parameter(
            show_default=False,
            help="A YAML file with the platform's defaults: requirements that hold where nobody says anything.",
        ),
    ] = None


@dataclass(frozen=True)
class Ground:
    """What was read of the files, what of it reaches a project, and all that is wrong with it."""

    library: Library
    snapshot: Snapshot
    violations: tuple[Violation, ...]


def load_ground(files: Files, project: str) -> Ground:
    """What runs of a project depend on."""
    given = [(files.compute, "ComputeResource"), (files.templates, "Template"), (files.policy, "Policy")]
    library = documents.load_library((path, kind) for paths, kind in given for path in paths)
    snapshot, unclear = snapshots.build_snapshot(library, project)
    violations = [*library.violations, *unclear]
    violations += [Violation(*mistake) for mistake in collect("project", NAME.check, project)]
    if files.defaults is not None:
        platform = documents.load_object(Defaults, files.defaults, violations)
        snapshot = replace(snapshot, platform=platform or Defaults())
    return Ground(library, snapshot, tuple(violations))


def plan_alone(asked: RunRequest, ground: Ground) -> Plan:
    """The plan without the function's code, for those who only want to know what it needs."""
    plan = plan_run(asked, ground.snapshot, RUN_ID)
    return replace(plan, violations=tuple(_point_to_options(plan.violations, ground.library)))


def plan_request(asked: RunRequest, folder: Path, ground: Ground) -> Plan:
    """The plan, with the function's code where its source lies beside the request."""
    code, found = sources.load_code(folder, asked.function, asked.action)
    plan = plan_run(asked, replace(ground.snapshot, code=code), RUN_ID)
    refused = tuple(item for item in found if isinstance(item, Violation))
    # What keeps the code away is known better here.
    told = [item for item in plan.warnings if not (found and (item.path, item.rule) == ("function.source", "missing"))]
    violations = (*plan.violations, *refused)
    return replace(
        plan,
        warnings=(*told, *(item for item in found if isinstance(item, PlanWarning))),
        violations=tuple(_point_to_options(violations, ground.library)),
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
