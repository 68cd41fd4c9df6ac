"""Pydantic models of the parts of Kubernetes objects that fitting reads, so that it can rely on their types.

Validation reports all errors at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from fairlead.model.parsing import MAX_MISTAKES, field_error, printable, short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.quantities import NANOS, Quantity

JSON = dict[str, Any]

# Preferred terms are ignored: they affect the choice among nodes, but not whether a pod fits.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MAX_PRIORITY = 2**31  # priorities are int32 in Kubernetes
MAX_PORT = 65535
# These texts appear in terminal messages, so control characters and line separators are rejected.
PLAIN, PRINTABLE = r"^[!-~]*$", r"^[^\p{C}\p{Zl}\p{Zp}]*$"

# Messages by pydantic error type.
MESSAGES = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be text without {without}",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
RULES = {"missing": "required", "literal_error": "options"}
WITHOUT = {PLAIN: "spaces and non-ASCII characters", PRINTABLE: "control characters"}


@lru_cache(maxsize=4096)  # clusters repeat the same few amounts
def _parse(amount: str) -> int:
    return Quantity.parse(amount).nanos


def _is_counted(name: str) -> bool:
    """Whether the API server accepts only integers, as for pods and extended resources."""
    return name == "pods" or ("/" in name and "kubernetes.io/" not in name)


def _check_amount(value: Any) -> Any:
    try:
        is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
        why = "must not be negative" * (_parse(str(value)) < 0) if is_number else "must be an amount"
    except ValueError as error:
        why = f"invalid amount: {error}"
    if why:
        raise field_error("amount", f"{why}, found {short_repr(value)}", "use a number, for example 500m or 4Gi")
    return value


def _check_whole(amounts: JSON) -> JSON:
    for name, value in amounts.items():
        if _is_counted(name) and _parse(str(value)) % NANOS:
            raise field_error(
                "amount", f"must be a whole number, found {short_repr(value)}", "use an integer", path=name
            )
    return amounts


Text = Annotated[str, Field(pattern=PRINTABLE)]
Plain = Annotated[str, Field(pattern=PLAIN)]
Name = Annotated[str, Field(pattern=PLAIN, min_length=1, max_length=253)]  # a DNS name
Key = Annotated[str, Field(pattern=PLAIN, min_length=1, max_length=317)]  # prefix (253), slash, name (63)
Labels = dict[Plain, Annotated[str, Field(pattern=PLAIN, max_length=63)]]
Amounts = Annotated[dict[Plain, Annotated[Any, PlainValidator(_check_amount)]], AfterValidator(_check_whole)]
Port = Annotated[int, Field(ge=0, le=MAX_PORT)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_PRIORITY)]
Priority = Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
LabelOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
NodeOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class KubeModel(BaseModel):
    """Base class of the models: types are strict, and unknown fields are ignored."""

    # Strict, because fitting reads the original JSON and relies on its types. Validators are built on first use,
    # because most commands do not need them.
    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=to_camel, defer_build=True)


class KubeMetadata(KubeModel):
    """The metadata of an object."""

    name: Name
    namespace: Plain | None = None
    labels: Labels | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Text | None = None
    deletion_timestamp: Text = ""  # not null: fitting only checks whether the field is present
    uid: Text | None = None


class KubeObject(KubeModel):
    """An object of any kind."""

    metadata: KubeMetadata


class KubeStatus(KubeModel):
    """The status of a claim or volume."""

    phase: Text | None = None


class KubeLabelRequirement(KubeModel):
    """A requirement of a label selector."""

    key: Key
    operator: LabelOperator
    values: list[Text] | None = None


class KubeNodeRequirement(KubeModel):
    """A requirement of a node selector term."""

    key: Key
    operator: NodeOperator
    values: list[Text] | None = None


Requirement = TypeVar("Requirement", KubeLabelRequirement, KubeNodeRequirement)


def _check_values(requirement: Requirement) -> Requirement:
    """Check the number of values that an operator requires."""
    operator, values = requirement.operator, requirement.values or ()
    if operator in ("Exists", "DoesNotExist"):
        valid, wanted = not values, "no values"
    elif operator in ("Gt", "Lt"):
        valid, wanted = len(values) == 1, "one value"
    else:
        valid, wanted = bool(values), "values"
    if not valid:
        message = f"must have {wanted} with {operator}, found {len(values) or 'none'}"
        raise field_error("values", message, f"set {wanted}", path="values")
    return requirement


KubeLabelRequirements = list[Annotated[KubeLabelRequirement, AfterValidator(_check_values)]]
KubeNodeRequirements = list[Annotated[KubeNodeRequirement, AfterValidator(_check_values)]]


class KubeLabelSelector(KubeModel):
    """A label selector."""

    match_labels: dict[Plain, Text] = Field(default_factory=dict)
    match_expressions: KubeLabelRequirements | None = None


class KubeNodeTerm(KubeModel):
    """A node selector term; all requirements must match."""

    match_expressions: KubeNodeRequirements | None = None
    match_fields: KubeNodeRequirements | None = None


class KubeNodeTerms(KubeModel):
    """A node selector; one term must match."""

    node_selector_terms: list[KubeNodeTerm] | None = None


class KubePodTerm(KubeModel):
    """A pod affinity term."""

    topology_key: Key
    label_selector: KubeLabelSelector | None = None
    namespace_selector: KubeLabelSelector | None = None
    namespaces: list[Plain] | None = None
    match_label_keys: list[Plain] | None = None
    mismatch_label_keys: list[Plain] | None = None


class KubePodTerms(KubeModel):
    """Pod affinity or anti-affinity; all terms must match."""

    required: list[KubePodTerm] | None = Field(None, alias=REQUIRED)


class KubeNodeAffinity(KubeModel):
    """Node affinity."""

    required: KubeNodeTerms | None = Field(None, alias=REQUIRED)


class KubeAffinity(KubeModel):
    """The affinity of a pod."""

    node_affinity: KubeNodeAffinity | None = None
    pod_affinity: KubePodTerms | None = None
    pod_anti_affinity: KubePodTerms | None = None


class KubeSpreadConstraint(KubeModel):
    """A topology spread constraint."""

    topology_key: Key
    max_skew: PositiveInt
    min_domains: PositiveInt | None = None
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: KubeLabelSelector | None = None
    match_label_keys: list[Plain] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class KubeTaint(KubeModel):
    """A taint of a node."""

    key: Key
    value: Text | None = None
    effect: Effect


class KubeNodeSpec(KubeModel):
    """The spec of a node."""

    taints: list[KubeTaint] | None = None
    unschedulable: bool | None = None


class KubeNodeStatus(KubeModel):
    """The status of a node."""

    allocatable: Amounts | None = None


class KubeNode(KubeObject):
    """A node."""

    spec: KubeNodeSpec | None = None
    status: KubeNodeStatus | None = None


class KubeResources(KubeModel):
    """Resource requests and limits."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class KubeContainerPort(KubeModel):
    """A port of a container."""

    container_port: Port | None = None
    host_port: Port | None = None
    host_ip: Text | None = Field(None, alias="hostIP")
    protocol: Text | None = None


