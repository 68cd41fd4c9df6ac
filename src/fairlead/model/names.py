"""Formats of names, URLs and hosts, and the names that Fairlead gives to objects, labels and folders of pods."""

import hashlib
import ipaddress
import re
from functools import lru_cache
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from fairlead.model.parsing import field_error, parse_text, short_repr

LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"

PROJECT = "{project}"
MAX_AFFIX_LENGTH = 30  # leaves about half of a namespace's 63 characters for the project name
MAX_URL_LENGTH = 500
NAMESPACE = r"([a-z0-9][a-z0-9-]*)?\{project\}([a-z0-9-]*[a-z0-9])?"
URL = r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?"

MAX_HOST_LENGTH = 253  # the limit for a DNS name
HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
MAX_PORT = 65535

PREFIX = "fairlead.dev"
RUN_LABEL = f"{PREFIX}/run"
SECRET_NAME = f"{PREFIX}/secret"  # annotation with the secret's name in the project
MAX_LABEL_LENGTH = 63  # the limit for DNS labels and for label values
MAX_RUN_LENGTH = MAX_LABEL_LENGTH - len("-9999")  # Kubernetes appends an index to the names of an indexed Job's pods
HASHED = re.compile(r"-[0-9a-f]{8}$")

HOME = "/fairlead"  # writable home folder
BOOTSTRAP = "/etc/fairlead"  # the ConfigMap with the bootstrap program and the code, read-only
SHARED_MEMORY = "/dev/shm"
ATTEMPT = "FAIRLEAD_ATTEMPT"  # environment variable with the number of the attempt


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


# Allows more than Kubernetes does: `slug` derives valid object names from these names.
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


def is_host(text: str) -> bool:
    """Whether the text is a valid host name or IP address."""
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
        return True
    except ValueError:
        labels = text.removesuffix(".").split(".")
        numeric = labels[-1].isdecimal()  # looks like an IPv4 address, but is not a valid one
        return len(text) <= MAX_HOST_LENGTH and not numeric and all(HOST_LABEL.fullmatch(label) for label in labels)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or `localhost`."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    # Other names are not resolved: the model does no I/O, and a name's address can change.
    except ValueError:
        return host.lower() == "localhost"


def slug(text: str, max_length: int = MAX_LABEL_LENGTH) -> str:
    """A DNS label that starts with a letter. If the text had to be changed, a hash is appended."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    # Service names must start with a letter, and a run's Service has the same name as the run.
    if not plain[:1].isalpha():
        plain = f"r-{plain}".rstrip("-")
    # A name that already looks like it ends with a hash also gets one, so that it cannot collide with a hashed name.
    if plain == text and len(plain) <= max_length and not HASHED.search(plain):
        return plain
    return f"{plain[: max_length - 9].rstrip('-')}-{_hash(text, 8)}"


@lru_cache(maxsize=256)  # each plan computes the same name a dozen times
def run_name(function: str, run_id: str) -> str:
    """The name of a run's main object, which is also the prefix for the names of its other objects."""
    # The suffix has no hyphen, so it cannot be confused with the end of a function name or with a hash.
    # An ID that looks like a hash is hashed, so that it cannot collide with the hash of another ID.
    plain = re.fullmatch(r"(?![0-9a-f]{24}$)[a-z0-9]{1,40}", run_id)
    ending = run_id if plain else _hash(run_id, 24)
    return f"{slug(function, MAX_RUN_LENGTH - 1 - len(ending))}-{ending}"


@lru_cache(maxsize=256)
def namespace_of(project: str, template: str) -> str:
    """The namespace of a project, from the namespace template of its cluster."""
    before, _, after = template.partition(PROJECT)
    max_length = MAX_LABEL_LENGTH - len(before) - len(after)
    name = f"{before}{slug(project, max_length)}{after}"
    # The kube- prefix is reserved for Kubernetes. A project must never use one of those namespaces.
    return f"{before}{slug(f'project {project}', max_length)}{after}" if name.startswith("kube-") else name


@lru_cache(maxsize=1024)
def label_value(text: str) -> str:
    """The text if it is a valid label value, else a unique label value for it."""
    return text if LABEL_VALUE.matches(text) else slug(text)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
