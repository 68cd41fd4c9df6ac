"""A plan as the server tells it, as something to read and to look into."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fairlead.core import explaining
from fairlead.errors import Conflict, NotFound, Unreadable
from fairlead.model.plans import Fit, Layer, Plan, Said, Setting, Source, Violation, Warning, WayOut

if TYPE_CHECKING:
    from fairlead.sdk.runs import Run

Submit = Callable[[WayOut], "Run"]


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
    def warnings(self) -> tuple[Warning, ...]:
        """Everything to mind."""
        return self.plan.warnings

    @property
    def fit(self) -> Fit:
        """Whether it would run now, later or never."""
        return self.plan.fit

    def apply(self, way_out: WayOut | int) -> "Run":
        """Submit it with a way out in it: one of `fit.ways_out`, or its number as it is told, from 1 on."""
        way = choose(self.fit.ways_out, way_out)
        if self._submit is None or way.kind == "wait":
            raise Conflict("there is nothing to change: it is to wait", "submit it as it is; it starts when it can")
        return self._submit(way)

    def explain(self) -> Text:
        """Every value, who set it and whom it overrode, everything that is refused, and whether it would fit."""
        told, fit = explain(self.title, self.plan), "\n".join(tell_fit(self.plan.fit))
        return Text(f"{told}\n\n{fit}" if fit else told)

    def __repr__(self) -> str:
        return self.explain()


def tell_fit(fit: Fit) -> Iterator[str]:
    """Whether it would run, why not, and what would help, line by line; nothing where that is not known."""
    if fit.verdict == "unknown":
        return
    yield f"Fits {fit.verdict}"
    yield from (f"  {reason}" for reason in fit.reasons)
    yield from tell_ways_out(fit.ways_out)


def choose(ways: Sequence[WayOut], way_out: WayOut | int) -> WayOut:
    """A way out, or the one of that number. Raise `NotFound` where there is none."""
    if isinstance(way_out, WayOut):
        return way_out
    if type(way_out) is not int:
        raise Unreadable(f"{way_out!r} is no way out", "give one of them, or its number")
    if not 1 <= way_out <= len(ways):
        known = f"there are {len(ways)}" if ways else "there is none"
        raise NotFound(f"there is no way out {way_out}: {known}", "ask again why it waits")
    return ways[way_out - 1]


def tell_ways_out(ways: Sequence[WayOut]) -> Iterator[str]:
    """What would help, numbered."""
    if ways:
        yield "Ways out"
        yield from (f"  {number}. {way.message}" for number, way in enumerate(ways, 1))


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
        fit=read_fit(data["fit"]),
    )


def read_fit(data: Mapping[str, Any]) -> Fit:
    """A fit from its JSON."""
    ways_out = tuple(WayOut(**way) for way in data["ways_out"])
    return Fit(data["verdict"], tuple(data["nodes"]), tuple(data["reasons"]), ways_out, data["counts"])


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
