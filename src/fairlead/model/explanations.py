"""Formats plans as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from fractions import Fraction
from typing import Any

from fairlead.model.plans import Finding, Fit, Layer, Plan, PlanWarning, Setting, Source, SourcedValue
from fairlead.model.quantities import Duration, Percent, Quantity, Unlimited

MAX_PATH_WIDTH = 44
MAX_VALUE_WIDTH = 40


def explain(plan: Plan, title: str) -> str:
    """The plan as text: all settings with their sources, then warnings."""
    requested = [setting for setting in plan.settings if not _is_enforced(setting)]
    always = [setting for setting in plan.settings if _is_enforced(setting)]
    parts = [title + _describe_total(plan), "", *_table(requested)]
    if always:
        parts += ["", "Set by the platform", *_table(always)]
    if plan.warnings:
        parts += ["", "Warnings", *(f"  {line}" for warning in plan.warnings for line in format_finding(warning))]
    return "\n".join(parts)


def format_finding(finding: Finding) -> list[str]:
    """A violation or warning as lines of text: the message, then the hint."""
    return [str(finding)] if finding.hint is None else [str(finding), f"  -> {finding.hint}"]


def to_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, in the format used by the API, the CLI and the SDK."""
    return {
        "settings": [_setting_data(setting) for setting in plan.settings],
        "warnings": [finding_data(warning) for warning in plan.warnings],
        "violations": [finding_data(violation) for violation in plan.violations],
        "manifests": list(plan.manifests),
        "fit": fit_data(plan.fit),
    }


def fit_data(fit: Fit) -> dict[str, Any]:
    """A fit as JSON."""
    data = {field.name: to_json(getattr(fit, field.name)) for field in fields(fit)}
    return {**data, "counts": dict(fit.counts), "suggestions": [asdict(suggestion) for suggestion in fit.suggestions]}


def to_json(value: Any) -> Any:
    """A value as JSON. Quantities become text in canonical form."""
    match value:
        case Quantity() | Percent() | Unlimited():
            return str(value)
        case Duration():
            return int(value)
        case Fraction():
            return float(value)
        case tuple() | list():
            return [to_json(item) for item in value]
        case _:
            return value


def finding_data(finding: Finding) -> dict[str, Any]:
    """A violation or a warning as JSON."""
    data = {name: getattr(finding, name) for name in ("path", "rule", "message", "hint")}
    data["source"] = _source_data(finding.source)
    if isinstance(finding, PlanWarning) and finding.requested is not None:
        data["requested"] = _sourced_data(finding.requested)
    if finding.location is not None:
        data["location"] = finding.location
    return data


def _is_enforced(setting: Setting) -> bool:
    return setting.source.layer is Layer.ENFORCED and not setting.overridden


def _describe_total(plan: Plan) -> str:
    """The number of pods and GPUs, if there are several pods."""
    values = {setting.path: setting.value for setting in plan.settings}
    replicas, devices = values.get("replicas") or 1, values.get("resources.gpu.devices") or 0
    if replicas == 1:
        return ""
    return f": {replicas} pods" + (f", {replicas * devices} GPUs in total" if devices else "")


def _table(settings: Sequence[Setting]) -> Iterator[str]:
    """One line for each setting and each note. A path that is too long gets its own line."""
    rows = [(setting, _format_setting(setting)) for setting in settings]
    path_width = min(MAX_PATH_WIDTH, max((len(setting.path) for setting, _ in rows), default=0))
    value_width = max((len(value) for _, value in rows), default=0)
    for setting, value in rows:
        path = setting.path
        if len(path) > path_width:
            yield f"  {path}"
            path = ""
        source = "" if setting.source.layer is Layer.ENFORCED else setting.source
        yield f"  {path:<{path_width}}  {value:<{value_width}}  {source}".rstrip()
        yield from (f"  {'':<{path_width}}    {note}" for note in _notes(setting))


def _notes(setting: Setting) -> Iterator[str]:
    if setting.reason is not None:
        yield setting.reason
    if setting.path.startswith("affinity."):
        yield from (json.dumps(term) for term in setting.value)
    if setting.combined:
        yield f"combines {' and '.join(str(combined.source) for combined in setting.combined)}"
    for overridden in setting.overridden:
        if overridden.value != setting.value:
            yield f"overrides {_clip(_text(overridden.value))} ({overridden.source})"


def _format_setting(setting: Setting) -> str:
    if isinstance(setting.value, Duration):
        return str(setting.value)
    if setting.path.startswith("affinity."):
        return f"{len(setting.value)} term{'s' if len(setting.value) > 1 else ''}"
    if setting.path.startswith("tolerations."):
        return "tolerated"
    return "none" if setting.value is None else _clip(_text(setting.value))


def _text(value: Any) -> str:
    value = to_json(value)
    if isinstance(value, float):
        return f"{value:g}"
    # Control characters could change what a terminal shows, and an empty value would be invisible.
    return value if isinstance(value, str) and value and value.isprintable() else json.dumps(value)


def _clip(text: str) -> str:
    return text if len(text) <= MAX_VALUE_WIDTH else f"{text[: MAX_VALUE_WIDTH - 3]}..."


def _setting_data(setting: Setting) -> dict[str, Any]:
    data = {
        "path": setting.path,
        "value": to_json(setting.value),
        "source": _source_data(setting.source),
        "overridden": [_sourced_data(value) for value in setting.overridden],
    }
    if setting.combined:
        data["combined"] = [_sourced_data(value) for value in setting.combined]
    if setting.reason is not None:
        data["reason"] = setting.reason
    return data


def _sourced_data(sourced: SourcedValue) -> dict[str, Any]:
    return {"value": to_json(sourced.value), "source": _source_data(sourced.source)}


def _source_data(source: Source | None) -> dict[str, Any] | None:
    # Fields are listed explicitly: a plan has about seventy sources, and dataclasses.asdict takes ten times as long.
    if source is None:
        return None
    return {"layer": source.layer, "name": source.name, "scope": source.scope, "revision": source.revision}