class KubeContainer(KubeModel):
    """One container of a pod."""

    name: Text = ""
    resources: KubeResources | None = None
    ports: list[KubeContainerPort] | None = None
    restart_policy: Text | None = None  # Always makes an init container a sidecar, whose requests count differently


class KubeClaimSource(KubeModel):
    """A volume source that refers to a claim."""

    claim_name: Name


class KubePodVolume(KubeModel):
    """A volume of a pod."""

    name: Name
    persistent_volume_claim: KubeClaimSource | None = None


class KubeToleration(KubeModel):
    """A toleration of a pod."""

    key: Text | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt", ""] | None = None  # "" means Equal
    value: Text | None = None
    effect: Effect | Literal[""] | None = None


class KubeSchedulingGate(KubeModel):
    """A scheduling gate of a pod."""

    name: Text


class KubePodSpec(KubeModel):
    """The spec of a pod."""

    containers: Annotated[list[KubeContainer], Field(min_length=1)]
    init_containers: list[KubeContainer] | None = None
    resources: KubeResources | None = None
    overhead: Amounts | None = None
    node_name: Plain | None = None
    node_selector: dict[Plain, Text] | None = None
    affinity: KubeAffinity | None = None
    tolerations: list[KubeToleration] | None = None
    topology_spread_constraints: list[KubeSpreadConstraint] | None = None
    volumes: list[KubePodVolume] | None = None
    scheduler_name: Text | None = None
    scheduling_gates: list[KubeSchedulingGate] | None = None  # a pod with gates is not scheduled, even if it fits
    priority: Priority | None = None  # pending pods are scheduled in this order
    host_network: bool | None = None


class KubeContainerStatus(KubeModel):
    """The status of a container."""

    name: Text
    resources: KubeResources | None = None
    allocated_resources: Amounts | None = None  # may differ from the spec while a pod is resized in place


class KubePodCondition(KubeModel):
    """A condition of a pod."""

    type: Text
    reason: Text | None = None


class KubePodStatus(KubeModel):
    """The status of a pod."""

    phase: Text | None = None
    conditions: list[KubePodCondition] | None = None
    container_statuses: list[KubeContainerStatus] | None = None
    init_container_statuses: list[KubeContainerStatus] | None = None


