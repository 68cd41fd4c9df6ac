"""Queue policies: the weights of projects, and the limits on their waiting runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from fairlead.model.assets import QueuePolicy
from fairlead.model.plans import Layer, Source, SourcedValue
from fairlead.model.scopes import ScopeTree

DEFAULT_WEIGHT = 1.0


def merge_queue_policies(policies: Iterable[tuple[str, QueuePolicy]]) -> dict[str, SourcedValue]:
    """Merge the queue policies of scopes, given from the platform down.

    The smallest limit applies, so that lower scopes cannot raise it, and the weight of the nearest scope.
    """
    merged: dict[str, SourcedValue] = {}
    for scope, policy in policies:
        source = Source(Layer.POLICY, scope=scope)
        limit, lowest = policy.max_waiting_runs, merged.get("max_waiting_runs")
        if limit is not None and (lowest is None or limit < lowest.value):
            merged["max_waiting_runs"] = SourcedValue(limit, source)
        if policy.weight is not None:
            merged["weight"] = SourcedValue(float(policy.weight), source)
    return merged


@dataclass(frozen=True)
class QueuePolicies:
    """The queue policies of all scopes of an organization."""

    tree: ScopeTree = field(default_factory=ScopeTree)
    policies: Mapping[str, QueuePolicy] = field(default_factory=dict)  # by scope
    _merged: dict[str, dict[str, SourcedValue]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, tree: ScopeTree, policies: Iterable[tuple[str, QueuePolicy]]) -> Self:
        """The queue policies of scopes. Empty policies are ignored."""
        return cls(tree, {scope: policy for scope, policy in policies if policy.model_fields_set})

    def weight_of(self, scope: str) -> float:
        """The weight of a project: a project with weight 2 gets twice as much as one with weight 1."""
        weight = self._merge(scope).get("weight")
        return DEFAULT_WEIGHT if weight is None else float(weight.value)

    def limit_of(self, scope: str) -> SourcedValue | None:
        """The limit on the waiting runs of a project, with its source; None if it is not limited."""
        return self._merge(scope).get("max_waiting_runs")

    def _merge(self, scope: str) -> dict[str, SourcedValue]:
        if not self.policies:
            return {}
        if scope not in self._merged:
            path = (parent for parent in self.tree.path(scope) if parent in self.policies)
            self._merged[scope] = merge_queue_policies((parent, self.policies[parent]) for parent in path)
        return self._merged[scope]
