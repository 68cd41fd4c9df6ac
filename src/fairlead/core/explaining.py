"""A plan for people and for programs: each value, who set it and whom it overrode, each rule that is broken."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from fairlead.model.plans import Layer, Plan, Said, Setting, Source, Violation, Warning
from fairlead.model.quantities import Percent, Quantity, Unlimited

WIDEST_VALUE = 44


def explain(plan: Plan, title: str) -> str:
    """The whole plan as a text: what it will be, why, and what to mind."""
    asked = [setting for setting in plan.settings if setting.source.layer is not Layer.IMPOSED or setting.overrode]
    always = [setting for setting in plan.settings if setting not in asked]
    parts = [title, "", *_table(asked)]
    if always:
        parts += ["", "Always set by the platform", *_table(always)]
    if plan.warnings:
        parts += ["", "Warnings", *(f"  {line}" for found in plan.warnings for line in lines_of(found))]
    return "\n".join(parts)


def lines_of(found: Violation | Warning) -> list[str]:
    """A violation or warning as two lines: what is wrong, what to do."""
    where = getattr(found, "where", None)
    said = ": ".join(filter(None, (where, found.path, found.message)))
    return [said] if found.hint is None else [said, f"  -> {found.hint}"]


def to_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, everywhere the same."""
    return {
        "settings": [_setting_data(setting) for setting in plan.settings],
        "warnings": [_found_data(warning) for warning in plan.warnings],
        "violations": [_found_data(violation) for violation in plan.violations],
        "manifests": list(plan.manifests),
        "fit": {field.name: to_json(getattr(plan.fit, field.name)) for field in fields(plan.fit)},
    }


def to_json(value: Any) -> Any:
    """A value as JSON has it: amounts as text in their canonical form."""
    match value:
        case Quantity() | Percent() | Unlimited():
            return str(value)
        case tuple() | list():
            return [to_json(item) for item in value]
        case _:
            return value


def _table(settings: Sequence[Setting]) -> Iterator[str]:
    shown = [(setting, _show(setting)) for setting in settings]
    path_width = max((len(setting.path) for setting, _ in shown), default=0)
    value_width = max((len(value) for _, value in shown), default=0)
    for setting, value in shown:
        notes = [str(setting.source), *_notes(setting)]
        yield f"  {setting.path:<{path_width}}  {value:<{value_width}}  {notes[0]}".rstrip()
        yield from (f"  {'':<{path_width}}  {'':<{value_width}}    {note}" for note in notes[1:])


def _notes(setting: Setting) -> Iterator[str]:
    if setting.why is not None:
        yield setting.why
    for said in setting.combined:
        yield (
            f"together with what the {said.source} says" if said.source != setting.source else "all of these must hold"
        )
    for said in setting.overrode:
        yield f"instead of {_clip(_text(said.value))} ({said.source})"


def _show(setting: Setting) -> str:
    return "none" if setting.value is None else _clip(_text(setting.value))


def _text(value: Any) -> str:
    value = to_json(value)
    return value if isinstance(value, str) and value else json.dumps(value)


def _clip(text: str) -> str:
    return text if len(text) <= WIDEST_VALUE else f"{text[: WIDEST_VALUE - 3]}..."


def _setting_data(setting: Setting) -> dict[str, Any]:
    data = {
        "path": setting.path,
        "value": to_json(setting.value),
        "source": _source_data(setting.source),
        "overrode": [_said_data(said) for said in setting.overrode],
    }
    if setting.combined:
        data["combined"] = [_said_data(said) for said in setting.combined]
    if setting.why is not None:
        data["why"] = setting.why
    return data


def _said_data(said: Said) -> dict[str, Any]:
    return {"value": to_json(said.value), "source": _source_data(said.source)}


def _source_data(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else {field.name: getattr(source, field.name) for field in fields(source)}


def _found_data(found: Violation | Warning) -> dict[str, Any]:
    data = {name: getattr(found, name) for name in ("path", "rule", "message", "hint")}
    data["source"] = _source_data(found.source)
    if isinstance(found, Warning) and found.asked is not None:
        data["asked"] = _said_data(found.asked)
    if isinstance(found, Violation) and found.where is not None:
        data["where"] = found.where
    return data
