"""What counts here of Kubernetes' objects, and what each part of it must be: the core reads them without looking."""

from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator
from pydantic.alias_generators import to_camel

from fairlead.model.parsing import field_error, short_repr
from fairlead.model.quantities import NANOS, Quantity

JSON = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LARGEST_PRIORITY = 2**31
LARGEST_PORT = 65535
PLAIN, PRINTABLE = r"^[!-~]*$", r"^[^\p{C}\p{Zl}\p{Zp}]*$"


@lru_cache(maxsize=4096)  # a cluster says the same few amounts again and again
def _parse(amount: str) -> int:
    return Quantity.parse(amount).nanos


def _is_counted(name: str) -> bool:
    """Whether Kubernetes' server takes only whole numbers of something: of pods, and of what is none of its own."""
    return name == "pods" or ("/" in name and "kubernetes.io/" not in name)


def _check_amount(value: Any) -> Any:
    try:
        is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
        why = "must not be negative" * (_parse(str(value)) < 0) if is_number else "must be an amount"
    except ValueError as error:
        why = f"must be an amount: {error}"
    if why:
        raise field_error("amount", f"{why}, found {short_repr(value)}", "write a number, as in 500m or 4Gi")
    return value


def _check_whole(amounts: JSON) -> JSON:
    for name, value in amounts.items():
        if _is_counted(name) and _parse(str(value)) % NANOS:
            raise field_error("amount", f"must be a whole number, found {short_repr(value)}", "write one", path=name)
    return amounts


Text = Annotated[str, Field(pattern=PRINTABLE)]
Plain = Annotated[str, Field(pattern=PLAIN)]
Name = Annotated[str, Field(pattern=PLAIN, min_length=1, max_length=253)]
Key = Annotated[str, Field(pattern=PLAIN, min_length=1, max_length=317)]
Labels = dict[Plain, Annotated[str, Field(pattern=PLAIN, max_length=63)]]
Amounts = Annotated[dict[Plain, Annotated[Any, PlainValidator(_check_amount)]], AfterValidator(_check_whole)]
Port = Annotated[int, Field(ge=0, le=LARGEST_PORT)]
PositiveInt = Annotated[int, Field(ge=1, le=LARGEST_PRIORITY)]
Priority = Annotated[int, Field(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY)]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
LabelOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
NodeOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class KubeModel(BaseModel):
    """What of a part of an object is read. What may be null may be left out; what is not named is not looked at."""

    model_config = ConfigDict(strict=True, extra="ignore", alias_generator=to_camel, defer_build=True)


class KubeMetadata(KubeModel):
    """What every object says of itself."""

    name: Name
    namespace: Plain | None = None
    labels: Labels | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Text | None = None
    deletion_timestamp: Text = ""
    uid: Text | None = None


class KubeObject(KubeModel):
    """An object, as far as all kinds are alike."""

    metadata: KubeMetadata


class KubeStatus(KubeModel):
    """How an object is."""

    phase: Text | None = None


class KubeLabelRequirement(KubeModel):
    """A condition on labels of pods."""

    key: Key
    operator: LabelOperator
    values: list[Text] | None = None


class KubeNodeRequirement(KubeModel):
    """A condition on labels or fields of nodes."""

    key: Key
    operator: NodeOperator
    values: list[Text] | None = None


Requirement = TypeVar("Requirement", KubeLabelRequirement, KubeNodeRequirement)


def _check_values(said: Requirement) -> Requirement:
    """How many values an operator has: one to compare with, some to choose from, or none."""
    operator, values = said.operator, said.values or ()
    if operator in ("Exists", "DoesNotExist"):
        right, wanted = not values, "no values"
    elif operator in ("Gt", "Lt"):
        right, wanted = len(values) == 1, "one value"
    else:
        right, wanted = bool(values), "values"
    if not right:
        message = f"must have {wanted} with {operator}, found {len(values) or 'none'}"
        raise field_error("values", message, f"say {wanted}", path="values")
    return said


KubeLabelRequirements = list[Annotated[KubeLabelRequirement, AfterValidator(_check_values)]]
KubeNodeRequirements = list[Annotated[KubeNodeRequirement, AfterValidator(_check_values)]]


class KubeLabelSelector(KubeModel):
    """Which pods are meant."""

    match_labels: dict[Plain, Text] = Field(default_factory=dict)
    match_expressions: KubeLabelRequirements | None = None


class KubeNodeTerm(KubeModel):
    """Conditions that hold together."""

    match_expressions: KubeNodeRequirements | None = None
    match_fields: KubeNodeRequirements | None = None


class KubeNodeTerms(KubeModel):
    """Terms of which one must hold."""

    node_selector_terms: list[KubeNodeTerm] | None = None


