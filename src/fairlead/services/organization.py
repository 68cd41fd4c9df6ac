"""The organization as one picture: tree, clusters, policies and grants. Loaded again only when it was changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fairlead.core import permissions
from fairlead.core.permissions import Permissions
from fairlead.core.queue_order import QuotaLimits
from fairlead.core.scope_tree import ScopeTree, read_cluster
from fairlead.model.policies import Policy
from fairlead.model.records import SETTINGS, GrantRecord, PolicyRecord, ScopeRecord, SettingsRecord, TokenRecord
from fairlead.model.requirements import Requirements
from fairlead.model.scopes import Cluster
from fairlead.ports import Principal, Transaction
from fairlead.services.calls import digest_of


@dataclass(frozen=True)
class Organization:
    """All that changes rarely, as of one generation."""

    generation: int
    scopes: Mapping[str, ScopeRecord]
    policies: Mapping[str, PolicyRecord]
    grants: tuple[GrantRecord, ...]
    defaults: Requirements
    _permissions: dict[Principal, Permissions] = field(default_factory=dict, compare=False)
    _tokens: dict[str, TokenRecord] = field(default_factory=dict, compare=False)

    @classmethod
    def load(cls, tx: Transaction, generation: int) -> "Organization":
        """The organization as a transaction sees it."""
        settings = tx.get(SettingsRecord, id=SETTINGS)
        return cls(
            generation=generation,
            scopes={place.scope: place for place in tx.find(ScopeRecord)},
            policies={policy.scope: policy for policy in tx.find(PolicyRecord)},
            grants=tuple(tx.find(GrantRecord)),
            defaults=Requirements.model_validate(settings.defaults if settings else {}),
        )

    @cached_property
    def tree(self) -> ScopeTree:
        """Who stands above whom."""
        return ScopeTree({scope: place.parent for scope, place in self.scopes.items() if place.parent is not None})

    @cached_property
    def clusters(self) -> dict[str, Cluster]:
        """The clusters by scope."""
        return {scope: read_cluster(place) for scope, place in self.scopes.items() if place.kind == "cluster"}

    def clusters_near(self, scope: str) -> list[Cluster]:
        """The clusters that a scope is on or that are below it."""
        return [cluster for place, cluster in self.clusters.items() if self.tree.are_related(place, scope)]

    @cached_property
    def sharing(self) -> dict[str, Cluster]:
        """The clusters that deal out parts of GPUs, by scope."""
        return {scope: cluster for scope, cluster in self.clusters.items() if cluster.gpu_sharing != "none"}

    @cached_property
    def parsed_policies(self) -> dict[str, Policy]:
        """The policies by scope, ready to be used."""
        return {scope: Policy.model_validate({**kept.content, "scope": scope}) for scope, kept in self.policies.items()}

    @cached_property
    def quota_limits(self) -> QuotaLimits:
        """The quotas of all scopes."""
        return QuotaLimits.of(self.tree, ((scope, policy.quota) for scope, policy in self.parsed_policies.items()))

    def policies_of(self, scope: str) -> tuple[Policy, ...]:
        """The policies that reach a scope, from the platform down."""
        return tuple(self.parsed_policies[place] for place in self.tree.path(scope) if place in self.policies)

    def permissions_of(self, principal: Principal) -> Permissions:
        """What somebody may see and do."""
        if principal not in self._permissions:
            grants = ((grant.subject, grant.role, grant.scope) for grant in self.grants)
            found = permissions.permissions_of(principal.user, principal.groups, grants, self.tree)
            self._permissions[principal] = found
        return self._permissions[principal]

    def knows_token(self, text: str) -> bool:
        """Whether a token with this text was good when it was last looked at."""
        return digest_of(text) in self._tokens

    def find_token(self, tx: Transaction, text: str, now: datetime) -> TokenRecord | None:
        """The token with this text, where it is kept and has not expired."""
        digest = digest_of(text)
        token = self._tokens.get(digest) or tx.get(TokenRecord, digest=digest)
        if token is None:
            return None
        self._tokens[digest] = token
        return token if token.expires_at is None or token.expires_at > now else None
