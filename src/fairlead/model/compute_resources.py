"""Compute resources, templates and defaults: requirements that somebody keeps for others to use."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from fairlead.model.names import ObjectName
from fairlead.model.numbers import Whole
from fairlead.model.parsing import Mistake, Strict, refuse, wrong
from fairlead.model.requirements import Requirements
from fairlead.model.scopes import PLATFORM, ScopeRef

LONGEST_DESCRIPTION = 1000
ONLY_REQUESTS = "only a request names a template"

WorkloadType = Literal["training", "workspace", "inference"]


class Named(Strict):
    """Requirements with a name, a description and the scope that they reach."""

    name: ObjectName
    description: str = Field(default="", max_length=LONGEST_DESCRIPTION)
    scope: ScopeRef = PLATFORM
    revision: Whole | None = None
    requirements: Requirements = Field(default_factory=Requirements)


class ComputeResource(Named):
    """What an administrator offers: its requirements win over what users ask for."""

    EXAMPLE: ClassVar[Any] = {
        "name": "1xa100",
        "description": "one A100, for training",
        "scope": "platform",
        "workload_types": ["training", "workspace"],
        "requirements": {"resources": {"cpu": 8, "mem": {"requests": "64Gi", "limits": "80Gi"}, "gpu": 1}},
    }

    workload_types: tuple[WorkloadType, ...] | None = None

    @field_validator("requirements")
    @classmethod
    def _refuse_references(cls, requirements: Requirements) -> Requirements:
        return check_silence(requirements, profile="a compute resource names no other one", template=ONLY_REQUESTS)

    @field_validator("workload_types")
    @classmethod
    def _refuse_none(cls, types: Any) -> Any:
        if types == ():
            raise wrong("required", "allows no workload at all", "leave it out to allow all")
        return types


class Template(Named):
    """A starting point that users may change: requirements, optionally with a compute resource."""

    EXAMPLE: ClassVar[Any] = {"name": "finetune", "requirements": {"resources": {"disk": "50Gi"}}}

    @field_validator("requirements")
    @classmethod
    def _refuse_references(cls, requirements: Requirements) -> Requirements:
        return check_silence(requirements, template=ONLY_REQUESTS)


class Defaults(Requirements):
    """What holds where nobody says anything: of the platform, or of a policy's scope."""

    @model_validator(mode="after")
    def _refuse_references(self) -> Self:
        check_silence(self, template=ONLY_REQUESTS)
        return self


def check_silence(requirements: Requirements, **fields: str) -> Requirements:
    """The requirements, or why they may not say some of their fields."""
    said = [(name, why) for name, why in fields.items() if getattr(requirements, name) is not None]
    refuse(Mistake(name, "reference", why, f"leave {name} out") for name, why in said)
    return requirements
