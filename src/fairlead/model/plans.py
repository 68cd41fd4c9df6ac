"""What was decided for a request: settings with their provenance, warnings, violations and manifests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal, NamedTuple

Manifest = dict[str, Any]


class Layer(StrEnum):
    """Who can say something about a run, weakest first."""

    PLATFORM = "platform"
    POLICY = "policy"
    TEMPLATE = "template"
    USER = "user"
    COMPUTE_RESOURCE = "compute_resource"
    ENFORCED = "enforced"

    @property
    def strength(self) -> int:
        """How strong the layer is; the platform's defaults are 0."""
        return _STRENGTHS[self]


@dataclass(frozen=True)
class Source:
    """Where a value comes from: a layer, and the object of that layer that said it."""

    layer: Layer
    name: str | None = None
    scope: str | None = None
    revision: int | None = None

    def __str__(self) -> str:
        return _DESCRIPTIONS[self.layer].format(name=self.name, scope=self.scope)


# Said and Setting are named tuples because a plan makes a hundred of them, at a quarter of a dataclass's cost.
class SourcedValue(NamedTuple):
    """A value and who said it."""

    value: Any
    source: Source


class Setting(NamedTuple):
    """One resolved value: who set it, whom it overrode (strongest first), with whose values it was combined."""

    path: str
    value: Any
    source: Source
    overridden: tuple[SourcedValue, ...] = ()
    combined: tuple[SourcedValue, ...] = ()
    reason: str | None = None


def show_value(value: Any) -> str:
    """A value in a sentence, as people write it."""
    if isinstance(value, Fraction):
        return f"{float(value):g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Finding:
    """Something to tell about a path: which rule found it, what was found, and what to do about it."""

    path: str
    rule: str
    message: str
    hint: str | None = None
    source: Source | None = None
    location: str | None = None  # the file it was found in, where there is one

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.location, self.path, self.message)))


@dataclass(frozen=True)
class Violation(Finding):
    """One broken rule: with it, the run does not run."""


@dataclass(frozen=True)
class PlanWarning(Finding):
    """Something that is not as the reader may expect, and does not keep the run from running."""

    requested: SourcedValue | None = None


@dataclass(frozen=True)
class Sentence:
    """What a plan means for a pod, in words: what it gets, what may end it, or what else there is to know."""

    path: str
    kind: Literal["gets", "risk", "note"]
    text: str


@dataclass(frozen=True)
class Suggestion:
    """What would make a run fit now: what to change of the request, or which run to wait for.

    `change` is merged into the request: what is null in it is left out there. `project`: where else it is submitted.
    """

    kind: Literal["lower", "compute_resource", "cluster", "drop", "wait"]
    message: str
    change: dict[str, Any] = field(default_factory=dict)
    project: str | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class Fit:
    """Whether it would run: `now`, `later`, `never`, or `unknown` where no view of the nodes is there.

    The nodes that come nearest, with every reason why not; how many nodes there are of each verdict; what all of it
    comes down to; and what would make it run now.
    """

    verdict: str = "unknown"
    nodes: tuple[Any, ...] = ()
    reasons: tuple[str, ...] = ()
    suggestions: tuple["Suggestion", ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """The answer to a request. With violations there are no manifests."""

    settings: tuple[Setting, ...]
    warnings: tuple[PlanWarning, ...] = ()
    violations: tuple[Violation, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    fit: Fit = field(default_factory=Fit)


_STRENGTHS = {layer: strength for strength, layer in enumerate(Layer)}
_DESCRIPTIONS = {
    Layer.PLATFORM: "platform default",
    Layer.POLICY: "policy of {scope}",
    Layer.TEMPLATE: "template {name}",
    Layer.USER: "request",
    Layer.COMPUTE_RESOURCE: "compute resource {name}",
    Layer.ENFORCED: "platform",
}
