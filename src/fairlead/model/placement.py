"""Where a pod may run: tolerations and affinity, as Kubernetes defines them, checked as its server checks them."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import PlainValidator, WithJsonSchema, field_validator, model_validator

from fairlead.model.names import DNS_SUBDOMAIN, LABEL_VALUE, DnsLabel, LabelKey, LabelValue
from fairlead.model.numbers import parse_whole
from fairlead.model.parsing import Kubernetes, show, wrong

MOST_TERMS = 64

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Weight = Annotated[
    int,
    PlainValidator(lambda value: parse_whole(value, least=1, most=100)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": 100}),
]
TolerationSeconds = Annotated[
    int,
    PlainValidator(lambda value: parse_whole(value, least=-(2**31), most=2**31)),
    WithJsonSchema({"type": ["integer", "string"]}),
]


class Toleration(Kubernetes):
    """A taint that a pod endures."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Effect | None = None
    toleration_seconds: TolerationSeconds | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.key and self.operator != "Exists":
            raise wrong("required", "without a key it must have operator Exists", "say the taint's key", at="key")
        if self.operator == "Exists" and self.value:
            message = f"operator Exists takes no value, found {show(self.value)}"
            raise wrong("contradiction", message, "leave the value out, or use operator Equal", at="value")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            message = f"is only for effect NoExecute, found {show(self.effect)}"
            raise wrong("contradiction", message, "leave it out, or set effect to NoExecute", at="tolerationSeconds")
        return self

    def __str__(self) -> str:
        """As kubectl writes taints, with seconds where there are any: key=value:effect@300s."""
        value = "" if self.operator == "Exists" else f"={self.value or ''}"
        seconds = "" if self.toleration_seconds is None else f"@{self.toleration_seconds}s"
        return f"{self.key or '*'}{value}:{self.effect or '*'}{seconds}"


class NodeRequirement(Kubernetes):
    """One condition on a node's labels."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_values(self.operator, self.values)
        if self.operator in ("In", "NotIn"):
            _check_labels(self.values or ())
        return self


class NodeField(Kubernetes):
    """One condition on a node's fields; its name is the only one there is."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.values) != 1:
            message = f"must be exactly one node name, found {len(self.values)}"
            raise wrong("range", message, "write one term for each node", at="values")
        if not DNS_SUBDOMAIN.matches(self.values[0]):
            message = f"is no node name: {show(self.values[0])}"
            raise wrong("name", message, f"use {DNS_SUBDOMAIN.words}", at="values.0")
        return self


class NodeTerm(Kubernetes):
    """Conditions that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeField, ...] | None = None


class NodeTerms(Kubernetes):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...]

    @field_validator("node_selector_terms", mode="before")
    @classmethod
    def _check_number(cls, terms: Any) -> Any:
        if isinstance(terms, list | tuple) and not 1 <= len(terms) <= MOST_TERMS:
            hint = "say at least one term" if not terms else "join some of them"
            raise wrong("length", f"must have 1 to {MOST_TERMS} terms, found {len(terms)}", hint)
        return terms


class PreferredNodes(Kubernetes):
    """A wish for certain nodes."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(Kubernetes):
    """Which nodes a pod must and would like to run on."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


class LabelRequirement(Kubernetes):
    """One condition on labels of pods or namespaces."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_values(self.operator, self.values)
        _check_labels(self.values or ())
        return self


class LabelSelector(Kubernetes):
    """Labels that must match."""

    match_labels: Mapping[LabelKey, LabelValue] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None

    def keys(self) -> set[str]:
        """The labels that it looks at."""
        return {*(self.match_labels or ()), *(condition.key for condition in self.match_expressions or ())}


class PodTerm(Kubernetes):
    """Pods to be near to, or far from."""

    label_selector: LabelSelector | None = None
    topology_key: LabelKey
    namespaces: tuple[DnsLabel, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[LabelKey, ...] | None = None
    mismatch_label_keys: tuple[LabelKey, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        keys = (self.match_label_keys or ()) + (self.mismatch_label_keys or ())
        if keys and self.label_selector is None:
            message = "matchLabelKeys and mismatchLabelKeys need a labelSelector"
            raise wrong("required", message, "say a labelSelector", at="labelSelector")
        selected = self.label_selector.keys() if self.label_selector is not None else set()
        if both := sorted(selected & set(keys)):
            message = f"{', '.join(both)} is a label key to match and in the labelSelector"
            raise wrong("duplicate", message, "keep one", at="matchLabelKeys")
        if len(set(keys)) < len(keys):
            raise wrong("duplicate", "a label key is there twice", "keep one", at="matchLabelKeys")
        return self


class PreferredPods(Kubernetes):
    """A wish to be near to, or far from, certain pods."""

    weight: Weight
    pod_affinity_term: PodTerm


class PodAffinity(Kubernetes):
    """Which pods a pod must and would like to share a place with, or avoid."""

    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] | None = None


class Affinity(Kubernetes):
    """Kubernetes' affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


def _check_values(operator: str, values: tuple[str, ...] | None) -> None:
    found = len(values or ())
    if operator in ("In", "NotIn") and not found:
        raise wrong("required", f"operator {operator} needs at least one value", "say values", at="values")
    if operator in ("Exists", "DoesNotExist") and found:
        message = f"operator {operator} takes no values, found {found}"
        raise wrong("contradiction", message, "leave values out", at="values")
    if operator in ("Gt", "Lt") and (found != 1 or not re.fullmatch(r"[0-9]{1,18}", (values or ("",))[0], re.ASCII)):
        message = f"operator {operator} needs exactly one whole number, found {', '.join(values or ()) or 'none'}"
        raise wrong("range", message, 'write it in quotes: values: ["5"]', at="values")


def _check_labels(values: tuple[str, ...]) -> None:
    for index, value in enumerate(values):
        if not LABEL_VALUE.matches(value):
            raise wrong("label", f"is no label value: {show(value)}", f"use {LABEL_VALUE.words}", at=f"values.{index}")
