"""The plan for a request: settings with their sources, warnings, violations, manifests, demand and fit.

Also fit reports.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

from fairlead.model.nodes import Network, PodRequest

Manifest = dict[str, Any]  # a Kubernetes object as plain JSON, because typed classes would drop fields they do not know


class Layer(StrEnum):
    """The layers that can set a run's values, in ascending precedence."""

    PLATFORM = "platform"
    POLICY = "policy"
    TEMPLATE = "template"
    USER = "user"
    COMPUTE_RESOURCE = "compute_resource"
    ENFORCED = "enforced"

    @property
    def precedence(self) -> int:
        """The layer's precedence; platform defaults have 0."""
        return _PRECEDENCE[self]


@dataclass(frozen=True)
class Source:
    """The source of a value: a layer, and the object in that layer that set it."""

    layer: Layer
    name: str | None = None
    scope: str | None = None
    revision: int | None = None

    def __str__(self) -> str:
        return self._description

    @cached_property
    def _description(self) -> str:
        # Cached: the sources of policies and compute resources are the same in all plans of a snapshot.
        return _DESCRIPTIONS[self.layer].format(name=self.name, scope=self.scope)


# These are named tuples: a plan creates about a hundred, and creating a frozen dataclass takes four times as long.
class SourcedValue(NamedTuple):
    """A value and the layer that set it."""

    value: Any
    source: Source


class Setting(NamedTuple):
    """One resolved value: its source, the values it overrides (highest precedence first) and the values it combines."""

    path: str
    value: Any
    source: Source
    overridden: tuple[SourcedValue, ...] = ()
    combined: tuple[SourcedValue, ...] = ()  # values of several layers that apply together, for example for affinity
    reason: str | None = None  # how the value was derived, for example "default limit: 1.5x request"


def format_value(value: Any) -> str:
    """Format a value for use in a sentence."""
    if isinstance(value, Fraction):
        return f"{float(value):g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Finding:
    """A problem at a path: the rule that detected it, a message, and a hint about what to do."""

    path: str
    rule: str
    message: str
    hint: str | None = None
    source: Source | None = None  # the layer that set the rule or the value
    location: str | None = None  # the file and document that contain the problem

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.location, self.path, self.message)))


@dataclass(frozen=True)
class Violation(Finding):
    """A broken rule. A plan with violations is rejected."""


@dataclass(frozen=True)
class PlanWarning(Finding):
    """Something that may surprise the user but does not prevent the run."""

    requested: SourcedValue | None = None  # the overridden value, if the warning is about one


@dataclass(frozen=True)
class Sentence:
    """A sentence about a plan: what a pod gets, what may stop it, or a note."""

    path: str
    kind: Literal["gets", "risk", "note"]
    text: str


@dataclass(frozen=True)
class Suggestion:
    """A way to make a run fit now: a change to the request, or a run to wait for.

    `change` is merged into the request as a JSON merge patch: null removes a field. `project` is set if the run must
    be submitted to a different project.
    """

    kind: Literal["lower", "compute_resource", "cluster", "drop", "wait"]
    message: str
    change: dict[str, Any] = field(default_factory=dict)
    project: str | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class Fit:
    """Whether the run fits: `now`, `later`, `never`, or `unknown` if the nodes are not known.

    `nodes` are the best candidates, each with every reason why the run does not fit there. `counts` is the number of
    nodes per verdict, `reasons` is a summary, and `suggestions` are ways to make the run fit now.
    """

    verdict: str = "unknown"
    nodes: tuple[Any, ...] = ()  # {name, fits, reasons} for each, as in the API
    reasons: tuple[str, ...] = ()
    suggestions: tuple["Suggestion", ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class RunResources(NamedTuple):
    """The requested resources of all pods of a run. Part of a GPU counts as a whole GPU."""

    gpus: int = 0
    cpu_millicores: int = 0
    mem_bytes: int = 0
    disk_bytes: int = 0  # no quota limits disk space, but it counts toward a project's share of a machine


@dataclass(frozen=True)
class FunctionCall:
    """The call that the bootstrap makes in the container: a handler of a Python function, or its command."""

    action: str
    source: str | None
    handler: str | None
    command: tuple[str, ...]
    inputs: Mapping[str, Any]
    port: int | None
    digest: str  # of the code; empty if there is none


@dataclass(frozen=True)
class Demand:
    """What a run needs: the request of each pod and the number of pods, secrets, volumes and the function call.

    The manifests contain the same, but only executors read those. Everything else reads this.
    """

    pod_request: PodRequest
    resources: RunResources  # the amounts that count toward quotas
    secrets: tuple[str, ...] = ()  # the project's secrets that become variables or files
    pull_secrets: tuple[str, ...] = ()
    needs_token: bool = False  # whether its pods call the server, so that they need a run token
    call: FunctionCall | None = None  # None for containers with their own program
    network: Network = "host"
    deadline_seconds: float | None = None  # how long an attempt may run

    @property
    def volumes(self) -> tuple[str, ...]:
        """The project's shared volumes that the run mounts."""
        return self.pod_request.claims

    @property
    def uses(self) -> set[str]:
        """The project's secrets and volumes that the run uses, as `secret/name` and `volume/name`."""
        secrets = {f"secret/{name}" for name in (*self.secrets, *self.pull_secrets)}
        return secrets | {f"volume/{name}" for name in self.volumes}


@dataclass(frozen=True)
class Plan:
    """The result of planning a request. A plan with violations has no manifests.

    `demand` is set if the request is valid, even if a policy rejects it because it never fits.
    """

    settings: tuple[Setting, ...]
    warnings: tuple[PlanWarning, ...] = ()
    violations: tuple[Violation, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    demand: Demand | None = None
    fit: Fit = field(default_factory=Fit)


@dataclass(frozen=True)
class AddedNodes:
    """Empty nodes that were added, and the node they were copied from."""

    like: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class WhatIfChanges:
    """Nodes that were added and removed. Pods on removed nodes are not rescheduled."""

    added_nodes: list[AddedNodes] = field(default_factory=list)
    removed_nodes: list[str] = field(default_factory=list)
    removed_pods: int = 0
    sentences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class NodeFit:
    """Whether a node can run one of the run's pods now, and if not, all the reasons."""

    name: str
    fits: bool
    reasons: list[str]


@dataclass(frozen=True)
class FitReport:
    """Whether a request fits: `now`, `later`, `never`, or `unknown` if it is invalid or the cluster is unreachable.

    `room`: how many such runs fit now, up to 1,000.
    """

    verdict: str = "unknown"
    reasons: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    room: int | None = None
    nodes: list[NodeFit] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    what_if: WhatIfChanges = field(default_factory=WhatIfChanges)


_PRECEDENCE = {layer: precedence for precedence, layer in enumerate(Layer)}
_DESCRIPTIONS = {
    Layer.PLATFORM: "platform default",
    Layer.POLICY: "{scope} policy",
    Layer.TEMPLATE: "template {name}",
    Layer.USER: "request",
    Layer.COMPUTE_RESOURCE: "compute resource {name}",
    Layer.ENFORCED: "platform",
}