class KubePodTerm(KubeModel):
    """Pods to be near to, or far from."""

    topology_key: Key
    label_selector: KubeLabelSelector | None = None
    namespace_selector: KubeLabelSelector | None = None
    namespaces: list[Plain] | None = None
    match_label_keys: list[Plain] | None = None
    mismatch_label_keys: list[Plain] | None = None


class KubePodTerms(KubeModel):
    """Terms that must all hold."""

    required: list[KubePodTerm] | None = Field(None, alias=REQUIRED)


class KubeNodeAffinity(KubeModel):
    """Which nodes a pod must be on."""

    required: KubeNodeTerms | None = Field(None, alias=REQUIRED)


class KubeAffinity(KubeModel):
    """All that a pod says of where it must be."""

    node_affinity: KubeNodeAffinity | None = None
    pod_affinity: KubePodTerms | None = None
    pod_anti_affinity: KubePodTerms | None = None


class KubeSpreadConstraint(KubeModel):
    """How pods are spread."""

    topology_key: Key
    max_skew: PositiveInt
    min_domains: PositiveInt | None = None
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    label_selector: KubeLabelSelector | None = None
    match_label_keys: list[Plain] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


class KubeTaint(KubeModel):
    """What keeps pods off a node."""

    key: Key
    value: Text | None = None
    effect: Effect


class KubeNodeSpec(KubeModel):
    """What a node is for."""

    taints: list[KubeTaint] | None = None
    unschedulable: bool | None = None


class KubeNodeStatus(KubeModel):
    """What a node has."""

    allocatable: Amounts | None = None


class KubeNode(KubeObject):
    """A node."""

    spec: KubeNodeSpec | None = None
    status: KubeNodeStatus | None = None


class KubeResources(KubeModel):
    """What is asked for."""

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
    restart_policy: Text | None = None


class KubeClaimSource(KubeModel):
    """A claim that is mounted."""

    claim_name: Name


class KubePodVolume(KubeModel):
    """A volume of a pod."""

    name: Name
    persistent_volume_claim: KubeClaimSource | None = None


class KubeToleration(KubeModel):
    """A taint that does not keep a pod off."""

    key: Text | None = None
    operator: Literal["Exists", "Equal", "Lt", "Gt", ""] | None = None
    value: Text | None = None
    effect: Effect | Literal[""] | None = None


class KubeSchedulingGate(KubeModel):
    """Who holds a pod back."""

    name: Text


class KubePodSpec(KubeModel):
    """What a pod is made of."""

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
    scheduling_gates: list[KubeSchedulingGate] | None = None
    priority: Priority | None = None
    host_network: bool | None = None


class KubeContainerStatus(KubeModel):
    """What a container has."""

    name: Text
    resources: KubeResources | None = None
    allocated_resources: Amounts | None = None


class KubePodCondition(KubeModel):
    """What is said of a pod."""

    type: Text
    reason: Text | None = None


class KubePodStatus(KubeModel):
    """How a pod is."""

    phase: Text | None = None
    conditions: list[KubePodCondition] | None = None
    container_statuses: list[KubeContainerStatus] | None = None
    init_container_statuses: list[KubeContainerStatus] | None = None


class KubePod(KubeObject):
    """A pod."""

    spec: KubePodSpec
    status: KubePodStatus | None = None


class KubeStorageSpec(KubeModel):
    """What claims and volumes are compared by."""

    storage_class_name: Text | None = None
    access_modes: list[Text] | None = None
    volume_mode: Text | None = None
    volume_attributes_class_name: Text | None = None


class KubeClaimSpec(KubeStorageSpec):
    """What a claim asks for."""

    volume_name: Text | None = None
    resources: KubeResources | None = None
    selector: KubeLabelSelector | None = None


class KubeClaim(KubeObject):
    """A claim."""

    spec: KubeClaimSpec | None = None
    status: KubeStatus | None = None


class KubeClaimReference(KubeModel):
    """The claim that a volume is kept for."""

    namespace: Text | None = None
    name: Text | None = None
    uid: Text | None = None


class KubeVolumeNodeAffinity(KubeModel):
    """From where a volume is reached."""

    required: KubeNodeTerms | None = None


class KubeVolumeSpec(KubeStorageSpec):
    """What a volume is."""

    capacity: Amounts | None = None
    claim_ref: KubeClaimReference | None = None
    node_affinity: KubeVolumeNodeAffinity | None = None


class KubeVolume(KubeObject):
    """A volume."""

    spec: KubeVolumeSpec | None = None
    status: KubeStatus | None = None


class KubeTopologyRequirement(KubeModel):
    """A label, and values of it."""

    key: Key
    values: list[Text]


class KubeTopologyTerm(KubeModel):
    """Labels that hold together."""

    match_label_expressions: list[KubeTopologyRequirement] | None = None


class KubeStorageClass(KubeObject):
    """How volumes are made."""

    provisioner: Text | None = None
    volume_binding_mode: Text | None = None
    allowed_topologies: list[KubeTopologyTerm] | None = None
