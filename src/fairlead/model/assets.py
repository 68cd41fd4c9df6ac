"""Compute resources, templates, defaults and policies, and the effective policy of a scope."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, WithJsonSchema, field_validator, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from fairlead.model import explanations, fields
from fairlead.model.names import DnsSubdomain, ObjectName
from fairlead.model.nodes import Network
from fairlead.model.parsing import (
    Flag,
    Mistake,
    StrictModel,
    field_error,
    field_errors,
    mistakes_of,
    raise_mistakes,
    short_repr,
    suggest_names,
)
from fairlead.model.plans import Source, SourcedValue
from fairlead.model.quantities import Bytes, Cpu, Duration, Factor, PositiveInteger, Weight, WholeNumber
from fairlead.model.resources import Requirements
from fairlead.model.scopes import PLATFORM, ScopeRef

MAX_DESCRIPTION_LENGTH = 1000
# A plan has one template layer and one compute resource layer, so neither can refer to another object of its own kind.
NO_PROFILE = "a compute resource cannot use another one"
NO_TEMPLATE = "templates can only be set in a request"

WorkloadType = Literal["training", "workspace", "inference"]


class NamedRequirements(StrictModel):
    """Requirements with a name, a description and the scope in which they are available."""

    name: ObjectName
    description: str = Field(default="", max_length=MAX_DESCRIPTION_LENGTH)
    scope: ScopeRef = PLATFORM
    revision: WholeNumber | None = None  # the stored object's revision, shown as a value's source; None in files
    requirements: Requirements = Field(default_factory=Requirements)


class ComputeResource(NamedRequirements):
    """A hardware preset defined by an administrator. Its requirements override user values."""

    EXAMPLE: ClassVar[Any] = {
        "name": "1xa100",
        "description": "one A100, for training",
        "scope": "platform",
        "workload_types": ["training", "workspace"],
        "requirements": {"resources": {"cpu": 8, "mem": {"requests": "64Gi", "limits": "80Gi"}, "gpu": 1}},
    }

    workload_types: tuple[WorkloadType, ...] | None = None  # None: all

    @field_validator("requirements")
    @classmethod
    def _reject_references(cls, requirements: Requirements) -> Requirements:
        return forbid_fields(requirements, profile=NO_PROFILE, template=NO_TEMPLATE)

    @field_validator("workload_types")
    @classmethod
    def _reject_empty(cls, types: Any) -> Any:
        if types == ():
            raise field_error("required", "is empty, so no workload is allowed", "remove it to allow all workloads")
        return types


class Template(NamedRequirements):
    """A starting point that users may change: requirements, optionally with a compute resource."""

    EXAMPLE: ClassVar[Any] = {"name": "finetune", "requirements": {"resources": {"disk": "50Gi"}}}

    @field_validator("requirements")
    @classmethod
    def _reject_references(cls, requirements: Requirements) -> Requirements:
        return forbid_fields(requirements, template=NO_TEMPLATE)


class Defaults(Requirements):
    """Default requirements of the platform or a policy."""

    @model_validator(mode="after")
    def _reject_references(self) -> Self:
        forbid_fields(self, template=NO_TEMPLATE)
        return self


def forbid_fields(requirements: Requirements, **fields: str) -> Requirements:
    """Return the requirements unchanged, or raise a field error if any of `fields`, {name: message}, is set."""
    forbidden = [(name, message) for name, message in fields.items() if getattr(requirements, name) is not None]
    raise_mistakes(Mistake(name, "reference", message, f"remove {name}") for name, message in forbidden)
    return requirements


# The type depends on the rule's path, which JSON Schema cannot express. `_read_rule` parses the values.
_BOUND = {"type": ["string", "number"], "examples": [2, "64Gi"]}
_OPTION = {"type": ["string", "number", "boolean"]}


class Rule(StrictModel):
    """The rule for the setting at a path. Bounds and options have that setting's type."""

    # `max: null` would look like a limit but would not be one. Other parts of a policy reject null for the same reason.
    ALLOWS_NULL = False

    min: Annotated[Any, WithJsonSchema(_BOUND)] = None
    max: Annotated[Any, WithJsonSchema(_BOUND)] = None
    options: tuple[Annotated[Any, WithJsonSchema(_OPTION)], ...] | None = None
    required: Flag = False
    locked: Flag = False

    @model_serializer
    def _print(self) -> dict[str, Any]:
        """The fields that are set, with their values as users write them."""
        values = {name: getattr(self, name) for name in ("min", "max", "options", "required", "locked")}
        return {name: _print_value(value) for name, value in values.items() if value is not None and value is not False}


class Switches(StrictModel):
    """Feature switches. The strictest value of all scopes applies; None means not set."""

    ALLOWS_NULL = False

    existing_volumes: Literal["allow", "block"] | None = None
    storage_classes: tuple[DnsSubdomain, ...] | None = None  # an empty list allows none
    registries: tuple[str, ...] | None = None  # prefixes of image names, such as registry.example/team
    compute_resource: Literal["required", "optional"] | None = None
    allow_root: Flag | None = None
    gpu_memory_limits: Flag | None = None
    never_fits: Literal["refuse", "warn"] | None = None  # for runs that would not fit even if all nodes were empty
    network: Network | None = None  # the network of runs; none: only a loopback interface


class LimitFactor(StrictModel):
    """Factors for default limits: limit = factor x request."""

    ALLOWS_NULL = False

    cpu: Factor | None = None
    mem: Factor | None = None
    disk: Factor | None = None