class KubePod(KubeObject):
    """A pod."""

    spec: KubePodSpec
    status: KubePodStatus | None = None


class KubeStorageSpec(KubeModel):
    """Fields that the specs of claims and volumes share."""

    storage_class_name: Text | None = None
    access_modes: list[Text] | None = None
    volume_mode: Text | None = None
    volume_attributes_class_name: Text | None = None


class KubeClaimSpec(KubeStorageSpec):
    """The spec of a PersistentVolumeClaim."""

    volume_name: Text | None = None
    resources: KubeResources | None = None
    selector: KubeLabelSelector | None = None


class KubeClaim(KubeObject):
    """A PersistentVolumeClaim."""

    spec: KubeClaimSpec | None = None
    status: KubeStatus | None = None


class KubeClaimReference(KubeModel):
    """The claim that a volume is bound to or reserved for."""

    namespace: Text | None = None
    name: Text | None = None
    uid: Text | None = None


class KubeVolumeNodeAffinity(KubeModel):
    """The nodes from which a volume is accessible."""

    required: KubeNodeTerms | None = None


class KubeVolumeSpec(KubeStorageSpec):
    """The spec of a PersistentVolume."""

    capacity: Amounts | None = None
    claim_ref: KubeClaimReference | None = None
    node_affinity: KubeVolumeNodeAffinity | None = None


class KubeVolume(KubeObject):
    """A PersistentVolume."""

    spec: KubeVolumeSpec | None = None
    status: KubeStatus | None = None


class KubeTopologyRequirement(KubeModel):
    """A topology label and its allowed values."""

    key: Key
    values: list[Text]


class KubeTopologyTerm(KubeModel):
    """A topology selector term; all requirements must match."""

    match_label_expressions: list[KubeTopologyRequirement] | None = None


class KubeStorageClass(KubeObject):
    """A StorageClass."""

    provisioner: Text | None = None
    volume_binding_mode: Text | None = None
    allowed_topologies: list[KubeTopologyTerm] | None = None


KINDS: Mapping[str, type[KubeModel]] = {
    "Node": KubeNode,
    "Pod": KubePod,
    "PersistentVolumeClaim": KubeClaim,
    "PersistentVolume": KubeVolume,
    "StorageClass": KubeStorageClass,
    "Namespace": KubeObject,
}


def check_objects(objects: Iterable[JSON], location: str, alternative: str) -> list[Violation]:
    """All errors in these objects, up to MAX_MISTAKES. `alternative` is added to each hint."""
    # An object may be in several files, but its errors are reported only once.
    violations = dict.fromkeys(violation for raw in objects for violation in _check(raw, location, alternative))
    reported = list(islice(violations, MAX_MISTAKES))
    if len(violations) > MAX_MISTAKES:
        message = f"has {len(violations)} errors"
        reported.append(Violation("", "too_many", message, "fix these first", location=location))
    return reported


def name_object(raw: JSON) -> str:
    """The name of an object in messages: kind/namespace/name."""
    meta = raw["metadata"]
    parts = (raw["kind"], meta.get("namespace"), meta["name"])
    return "/".join(printable(part) if isinstance(part, str) else short_repr(part) for part in parts if part)


def _check(raw: JSON, location: str, alternative: str) -> Iterator[Violation]:
    try:
        KINDS[raw["kind"]].model_validate(raw)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            for at, rule, message, hint in _translate(details):
                path = f"{name_object(raw)}: {at}"
                yield Violation(path, rule, message, f"{hint}, or {alternative}", location=location)


def _translate(details: ErrorDetails) -> Iterator[tuple[str, str, str, str]]:
    at, kind, found = details["loc"], details["type"], short_repr(details["input"])
    context = details.get("ctx") or {}
    if kind == "field_error":
        for inner, rule, message, hint in context["mistakes"]:
            yield _format_path((*at, inner) if inner else at), rule, message, hint
        return
    # Pydantic's own messages describe Python types.
    problem = MESSAGES.get(kind, "is not valid in Kubernetes").format(
        **context, without=WITHOUT.get(context.get("pattern", ""))
    )
    message = problem if kind == "missing" else f"{problem}, found {found}"
    hint = "add it" if kind == "missing" else "fix it"
    if kind == "literal_error":
        # The context contains text such as "'a', 'b' or 'c'".
        known = [word for word in context["expected"].split("'")[1::2] if word]
        hint = suggest_names(str(details["input"]), known, "use one of {known}").removesuffix("?")
    yield _format_path(at), RULES.get(kind, "kind"), message, hint


def _format_path(parts: Iterable[str | int]) -> str:
    """Format a path as spec.containers[0].ports."""
    shown = (f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in parts if part != "[key]")
    return "".join(shown).removeprefix(".")
