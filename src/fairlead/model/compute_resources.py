"""Compute resources, templates and defaults: reusable requirements."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlead.model.names import ObjectName
from fairlead.model.numbers import WholeNumber
from fairlead.model.parsing import Mistake, StrictModel, field_error, raise_mistakes
from fairlead.model.requirements import Requirements
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
