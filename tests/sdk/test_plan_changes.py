"""Differences between previews, as the SDK and the CLI show them."""

from typing import Any

import pytest

from fairlead.errors import Conflict, PreviewOutdated, RequestRejected, Unavailable
from fairlead.model.plans import Violation
from fairlead.sdk.plan_changes import MAX_SHOWN, PlanChange, PlanChanged, find_changes
from fairlead.sdk.runs import Preview, PreviewActions

SOURCE = {"layer": "user", "name": None, "scope": None, "revision": None}
FIT = {"verdict": "now", "nodes": [], "reasons": [], "suggestions": [], "counts": {}}
COMMAND = ["python", "-m", "train"]
BAD_TOKEN = RequestRejected([Violation("plan_token", "plan_token", "is not valid")])


def make_plan(cpu: Any = "4", *, token: str | None = "a", command: Any = COMMAND, **fields: Any) -> dict[str, Any]:
    """A plan as JSON, with a Job that repeats the setting."""
    container = {"name": "main", "command": command, "resources": {"requests": {"cpu": cpu}}}
    job = {"kind": "Job", "metadata": {"name": "train"}, "spec": {"containers": [container]}}
    settings = [{"path": "resources.cpu.requests", "value": cpu, "source": SOURCE}]
    plan = {"settings": settings, "warnings": [], "violations": [], "manifests": [job], "fit": FIT, "token": token}
    return {**plan, **fields}


def changes_of(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [str(change) for change in find_changes(before, after)]


def test_equal_plans_with_another_token_fit_and_source_have_no_changes() -> None:
    settings = [{"path": "resources.cpu.requests", "value": "4", "source": {**SOURCE, "revision": 2}}]
    after = make_plan(token="b", fit={**FIT, "verdict": "never"}, settings=settings)
    assert changes_of(make_plan(), after) == []


def test_changed_setting_is_shown_once_although_it_is_also_in_a_manifest() -> None:
    assert changes_of(make_plan("4"), make_plan("8")) == ["resources.cpu.requests: 4 -> 8"]


def test_changed_code_is_shown_with_its_place_in_the_manifest() -> None:
    assert changes_of(make_plan(), make_plan("8", command=["python", "-m", "steal"])) == [
        "resources.cpu.requests: 4 -> 8",
        "Job.spec.containers.main.command.2: train -> steal",
    ]


def test_added_and_removed_values_are_shown_as_not_set() -> None:
    less = make_plan(settings=[], manifests=[])
    assert "resources.cpu.requests: not set -> 4" in changes_of(less, make_plan())
    assert "resources.cpu.requests: 4 -> not set" in changes_of(make_plan(), less)


def test_new_warning_is_a_change_except_about_capacity() -> None:
    warning = {"path": "envs.A", "rule": "overridden", "message": "A is overridden"}
    never = {"path": "resources", "rule": "never_fits", "message": "no node has 4 cores"}
    after = make_plan(warnings=[warning, never])
    assert changes_of(make_plan(), after) == ["warning overridden envs.A: not set -> A is overridden"]


def test_objects_of_the_same_kind_are_distinguished_by_name() -> None:
    def claims(size: int) -> list[dict[str, Any]]:
        return [{"kind": "Claim", "metadata": {"name": name}, "size": size} for name in ("a", "b")]

    changed = changes_of(make_plan(manifests=claims(1)), make_plan(manifests=claims(2)))
    assert changed == ["Claim.size: 1 -> 2", "Claim/b.size: 1 -> 2"]


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "", "\u202egnp", "x" * 10_000])
def test_changes_are_one_short_line_without_control_characters(text: str) -> None:
    line = str(PlanChange("envs.A", "1", text))
    assert line.isprintable()
    assert len(line) < 120


def test_error_lists_a_limited_number_of_changes_and_carries_all() -> None:
    changes = [PlanChange(f"envs.A{number}", None, "1") for number in range(MAX_SHOWN + 5)]
    error = PlanChanged(changes, preview_of(make_plan(), []))
    assert len(error.changes) == MAX_SHOWN + 5
    assert str(error).splitlines()[-1].strip() == "and 5 more"
    assert len(str(error).splitlines()) == MAX_SHOWN + 2


def preview_of(data: dict[str, Any], responses: list[Any], *later: dict[str, Any]) -> Preview:
    """A preview whose submissions get the given responses, and whose later previews return the given plans."""
    plans = list(later)

    def submit(token: str | None) -> Any:
        response = responses.pop(0)
        if isinstance(response, Exception):
            raise response
        assert response == token
        return token

    def repeat() -> Preview:
        return Preview("title", plans.pop(0), actions)

    actions = PreviewActions(submit, lambda _suggestion: pytest.fail("not used"), repeat)
    return Preview("title", data, actions)


@pytest.mark.parametrize("error", [PreviewOutdated("expired"), BAD_TOKEN])
def test_outdated_preview_is_submitted_again_if_the_plan_is_unchanged(error: Exception) -> None:
    assert preview_of(make_plan(), [error, "b"], make_plan(token="b")).submit() == "b"  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("error", [PreviewOutdated("expired"), BAD_TOKEN])
def test_changed_plan_is_not_submitted_until_its_new_preview_is(error: Exception) -> None:
    preview = preview_of(make_plan("4"), [error, "b"], make_plan("8", token="b"))
    with pytest.raises(PlanChanged, match=r"resources\.cpu\.requests: 4 -> 8") as caught:
        preview.submit()
    assert caught.value.changes == (PlanChange("resources.cpu.requests", "4", "8"),)
    assert caught.value.preview.submit() == "b"  # type: ignore[comparison-overlap]


def test_preview_that_is_rejected_now_raises_its_violations() -> None:
    violation = {"path": "profile", "rule": "unknown_profile", "message": "does not exist"}
    later = make_plan(token=None, violations=[violation])
    with pytest.raises(RequestRejected, match="does not exist"):
        preview_of(make_plan(), [PreviewOutdated("changed")], later).submit()
    with pytest.raises(RequestRejected, match="does not exist"):
        preview_of(later, []).submit()


@pytest.mark.parametrize(
    "error", [Conflict("this preview has already been submitted"), Unavailable("busy"), RequestRejected([])]
)
def test_other_errors_are_raised_without_another_preview(error: Exception) -> None:
    with pytest.raises(type(error)):
        preview_of(make_plan(), [error]).submit()
