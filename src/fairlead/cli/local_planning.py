"""`fairlead preview` and `fairlead compute lint`: plan and check requests from files, without a server."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from fairlead.cli.output import format_count, print_sentences, print_violations, print_warnings
from fairlead.files import documents, snapshots, yamls
from fairlead.files.documents import Document, Library
from fairlead.model import explanations
from fairlead.model.assets import Defaults
from fairlead.model.names import NAME
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Plan, PlanWarning, Violation
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import ScopeTree
from fairlead.planning import linting
from fairlead.planning.linting import LintResult
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot

RUN_ID = "preview"  # constant, so that the same files always produce the same manifests

Paths = Annotated[Sequence[Path], Parameter(negative=(), show_default=False)]

Output = Literal["explain", "yaml", "json"]


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
    code, findings = documents.load_code(folder, request.function, request.action)
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
    """If a name is unknown because no files were given, suggest the option for these files."""
    # Without any files, listing the known names would be pointless.
    options = {"unknown_profile": ("ComputeResource", "--compute"), "unknown_template": ("Template", "--templates")}
    for violation in violations:
        kind, option = options.get(violation.rule, ("", ""))
        if option and not library.of(kind):
            violation = replace(violation, hint=f"add the folder that defines it: {option} DIR")
        yield violation


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


def lint(folder: Path, /, *, explain: Annotated[bool, Parameter(negative=(), show_default=False)] = False) -> int:
    """Check compute resource definitions: fields, names, contradictions and policies.

    Parameters
    ----------
    folder
        A file or folder with compute resources. Policies and clusters in it also apply.
    explain
        For each compute resource, explain what a pod gets and what may kill it.
    """
    library = documents.load_library([(folder, "ComputeResource")])
    tree = snapshots.tree_of(library)
    resources = [document for document in library.documents if document.kind == "ComputeResource"]
    trials = [(document, _try_out(document, library, tree)) for document in resources]
    findings = [
        replace(finding, location=_file_of(document)) for document, trial in trials for finding in trial.findings
    ]
    violations = [*library.violations, *snapshots.check_scopes(library)]
    violations += [finding for finding in findings if isinstance(finding, Violation)]
    warnings = [finding for finding in findings if isinstance(finding, PlanWarning)]
    if not resources and not violations:
        hint = "add a document with kind: ComputeResource"
        violations.append(Violation("", "file", "contains no compute resources", hint, location=str(folder)))
    for document, trial in trials if explain else ():
        print(document.name)
        print_sentences(trial.sentences)
    print_warnings(warnings)
    if not violations:
        checked = format_count(len(resources), "compute resource")
        print(f"{checked}: {format_count(len(warnings), 'warning')}, no violations")
    return print_violations(violations)


def _try_out(document: Document, library: Library, tree: ScopeTree) -> LintResult:
    scope = document.object.scope
    policies = [policy for policy in library.of("Policy") if policy.scope in tree.path(scope)]
    clusters = [cluster for cluster in library.of("Cluster") if tree.are_related(cluster.scope, scope)]
    return linting.lint_compute_resource(document.object, policies, clusters)


def _file_of(document: Document) -> str:
    # In a file with several documents, the location already contains the name.
    named = document.location.endswith(f", {document.name})")
    return document.location if named else f"{document.location}: {document.name}"
