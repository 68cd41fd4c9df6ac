"""Name formats of Kubernetes and Fairlead, each with a description for error messages."""

import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import field_error, parse_text, short_repr

LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"


class NameFormat:
    """A name format: a pattern, a maximum length and a description."""

    def __init__(self, rule: str, pattern: str, max_length: int, description: str) -> None:
        self.rule, self.max_length, self.description = rule, max_length, description
        self._pattern = re.compile(pattern, re.ASCII)

    def matches(self, text: str) -> bool:
        """Whether the text has this format."""
        return len(text) <= self.max_length and self._pattern.fullmatch(text) is not None

    @property
    def schema(self) -> dict[str, Any]:
        """The format's JSON schema."""
        # JSON Schema accepts a match anywhere in the text, so the pattern is anchored.
        pattern = f"^(?:{self._pattern.pattern})$"
        return {"type": "string", "maxLength": self.max_length, "pattern": pattern, "description": self.description}

    def parse(self, value: Any) -> str:
        """Parse a name. Raises a field error if it does not have this format."""
        text = parse_text(value)
        if len(text) > self.max_length:
            message = f"has {len(text)} characters; at most {self.max_length} are allowed"
            raise field_error("too_long", message, f"use {self.description}")
        if not self.matches(text):
            raise field_error(self.rule, f"invalid {self.rule} {short_repr(text)}", f"use {self.description}")
        return text


# Allows more than Kubernetes does: `core.manifests.names` derives valid object names from these names.
NAME = NameFormat(
    "name",
    r"[A-Za-z0-9][A-Za-z0-9._+-]*",
    128,
    "letters, digits, '.', '_', '+' and '-', starting with a letter or digit, at most 128 characters",
)
# Must be a valid label value, because pod labels contain these names.
OBJECT_NAME = NameFormat(
    "name",
    WORD,
    63,
    "letters, digits, '.', '_' and '-', starting and ending with a letter or digit, at most 63 characters",
)
DNS_LABEL = NameFormat(
    "name",
    LABEL,
    63,
    "lowercase letters, digits and '-', starting and ending with a letter or digit, at most 63 characters",
)
DNS_SUBDOMAIN = NameFormat(
    "name", SUBDOMAIN, 253, "lowercase letters, digits, '-' and '.', starting and ending with a letter or digit"
)
# The name of a secret becomes a key in a Kubernetes Secret and possibly a file name, so `.`, `..` and the prefix `..`
# are excluded.
# Kubernetes has the same rule and limit for keys and for environment variable names.
VARIABLE = NameFormat(
    "name",
    r"(?!\.$|\.\.)[A-Za-z_.-][A-Za-z0-9_.-]*",
    253,
    "letters, digits, '_', '-' and '.', not starting with a digit",
)
# The lookahead limits the prefix and the name separately, to the lengths that Kubernetes allows.
LABEL_KEY = NameFormat(
    "label",
    rf"(?=[^/]{{1,253}}/[^/]{{1,63}}$|[^/]{{1,63}}$)({SUBDOMAIN}/)?{WORD}",
    317,
    "a label key such as zone or example.com/zone (at most 63 characters after an optional DNS prefix)",
)
LABEL_VALUE = NameFormat(
    "label", rf"({WORD})?", 63, "a label value: letters, digits, '.', '_' and '-', at most 63 characters"
)
# Names that contain kubernetes.io/ or start with these prefixes are not extended resources. The domain is limited to
# 244 characters, because the name with the prefix `requests.`, as in a ResourceQuota, must also be valid.
EXTENDED_RESOURCE = NameFormat(
    "name",
    rf"(?!requests\.|hugepages-|.*kubernetes\.io/)(?=[^/]{{1,244}}/[^/]{{1,63}}$){SUBDOMAIN}/{WORD}",
    308,
    "a name with the vendor's domain, for example vendor.example/nic",
)


def parse_image(value: Any) -> str:
    """Parse a reference to a container image."""
    text = parse_text(value)
    # Rejects only spaces, control characters and non-ASCII characters. The container runtime parses the reference.
    if not 1 <= len(text) <= 500 or any(not "!" <= letter <= "~" for letter in text):
        hint = "use an image such as python:3.12-slim or registry/name:tag"
        raise field_error("image", f"invalid image {short_repr(text)}", hint)
    return text


Image = Annotated[
    str,
    PlainValidator(parse_image),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 500, "examples": ["python:3.12-slim"]}),
]
Name = Annotated[str, PlainValidator(NAME.parse), WithJsonSchema(NAME.schema)]
ObjectName = Annotated[str, PlainValidator(OBJECT_NAME.parse), WithJsonSchema(OBJECT_NAME.schema)]
DnsLabel = Annotated[str, PlainValidator(DNS_LABEL.parse), WithJsonSchema(DNS_LABEL.schema)]
DnsSubdomain = Annotated[str, PlainValidator(DNS_SUBDOMAIN.parse), WithJsonSchema(DNS_SUBDOMAIN.schema)]
VariableName = Annotated[str, PlainValidator(VARIABLE.parse), WithJsonSchema(VARIABLE.schema)]
LabelKey = Annotated[str, PlainValidator(LABEL_KEY.parse), WithJsonSchema(LABEL_KEY.schema)]
LabelValue = Annotated[str, PlainValidator(LABEL_VALUE.parse), WithJsonSchema(LABEL_VALUE.schema)]
ExtendedResourceName = Annotated[str, PlainValidator(EXTENDED_RESOURCE.parse), WithJsonSchema(EXTENDED_RESOURCE.schema)]
