"""The inputs for planning: a snapshot of the configuration, and a request with its layers merged."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from fairlead.model import names
from fairlead.model.assets import ComputeResource, NamedRequirements, Policy, Quota, Template
from fairlead.model.names import PREFIX
from fairlead.model.nodes import Capabilities
from fairlead.model.plans import FunctionCall, Layer, Setting, Source, SourcedValue
from fairlead.model.quantities import GpuMemory, Percent
from fairlead.model.requests import Function, RunRequest
from fairlead.model.resources import WHOLE_DEVICE, Requirements
from fairlead.model.scopes import Cluster
from fairlead.resolution import policy_merging
from fairlead.resolution.layers import NOTHING, REQUIRED_NODES, LayerValues, Settings, Term, cross_terms, layer_values
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
    """A request with its layers merged, before checks and rendering. Checks and renderers read values only from here.

    The values that many of them read are fields, which are computed once.
    """

    request: RunRequest
    snapshot: Snapshot
    run_id: str
    groups: Settings
    settings: Mapping[str, Setting]  # by path, sorted
    values: Mapping[str, Any]  # by path
    function: Function
    cluster: Cluster
    switches: Mapping[str, SourcedValue]
    devices: int  # GPU devices per pod
    gpu_memory: Percent | GpuMemory | None  # the reserved part of a GPU's memory; None for whole devices
    gpu_memory_limit: Percent | GpuMemory | None
    gpu_type: str | None
    mig: str | None  # the MIG profile
    port: int | None  # of a served run or workspace
    calls_back: bool  # whether the run's pods can call the server

    @cached_property
    def required_nodes(self) -> list[Term] | None:
        """The required node affinity terms (a node must match one), combined with the GPU type's products."""
        requested: list[Term] | None = self.values.get(f"affinity.{REQUIRED_NODES}")
        if self.gpu_type is None:
            return requested
        # A type that the cluster does not list is used as the exact value of the label.
        products = list(self.cluster.gpu_types.get(self.gpu_type, (self.gpu_type,)))
        term = {"matchExpressions": [{"key": self.cluster.gpu_product_label, "operator": "In", "values": products}]}
        return [term] if requested is None else cross_terms(requested, [term])

    def object_name(self, suffix: str = "") -> str:
        """The name of the run's main object, or with a suffix, the name of another object."""
        name = names.run_name(self.function.name, self.run_id)
        return f"{name}-{suffix}" if suffix else name

    @cached_property
    def name_annotations(self) -> dict[str, str]:
        """Annotations with the full project and function names if these are not valid label values."""
        originals = {"project": self.snapshot.project, "function": self.function.name}
        return {f"{PREFIX}/{kind}-name": name for kind, name in originals.items() if names.label_value(name) != name}

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels that all of the run's objects have."""
        return self.section("labels")

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
    def program(self) -> dict[str, str]:
        """The files that call a Python function in a container: the bootstrap, the call and the modules it needs."""
        code = self.snapshot.code
        program = {"bootstrap.py": code.bootstrap if code else "", "call.json": json.dumps(vars(self.call))}
        if code and code.sidecar and self.cluster.executor == "kubernetes":
            program["sidecar.py"] = code.sidecar
        # Included only if the run needs it, because all programs count toward the ConfigMap's size.
        if code and code.function_server and self.request.action == "serve" and not self.function.command:
            program["function_server.py"] = code.function_server
        return program

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The secrets of the run, each with the path that requests it."""
        secrets = {name: f"secrets.{name}" for name in self.groups.get("secrets", ())}
        for volume, parts in self.volumes.items():
            # A secret can be both a variable and a file. In that case, the path of the variable is reported.
            if parts["volume_type"] == "secret":
                secrets.setdefault(parts["spec.name"], f"volumes.{volume}.spec.name")
        return dict(sorted(secrets.items()))

    @cached_property
    def pull_secrets(self) -> dict[str, str]:
        """The image pull secrets, each with the path that requests it."""
        pulling = [name for name in sorted(self.groups.get("function", ())) if name.startswith(PULL)]
        return {name.removeprefix(PULL): f"function.{name}" for name in pulling}

    @cached_property
    def volumes(self) -> dict[str, dict[str, Any]]:
        """The volumes, sorted by name, each with the parts that have a value."""
        return self._parts_of("volumes")

    @cached_property
    def resources(self) -> dict[str, dict[str, Any]]:
        """The resources, sorted by name, each with the parts that have a value."""
        return self._parts_of("resources")

    def section(self, section: str) -> dict[str, Any]:
        """The values in a section whose groups have no parts, sorted by name."""
        return {name: parts[""].value for name, parts in sorted(self.groups.get(section, NOTHING).items())}

    def _parts_of(self, section: str) -> dict[str, dict[str, Any]]:
        return {
            name: {part: setting.value for part, setting in parts.items() if setting.value is not None}
            for name, parts in sorted(self.groups.get(section, NOTHING).items())
        }


def build_draft(request: RunRequest, snapshot: Snapshot, run_id: str, groups: Settings) -> Draft:
    """Build a draft from merged settings."""
    every = [setting for section in groups.values() for parts in section.values() for setting in parts.values()]
    settings = {setting.path: setting for setting in sorted(every, key=itemgetter(0))}
    values = {path: setting.value for path, setting in settings.items()}
    function, cluster = request.function, snapshot.cluster
    memory = values.get("resources.gpu.memory.request")
    in_pods = cluster.executor == "kubernetes" and function.kind == "python"
    return Draft(
        request=request,
        snapshot=snapshot,
        run_id=run_id,
        groups=groups,
        settings=settings,
        values=values,
        function=function,
        cluster=cluster,
        switches=snapshot.switches,
        devices=values.get("resources.gpu.devices") or 0,
        # 100% needs no GPU sharing, so every cluster supports it.
        gpu_memory=None if memory == WHOLE_DEVICE else memory,
        gpu_memory_limit=values.get("resources.gpu.memory.limit"),
        gpu_type=values.get("resources.gpu.type"),
        mig=values.get("resources.gpu.mig"),
        port=values.get("function.port"),
        calls_back=in_pods and cluster.server_url is not None,
    )
