"""A plan as the server tells it, as something to read and to look into."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.core import explanations
from fairlead.errors import Conflict, NotFound, Unreadable
from fairlead.model.plans import Fit, Layer, Plan, Setting, Source, SourcedValue, Suggestion, Violation, PlanWarning

if TYPE_CHECKING:
    from fairlead.sdk.runs import Run

Submit = Callable[[Suggestion], "Run"]


class Text(str):
    """A text that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Preview:
    """What would run, where, and why. Nothing was created."""

    def __init__(self, title: str, data: Mapping[str, Any], submit: Submit | None = None) -> None:
        self.title, self.data, self.plan = title, dict(data), read_plan(data)
        self.token: str | None = data.get("token")
        self._submit = submit

    @property
    def settings(self) -> dict[str, Any]:
        """Every resolved value by its path."""
        return {setting.path: setting.value for setting in self.plan.settings}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Everything that keeps it from running."""
        return self.plan.violations

    @property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """Everything to mind."""
        return self.plan.warnings

    @property
    def fit(self) -> Fit:
        """Whether it would run now, later or never."""
        return self.plan.fit

    def apply(self, suggestion: Suggestion | int) -> "Run":
        """Submit it with a suggestion in it: one of `fit.suggestions`, or its number as it is told, from 1 on."""
        way = choose(self.fit.suggestions, suggestion)
        if self._submit is None or way.kind == "wait":
            raise Conflict("there is nothing to change: it is to wait", "submit it as it is; it starts when it can")
        return self._submit(way)

    def explain(self) -> Text:
        """Every value, who set it and whom it overrode, everything that is refused, and whether it would fit."""
        told, fit = explain(self.title, self.plan), "\n".join(describe_fit(self.plan.fit))
        return Text(f"{told}\n\n{fit}" if fit else told)

    def __repr__(self) -> str:
        return self.explain()


def describe_fit(fit: Fit) -> Iterator[str]:
    """Whether it would run, why not, and what would help, line by line; nothing where that is not known."""
    if fit.verdict == "unknown":
        return
    yield f"Fits {fit.verdict}"
    yield from (f"  {reason}" for reason in fit.reasons)
    yield from describe_suggestions(fit.suggestions)


def choose(ways: Sequence[Suggestion], suggestion: Suggestion | int) -> Suggestion:
    """A suggestion, or the one of that number. Raise `NotFound` where there is none."""
    if isinstance(suggestion, Suggestion):
        return suggestion
    if type(suggestion) is not int:
        raise Unreadable(f"{suggestion!r} is no suggestion", "give one of them, or its number")
    if not 1 <= suggestion <= len(ways):
        known = f"there are {len(ways)}" if ways else "there is none"
        raise NotFound(f"there is no suggestion {suggestion}: {known}", "ask again why it waits")
    return ways[suggestion - 1]


def describe_suggestions(ways: Sequence[Suggestion]) -> Iterator[str]:
    """What would help, numbered."""
    if ways:
        yield "Suggestions"
        yield from (f"  {number}. {way.message}" for number, way in enumerate(ways, 1))


def explain(title: str, plan: Plan) -> str:
    """A plan in words."""
    parts = [explanations.explain(plan, title)]
    if plan.violations:
        told = [f"  {line}" for found in plan.violations for line in explanations.lines_of(found)]
        parts += ["", "Violations", *told]
    return "\n".join(parts)


def read_plan(data: Mapping[str, Any]) -> Plan:
    """A plan from its JSON."""
    return Plan(
        settings=tuple(_read_setting(said) for said in data["settings"]),
        warnings=tuple(map(_read_warning, data["warnings"])),
        violations=tuple(Violation(**_read_finding(said)) for said in data["violations"]),
        manifests=tuple(data["manifests"]),
        fit=read_fit(data["fit"]),
    )


def read_fit(data: Mapping[str, Any]) -> Fit:
    """A fit from its JSON."""
    suggestions = tuple(Suggestion(**way) for way in data["suggestions"])
    return Fit(data["verdict"], tuple(data["nodes"]), tuple(data["reasons"]), suggestions, data["counts"])


def _read_warning(data: Mapping[str, Any]) -> PlanWarning:
    return PlanWarning(**_read_finding(data), requested=_read_said(data.get("requested")))


def _read_setting(data: Mapping[str, Any]) -> Setting:
    lists = {name: tuple(_read_said(said) for said in data.get(name, ())) for name in ("overridden", "combined")}
    return Setting(data["path"], data["value"], _read_source(data["source"]), reason=data.get("reason"), **lists)  # type: ignore[arg-type]


def _read_said(data: Mapping[str, Any] | None) -> SourcedValue | None:
    return None if data is None else SourcedValue(data["value"], _read_source(data["source"]))


def _read_finding(data: Mapping[str, Any]) -> dict[str, Any]:
    source = data.get("source")
    named = {name: data.get(name) for name in ("path", "rule", "message", "hint", "location")}
    return {**named, "source": None if source is None else _read_source(source)}


def _read_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "layer": Layer(data["layer"])})
