"""The effective policy of a scope, with the source of each part, and differences between two versions of data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.model.assets import Difference, EffectivePolicy, EffectiveValue, Policy, ScopeDefaults, ScopeUsage
from fairlead.resolution import policy_merging
from fairlead.resolution.policy_merging import EffectiveRule
from fairlead.scheduling.queue_policies import merge_queue_policies

Json = dict[str, Any]


def merge_policies(policies: Sequence[Policy], scope: str, used: Callable[[str], ScopeUsage]) -> EffectivePolicy:
    """Merge policies, given from the platform down. `used` returns the usage of a scope."""
    rules = ((path, _describe_rule(rule)) for path, rule in sorted(policy_merging.merge_rules(policies).items()))
    defaults = (ScopeDefaults(policy.scope, policy.defaults.to_data()) for policy in policies)
    quotas = ((policy.scope, policy.quota.model_dump(exclude_none=True)) for policy in policies)
    queue = merge_queue_policies((policy.scope, policy.queue) for policy in policies)
    return EffectivePolicy(
        scope=scope,
        # A bound at `resources.mem` applies to the request, and leaves an empty entry at `resources.mem` itself.
        rules={path: rule for path, rule in rules if rule},
        switches={name: EffectiveValue.of(switch) for name, switch in policy_merging.merge_switches(policies).items()},
        limit_factor={
            name: EffectiveValue(float(factor.value), factor.source)
            for name, factor in policy_merging.merge_limit_factors(policies).items()
        },
        defaults=[item for item in defaults if item.requirements],
        quotas=[{"scope": owner, **quota, "used": used(owner)} for owner, quota in quotas if quota],
        queue={name: EffectiveValue.of(value) for name, value in sorted(queue.items())},
        used=used(scope),
    )


def _describe_rule(rule: EffectiveRule) -> Json:
    bounds = {
        "min": [EffectiveValue.of(bound) for bound in rule.min.values()],
        "max": [EffectiveValue.of(bound) for bound in rule.max.values()],
        "options": [EffectiveValue.of(bound) for bound in rule.options],
        "required": None if rule.required is None else EffectiveValue(True, rule.required),
        "locked": None if rule.locked is None else EffectiveValue(True, rule.locked),
    }
    return {name: value for name, value in bounds.items() if value}


def find_differences(before: Any, after: Any) -> list[Difference]:
    """All differences, sorted by path. List entries with a name are matched by name."""
    return sorted(_walk_differences("", before, after), key=lambda difference: difference.path)


def _walk_differences(path: str, before: Any, after: Any) -> Iterator[Difference]:
    old, new = _by_name(before), _by_name(after)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _walk_differences(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif isinstance(old, Mapping) and new is None:
        # The value is compared with an empty mapping, so that each field that was added or removed has its own path.
        yield from _walk_differences(path, old, {})
    elif isinstance(new, Mapping) and old is None:
        yield from _walk_differences(path, {}, new)
    elif before != after:
        yield Difference(path, before, after)


def _by_name(value: Any) -> Any:
    """Convert a list of named entries to a mapping by name. Other values are returned unchanged."""
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        # If entries were matched by position, inserting one at the start would change all the others.
        for key in ("name", "key"):
            if all(isinstance(item.get(key), str) for item in value):
                return {item[key]: {name: part for name, part in item.items() if name != key} for item in value}
    return value
