"""What a project holds beside its runs: secrets and volumes, as people write them."""

from typing import Any, ClassVar

from pydantic import Field

from fairlead.model.compute_resources import LONGEST_DESCRIPTION
from fairlead.model.names import DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Strict
from fairlead.model.requirements import Variable


class Hidden(Strict):
    """What must not be repeated to anybody, not even to say what is wrong with it."""


class SecretValue(Hidden):
    """The value of a secret. It is never shown again."""

    EXAMPLE: ClassVar[Any] = {"value": "hf_..."}

    value: Variable = Field(repr=False)


class SharedVolume(Strict):
    """A volume that the runs of a project may share, by a name that is valid for Kubernetes."""

    EXAMPLE: ClassVar[Any] = {"name": "datasets", "size": "500Gi", "storage_class": "fast"}

    name: DnsSubdomain
    size: Size
    storage_class: DnsSubdomain | None = None
    description: str = Field(default="", max_length=LONGEST_DESCRIPTION)