class Quota(StrictModel):
    """Limits on the total resources of all active runs in a scope."""

    ALLOWS_NULL = False

    gpu: WholeNumber | None = None  # None: unlimited, here and in the fields below
    cpu: Cpu | None = None
    mem: Bytes | None = None
    runs: WholeNumber | None = None


class QueuePolicy(StrictModel):
    """How many runs may wait in each project of a scope, and how much these projects get compared with others."""

    ALLOWS_NULL = False

    max_waiting_runs: PositiveInteger | None = None  # per project; None: unlimited
    weight: Weight | None = None  # of each project; None: the weight of the scope above, or 1


class Policy(StrictModel):
    """The policy of one scope."""

    EXAMPLE: ClassVar[Any] = {
        "defaults": {"resources": {"cpu": 1, "mem": "2Gi"}},
        "limit_factor": {"mem": 1.1},
        "rules": {"resources.gpu": {"max": 2}, "resources.mem.limits": {"required": True, "max": "128Gi"}},
        "switches": {"existing_volumes": "block"},
        "quota": {"gpu": 8, "runs": 50},
        "queue": {"max_waiting_runs": 1000},
    }

    scope: ScopeRef = PLATFORM
    defaults: Defaults = Field(default_factory=Defaults)
    limit_factor: LimitFactor = Field(default_factory=LimitFactor)
    rules: Mapping[str, Rule] = Field(default_factory=dict)
    switches: Switches = Field(default_factory=Switches)
    quota: Quota = Field(default_factory=Quota)
    queue: QueuePolicy = Field(default_factory=QueuePolicy)

    @field_validator("rules")
    @classmethod
    def _read_values(cls, rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
        """Parse the values of each rule with its setting's parser. Collects all mistakes."""
        read: dict[str, Rule] = {}
        mistakes: list[Mistake] = []
        for path, rule in rules.items():
            try:
                read[path] = _read_rule(path, rule)
            except PydanticCustomError as error:
                mistakes += mistakes_of(error, prefix=path)
        raise_mistakes(mistakes)
        return read

    def to_data(self) -> dict[str, Any]:
        """The policy as users write it, without its scope and unset fields."""
        sections = {"limit_factor", "rules", "switches", "quota", "queue"}
        parts = self.model_dump(mode="json", include=sections, exclude_none=True)
        data = {"defaults": self.defaults.to_data(), **parts}
        return {name: value for name, value in data.items() if value}


def _print_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_print_value(item) for item in value]
    if isinstance(value, Fraction):
        return float(value)
    # A Duration is an int, but users write it as 2h.
    return value if isinstance(value, bool | int | str) and not isinstance(value, Duration) else str(value)


def _read_rule(path: str, rule: Rule) -> Rule:
    known = fields.generic_path(path)
    if known is None:
        raise field_error("unknown_field", f"unknown setting {short_repr(path)}", suggest_names(path, fields.KNOWN))
    setting_path = fields.value_path(known)
    parse = fields.ORDERED.get(setting_path) or fields.UNORDERED.get(setting_path)
    bounds = {name: value for name in ("min", "max") if (value := getattr(rule, name)) is not None}
    if bounds and setting_path not in fields.ORDERED:
        raise field_error(
            "rule", f"{path} has no order, so {' and '.join(bounds)} cannot be set", "use options, required or locked"
        )
    if rule.options is not None and parse is None:
        raise field_error(
            "rule", f"{path} is not a single value, so it cannot have options", "use required or locked", path="options"
        )
    if rule.options == ():
        raise field_error("required", "is empty, so no value is allowed", "add at least one option", path="options")
    parsed: dict[str, Any] = {name: _parse_at(name, parse, value) for name, value in bounds.items()}
    if rule.options is not None:
        parsed["options"] = tuple(_parse_at(f"options.{n}", parse, option) for n, option in enumerate(rule.options))
    # GPU memory may be a percentage or an amount. They cannot be compared without knowing the GPU.
    if len(bounds) == 2 and type(parsed["min"]) is type(parsed["max"]) and parsed["min"] > parsed["max"]:
        raise field_error("range", f"min {parsed['min']} is greater than max {parsed['max']}", "swap them", path="min")
    return rule.model_copy(update=parsed)


def _parse_at(path: str, parse: fields.Parser | None, value: Any) -> Any:
    try:
        return value if parse is None else parse(value)
    except PydanticCustomError as error:
        raise field_errors(mistakes_of(error, prefix=path)) from None


@dataclass(frozen=True)
class EffectiveValue:
    """A value as JSON, with its source."""

    value: Any
    source: Source

    @classmethod
    def of(cls, sourced: SourcedValue) -> "EffectiveValue":
        """Convert the value to JSON."""
        return cls(explanations.to_json(sourced.value), sourced.source)


@dataclass(frozen=True)
class ScopeDefaults:
    """The defaults of one scope. Defaults of lower scopes override them."""

    scope: str
    requirements: dict[str, Any]


@dataclass(frozen=True)
class ScopeUsage:
    """The resources used by the admitted runs of a scope, in the units of a quota."""

    gpu: int
    cpu: str
    mem: str
    runs: int


@dataclass(frozen=True)
class EffectivePolicy:
    """The merged policies from the platform down to a scope, and the scope's usage.

    Rules, quotas and the queue contain only the fields that are set.
    """

    scope: str
    rules: dict[str, dict[str, Any]]
    switches: dict[str, EffectiveValue]
    limit_factor: dict[str, EffectiveValue]
    defaults: list[ScopeDefaults]
    quotas: list[dict[str, Any]]
    queue: dict[str, EffectiveValue]
    used: ScopeUsage


@dataclass(frozen=True)
class Difference:
    """A path whose value was changed, added or removed."""

    path: str
    before: Any
    after: Any
