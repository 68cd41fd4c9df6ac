"""Which names are allowed where: the grammars of Kubernetes and our own, each with the sentence that explains it."""

import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import parse_text, show, wrong

LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"


class Grammar:
    """A kind of name: its pattern, its longest length, and what to tell people who miss it."""

    def __init__(self, rule: str, pattern: str, longest: int, words: str) -> None:
        self.rule, self.longest, self.words = rule, longest, words
        self._pattern = re.compile(pattern, re.ASCII)

    def matches(self, text: str) -> bool:
        """Whether the text is such a name."""
        return len(text) <= self.longest and self._pattern.fullmatch(text) is not None

    @property
    def schema(self) -> dict[str, Any]:
        """The same for programs."""
        pattern = f"^(?:{self._pattern.pattern})$"
        return {"type": "string", "maxLength": self.longest, "pattern": pattern, "description": self.words}

    def check(self, value: Any) -> str:
        """The text itself, or the error that says what is wrong with it."""
        text = parse_text(value)
        if len(text) > self.longest:
            message = f"has {len(text)} characters, at most {self.longest} are allowed: {show(text)}"
            raise wrong("too_long", message, f"use {self.words}")
        if not self.matches(text):
            raise wrong(self.rule, f"is no valid name: {show(text)}", f"use {self.words}")
        return text


NAME = Grammar(
    "name",
    r"[A-Za-z0-9][A-Za-z0-9._+-]*",
    128,
    "letters, digits, '.', '_', '+' and '-', beginning with a letter or digit, at most 128",
)
OBJECT_NAME = Grammar(
    "name", WORD, 63, "letters, digits, '.', '_' and '-', beginning and ending with a letter or digit, at most 63"
)
DNS_LABEL = Grammar(
    "name", LABEL, 63, "lower-case letters, digits and '-', beginning and ending with a letter or digit, at most 63"
)
DNS_SUBDOMAIN = Grammar(
    "name", SUBDOMAIN, 253, "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit"
)
VARIABLE = Grammar(
    "name",
    r"(?!\.$|\.\.)[A-Za-z_.-][A-Za-z0-9_.-]*",
    253,
    "letters, digits, '_', '-' and '.', not beginning with a digit",
)
LABEL_KEY = Grammar(
    "label",
    rf"(?=[^/]{{1,253}}/[^/]{{1,63}}$|[^/]{{1,63}}$)({SUBDOMAIN}/)?{WORD}",
    317,
    "a label key such as zone or example.com/zone (a name of at most 63 after an optional DNS prefix)",
)
LABEL_VALUE = Grammar("label", rf"({WORD})?", 63, "a label value: letters, digits, '.', '_' and '-', at most 63")
EXTENDED_RESOURCE = Grammar(
    "name",
    rf"(?!requests\.|hugepages-|.*kubernetes\.io/)(?=[^/]{{1,244}}/[^/]{{1,63}}$){SUBDOMAIN}/{WORD}",
    308,
    "a name with its vendor's domain: vendor.example/nic",
)


def parse_image(value: Any) -> str:
    """A reference to a container image."""
    text = parse_text(value)
    if not 1 <= len(text) <= 500 or any(not "!" <= letter <= "~" for letter in text):
        raise wrong("image", f"is no image: {show(text)}", "write one such as python:3.12-slim or registry/name:tag")
    return text


Image = Annotated[
    str,
    PlainValidator(parse_image),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 500, "examples": ["python:3.12-slim"]}),
]
Name = Annotated[str, PlainValidator(NAME.check), WithJsonSchema(NAME.schema)]
ObjectName = Annotated[str, PlainValidator(OBJECT_NAME.check), WithJsonSchema(OBJECT_NAME.schema)]
DnsLabel = Annotated[str, PlainValidator(DNS_LABEL.check), WithJsonSchema(DNS_LABEL.schema)]
DnsSubdomain = Annotated[str, PlainValidator(DNS_SUBDOMAIN.check), WithJsonSchema(DNS_SUBDOMAIN.schema)]
VariableName = Annotated[str, PlainValidator(VARIABLE.check), WithJsonSchema(VARIABLE.schema)]
LabelKey = Annotated[str, PlainValidator(LABEL_KEY.check), WithJsonSchema(LABEL_KEY.schema)]
LabelValue = Annotated[str, PlainValidator(LABEL_VALUE.check), WithJsonSchema(LABEL_VALUE.schema)]
ExtendedResourceName = Annotated[str, PlainValidator(EXTENDED_RESOURCE.check), WithJsonSchema(EXTENDED_RESOURCE.schema)]
