"""Compute resources and templates: requirements that somebody named, described and scoped."""

from typing import Any, Literal

from pydantic import Field, field_validator

from fairlead.model.names import ObjectName
from fairlead.model.numbers import Whole
from fairlead.model.parsing import Strict, wrong
from fairlead.model.requirements import Requirements
from fairlead.model.scopes import PLATFORM, Scope

LONGEST_DESCRIPTION = 1000

WorkloadType = Literal["training", "workspace", "inference"]


class Named(Strict):
    """Requirements with a name, a description and the scope that they reach."""

    name: ObjectName
    description: str = Field(default="", max_length=LONGEST_DESCRIPTION)
    scope: Scope = PLATFORM
    revision: Whole = 1
    requirements: Requirements = Field(default_factory=Requirements)


class ComputeResource(Named):
    """What an administrator offers: its requirements win over what users ask for."""

    workload_types: tuple[WorkloadType, ...] | None = None

    @field_validator("requirements")
    @classmethod
    def _refuse_references(cls, requirements: Requirements) -> Requirements:
        if requirements.profile is not None:
            raise wrong("reference", "a compute resource names no other one", "leave profile out", at="profile")
        return refuse_template(requirements)

    @field_validator("workload_types")
    @classmethod
    def _refuse_none(cls, types: Any) -> Any:
        if types == ():
            raise wrong("required", "allows no workload at all", "leave it out to allow all")
        return types


class Template(Named):
    """A starting point that users may change: requirements, optionally with a compute resource."""

    @field_validator("requirements")
    @classmethod
    def _refuse_references(cls, requirements: Requirements) -> Requirements:
        return refuse_template(requirements)


def refuse_template(requirements: Requirements) -> Requirements:
    """Only a request names a template."""
    if requirements.template is not None:
        raise wrong("reference", "only a request names a template", "leave template out", at="template")
    return requirements
