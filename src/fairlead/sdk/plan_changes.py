"""Differences between two previews of the same run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairlead.errors import PreviewOutdated

if TYPE_CHECKING:
    from fairlead.sdk.runs import Preview

HINT = "to submit the new plan, call submit() of the error's `preview`"
MAX_SHOWN = 20
MAX_VALUE_LENGTH = 80
IGNORED_WARNINGS = ("never_fits",)  # depends on the current nodes, like the fit


@dataclass(frozen=True)
class PlanChange:
    """A value that differs between two plans. None: not set."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {_format(self.before)} -> {_format(self.after)}"


class PlanChanged(PreviewOutdated):
    """The plan has changed since the preview. `changes` are the differences, `preview` is the new preview."""

    def __init__(self, changes: Sequence[PlanChange], preview: "Preview", hint: str = HINT) -> None:
        lines = [f"  {change}" for change in changes[:MAX_SHOWN]]
        if len(changes) > MAX_SHOWN:
            lines.append(f"  and {len(changes) - MAX_SHOWN} more")
        message = "\n".join(["the plan has changed since the preview, so the run was not submitted", *lines])
        super().__init__(message, hint)
        self.changes, self.preview = tuple(changes), preview


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[PlanChange, ...]:
    """The differences between two plans as JSON: settings by path, then other differences. Ignores the fit."""
    settings = _compare(_settings_of(before), _settings_of(after))
    # Most changes of manifests follow from a changed setting, and would repeat it.
    known = {(str(change.before), str(change.after)) for change in settings}
    others = _compare(dict(_other_values(before)), dict(_other_values(after)))
    return (*settings, *(change for change in others if (str(change.before), str(change.after)) not in known))


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[PlanChange]:
    return [
        PlanChange(path, before.get(path), after.get(path))
        for path in dict.fromkeys((*before, *after))
        if before.get(path) != after.get(path)
    ]


def _settings_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {setting["path"]: setting["value"] for setting in plan["settings"]}


def _other_values(plan: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values in manifests, which also contain the function's code and command, and the warnings."""
    kinds: set[str] = set()
    for manifest in plan["manifests"]:
        kind = manifest["kind"]
        yield from _leaves(manifest, f"{kind}/{manifest['metadata']['name']}" if kind in kinds else kind)
        kinds.add(kind)
    for warning in plan["warnings"]:
        if warning["rule"] not in IGNORED_WARNINGS:
            yield f"warning {warning['rule']} {warning['path']}", warning["message"]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            # Names instead of positions, so that a new variable does not change the paths of those after it.
            name = item.get("name", number) if isinstance(item, Mapping) else number
            yield from _leaves(item, f"{path}.{name}")
    else:
        yield path, value


def _format(value: Any) -> str:
    if value is None:
        return "not set"
    # JSON escapes control characters, which could otherwise change what a terminal shows.
    text = value if isinstance(value, str) and value.isprintable() and value else json.dumps(value)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}..."
