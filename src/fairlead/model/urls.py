"""Namespace templates, and the URL at which pods reach the server."""

import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import field_error, parse_text, short_repr

PROJECT = "{project}"
MAX_AFFIX_LENGTH = 30  # leaves about half of a namespace's 63 characters for the project name
MAX_URL_LENGTH = 500
NAMESPACE = r"([a-z0-9][a-z0-9-]*)?\{project\}([a-z0-9-]*[a-z0-9])?"
URL = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?"


def parse_namespace_template(value: Any) -> str:
    """Parse the template for project namespaces: a name that contains {project} once."""
    if not isinstance(value, str):  # YAML reads an unquoted {project} as a mapping
        raise field_error("text", f"must be text, found {short_repr(value)}", f'put it in quotes: "{PROJECT}"')
    text = value
    if text.count(PROJECT) != 1:
        message = f"must contain {PROJECT} exactly once, found {short_repr(text)}"
        raise field_error("namespace", message, f"use {PROJECT}, or a name such as ai-{PROJECT}")
    affix_length = len(text) - len(PROJECT)
    if affix_length > MAX_AFFIX_LENGTH:
        message = f"has {affix_length} characters besides {PROJECT}; at most {MAX_AFFIX_LENGTH} are allowed"
        raise field_error("too_long", message, "shorten it to leave room for the project name")
    if not re.fullmatch(NAMESPACE, text, re.ASCII):
        hint = f"use lowercase letters, digits and '-' around {PROJECT}, without '-' at either end"
        raise field_error("namespace", f"invalid namespace {short_repr(text)}", hint)
    if text.startswith("kube-"):
        message = f"{short_repr(text)} starts with kube-, which is reserved for Kubernetes"
        raise field_error("namespace", message, f"use another prefix, for example ai-{PROJECT}")
    return text


def parse_server_url(value: Any) -> str:
    """Parse the URL at which pods reach the server. A trailing slash is removed."""
    text = parse_text(value)
    hint = "use the address at which pods reach the server, for example https://fairlead.example.org"
    if len(text) > MAX_URL_LENGTH:
        raise field_error("too_long", f"has {len(text)} characters; at most {MAX_URL_LENGTH} are allowed", hint)
    if "@" in text:  # the message must not repeat the password
        raise field_error("url", "contains credentials, which every pod would see", "remove them")
    if not text.startswith(("http://", "https://")):
        raise field_error("url", f"must be an http or https URL, found {short_repr(text)}", hint)
    if "?" in text or "#" in text:
        message = f"must not contain ? or #, found {short_repr(text)}"
        raise field_error("url", message, "remove everything after the path")
    match = re.fullmatch(URL, text, re.ASCII)
    if match is None or not 1 <= int(match["port"] or 80) <= 65535:
        raise field_error("url", f"invalid URL {short_repr(text)}", hint)
    return text.rstrip("/")


NamespaceTemplate = Annotated[
    str,
    PlainValidator(parse_namespace_template),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": MAX_AFFIX_LENGTH + len(PROJECT),
            "pattern": f"^(?!kube-){NAMESPACE}$",
            "examples": [PROJECT, f"ai-{PROJECT}"],
        }
    ),
]
ServerUrl = Annotated[
    str,
    PlainValidator(parse_server_url),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": MAX_URL_LENGTH,
            "pattern": f"^{URL.replace('?P<port>', '')}$",
            "examples": ["https://fairlead.example.org"],
        }
    ),
]
