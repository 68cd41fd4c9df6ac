"""What an administrator allows at a scope: defaults, rules, switches and quota."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema, field_validator, model_serializer
from pydantic_core import PydanticCustomError

from fairlead.model import fields
from fairlead.model.compute_resources import Defaults
from fairlead.model.names import DnsSubdomain
from fairlead.model.numbers import Bytes, Cpu, Factor, Whole
from fairlead.model.parsing import Flag, Mistake, Strict, mistakes_of, nearest, refuse, several_wrong, show, wrong
from fairlead.model.quantities import Duration
from fairlead.model.scopes import PLATFORM, ScopeRef

_BOUND = {"type": ["string", "number"], "examples": [2, "64Gi"]}
_OPTION = {"type": ["string", "number", "boolean"]}


class Rule(Strict):
    """What is allowed at one path. Values are of the kind that the path holds."""

    MAY_BE_EMPTY = False

    min: Annotated[Any, WithJsonSchema(_BOUND)] = None
    max: Annotated[Any, WithJsonSchema(_BOUND)] = None
    options: tuple[Annotated[Any, WithJsonSchema(_OPTION)], ...] | None = None
    required: Flag = False
    locked: Flag = False

    @model_serializer
    def _print(self) -> dict[str, Any]:
        """Only what is said, each value as people write it."""
        said = {name: getattr(self, name) for name in ("min", "max", "options", "required", "locked")}
        return {name: _print_value(value) for name, value in said.items() if value is not None and value is not False}


class Switches(Strict):
    """What may be done at all. Nothing said leaves the shipped value; of several scopes the strictest wins."""

    MAY_BE_EMPTY = False

    existing_volumes: Literal["allow", "block"] | None = None
    storage_classes: tuple[DnsSubdomain, ...] | None = None
    registries: tuple[str, ...] | None = None
    compute_resource: Literal["required", "optional"] | None = None
    allow_root: Flag | None = None
    gpu_memory_limits: Flag | None = None
    never_fits: Literal["refuse", "warn"] | None = None


class LimitFactor(Strict):
    """The limit that a request gets where nobody said one: limit = factor x request."""

    MAY_BE_EMPTY = False

    cpu: Factor | None = None
    mem: Factor | None = None
    disk: Factor | None = None


class Quota(Strict):
    """What all live runs below a scope may hold together."""

    MAY_BE_EMPTY = False

    gpu: Whole | None = None
    cpu: Cpu | None = None
    mem: Bytes | None = None
    runs: Whole | None = None


class Policy(Strict):
    """All that is said at one scope."""

    EXAMPLE: ClassVar[Any] = {
        "defaults": {"resources": {"cpu": 1, "mem": "2Gi"}},
        "limit_factor": {"mem": 1.1},
        "rules": {"resources.gpu": {"max": 2}, "resources.mem.limits": {"required": True, "max": "128Gi"}},
        "switches": {"existing_volumes": "block"},
        "quota": {"gpu": 8, "runs": 50},
    }

    scope: ScopeRef = PLATFORM
    defaults: Defaults = Field(default_factory=Defaults)
    limit_factor: LimitFactor = Field(default_factory=LimitFactor)
    rules: Mapping[str, Rule] = Field(default_factory=dict)
    switches: Switches = Field(default_factory=Switches)
    quota: Quota = Field(default_factory=Quota)

    @field_validator("rules")
    @classmethod
    def _read_values(cls, rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
        """The rules with values of the kind that stands at their path; every mistake at once."""
        read: dict[str, Rule] = {}
        mistakes: list[Mistake] = []
        for path, rule in rules.items():
            try:
                read[path] = _read_rule(path, rule)
            except PydanticCustomError as error:
                mistakes += mistakes_of(error, below=path)
        refuse(mistakes)
        return read

    def to_data(self) -> dict[str, Any]:
        """As people write it, but for its scope; what is not said is left out."""
        parts = self.model_dump(mode="json", include={"limit_factor", "rules", "switches", "quota"}, exclude_none=True)
        data = {"defaults": self.defaults.to_data(), **parts}
        return {name: value for name, value in data.items() if value}


def _print_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_print_value(item) for item in value]
    if isinstance(value, Fraction):
        return float(value)
    return value if isinstance(value, bool | int | str) and not isinstance(value, Duration) else str(value)


def _read_rule(path: str, rule: Rule) -> Rule:
    known = fields.generic_path(path)
    if known is None:
        raise wrong("unknown_field", f"there is no setting at {show(path)}", nearest(path, fields.KNOWN))
    place = fields.value_path(known)
    parse = fields.ORDERED.get(place) or fields.PLAIN.get(place)
    bounds = {name: value for name in ("min", "max") if (value := getattr(rule, name)) is not None}
    if bounds and place not in fields.ORDERED:
        raise wrong("rule", f"{path} has no order, so no {' and '.join(bounds)}", "use options, required or locked")
    if rule.options is not None and parse is None:
        raise wrong("rule", f"{path} is no single value, so it has no options", "use required or locked", at="options")
    if rule.options == ():
        raise wrong("required", "allows nothing at all", "say at least one option", at="options")
    parsed: dict[str, Any] = {name: _parse_at(name, parse, value) for name, value in bounds.items()}
    if rule.options is not None:
        parsed["options"] = tuple(_parse_at(f"options.{n}", parse, option) for n, option in enumerate(rule.options))
    if len(bounds) == 2 and type(parsed["min"]) is type(parsed["max"]) and parsed["min"] > parsed["max"]:
        raise wrong("range", f"min {parsed['min']} is over max {parsed['max']}", "swap them", at="min")
    return rule.model_copy(update=parsed)


def _parse_at(at: str, parse: fields.Parse | None, value: Any) -> Any:
    try:
        return value if parse is None else parse(value)
    except PydanticCustomError as error:
        raise several_wrong(mistakes_of(error, below=at)) from None
