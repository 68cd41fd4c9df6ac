"""A project's functions, secrets and volumes, as users write them."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fairlead.model.compute_resources import MAX_DESCRIPTION_LENGTH
from fairlead.model.names import DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Mistake, StrictModel, raise_mistakes
from fairlead.model.requests import Function, FunctionContent
from fairlead.model.requirements import Variable

MAX_CODE_LENGTH = 500_000
DEFAULT_SOURCE = "main.py"


class SensitiveModel(StrictModel):
    """Base class of models with sensitive values. Error messages never repeat their input."""


class SecretValue(SensitiveModel):
    """The value of a secret. It is write-only."""

    EXAMPLE: ClassVar[Any] = {"value": "hf_..."}

    value: Variable = Field(repr=False)  # reprs end up in logs and tracebacks


class SharedVolume(StrictModel):
    """A volume that a project's runs can share. The name must be valid in Kubernetes."""

    EXAMPLE: ClassVar[Any] = {"name": "datasets", "size": "500Gi", "storage_class": "fast"}

    name: DnsSubdomain
    size: Size
    storage_class: DnsSubdomain | None = None
    description: str = Field(default="", max_length=MAX_DESCRIPTION_LENGTH)


class FunctionDefinition(FunctionContent):
    """A function that is stored in a project. `text` is the source code of the `source` file."""

    EXAMPLE: ClassVar[Any] = {"source": "main.py", "handler": "main", "text": "def main(x):\n    return x * x\n"}

    text: Annotated[str, Field(max_length=MAX_CODE_LENGTH)] | None = None

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        raise_mistakes(self._find_contradictions())
        return self

    def _find_contradictions(self) -> Iterator[Mistake]:
        if self.kind == "python" and not (self.text or self.source or self.command or self.image):
            message = "is empty" if self.text == "" else "is missing: there is nothing to run"
            yield Mistake("text", "required", message, "set text, command or image")
        if self.text is None:
            return
        if self.kind == "container":
            yield Mistake("text", "contradiction", "must not be set for a container function", "set kind to python")
        if self.code is not None:
            yield Mistake("text", "contradiction", "cannot be combined with code", "remove one of them")

    def to_function(self, name: str, code: str | None = None) -> Function:
        """The function, with the digest of its packed code."""
        # `text` is not part of a function: the server packs it into an archive and stores only the digest.
        fields = self.model_dump(mode="json", exclude_unset=True, exclude={"text"}, warnings=False)
        packed = {} if code is None else {"source": self.source or DEFAULT_SOURCE, "code": code}
        return Function.model_validate({"name": name, **fields, **packed})
