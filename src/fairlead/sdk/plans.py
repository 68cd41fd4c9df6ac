"""A plan as the server tells it, as something to read and to look into."""

from collections.abc import Mapping
from typing import Any

from fairlead.core import explaining
from fairlead.model.plans import Fit, Layer, Plan, Said, Setting, Source, Violation, Warning


class Text(str):
    """A text that a notebook shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Preview:
    """What would run, where, and why. Nothing was created."""

    def __init__(self, title: str, data: Mapping[str, Any]) -> None:
        self.title, self.data, self.plan = title, dict(data), read_plan(data)
        self.token: str | None = data.get("token")

    @property
    def settings(self) -> dict[str, Any]:
        """Every resolved value by its path."""
        return {setting.path: setting.value for setting in self.plan.settings}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Everything that keeps it from running."""
        return self.plan.violations

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Everything to mind."""
        return self.plan.warnings

    @property
    def fit(self) -> Fit:
        """Whether it would run now, later or never."""
        return self.plan.fit

    def explain(self) -> Text:
        """Every value, who set it and whom it overrode, and everything that is refused."""
        told, fit = explain(self.title, self.plan), self.plan.fit
        if fit.verdict != "unknown":
            told += f"\n\nFits {fit.verdict}" + "".join(f"\n  {reason}" for reason in fit.reasons)
        return Text(told)

    def __repr__(self) -> str:
        return self.explain()


def explain(title: str, plan: Plan) -> str:
    """A plan in words."""
    parts = [explaining.explain(plan, title)]
    if plan.violations:
        told = [f"  {line}" for found in plan.violations for line in explaining.lines_of(found)]
        parts += ["", "Violations", *told]
    return "\n".join(parts)


def read_plan(data: Mapping[str, Any]) -> Plan:
    """A plan from its JSON."""
    return Plan(
        settings=tuple(_read_setting(said) for said in data["settings"]),
        warnings=tuple(map(_read_warning, data["warnings"])),
        violations=tuple(Violation(**_read_finding(said)) for said in data["violations"]),
        manifests=tuple(data["manifests"]),
        fit=_read_fit(data["fit"]),
    )


def _read_fit(data: Mapping[str, Any]) -> Fit:
    return Fit(data["verdict"], tuple(data["nodes"]), tuple(data["reasons"]), tuple(data["ways_out"]))


def _read_warning(data: Mapping[str, Any]) -> Warning:
    return Warning(**_read_finding(data), asked=_read_said(data.get("asked")))


def _read_setting(data: Mapping[str, Any]) -> Setting:
    lists = {name: tuple(_read_said(said) for said in data.get(name, ())) for name in ("overrode", "combined")}
    return Setting(data["path"], data["value"], _read_source(data["source"]), why=data.get("why"), **lists)  # type: ignore[arg-type]


def _read_said(data: Mapping[str, Any] | None) -> Said | None:
    return None if data is None else Said(data["value"], _read_source(data["source"]))


def _read_finding(data: Mapping[str, Any]) -> dict[str, Any]:
    source = data.get("source")
    named = {name: data.get(name) for name in ("path", "rule", "message", "hint", "where")}
    return {**named, "source": None if source is None else _read_source(source)}


def _read_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "layer": Layer(data["layer"])})
