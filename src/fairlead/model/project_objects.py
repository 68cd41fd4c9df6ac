"""What a project holds beside its runs: functions, secrets and volumes, as people write them."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fairlead.model.compute_resources import LONGEST_DESCRIPTION
from fairlead.model.names import DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Mistake, Strict, refuse
from fairlead.model.requests import Function, FunctionContent
from fairlead.model.requirements import Variable

LONGEST_TEXT = 500_000
MAIN = "main.py"


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


class WrittenFunction(FunctionContent):
    """A function that a project keeps. `text` is its code itself, which then is the file `source`."""

    EXAMPLE: ClassVar[Any] = {"source": "main.py", "handler": "main", "text": "def main(x):\n    return x * x\n"}

    text: Annotated[str, Field(max_length=LONGEST_TEXT)] | None = None

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        refuse(self._find_contradictions())
        return self

    def _find_contradictions(self) -> Iterator[Mistake]:
        if self.kind == "python" and not (self.text or self.source or self.command or self.image):
            said = "is empty" if self.text == "" else "is missing: there is nothing to run"
            yield Mistake("text", "required", said, "say the code as text, or a command, or an image")
        if self.text is None:
            return
        if self.kind == "container":
            yield Mistake("text", "contradiction", "a container function has no code", "use kind: python")
        if self.code is not None:
            yield Mistake("text", "contradiction", "the code is said twice: as text and by its digest", "say one")

    def to_function(self, name: str, code: str | None = None) -> Function:
        """The function itself, with the digest of what is in its text."""
        said = self.model_dump(mode="json", exclude_unset=True, exclude={"text"}, warnings=False)
        packed = {} if code is None else {"source": self.source or MAIN, "code": code}
        return Function.model_validate({"name": name, **said, **packed})
