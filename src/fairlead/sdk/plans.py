"""Plans and fit reports from the API as Python objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.errors import Conflict, NotFound, Unreadable
from fairlead.model.plans import Fit, Layer, Plan, PlanWarning, Setting, Source, SourcedValue, Suggestion, Violation
from fairlead.planning import explanations

if TYPE_CHECKING:
    from fairlead.sdk.runs import Run

Submit = Callable[[Suggestion], "Run"]


class Text(str):
    """Text that a notebook displays without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Preview:
    """The plan for a run that has not been submitted."""

    def __init__(self, title: str, data: Mapping[str, Any], submit: Submit | None = None) -> None:
        self.title, self.data, self.plan = title, dict(data), read_plan(data)
        self.token: str | None = data.get("token")
        self._submit = submit

    @property
    def settings(self) -> dict[str, Any]:
        """All resolved settings by path."""
        return {setting.path: setting.value for setting in self.plan.settings}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations that would cause the run to be rejected."""
        return self.plan.violations

    @property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """The plan's warnings."""
        return self.plan.warnings

    @property
    def fit(self) -> Fit:
        """Whether the run fits now, later or never."""
        return self.plan.fit

    def apply(self, suggestion: Suggestion | int) -> "Run":
        """Submit the run with a suggestion applied: one of `fit.suggestions`, or its number, starting at 1."""
        chosen = choose(self.fit.suggestions, suggestion)
        if self._submit is None or chosen.kind == "wait":
            raise Conflict(
                "this suggestion is to wait and changes nothing",
                "submit the run unchanged; it starts as soon as it fits",
            )
        return self._submit(chosen)

    def explain(self) -> Text:
        """All values with their sources, all violations, and whether the run fits."""
        lines, fit = explain(self.title, self.plan), "\n".join(describe_fit(self.plan.fit))
        return Text(f"{lines}\n\n{fit}" if fit else lines)

    def __repr__(self) -> str:
        return self.explain()


def describe_fit(fit: Fit) -> Iterator[str]:
    """Describe a fit report line by line: verdict, reasons and suggestions. Empty if the fit is unknown."""
    if fit.verdict == "unknown":
        return
    yield f"Fits {fit.verdict}"
    yield from (f"  {reason}" for reason in fit.reasons)
    yield from describe_suggestions(fit.suggestions)


def choose(suggestions: Sequence[Suggestion], suggestion: Suggestion | int) -> Suggestion:
    """Select a suggestion by number, starting at 1. Raise `NotFound` if it does not exist."""
    if isinstance(suggestion, Suggestion):
        return suggestion
    # isinstance would accept True as suggestion 1.
    if type(suggestion) is not int:
        raise Unreadable(f"{suggestion!r} is not a suggestion", "pass one of the suggestions or its number")
    if not 1 <= suggestion <= len(suggestions):
        known = f"there are {len(suggestions)}" if suggestions else "there are none"
        raise NotFound(f"suggestion {suggestion} does not exist: {known}", "list the suggestions with why()")
    return suggestions[suggestion - 1]


def describe_suggestions(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """Describe suggestions as a numbered list."""
    if suggestions:
        yield "Suggestions"
        yield from (f"  {number}. {suggestion.message}" for number, suggestion in enumerate(suggestions, 1))


def explain(title: str, plan: Plan) -> str:
    """Describe a plan as text."""
    parts = [explanations.explain(plan, title)]
    if plan.violations:
        lines = [f"  {line}" for violation in plan.violations for line in explanations.format_finding(violation)]
        parts += ["", "Violations", *lines]
    return "\n".join(parts)


def read_plan(data: Mapping[str, Any]) -> Plan:
    """Parse a plan from JSON."""
    return Plan(
        settings=tuple(_read_setting(setting) for setting in data["settings"]),
        warnings=tuple(map(_read_warning, data["warnings"])),
        violations=tuple(Violation(**_read_finding(violation)) for violation in data["violations"]),
        manifests=tuple(data["manifests"]),
        fit=read_fit(data["fit"]),
    )


def read_fit(data: Mapping[str, Any]) -> Fit:
    """Parse a fit from JSON."""
    suggestions = tuple(Suggestion(**suggestion) for suggestion in data["suggestions"])
    return Fit(data["verdict"], tuple(data["nodes"]), tuple(data["reasons"]), suggestions, data["counts"])


def _read_warning(data: Mapping[str, Any]) -> PlanWarning:
    return PlanWarning(**_read_finding(data), requested=_read_sourced_value(data.get("requested")))


def _read_setting(data: Mapping[str, Any]) -> Setting:
    lists = {
        name: tuple(_read_sourced_value(item) for item in data.get(name, ())) for name in ("overridden", "combined")
    }
    return Setting(data["path"], data["value"], _read_source(data["source"]), reason=data.get("reason"), **lists)  # type: ignore[arg-type]


def _read_sourced_value(data: Mapping[str, Any] | None) -> SourcedValue | None:
    return None if data is None else SourcedValue(data["value"], _read_source(data["source"]))


def _read_finding(data: Mapping[str, Any]) -> dict[str, Any]:
    source = data.get("source")
    named = {name: data.get(name) for name in ("path", "rule", "message", "hint", "location")}
    return {**named, "source": None if source is None else _read_source(source)}


def _read_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "layer": Layer(data["layer"])})
