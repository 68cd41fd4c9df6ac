"""Kubeconfigs: one context of a document becomes a connection. What may be secret is in no message."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.errors import RequestRejected
from fairlead.model.connections import Connection
from fairlead.model.hosts import MAX_PORT, is_host, is_loopback
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation

KUBECONFIG = "KUBECONFIG"  # the name under which the kubeconfig of a cluster is kept among the secrets
ROOT = "kubeconfig"
LONGEST_SERVER = 500
ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~/%-]*)?"
)
PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s[A-Za-z0-9+/=\s]+-----END \1-----")
TOKEN = re.compile(r"[!-~]+")
OWN_TOKEN = "use the token of a service account: `fairlead clusters rbac` says how"
EMBED = "embed it: kubectl config view --raw --flatten --minify (fairlead clusters add and connect do so)"

# What stands in a cluster or a user beside the texts that a connection is made of.
FILES = {"certificate-authority": "certificate-authority-data", "client-certificate": "client-certificate-data"} | {
    "client-key": "client-key-data",
    "tokenFile": "token",
}
PLUGINS = ("exec", "auth-provider")
BASIC = ("username", "password")
NOT_BUILT = {"proxy-url": "a proxy to the cluster"} | dict.fromkeys(
    ("as", "as-uid", "as-groups", "as-user-extra"), "acting as another user"
)
HARMLESS = ("extensions", "disable-compression", "namespace")
OF_CLUSTER = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
OF_USER = ("token", "client-certificate-data", "client-key-data")


@dataclass(frozen=True)
class SelectedContext:
    """A context of a kubeconfig with the cluster and the user that it names, and where those stand."""

    context: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    cluster_at: str
    user_at: str


def select_context(document: Any, context: str | None = None) -> SelectedContext:
    """A context of a kubeconfig: the one that is named, or the current one. Raise `RequestRejected`."""
    if not isinstance(document, Mapping) or document.get("kind", "Config") != "Config":
        message = f"is no kubeconfig: must be a mapping of kind Config, found {_kind(document)}"
        raise _reject(ROOT, "mapping", message, "give what kubectl config view --raw prints")
    name = context if context is not None else document.get("current-context") or ""
    if not name:
        hint = suggest_names("", _names(_entries(document, "contexts")), "name one of its contexts: {known}")
        raise _reject(f"{ROOT}.current-context", "required", "says no current context", hint)
    said, at = _find(document, "context", name, "context" if context is not None else f"{ROOT}.current-context")
    cluster, cluster_at = _find(document, "cluster", said.get("cluster"), f"{at}.cluster")
    user, user_at = _find(document, "user", said.get("user"), f"{at}.user")
    return SelectedContext(str(name), cluster, user, cluster_at, user_at)


def to_connection(chosen: SelectedContext) -> Connection:
    """How the cluster of a context is reached. Raise `RequestRejected` with everything that is wrong."""
    violations = [*_check_cluster(chosen), *_check_user(chosen)]
    if violations:
        raise RequestRejected(violations)
    cluster, user = chosen.cluster, chosen.user
    return Connection(
        server=cluster["server"].rstrip("/"),
        ca=_decode(cluster.get("certificate-authority-data")),
        token=user.get("token") or "",
        certificate=_decode(user.get("client-certificate-data")),
        key=_decode(user.get("client-key-data")),
        tls_server_name=cluster.get("tls-server-name") or None,
        insecure=cluster.get("insecure-skip-tls-verify") or False,
    )


def minify(chosen: SelectedContext) -> dict[str, Any]:
    """A kubeconfig of one context, with nothing that it does not need."""
    cluster = {name: value for name, value in chosen.cluster.items() if name not in HARMLESS}
    user = {name: value for name, value in chosen.user.items() if name not in HARMLESS}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": chosen.context,
        "contexts": [{"name": chosen.context, "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
    }


def serialize_kubeconfig(chosen: SelectedContext) -> bytes:
    """What is sealed of a kubeconfig."""
    return json.dumps(minify(chosen)).encode()


def parse_serialized(content: bytes) -> tuple[str, Connection]:
    """The context and the connection that were sealed."""
    chosen = select_context(json.loads(content))
    return chosen.context, to_connection(chosen)


def _entries(document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    """What a list of the kubeconfig has; what is no mapping has no name, and nobody finds it."""
    entries = document.get(section)
    if not isinstance(entries, list | tuple):
        message = f"must be a list of mappings, found {_kind(entries)}"
        raise _reject(f"{ROOT}.{section}", "list", message, f"write the {section} as kubectl does")
    return [entry if isinstance(entry, Mapping) else {} for entry in entries]


def _names(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries if isinstance(entry.get("name"), str)]


def _find(document: Mapping[str, Any], kind: str, name: Any, named_at: str) -> tuple[Mapping[str, Any], str]:
    """What a list of the kubeconfig says under a name, and where that stands."""
    section = f"{kind}s"
    if not isinstance(name, str) or not name:
        raise _reject(named_at, "required", f"names no {kind}, found {short_repr(name)}", f"name one of {section}")
    entries = _entries(document, section)
    found = [index for index, entry in enumerate(entries) if entry.get("name") == name]
    if not found:
        hint = suggest_names(name, _names(entries), "known: {known}")
        raise _reject(named_at, f"unknown_{kind}", f"there is no {kind} {short_repr(name)} in it", hint)
    at = f"{ROOT}.{section}[{found[-1]}]"
    if len(found) > 1:
        raise _reject(
            f"{at}.name", "duplicate", f"there are {len(found)} {section} called {short_repr(name)}", "keep one"
        )
    said = entries[found[0]].get(kind)
    if not isinstance(said, Mapping) or not all(isinstance(field, str) for field in said):
        message = f"must be a mapping, found {_kind(said)}"
        raise _reject(f"{at}.{kind}", "mapping", message, f"write the {kind} as kubectl does")
    return said, f"{at}.{kind}"


def _check_cluster(chosen: SelectedContext) -> Iterator[Violation]:
    said, at = chosen.cluster, chosen.cluster_at
    yield from _check_fields(said, at, OF_CLUSTER, ("certificate-authority",))
    yield from _check_server(said.get("server"), f"{at}.server")
    yield from _check_pem(said, at, "certificate-authority-data")
    insecure = said.get("insecure-skip-tls-verify")
    if not isinstance(insecure, bool | None):
        message = f"must be true or false, found {_kind(insecure)}"
        yield Violation(f"{at}.insecure-skip-tls-verify", "type", message, "write true or false")
    elif insecure and said.get("certificate-authority-data"):
        message = "is true, and certificate-authority-data says whom to believe"
        yield Violation(f"{at}.insecure-skip-tls-verify", "contradiction", message, "leave it out")
    name = said.get("tls-server-name")
    if name is not None and not isinstance(name, str):
        yield Violation(f"{at}.tls-server-name", "text", f"must be text, found {_kind(name)}", "write it in quotes")
    elif name and not is_host(name):
        message = f"is no name of a host: {short_repr(name)}"
        yield Violation(f"{at}.tls-server-name", "host", message, "write the name that the certificate is for")


def _check_user(chosen: SelectedContext) -> Iterator[Violation]:
    said, at = chosen.user, chosen.user_at
    for name in PLUGINS:
        if said.get(name) is not None:
            message = f"gets credentials from a program ({name}), which the server cannot run"
            yield Violation(f"{at}.{name}", "plugin", message, OWN_TOKEN)
    for name in BASIC:
        if said.get(name) is not None:
            message = "signs in with a password, which Kubernetes no longer takes"
            yield Violation(f"{at}.{name}", "password", message, OWN_TOKEN)
    files = ("client-certificate", "client-key", "tokenFile")
    yield from _check_fields(said, at, (*OF_USER, *PLUGINS, *BASIC), files)
    token = said.get("token")
    if token is not None and (not isinstance(token, str) or (token and not TOKEN.fullmatch(token))):
        message = "is no token (it is not repeated here)"
        yield Violation(f"{at}.token", "token", message, "give the token on one line, without spaces")
    pair = ("client-certificate-data", "client-key-data")
    for name in pair:
        yield from _check_pem(said, at, name)
    has = [name for name in pair if said.get(name)]
    if len(has) == 1:
        (missing,) = set(pair) - set(has)
        if not said.get(missing.removesuffix("-data")):  # a file, of which is told already
            yield Violation(f"{at}.{missing}", "required", f"is missing, and {has[0]} is there", f"say {missing}")
    if not any(said.get(name) for name in (*OF_USER, *PLUGINS, *BASIC, *files)):
        yield Violation(at, "required", "has neither a token nor a client certificate", OWN_TOKEN)


def _check_fields(
    said: Mapping[str, Any], at: str, known: tuple[str, ...], files: tuple[str, ...]
) -> Iterator[Violation]:
    for name, value in said.items():
        if value in (None, "", [], {}):
            continue
        if name in files:
            if name == "tokenFile" or not said.get(FILES[name]):
                yield Violation(
                    f"{at}.{name}", "file", f"is a file, which the server does not read: {_short(value)}", EMBED
                )
        elif name in NOT_BUILT:
            yield Violation(f"{at}.{name}", "not_built", f"{NOT_BUILT[name]} is not built yet", "leave it out")
        elif name not in (*known, *HARMLESS):
            hint = suggest_names(name, (*known, *files), "known fields: {known}")
            yield Violation(f"{at}.{name[:80]}", "unknown_field", f"unknown field {short_repr(name)}", hint)


def _check_server(server: Any, at: str) -> Iterator[Violation]:
    if not server:
        yield Violation(at, "required", "is missing", "say the address of the API server, such as https://host:6443")
        return
    match = ADDRESS.fullmatch(server) if isinstance(server, str) and len(server) <= LONGEST_SERVER else None
    if match is None or not is_host(match["host"]) or not 0 < int(match["port"] or 443) <= MAX_PORT:
        shown = "" if "@" in str(server) else f": {short_repr(server)}"  # before an @ stands a password
        yield Violation(at, "url", f"is no address of an API server{shown}", "write one such as https://host:6443")
    elif match["scheme"] == "http" and not is_loopback(match["host"]):
        message = f"sends all in the open, which is only for this machine: {short_repr(server)}"
        yield Violation(at, "tls", message, "write https://, with certificate-authority-data")


def _check_pem(said: Mapping[str, Any], at: str, name: str) -> Iterator[Violation]:
    value = said.get(name)
    if value in (None, ""):
        return
    try:
        text = _decode(value)
    except (binascii.Error, ValueError, TypeError, AttributeError):
        yield Violation(f"{at}.{name}", "base64", "is no base64 of a text", "give it as kubectl writes it")
        return
    if text is None or not PEM.search(text):
        message = "is base64, and what it says is no PEM text (-----BEGIN ...-----)"
        yield Violation(f"{at}.{name}", "pem", message, "encode the PEM text: base64 -w0 FILE")


def _decode(value: Any) -> str | None:
    """The text behind base64, which may be broken into lines."""
    return base64.b64decode("".join(value.split()), validate=True).decode("ascii") if value else None


def _reject(path: str, rule: str, message: str, hint: str) -> RequestRejected:
    return RequestRejected([Violation(path, rule, message, hint)])


def _kind(value: Any) -> str:
    """What kind of thing a value is, and never the value: it may be secret."""
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "a number, true or false"


def _short(value: Any) -> str:
    return short_repr(value) if isinstance(value, str) else _kind(value)
