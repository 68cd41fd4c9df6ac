"""What planning works on: what is known at the time, and a request with its layers merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairlead.core.placement import REQUIRED_NODES, Term, cross_terms
from fairlead.core.policies import merging
from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.resolution import Resolution, LayerValues, state
from fairlead.model.compute_resources import ComputeResource, Named, Template
from fairlead.model.plans import Layer, SourcedValue, Source
from fairlead.model.policies import Policy
from fairlead.model.quantities import GpuMemory, Percent
from fairlead.model.requests import Function, RunRequest
from fairlead.model.requirements import Requirements
from fairlead.model.resources import WHOLE_DEVICE
from fairlead.model.scopes import Cluster

PULL = "pull_secrets."


@dataclass(frozen=True)
class Code:
    """A function's code, packed, and the program that unpacks and calls it in the container."""

    bootstrap: str
    archive: bytes = b""
    digest: str = ""
    sidecar: str = ""  # the part of that program by which a pod hands over what it leaves
    function_server: str = ""  # the part by which a served function listens


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
    archived: Mapping[tuple[str, str], str | None] = field(default_factory=dict)  # (field, name): its successor
    _statements: dict[tuple[Layer, str], LayerValues] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def rules(self) -> dict[str, EffectiveRule]:
        """The rules of all policies as one."""
        return merging.merge_rules(self.policies)

    @cached_property
    def switches(self) -> dict[str, SourcedValue]:
        """The switches of all policies as one."""
        return merging.merge_switches(self.policies)

    @cached_property
    def limit_factors(self) -> dict[str, SourcedValue]:
        """The limit factors of all policies as one."""
        return merging.merge_limit_factors(self.policies)

    @cached_property
    def defaults(self) -> tuple[LayerValues, ...]:
        """What the platform and the policies say where nobody else does, weakest first."""
        policies = (state(merging.source_of(policy), policy.defaults) for policy in self.policies)
        return (state(Source(Layer.PLATFORM), self.platform), *policies)

    def statement_of(self, layer: Layer, named: Named) -> LayerValues:
        """What a template or a compute resource says, worked out once for all requests."""
        key = (layer, named.name)
        if key not in self._statements:
            source = Source(layer, named.name, named.scope, named.revision)
            self._statements[key] = state(source, named.requirements)
        return self._statements[key]


@dataclass(frozen=True)
class Draft:
    """A request with its layers merged, before it is checked and rendered."""

    request: RunRequest
    snapshot: Snapshot
    resolution: Resolution
    run_id: str

    @property
    def compute_resource(self) -> ComputeResource | None:
        """The one that the strongest layer names, where there is one of that name."""
        return self.snapshot.compute_resources.get(self.resolution.value("profile"))

    @property
    def function(self) -> Function:
        """What is executed."""
        return self.request.function

    @property
    def switches(self) -> Mapping[str, SourcedValue]:
        """What may be done at all."""
        return self.snapshot.switches

    @property
    def cluster(self) -> Cluster:
        """Where it is executed."""
        return self.snapshot.cluster

    @property
    def devices(self) -> int:
        """GPUs of one pod."""
        return self.resolution.value("resources", "gpu", "devices") or 0

    @property
    def gpu_memory(self) -> Percent | GpuMemory | None:
        """The share or amount of a GPU's memory that is reserved; None where whole devices are asked for."""
        memory: Percent | GpuMemory | None = self.resolution.value("resources", "gpu", "memory.request")
        return None if memory == WHOLE_DEVICE else memory

    @property
    def gpu_memory_limit(self) -> Percent | GpuMemory | None:
        """The share or amount of a GPU's memory that may be used."""
        limit: Percent | GpuMemory | None = self.resolution.value("resources", "gpu", "memory.limit")
        return limit

    @property
    def gpu_type(self) -> str | None:
        """The type of GPU that is asked for."""
        kind: str | None = self.resolution.value("resources", "gpu", "type")
        return kind

    @cached_property
    def required_nodes(self) -> list[Term] | None:
        """The terms of which a node must suit one: those of the affinity, crossed with the products of the GPU type."""
        asked: list[Term] | None = self.resolution.value("affinity", REQUIRED_NODES)
        if self.gpu_type is None:
            return asked
        products = list(self.cluster.gpu_types.get(self.gpu_type, (self.gpu_type,)))
        term = {"matchExpressions": [{"key": self.cluster.gpu_product_label, "operator": "In", "values": products}]}
        return [term] if asked is None else cross_terms(asked, [term])

    @property
    def mig(self) -> str | None:
        """The MIG slice that is asked for."""
        mig: str | None = self.resolution.value("resources", "gpu", "mig")
        return mig

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets that the run is given, each with the path that asks for it."""
        asked = {name: f"secrets.{name}" for name in self.resolution.named("secrets")}
        for volume, parts in self.resolution.named("volumes").items():
            if parts["volume_type"] == "secret":
                asked.setdefault(parts["spec.name"], f"volumes.{volume}.spec.name")
        return dict(sorted(asked.items()))

    @property
    def pull_secrets(self) -> dict[str, str]:
        """The secrets with which its image is pulled, each with the path that asks for it."""
        names = self.resolution.named("function")
        return {name.removeprefix(PULL): f"function.{name}" for name in names if name.startswith(PULL)}

    @property
    def calls_back(self) -> bool:
        """Whether its pods know where the server is, and are known there."""
        in_pods = self.cluster.executor == "kubernetes" and self.function.kind == "python"
        return in_pods and self.cluster.server_url is not None

    @property
    def port(self) -> int | None:
        """Where a served run or a workspace listens."""
        port: int | None = self.resolution.value("function", "port")
        return port

    def amount(self, resource: str, part: str) -> Any:
        """A request or limit of cpu, mem or disk."""
        return self.resolution.value("resources", resource, part)
