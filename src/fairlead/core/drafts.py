"""What planning works on: what is known at the time, and a request with its layers merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.resolution import Resolution
from fairlead.model.compute_resources import ComputeResource, Template
from fairlead.model.plans import Said
from fairlead.model.policies import Policy
from fairlead.model.requests import Function, RunRequest
from fairlead.model.requirements import Requirements
from fairlead.model.scopes import Cluster


@dataclass(frozen=True)
class Code:
    """A function's code, packed, and the program that unpacks and calls it in the container."""

    bootstrap: str
    archive: bytes = b""
    digest: str = ""


@dataclass(frozen=True)
class Snapshot:
    """All that a plan depends on beside the request. None: not known, so not checked."""

    project: str
    cluster: Cluster
    platform: Requirements = field(default_factory=Requirements)
    policies: tuple[Policy, ...] = ()  # from the platform down to the project
    compute_resources: Mapping[str, ComputeResource] = field(default_factory=dict)
    templates: Mapping[str, Template] = field(default_factory=dict)
    secrets: frozenset[str] | None = None
    volumes: frozenset[str] | None = None
    sharing_clusters: tuple[str, ...] = ()
    code: Code | None = None


@dataclass(frozen=True)
class Draft:
    """A request with its layers merged, before it is checked and rendered."""

    request: RunRequest
    snapshot: Snapshot
    resolution: Resolution
    switches: Mapping[str, Said]
    run_id: str
    compute_resource: ComputeResource | None = None

    @property
    def function(self) -> Function:
        """What is executed."""
        return self.request.function

    @property
    def cluster(self) -> Cluster:
        """Where it is executed."""
        return self.snapshot.cluster

    @property
    def devices(self) -> int:
        """GPUs of one pod."""
        return self.resolution.value("resources", "gpu", "devices") or 0

    @property
    def port(self) -> int | None:
        """Where a served run or a workspace listens."""
        port: int | None = self.resolution.value("function", "port")
        return port

    def amount(self, resource: str, part: str) -> Any:
        """A request or limit of cpu, mem or disk."""
        return self.resolution.value("resources", resource, part)
