"""A project's functions, secrets and volumes, requests for API tokens, and connections to clusters."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.assets import MAX_DESCRIPTION_LENGTH
from fairlead.model.names import DnsSubdomain
from fairlead.model.parsing import Mistake, StrictModel, field_error, parse_text, raise_mistakes, short_repr
from fairlead.model.quantities import Seconds, Size
from fairlead.model.requests import Function, FunctionContent
from fairlead.model.resources import Variable

MAX_CODE_LENGTH = 500_000
DEFAULT_SOURCE = "main.py"

MAX_NAME_LENGTH = 250  # leaves room for the `group:` prefix in a grant's subject
PRINTABLE = WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH})


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


def parse_user(value: Any) -> str:
    """Parse a user name, as defined by an identity provider."""
    return _parse_printable(value, "user name")


def parse_token_name(value: Any) -> str:
    """Parse a token name."""
    return _parse_printable(value, "token name")


def _parse_printable(value: Any, noun: str) -> str:
    text = parse_text(value)
    if not 1 <= len(text) <= MAX_NAME_LENGTH or not text.isprintable():
        raise field_error(
            "name", f"invalid {noun} {short_repr(text)}", f"use 1 to {MAX_NAME_LENGTH} printable characters"
        )
    return text


User = Annotated[str, PlainValidator(parse_user), PRINTABLE]
TokenName = Annotated[str, PlainValidator(parse_token_name), PRINTABLE]


class TokenRequest(StrictModel):
    """A request for a token. The default user is the caller."""

    EXAMPLE: ClassVar[Any] = {"name": "ci", "expires_in": "90d"}

    name: TokenName
    expires_in: Seconds | None = None
    user: User | None = None


@dataclass(frozen=True)
class Connection:
    """The address and credentials of an API server. Certificates and keys are in PEM format."""

    server: str
    ca: str | None = None  # None: the system's certificate authorities
    token: str = field(default="", repr=False)
    token_file: str | None = None  # Kubernetes rotates the token in this file, so the client rereads it every minute
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None  # the name in the server certificate, if it is not the host of `server`
    insecure: bool = False
