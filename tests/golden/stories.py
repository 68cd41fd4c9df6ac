"""The golden stories: what each folder asks for, and what comes out. The test and the update both go through here."""

from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.core import explanations
from fairlead.core.drafts import Code, Snapshot
from fairlead.core.planning import plan_run
from fairlead.files import documents, snapshots, yamls
from fairlead.model.plans import Plan, Violation
from fairlead.model.requests import RunRequest

FOLDER = Path(__file__).parent
STORIES = sorted(path.parent.name for path in FOLDER.glob("*/request.yaml"))
OUTPUTS = ("manifests.yaml", "violations.txt", "explanation.txt")

PROJECT = "forest"
FUNCTION = {"name": "train", "kind": "python", "source": "train.py", "handler": "main"}  # if the request names none
RUN_ID = "0a1b2c3d"
SECRETS = ("CDSETOOL_ESA_PASSWORD", "CDSETOOL_ESA_USER", "HF_TOKEN", "my-secret-key")
# The real bootstrap and a real archive would be repeated in every story.
CODE = Code(
    bootstrap="# the bootstrap program\n",
    archive=b"the packed code",
    digest="sha256:c0de",
    sidecar="# the sidecar program\n",
    function_server="# the function server program\n",
)


@dataclass(frozen=True)
class Told:
    """The result of a story: a plan, or the violations of its files."""

    request: RunRequest | None
    plan: Plan | None
    violations: tuple[Violation, ...]


def tell(story: str, run_id: str = RUN_ID, code: Code = CODE) -> Told:
    """Read a story's files and plan its run."""
    folder = FOLDER / story
    given = [(path, "ComputeResource") for path in [folder / "platform.yaml"] if path.exists()]
    library = documents.load_library(given)
    snapshot, unclear = snapshots.build_snapshot(library, PROJECT)
    violations = [*library.violations, *unclear]
    request = documents.load_object(RunRequest, folder / "request.yaml", violations, function=FUNCTION)
    if violations:
        return Told(request, None, tuple(_without_folder(violation, folder) for violation in violations))
    plan = plan_run(request, _complete(snapshot, code), run_id)
    return Told(request, plan, plan.violations)


def outputs(story: str) -> dict[str, str]:
    """The files that a story must have beside what it asks for, with their content."""
    told = tell(story)
    files: dict[str, str] = {}
    if told.violations:
        lines = [line for violation in told.violations for line in explanations.format_finding(violation)]
        files["violations.txt"] = "\n".join(lines) + "\n"
    if told.plan is not None and told.request is not None:
        title = f"{told.request.action} {told.request.function.name} in project {PROJECT}"
        files["explanation.txt"] = explanations.explain(told.plan, title) + "\n"
        if not told.violations:
            files["manifests.yaml"] = yamls.format_documents(told.plan.manifests)
    return files


def saved(story: str) -> dict[str, str]:
    """The outputs that are there."""
    files = [FOLDER / story / name for name in OUTPUTS]
    return {file.name: file.read_text("utf-8") for file in files if file.exists()}


def save(story: str) -> bool:
    """Write a story's outputs; whether anything changed."""
    old, new = saved(story), outputs(story)
    for name in old.keys() - new.keys():
        (FOLDER / story / name).unlink()
    for name, text in new.items():
        (FOLDER / story / name).write_text(text, "utf-8")
    return old != new


def _complete(snapshot: Snapshot, code: Code) -> Snapshot:
    return replace(snapshot, secrets=frozenset(SECRETS), code=code)


def _without_folder(violation: Violation, folder: Path) -> Violation:
    return replace(violation, location=violation.location and violation.location.removeprefix(f"{folder}/"))
