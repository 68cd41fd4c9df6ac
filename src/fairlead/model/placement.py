"""Pod tolerations and affinity, with the validation rules of the Kubernetes API server."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import PlainValidator, WithJsonSchema, field_validator, model_validator

from fairlead.model.names import DNS_SUBDOMAIN, LABEL_VALUE, DnsLabel, LabelKey, LabelValue
from fairlead.model.parsing import KubernetesModel, field_error, short_repr
from fairlead.model.quantities import parse_integer

MAX_TERMS = 64  # Kubernetes has no limit, but `resolution.layers` multiplies the terms of several layers

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Weight = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, minimum=1, maximum=100)),
    WithJsonSchema({"type": ["integer", "string"], "minimum": 1, "maximum": 100}),
]
# Negative values are valid in Kubernetes and mean 0: evict the pod immediately.
TolerationSeconds = Annotated[
    int,
    PlainValidator(lambda value: parse_integer(value, minimum=-(2**31), maximum=2**31)),
    WithJsonSchema({"type": ["integer", "string"]}),
]


class Toleration(KubernetesModel):
    """A toleration for a taint."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Effect | None = None
    toleration_seconds: TolerationSeconds | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.key and self.operator != "Exists":
            raise field_error(
                "required",
                "is required for operator Equal",
                "set the key of the taint, or use operator Exists",
                path="key",
            )
        if self.operator == "Exists" and self.value:
            message = f"operator Exists takes no value, found {short_repr(self.value)}"
            raise field_error("contradiction", message, "remove the value, or use operator Equal", path="value")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            message = f"requires effect NoExecute, found {short_repr(self.effect)}"
            raise field_error(
                "contradiction", message, "remove it, or set effect to NoExecute", path="tolerationSeconds"
            )
        return self

    def __str__(self) -> str:
        """The toleration in kubectl's taint notation, with optional seconds: key=value:effect@300s."""
        value = "" if self.operator == "Exists" else f"={self.value or ''}"
        seconds = "" if self.toleration_seconds is None else f"@{self.toleration_seconds}s"
        return f"{self.key or '*'}{value}:{self.effect or '*'}{seconds}"


class NodeRequirement(KubernetesModel):
    """A condition on a node label."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_values(self.operator, self.values)
        if self.operator in ("In", "NotIn"):
            _check_labels(self.values or ())
        return self


class NodeField(KubernetesModel):
    """A condition on a node field. The name is the only field that Kubernetes supports."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: tuple[str, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        # The API server allows only one name per condition on metadata.name.
        if len(self.values) != 1:
            message = f"must be exactly one node name, found {len(self.values)}"
            raise field_error("range", message, "use one term for each node", path="values")
        if not DNS_SUBDOMAIN.matches(self.values[0]):
            message = f"invalid node name {short_repr(self.values[0])}"
            raise field_error("name", message, f"use {DNS_SUBDOMAIN.description}", path="values.0")
        return self


class NodeTerm(KubernetesModel):
    """A node selector term: all conditions must match. A term without conditions matches no node."""

    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeField, ...] | None = None


class NodeTerms(KubernetesModel):
    """A node selector: at least one term must match."""

    node_selector_terms: tuple[NodeTerm, ...]

    @field_validator("node_selector_terms", mode="before")
    @classmethod
    def _check_number(cls, terms: Any) -> Any:
        if isinstance(terms, list | tuple) and not 1 <= len(terms) <= MAX_TERMS:
            hint = "add at least one term" if not terms else "combine some of them"
            raise field_error("length", f"must have 1 to {MAX_TERMS} terms, found {len(terms)}", hint)
        return terms


class PreferredNodes(KubernetesModel):
    """A preferred node affinity term with its weight."""

    weight: Weight
    preference: NodeTerm


class NodeAffinity(KubernetesModel):
    """Required and preferred node affinity."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodes, ...] | None = None


class LabelRequirement(KubernetesModel):
    """A condition on a pod or namespace label."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_values(self.operator, self.values)
        _check_labels(self.values or ())
        return self


class LabelSelector(KubernetesModel):
    """A label selector."""

    match_labels: Mapping[LabelKey, LabelValue] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None

    def keys(self) -> set[str]:
        """The keys of all labels in the selector."""
        return {*(self.match_labels or ()), *(condition.key for condition in self.match_expressions or ())}


class PodTerm(KubernetesModel):
    """An inter-pod affinity or anti-affinity term."""

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
            raise field_error("required", message, "set a labelSelector", path="labelSelector")
        selected = self.label_selector.keys() if self.label_selector is not None else set()
        if both := sorted(selected & set(keys)):
            message = f"also in the labelSelector: {', '.join(both)}"
            raise field_error("duplicate", message, "remove one of them", path="matchLabelKeys")
        if len(set(keys)) < len(keys):
            raise field_error("duplicate", "contains a label key twice", "remove one of them", path="matchLabelKeys")
        return self


class PreferredPods(KubernetesModel):
    """A preferred inter-pod affinity term with its weight."""

    weight: Weight
    pod_affinity_term: PodTerm


class PodAffinity(KubernetesModel):
    """Required and preferred inter-pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPods, ...] | None = None


class Affinity(KubernetesModel):
    """A pod's affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


def _check_values(operator: str, values: tuple[str, ...] | None) -> None:
    count = len(values or ())
    if operator in ("In", "NotIn") and not count:
        raise field_error("required", f"operator {operator} needs at least one value", "add a value", path="values")
    if operator in ("Exists", "DoesNotExist") and count:
        message = f"operator {operator} takes no values, found {count}"
        raise field_error("contradiction", message, "remove values", path="values")
    # kube-scheduler parses the value as int64; 18 digits always fit. A label value cannot have a sign.
    if operator in ("Gt", "Lt") and (count != 1 or not re.fullmatch(r"[0-9]{1,18}", (values or ("",))[0], re.ASCII)):
        message = f"operator {operator} needs exactly one whole number, found {', '.join(values or ()) or 'none'}"
        raise field_error("range", message, 'use one number in quotes, for example values: ["5"]', path="values")


def _check_labels(values: tuple[str, ...]) -> None:
    for index, value in enumerate(values):
        if not LABEL_VALUE.matches(value):
            raise field_error(
                "label",
                f"invalid label value {short_repr(value)}",
                f"use {LABEL_VALUE.description}",
                path=f"values.{index}",
            )
