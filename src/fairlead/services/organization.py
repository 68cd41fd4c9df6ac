"""The organization in memory: scopes, clusters, policies and grants. Reloaded only when it has changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from fairlead.model import scopes as permissions
from fairlead.model.assets import Policy
from fairlead.model.records import SETTINGS, GrantRecord, PolicyRecord, ScopeRecord, SettingsRecord, TokenRecord
from fairlead.model.resources import Requirements
from fairlead.model.scopes import Cluster, Permissions, ScopeTree, read_cluster
from fairlead.ports import Principal, Transaction
from fairlead.scheduling.queue_order import QuotaLimits
from fairlead.services.calls import digest_of


@dataclass(frozen=True)
class Organization:
    """Scopes, policies, grants and defaults as of one generation."""

    generation: int
    scopes: Mapping[str, ScopeRecord]
    policies: Mapping[str, PolicyRecord]
    grants: tuple[GrantRecord, ...]
    defaults: Requirements
    # These caches need no invalidation: revoking a role or token creates a new generation, which gets a new object.
    _permissions: dict[Principal, Permissions] = field(default_factory=dict, compare=False)
    _tokens: dict[str, TokenRecord] = field(default_factory=dict, compare=False)

    @classmethod
    def load(cls, tx: Transaction, generation: int) -> "Organization":
        """Load the organization in a transaction."""
        settings = tx.get(SettingsRecord, id=SETTINGS)
        return cls(
            generation=generation,
            scopes={record.scope: record for record in tx.find(ScopeRecord)},
            policies={policy.scope: policy for policy in tx.find(PolicyRecord)},
            grants=tuple(tx.find(GrantRecord)),
            defaults=Requirements.model_validate(settings.defaults if settings else {}),
        )

    @cached_property
    def tree(self) -> ScopeTree:
        """The parent of each scope."""
        return ScopeTree({scope: record.parent for scope, record in self.scopes.items() if record.parent is not None})

    @cached_property
    def clusters(self) -> dict[str, Cluster]:
        """The clusters by scope."""
        return {scope: read_cluster(record) for scope, record in self.scopes.items() if record.kind == "cluster"}

    def clusters_near(self, scope: str) -> list[Cluster]:
        """Return the clusters that contain the scope or are inside it."""
        return [cluster for other, cluster in self.clusters.items() if self.tree.are_related(other, scope)]

    @cached_property
    def gpu_sharing_clusters(self) -> dict[str, Cluster]:
        """The clusters that share GPUs, by scope."""
        return {scope: cluster for scope, cluster in self.clusters.items() if cluster.gpu_sharing != "none"}

    @cached_property
    def parsed_policies(self) -> dict[str, Policy]:
        """The policies by scope, as models."""
        records = self.policies
        return {scope: Policy.model_validate({**record.content, "scope": scope}) for scope, record in records.items()}

    @cached_property
    def quota_limits(self) -> QuotaLimits:
        """The quotas of all scopes."""
        return QuotaLimits.of(self.tree, ((scope, policy.quota) for scope, policy in self.parsed_policies.items()))

    def policies_of(self, scope: str) -> tuple[Policy, ...]:
        """Return the policies that apply to a scope, starting with the platform's."""
        return tuple(self.parsed_policies[ancestor] for ancestor in self.tree.path(scope) if ancestor in self.policies)

    def permissions_of(self, principal: Principal) -> Permissions:
        """Return a user's permissions."""
        if principal not in self._permissions:
            grants = ((grant.subject, grant.role, grant.scope) for grant in self.grants)
            self._permissions[principal] = permissions.permissions_of(
                principal.user, principal.groups, grants, self.tree
            )
        return self._permissions[principal]

    def has_cached_token(self, text: str) -> bool:
        """Whether a token with this text is in the cache. It may have expired in the meantime."""
        return digest_of(text) in self._tokens

    def find_token(self, tx: Transaction, text: str, now: datetime) -> TokenRecord | None:
        """Return the token with this text; None if it does not exist or has expired."""
        digest = digest_of(text)
        token = self._tokens.get(digest) or tx.get(TokenRecord, digest=digest)
        if token is None:
            return None
        self._tokens[digest] = token
        # Expiry does not change the generation, so it is checked on each use.
        return token if token.expires_at is None or token.expires_at > now else None
