"""Golden stories: the request and the expected outputs in each folder. Shared by the tests and the update script."""

from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.files import documents, snapshots, yamls
from fairlead.model import explanations
from fairlead.model.plans import Plan, Violation
from fairlead.model.requests import RunRequest
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Code, Snapshot

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
class StoryResult:
    """The result of a story: a plan, or the violations in its files."""

    request: RunRequest | None
    plan: Plan | None
    violations: tuple[Violation, ...]


def plan_story(story: str, run_id: str = RUN_ID, code: Code = CODE) -> StoryResult:
    """Read a story's files and plan its run."""
    folder = FOLDER / story
    platform_files = [(path, "ComputeResource") for path in [folder / "platform.yaml"] if path.exists()]
    library = documents.load_library(platform_files)
    snapshot, ambiguities = snapshots.build_snapshot(library, PROJECT)
    violations = [*library.violations, *ambiguities]
    request = documents.load_object(RunRequest, folder / "request.yaml", violations, function=FUNCTION)
    if violations:
        return StoryResult(request, None, tuple(_without_folder(violation, folder) for violation in violations))
    plan = plan_run(request, _complete(snapshot, code), run_id)
    return StoryResult(request, plan, plan.violations)


def outputs(story: str) -> dict[str, str]:
    """The expected output files of a story, with their content."""
    result = plan_story(story)
    files: dict[str, str] = {}
    if result.violations:
        lines = [line for violation in result.violations for line in explanations.format_finding(violation)]
        files["violations.txt"] = "\n".join(lines) + "\n"
    if result.plan is not None and result.request is not None:
        title = f"{result.request.action} {result.request.function.name} in project {PROJECT}"
        files["explanation.txt"] = explanations.explain(result.plan, title) + "\n"
        if not result.violations:
            files["manifests.yaml"] = yamls.format_documents(result.plan.manifests)
    return files


def stored_outputs(story: str) -> dict[str, str]:
    """The golden files of a story, with their content."""
    files = [FOLDER / story / name for name in OUTPUTS]
    return {file.name: file.read_text("utf-8") for file in files if file.exists()}


def save(story: str) -> bool:
    """Write a story's outputs, and return whether anything changed."""
    old, new = stored_outputs(story), outputs(story)
    for name in old.keys() - new.keys():
        (FOLDER / story / name).unlink()
    for name, text in new.items():
        (FOLDER / story / name).write_text(text, "utf-8")
    return old != new


def _complete(snapshot: Snapshot, code: Code) -> Snapshot:
    return replace(snapshot, secrets=frozenset(SECRETS), code=code)


def _without_folder(violation: Violation, folder: Path) -> Violation:
    return replace(violation, location=violation.location and violation.location.removeprefix(f"{folder}/"))
