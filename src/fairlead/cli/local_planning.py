"""Plan runs from configuration files, for commands that need no server."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fairlead.files import documents, snapshots, sources
from fairlead.files.documents import Library
from fairlead.model.assets import Defaults
from fairlead.model.names import NAME
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Plan, PlanWarning, Violation
from fairlead.model.requests import RunRequest
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot

RUN_ID = "preview"  # constant, so that the same files always produce the same manifests

Paths = Annotated[Sequence[Path], Parameter(negative=(), show_default=False)]


@dataclass(frozen=True)
class Files:
    """Options for configuration files."""

    compute: Annotated[
        Paths,
        Parameter(help="A file or folder with compute resources. Folders may contain documents of any kind."),
    ] = ()
    templates: Annotated[Paths, Parameter(help="A file or folder with templates.")] = ()
    policy: Annotated[Paths, Parameter(help="A file or folder with policies.")] = ()
    defaults: Annotated[
        Path | None,
        Parameter(
            show_default=False,
            help="A YAML file with the platform defaults.",
        ),
    ] = None


@dataclass(frozen=True)
class LocalConfig:
    """The loaded documents, the project's snapshot, and all violations."""

    library: Library
    snapshot: Snapshot
    violations: tuple[Violation, ...]


def load_config(files: Files, project: str) -> LocalConfig:
    """Load files and build a project's snapshot."""
    given = [(files.compute, "ComputeResource"), (files.templates, "Template"), (files.policy, "Policy")]
    library = documents.load_library((path, kind) for paths, kind in given for path in paths)
    snapshot, unclear = snapshots.build_snapshot(library, project)
    violations = [*library.violations, *unclear]
    violations += [Violation(*mistake) for mistake in collect_mistakes("project", NAME.parse, project)]
    if files.defaults is not None:
        platform = documents.load_object(Defaults, files.defaults, violations)
        snapshot = replace(snapshot, platform=platform or Defaults())
    return LocalConfig(library, snapshot, tuple(violations))


def plan_alone(request: RunRequest, config: LocalConfig) -> Plan:
    """Plan a request without its function's code."""
    plan = plan_run(request, config.snapshot, RUN_ID)
    return replace(plan, violations=tuple(_point_to_options(plan.violations, config.library)))


def plan_request(request: RunRequest, folder: Path, config: LocalConfig) -> Plan:
    """Plan a request, with its function's code if the source is next to the request."""
    code, findings = sources.load_code(folder, request.function, request.action)
    plan = plan_run(request, replace(config.snapshot, code=code), RUN_ID)
    refused = tuple(item for item in findings if isinstance(item, Violation))
    # Report why the code could not be packed instead of the general warning.
    warnings = [
        item for item in plan.warnings if not (findings and (item.path, item.rule) == ("function.source", "missing"))
    ]
    # A missing file is only a warning: the plan is still useful, even though its manifests contain no code.
    violations = (*plan.violations, *refused)
    return replace(
        plan,
        warnings=(*warnings, *(item for item in findings if isinstance(item, PlanWarning))),
        violations=tuple(_point_to_options(violations, config.library)),
        manifests=() if refused else plan.manifests,
    )


def _point_to_options(violations: Iterable[Violation], library: Library) -> Iterator[Violation]:
    """Name the missing option if a name is unknown because no files were given."""
    # Without any files, listing the known names would be pointless.
    options = {"unknown_profile": ("ComputeResource", "--compute"), "unknown_template": ("Template", "--templates")}
    for violation in violations:
        kind, option = options.get(violation.rule, ("", ""))
        if option and not library.of(kind):
            violation = replace(violation, hint=f"add the folder that defines it: {option} DIR")
        yield violation
