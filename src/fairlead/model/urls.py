"""Where things are to be found: the namespaces of projects, and the server as pods see it."""

import re
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import parse_text, show, wrong

PROJECT = "{project}"
LONGEST_AROUND = 30  # so that half of a namespace's name is left for the project's
LONGEST_URL = 500
NAMESPACE = r"([a-z0-9][a-z0-9-]*)?\{project\}([a-z0-9-]*[a-z0-9])?"
URL = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?"


def parse_namespace_rule(value: Any) -> str:
    """How the namespace of a project is called: a name with {project} in it, once."""
    if not isinstance(value, str):  # {project} without quotes is a mapping to YAML
        raise wrong("text", f"must be text, found {show(value)}", f'write it in quotes: "{PROJECT}"')
    text = value
    if text.count(PROJECT) != 1:
        message = f"must name {PROJECT} once, so that each project has a namespace of its own, found {show(text)}"
        raise wrong("namespace", message, f"write {PROJECT}, or ai-{PROJECT}")
    around = len(text) - len(PROJECT)
    if around > LONGEST_AROUND:
        message = f"has {around} characters beside {PROJECT}, at most {LONGEST_AROUND} are allowed: {show(text)}"
        raise wrong("too_long", message, "leave room for the name of the project")
    if not re.fullmatch(NAMESPACE, text, re.ASCII):
        hint = f"use lower-case letters, digits and '-' beside {PROJECT}, without '-' at either end"
        raise wrong("namespace", f"gives no valid name of a namespace: {show(text)}", hint)
    if text.startswith("kube-"):
        message = f"begins with kube-, which is Kubernetes' own, found {show(text)}"
        raise wrong("namespace", message, f"write another beginning, such as ai-{PROJECT}")
    return text


def parse_server_url(value: Any) -> str:
    """Where pods reach the server, without a slash at its end."""
    text = parse_text(value)
    hint = "write one such as https://fairlead.example.org, as pods reach the server"
    if len(text) > LONGEST_URL:
        raise wrong("too_long", f"has {len(text)} characters, at most {LONGEST_URL} are allowed", hint)
    if "@" in text:  # and so what is before it is not repeated here
        raise wrong("url", "has a user or a password in it, which every pod would see", "take them out")
    if not text.startswith(("http://", "https://")):
        raise wrong("url", f"must be an address with http or https and a host, found {show(text)}", hint)
    if "?" in text or "#" in text:
        message = f"must be an address alone, without ? and #, found {show(text)}"
        raise wrong("url", message, "take out what follows the path")
    found = re.fullmatch(URL, text, re.ASCII)
    if found is None or not 1 <= int(found["port"] or 80) <= 65535:
        raise wrong("url", f"is no address: {show(text)}", hint)
    return text.rstrip("/")


NamespaceRule = Annotated[
    str,
    PlainValidator(parse_namespace_rule),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": LONGEST_AROUND + len(PROJECT),
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
            "maxLength": LONGEST_URL,
            "pattern": f"^{URL.replace('?P<port>', '')}$",
            "examples": ["https://fairlead.example.org"],
        }
    ),
]
