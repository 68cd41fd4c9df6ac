"""Checking what was resolved against the rules of the policies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.resolution import LayerValues, Resolution, path_of
from fairlead.model import fields
from fairlead.model.plans import Layer, Setting, SourcedValue, Violation, format_value
from fairlead.model.quantities import UNLIMITED
from fairlead.model.resources import WHOLE_DEVICE

OWNED = "choose another compute resource, or ask its administrator"
# Where a missing value is no small value but the largest: without a limit a run takes what it finds.
LIMITS = ("resources.cpu.limits", "resources.mem.limits", "resources.disk.limits")


def check_rules(
    rules: Mapping[str, EffectiveRule], resolution: Resolution, layers: Sequence[LayerValues]
) -> Iterator[Violation]:
    """Every rule that the result breaks; `locked` is checked on what template and user say."""
    settings = {setting.path: setting for setting in resolution.flat if setting.value is not None}
    for path, rule in rules.items():
        yield from _check_flags(path, rule, settings, layers)
        for found in _paths_at(path, settings):
            value = _measure(found, settings)
            if broken := list(_find_broken(found, value, rule)):
                owner = next((setting for setting in resolution.flat if setting.path == found), None)
                said = _say(value, owner)
                owned = owner is not None and owner.source.layer is Layer.COMPUTE_RESOURCE
                for violation in broken:
                    hint = OWNED if owned else violation.hint
                    yield replace(violation, message=f"{said}; {violation.message}", hint=hint)


def _check_flags(
    path: str, rule: EffectiveRule, settings: Mapping[str, Setting], layers: Sequence[LayerValues]
) -> Iterator[Violation]:
    for place in _required_at(path, settings) if rule.required else ():
        if not any(_is_at(place, setting) for setting in settings):
            message = f"is required by the {rule.required} and nobody says it"
            yield Violation(place, "required", message, f"say {fields.value_path(place)}", rule.required)
    if rule.locked:
        for said, value, layer in _said_below(path, layers):
            message = f"the {layer.source} says {format_value(value)}; it is locked by the {rule.locked}"
            yield Violation(said, "locked", message, "leave it out", rule.locked)


def _required_at(path: str, settings: Mapping[str, Setting]) -> list[str]:
    """Where something must stand: with `*` for a name, in each thing that is there."""
    section, star, rest = path.partition("*")
    if not star:
        return [path]
    names = (setting.removeprefix(section).partition(".")[0] for setting in settings if setting.startswith(section))
    return [f"{section}{name}{rest}" for name in dict.fromkeys(names)] if rest else []


def _find_broken(path: str, value: Any, rule: EffectiveRule) -> Iterator[Violation]:
    """The bounds and options that a value breaks; each message begins after what was asked for."""
    for bound in rule.max.values():
        endless, most = value is UNLIMITED or (value is None and path in LIMITS), format_value(bound.value)
        if endless or (_is_comparable(value, bound) and value > bound.value):
            hint = f"set {path} to {most} or less" if most != "0" else f"leave {path} out"
            yield Violation(path, "max", f"the {bound.source} allows at most {most}", hint, bound.source)
    for bound in rule.min.values():
        if _is_comparable(value, bound) and value < bound.value:
            least = format_value(bound.value)
            hint = f"set {path} to {least} or more"
            yield Violation(path, "min", f"the {bound.source} asks for at least {least}", hint, bound.source)
    for bound in (*rule.max.values(), *rule.min.values()):
        if value is not None and value is not UNLIMITED and not _is_comparable(value, bound):
            message = f"the {bound.source} bounds it by {bound.value}, and the two cannot be compared"
            yield Violation(path, "unit", message, f"write it in the kind of unit of {bound.value}", bound.source)
    yield from _check_options(path, value, rule.options)


def _check_options(path: str, value: Any, options: Sequence[SourcedValue]) -> Iterator[Violation]:
    """A value must be among the options of every scope; the suggestion is what they have in common."""
    broken = [bound for bound in options if value is not None and value not in bound.value]
    if not broken:
        return
    allowed = "; ".join(f"the {bound.source} allows {', '.join(map(format_value, bound.value))}" for bound in broken)
    common = [format_value(option) for option in options[0].value if all(option in bound.value for bound in options)]
    hint = f"set it to {' or '.join(common)}" if common else "nothing suits all scopes: ask an administrator"
    yield Violation(path, "options", allowed, hint, broken[0].source)


def _is_comparable(value: Any, bound: SourcedValue) -> bool:
    """Whether both are of one kind: a share of a GPU's memory has no order among amounts of it."""
    return type(value) is type(bound.value)


def _paths_at(path: str, settings: Mapping[str, Setting]) -> list[str]:
    if "*" not in path:
        return [path]
    pattern = fields.pattern_of(path)
    return [name for name in settings if pattern.fullmatch(name)]


def _say(value: Any, setting: Setting | None) -> str:
    """A value as a message begins with it, and whose it is where it is not the user's own."""
    if value is None or value is UNLIMITED:
        whose = f" (from the {setting.source})" if setting and setting.source.layer is not Layer.USER else ""
        return ("has no limit" if value is None else "is unlimited") + whose
    if setting is None or setting.source.layer is Layer.USER:
        return f"asks for {format_value(value)}" + (f" ({setting.reason})" if setting and setting.reason else "")
    return f"is {format_value(value)} (from the {setting.source})"


def _measure(path: str, settings: Mapping[str, Setting]) -> Any:
    """The value at a path. Shared memory without a size reaches up to the memory limit."""
    value = settings[path].value if path in settings else None
    if path != "resources.shm" or not isinstance(value, bool):
        return value
    limit = settings.get("resources.mem.limits")
    return (limit.value if limit else UNLIMITED) if value else None


def _said_below(path: str, layers: Sequence[LayerValues]) -> Iterator[tuple[str, Any, LayerValues]]:
    for layer in layers:
        if layer.source.layer in (Layer.USER, Layer.TEMPLATE):
            for group in layer.groups:
                for part, value in group.values.items():
                    said = path_of(group.section, group.name, part)
                    # A whole device is what one gets who says nothing of its memory.
                    if value is not None and value != WHOLE_DEVICE and _is_at(path, said):
                        yield said, value, layer


def _is_at(path: str, said: str) -> bool:
    if "*" in path:
        return fields.pattern_of(path).match(said) is not None
    return said == path or said.startswith(path + ".")
