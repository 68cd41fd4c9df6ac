"""What holds at a scope, for people and programs: each rule, switch, factor, default and quota with its source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.core import explanations
from fairlead.core.policies import merging
from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.quotas import ScopeUsage
from fairlead.model.plans import Source, SourcedValue
from fairlead.model.policies import Policy

Json = dict[str, Any]


@dataclass(frozen=True)
class EffectiveValue:
    """A value, and who said it."""

    value: Any
    source: Source

    @classmethod
    def of(cls, said: SourcedValue) -> "EffectiveValue":
        """The same, with the value as JSON has it."""
        return cls(explanations.to_json(said.value), said.source)


@dataclass(frozen=True)
class ScopeDefaults:
    """The defaults of one scope. Those of a nearer scope win."""

    scope: str
    requirements: Json


@dataclass(frozen=True)
class EffectivePolicy:
    """The policies from the platform down to a scope as one, and what is used there.

    A rule has the bounds that are said, a quota the amounts: the others are left out.
    """

    scope: str
    rules: dict[str, Json]
    switches: dict[str, EffectiveValue]
    limit_factor: dict[str, EffectiveValue]
    defaults: list[ScopeDefaults]
    quotas: list[Json]
    used: ScopeUsage


def describe(policies: Sequence[Policy], scope: str, used: Callable[[str], ScopeUsage]) -> EffectivePolicy:
    """Policies from the platform down as one, and what is used at and below a scope."""
    rules = ((path, _describe_rule(rule)) for path, rule in sorted(merging.merge_rules(policies).items()))
    defaults = (ScopeDefaults(policy.scope, policy.defaults.to_data()) for policy in policies)
    quotas = ((policy.scope, policy.quota.model_dump(exclude_none=True)) for policy in policies)
    return EffectivePolicy(
        scope=scope,
        rules={path: rule for path, rule in rules if rule},
        switches={name: EffectiveValue.of(said) for name, said in merging.merge_switches(policies).items()},
        limit_factor={
            name: EffectiveValue(float(said.value), said.source)
            for name, said in merging.merge_limit_factors(policies).items()
        },
        defaults=[item for item in defaults if item.requirements],
        quotas=[{"scope": place, **quota, "used": used(place)} for place, quota in quotas if quota],
        used=used(scope),
    )


def _describe_rule(rule: EffectiveRule) -> Json:
    bounds = {
        "min": [EffectiveValue.of(said) for said in rule.min.values()],
        "max": [EffectiveValue.of(said) for said in rule.max.values()],
        "options": [EffectiveValue.of(said) for said in rule.options],
        "required": None if rule.required is None else EffectiveValue(True, rule.required),
        "locked": None if rule.locked is None else EffectiveValue(True, rule.locked),
    }
    return {name: value for name, value in bounds.items() if value}
