"""Checking what was resolved against the rules of the policies."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.resolution import Resolution, Statement, path_of
from fairlead.model import fields
from fairlead.model.plans import Layer, Said, Setting, Violation
from fairlead.model.quantities import UNLIMITED

# Where a missing value is no small value but the largest: without a limit a run takes what it finds.
LIMITS = ("resources.cpu.limits", "resources.mem.limits", "resources.disk.limits")


def check_rules(
    rules: Mapping[str, EffectiveRule], resolution: Resolution, statements: Sequence[Statement]
) -> Iterator[Violation]:
    """Every rule that the result breaks; `locked` is checked on what template and user say."""
    settings = {setting.path: setting for setting in resolution.flat() if setting.value is not None}
    for path, rule in rules.items():
        yield from _check_flags(path, rule, settings, statements)
        for found, value in _values_at(path, settings):
            yield from _check_maximum(found, value, rule)
            yield from _check_minimum(found, value, rule)
            yield from _check_options(found, value, rule)


def _check_flags(
    path: str, rule: EffectiveRule, settings: Mapping[str, Setting], statements: Sequence[Statement]
) -> Iterator[Violation]:
    if rule.required and not any(_is_at(path, setting) for setting in settings):
        message = f"is required by the {rule.required} and nobody says it"
        yield Violation(path, "required", message, f"say {fields.value_path(path)}", rule.required)
    if rule.locked:
        for said, value, statement in _said_below(path, statements):
            message = f"{statement.source} says {value}; it is locked by the {rule.locked}"
            yield Violation(said, "locked", message, "leave it out", rule.locked)


def _check_maximum(path: str, value: Any, rule: EffectiveRule) -> Iterator[Violation]:
    for bound in rule.max.values():
        if value is None or value is UNLIMITED:
            if path in LIMITS or value is UNLIMITED:
                found = "has no limit" if value is None else "is unlimited"
                yield _broken(
                    path, "max", f"{found}; the {bound.source} allows at most {bound.value}", bound, "or less"
                )
        elif type(value) is not type(bound.value):
            yield _incomparable(path, value, bound)
        elif value > bound.value:
            message = f"asks for {value}; the {bound.source} allows at most {bound.value}"
            yield _broken(path, "max", message, bound, "or less")


def _check_minimum(path: str, value: Any, rule: EffectiveRule) -> Iterator[Violation]:
    for bound in rule.min.values():
        if value is None or value is UNLIMITED:
            continue
        if type(value) is not type(bound.value):
            yield _incomparable(path, value, bound)
        elif value < bound.value:
            message = f"asks for {value}; the {bound.source} asks for at least {bound.value}"
            yield _broken(path, "min", message, bound, "or more")


def _check_options(path: str, value: Any, rule: EffectiveRule) -> Iterator[Violation]:
    if rule.options is None or value is None or value in rule.options.value:
        return
    options = ", ".join(map(str, rule.options.value))
    allowed = f"allows only {options}" if options else "leaves no option: what the scopes allow has nothing in common"
    hint = f"set it to one of {options}" if options else "ask an administrator of that scope"
    yield Violation(
        path, "options", f"asks for {value}; the {rule.options.source} {allowed}", hint, rule.options.source
    )


def _values_at(path: str, settings: Mapping[str, Setting]) -> Iterator[tuple[str, Any]]:
    if "*" in path:
        pattern = fields.pattern_of(path)
        yield from ((name, _measure(name, settings)) for name in settings if pattern.fullmatch(name))
    else:
        yield path, _measure(path, settings)


def _measure(path: str, settings: Mapping[str, Setting]) -> Any:
    """The value at a path. Shared memory without a size reaches up to the memory limit."""
    value = settings[path].value if path in settings else None
    if path != "resources.shm" or not isinstance(value, bool):
        return value
    limit = settings.get("resources.mem.limits")
    return (limit.value if limit else UNLIMITED) if value else None


def _said_below(path: str, statements: Sequence[Statement]) -> Iterator[tuple[str, Any, Statement]]:
    for statement in statements:
        if statement.source.layer in (Layer.USER, Layer.TEMPLATE):
            for thing in statement.things:
                for part, value in thing.values.items():
                    said = path_of(thing.section, thing.name, part)
                    if value is not None and _is_at(path, said):
                        yield said, value, statement


def _is_at(path: str, said: str) -> bool:
    if "*" in path:
        return fields.pattern_of(path).match(said) is not None
    return said == path or said.startswith(path + ".")


def _broken(path: str, rule: str, message: str, bound: Said, direction: str) -> Violation:
    return Violation(path, rule, message, f"set {path} to {bound.value} {direction}", bound.source)


def _incomparable(path: str, value: Any, bound: Said) -> Violation:
    message = f"asks for {value}; the {bound.source} bounds it by {bound.value}, and the two cannot be compared"
    return Violation(path, "unit", message, f"write it in the kind of unit of {bound.value}", bound.source)
