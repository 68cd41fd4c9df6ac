"""Merges the policies of several scopes. Each bound, switch and factor keeps its source."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.model import fields
from fairlead.model.assets import LimitFactor, Policy, Switches
from fairlead.model.plans import Layer, Source, SourcedValue

# The stricter value of each switch that has two values. Lists of names are intersected instead.
STRICTER: Mapping[str, Any] = {
    "existing_volumes": "block",
    "compute_resource": "required",
    "allow_root": False,
    "gpu_memory_limits": False,
    "never_fits": "refuse",
    "network": "none",
}
# The values of switches that no policy sets. They are not merged with policy values: the defaults are strict, so no
# policy could ever loosen a switch. `network` is the exception, because most runs download data.
DEFAULT_SWITCHES: Mapping[str, Any] = {
    "existing_volumes": "block",
    "compute_resource": "optional",
    "allow_root": False,
    "gpu_memory_limits": False,
    "never_fits": "refuse",
    "network": "host",
    # None allows every name; an empty list allows none.
    "storage_classes": None,
    "registries": None,
}


@dataclass
class EffectiveRule:
    """The effective rule for a path: the tightest bounds, with their sources."""

    # By value type; see _tighten.
    min: dict[type, SourcedValue] = field(default_factory=dict)
    max: dict[type, SourcedValue] = field(default_factory=dict)
    # One list per scope: a violation names the scopes whose list does not contain the value.
    options: list[SourcedValue] = field(default_factory=list)
    required: Source | None = None
    locked: Source | None = None


def source_of(policy: Policy) -> Source:
    """The source of values that a policy sets."""
    return Source(Layer.POLICY, scope=policy.scope)


def merge_rules(policies: Sequence[Policy]) -> dict[str, EffectiveRule]:
    """Merge the rules of all scopes, from the platform down. Lower scopes can tighten rules, not loosen them."""
    merged: dict[str, EffectiveRule] = {}
    for policy in policies:
        source = source_of(policy)
        for path, rule in policy.rules.items():
            # Flags stay at the path as written: a required `resources.mem` may be a request or a limit. Bounds need one
            # value to compare with, which is the resource's request.
            flags = merged.setdefault(path, EffectiveRule())
            # The source is the highest scope that sets the flag: lower scopes cannot remove it.
            flags.required = flags.required or (source if rule.required else None)
            flags.locked = flags.locked or (source if rule.locked else None)
            bounds = merged.setdefault(fields.value_path(path), EffectiveRule())
            _tighten(bounds.max, rule.max, source, tighter=operator.lt)
            _tighten(bounds.min, rule.min, source, tighter=operator.gt)
            if rule.options is not None:
                bounds.options.append(SourcedValue(rule.options, source))
    return merged


def merge_switches(policies: Sequence[Policy]) -> dict[str, SourcedValue]:
    """Merge the switches of all scopes: the strictest value, or the default."""
    merged: dict[str, SourcedValue] = {}
    for policy in policies:
        for name in Switches.model_fields:
            value, old = getattr(policy.switches, name), merged.get(name)
            if value is None:
                continue
            # A looser value is ignored. Otherwise a department could allow what the platform forbids.
            if old is None or value == STRICTER.get(name):
                merged[name] = SourcedValue(value, source_of(policy))
            elif name not in STRICTER:
                merged[name] = SourcedValue(_common(old.value, value), source_of(policy))
    # With this source, messages can say that no policy allows a feature, instead of naming a policy that denies it.
    return {name: SourcedValue(value, Source(Layer.PLATFORM)) for name, value in DEFAULT_SWITCHES.items()} | merged


def merge_limit_factors(policies: Sequence[Policy]) -> dict[str, SourcedValue]:
    """The limit factor of each resource, from the nearest scope that sets one."""
    return {
        # Later entries replace earlier ones. A factor is a default, not a restriction, so a lower scope may raise it.
        resource: SourcedValue(factor, source_of(policy))
        for policy in policies
        for resource in LimitFactor.model_fields
        if (factor := getattr(policy.limit_factor, resource)) is not None
    }


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """The names that both lists allow. A registry also allows everything inside it."""
    return tuple(dict.fromkeys(name for name in (*one, *other) if _covers(one, name) and _covers(other, name)))


def _covers(allowed: Sequence[str], name: str) -> bool:
    return any(name == known or name.startswith(known.removesuffix("/") + "/") for known in allowed)


def _tighten(
    bounds: dict[type, SourcedValue], value: Any, source: Source, *, tighter: Callable[[Any, Any], bool]
) -> None:
    # Percentages and amounts of GPU memory cannot be compared, so there is one bound per type.
    old = bounds.get(type(value))
    if value is not None and (old is None or tighter(value, old.value)):
        bounds[type(value)] = SourcedValue(value, source)
