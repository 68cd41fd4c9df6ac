"""The inputs for planning: a snapshot of the configuration, and a request with its layers merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairlead.model import names
from fairlead.model.assets import ComputeResource, NamedRequirements, Policy, Quota, Template
from fairlead.model.isolation import Capabilities
from fairlead.model.names import PREFIX
from fairlead.model.plans import FunctionCall, Layer, Source, SourcedValue
from fairlead.model.quantities import GpuMemory, Percent
from fairlead.model.requests import Function, RunRequest
from fairlead.model.resources import WHOLE_DEVICE, Requirements
from fairlead.model.scopes import Cluster
from fairlead.resolution import policy_merging
from fairlead.resolution.layers import REQUIRED_NODES, LayerValues, Resolution, Term, cross_terms, layer_values
from fairlead.resolution.policy_merging import EffectiveRule

PULL = "pull_secrets."


@dataclass(frozen=True)
class Code:
    """The packed code of a function, and the program that unpacks and calls it in the container."""

    bootstrap: str
    archive: bytes = b""
    digest: str = ""
    sidecar: str = ""  # the module that uploads results and files from the pod
    function_server: str = ""  # the module that serves a function over HTTP


@dataclass(frozen=True)
class Snapshot:
    """Everything a plan depends on except the request. None means that a value is unknown and is not checked."""

    project: str
    cluster: Cluster
    platform: Requirements = field(default_factory=Requirements)
    policies: tuple[Policy, ...] = ()  # from the platform down to the project
    compute_resources: Mapping[str, ComputeResource] = field(default_factory=dict)
    templates: Mapping[str, Template] = field(default_factory=dict)
    # Names that exist in the project. Files do not list them, so commands that run without a server cannot check them.
    secrets: frozenset[str] | None = None
    volumes: frozenset[str] | None = None
    sharing_clusters: tuple[str, ...] = ()  # clusters with GPU sharing, for hints
    code: Code | None = None
    archived: Mapping[tuple[str, str], str | None] = field(default_factory=dict)  # (field, name) to successor
    capabilities: Capabilities | None = None  # of the cluster's executor
    # A cache, not part of the value: snapshots with the same configuration are equal.
    _layers: dict[tuple[Layer, str], LayerValues] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def rules(self) -> dict[str, EffectiveRule]:
        """The merged rules of all policies."""
        return policy_merging.merge_rules(self.policies)

    @cached_property
    def switches(self) -> dict[str, SourcedValue]:
        """The merged switches of all policies."""
        return policy_merging.merge_switches(self.policies)

    @cached_property
    def limit_factors(self) -> dict[str, SourcedValue]:
        """The merged limit factors of all policies."""
        return policy_merging.merge_limit_factors(self.policies)

    @cached_property
    def defaults(self) -> tuple[LayerValues, ...]:
        """The platform and policy defaults, in ascending precedence."""
        policies = (layer_values(policy_merging.source_of(policy), policy.defaults) for policy in self.policies)
        return (layer_values(Source(Layer.PLATFORM), self.platform), *policies)

    @cached_property
    def quotas(self) -> tuple[tuple[str, str, Any], ...]:
        """All quotas of the policies: scope, resource and amount."""
        return tuple(
            (policy.scope, resource, amount)
            for policy in self.policies
            for resource in Quota.model_fields
            if (amount := getattr(policy.quota, resource)) is not None
        )

    def layer_of(self, layer: Layer, named: NamedRequirements) -> LayerValues:
        """The values of a template or compute resource. Cached, because many requests use the same one."""
        key = (layer, named.name)
        if key not in self._layers:
            source = Source(layer, named.name, named.scope, named.revision)
            self._layers[key] = layer_values(source, named.requirements)
        return self._layers[key]


@dataclass(frozen=True)
class Draft:
    """A request with its layers merged, before checks and rendering."""

    request: RunRequest
    snapshot: Snapshot
    resolution: Resolution
    run_id: str

    @property
    def compute_resource(self) -> ComputeResource | None:
        """The compute resource that the resolved `profile` names, if it exists."""
        return self.snapshot.compute_resources.get(self.resolution.value("profile"))

    @property
    def function(self) -> Function:
        """The function to execute."""
        return self.request.function

    @property
    def switches(self) -> Mapping[str, SourcedValue]:
        """The merged switches of all policies."""
        return self.snapshot.switches

    @property
    def cluster(self) -> Cluster:
        """The cluster that executes the run."""
        return self.snapshot.cluster

    @property
    def devices(self) -> int:
        """The number of GPU devices per pod."""
        return self.resolution.value("resources", "gpu", "devices") or 0

    @property
    def gpu_memory(self) -> Percent | GpuMemory | None:
        """The reserved part of a GPU's memory; None for whole devices."""
        memory: Percent | GpuMemory | None = self.resolution.value("resources", "gpu", "memory.request")
        # 100% needs no GPU sharing, so every cluster supports it.
        return None if memory == WHOLE_DEVICE else memory

    @property
    def gpu_memory_limit(self) -> Percent | GpuMemory | None:
        """The limit on a GPU's memory."""
        limit: Percent | GpuMemory | None = self.resolution.value("resources", "gpu", "memory.limit")
        return limit

    @property
    def gpu_type(self) -> str | None:
        """The requested GPU type."""
        kind: str | None = self.resolution.value("resources", "gpu", "type")
        return kind

    @cached_property
    def required_nodes(self) -> list[Term] | None:
        """The required node affinity terms (a node must match one), combined with the GPU type's products."""
        requested: list[Term] | None = self.resolution.value("affinity", REQUIRED_NODES)
        if self.gpu_type is None:
            return requested
        # A type that the cluster does not list is used as the exact value of the label.
        products = list(self.cluster.gpu_types.get(self.gpu_type, (self.gpu_type,)))
        term = {"matchExpressions": [{"key": self.cluster.gpu_product_label, "operator": "In", "values": products}]}
        return [term] if requested is None else cross_terms(requested, [term])

    @property
    def mig(self) -> str | None:
        """The requested MIG profile."""
        mig: str | None = self.resolution.value("resources", "gpu", "mig")
        return mig

    @cached_property
    def object_name(self) -> str:
        """The name of the run's main object."""
        return names.run_name(self.function.name, self.run_id)

    @cached_property
    def name_annotations(self) -> dict[str, str]:
        """Annotations with the full project and function names if these are not valid label values."""
        originals = {"project": self.snapshot.project, "function": self.function.name}
        return {f"{PREFIX}/{kind}-name": name for kind, name in originals.items() if names.label_value(name) != name}

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels that all of the run's objects have."""
        return self.resolution.values("labels")

    @cached_property
    def call(self) -> FunctionCall:
        """The call that the bootstrap makes: function, inputs and port."""
        function, code = self.function, self.snapshot.code
        return FunctionCall(
            action=self.request.action,
            source=function.source,
            handler=function.handler,
            command=function.command,
            inputs=self.request.inputs,
            port=self.port,
            digest=function.code or (code.digest if code else ""),
        )

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets of the run, each with the path that requests it."""
        secrets = {name: f"secrets.{name}" for name in self.resolution.names("secrets")}
        for volume, parts in self.resolution.named("volumes").items():
            # A secret can be both a variable and a file. In that case, the path of the variable is reported.
            if parts["volume_type"] == "secret":
                secrets.setdefault(parts["spec.name"], f"volumes.{volume}.spec.name")
        return dict(sorted(secrets.items()))

    @cached_property
    def pull_secrets(self) -> dict[str, str]:
        """The image pull secrets, each with the path that requests it."""
        pulling = [name for name in sorted(self.resolution.names("function")) if name.startswith(PULL)]
        return {name.removeprefix(PULL): f"function.{name}" for name in pulling}

    @property
    def calls_back(self) -> bool:
        """Whether the run's pods can call the server."""
        in_pods = self.cluster.executor == "kubernetes" and self.function.kind == "python"
        return in_pods and self.cluster.server_url is not None

    @property
    def port(self) -> int | None:
        """The port of a served run or workspace."""
        port: int | None = self.resolution.value("function", "port")
        return port

    def amount(self, resource: str, part: str) -> Any:
        """The request or limit of cpu, mem or disk."""
        return self.resolution.value("resources", resource, part)
