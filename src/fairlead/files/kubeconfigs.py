"""Loads kubeconfigs like kubectl: merges files, embeds certificates and tokens, and converts a context to a connection.

Messages never contain values that may be secret.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.errors import RequestRejected
from fairlead.files import yamls
from fairlead.model.names import MAX_PORT, is_host, is_loopback
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.project_objects import Connection

KUBECONFIG = "KUBECONFIG"  # the name of the secret that stores a cluster's kubeconfig
ROOT = "kubeconfig"
MAX_SERVER_LENGTH = 500
ADDRESS = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~/%-]*)?"
)
PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s[A-Za-z0-9+/=\s]+-----END \1-----")
TOKEN = re.compile(r"[!-~]+")  # a token with a line break would add a header to each request
USE_TOKEN = "use a service account token; see `fairlead clusters rbac`"
EMBED = "embed the file with kubectl config view --raw --flatten --minify (fairlead clusters add and connect do this)"

# Fields of a cluster or user that contain file names, and the fields that embed the content instead.
FILES = {"certificate-authority": "certificate-authority-data", "client-certificate": "client-certificate-data"} | {
    "client-key": "client-key-data",
    "tokenFile": "token",
}
# Programs that print credentials. If they were allowed, anyone who may connect a cluster could run programs on the
# server.
PLUGINS = ("exec", "auth-provider")
BASIC_AUTH = ("username", "password")
UNSUPPORTED = {"proxy-url": "a proxy"} | dict.fromkeys(("as", "as-uid", "as-groups", "as-user-extra"), "impersonation")
# These do not affect the connection. The namespace comes from the project.
IGNORED_FIELDS = ("extensions", "disable-compression", "namespace")
CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
USER_FIELDS = ("token", "client-certificate-data", "client-key-data")

MAX_FILE_BYTES = 1024 * 1024
SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
ANOTHER = "use another file: --kubeconfig FILE"


@dataclass(frozen=True)
class SelectedContext:
    """A kubeconfig context with its cluster and user, and their paths."""

    context: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    cluster_path: str
    user_path: str


def select_context(document: Any, context: str | None = None) -> SelectedContext:
    """Select a context by name, or the current one. Raises `RequestRejected`."""
    if not isinstance(document, Mapping) or document.get("kind", "Config") != "Config":
        message = f"must be a mapping of kind Config, found {_kind(document)}"
        raise _reject(ROOT, "mapping", message, "use the output of kubectl config view --raw")
    name = context if context is not None else document.get("current-context") or ""
    if not name:
        hint = suggest_names("", _names(_entries(document, "contexts")), "use one of these contexts: {known}")
        raise _reject(f"{ROOT}.current-context", "required", "is not set", hint)
    fields, path = _find(document, "context", name, "context" if context is not None else f"{ROOT}.current-context")
    cluster, cluster_path = _find(document, "cluster", fields.get("cluster"), f"{path}.cluster")
    user, user_path = _find(document, "user", fields.get("user"), f"{path}.user")
    return SelectedContext(str(name), cluster, user, cluster_path, user_path)


def to_connection(selected: SelectedContext) -> Connection:
    """The connection for a context. Raises `RequestRejected` with all errors."""
    violations = [*_check_cluster(selected), *_check_user(selected)]
    if violations:
        raise RequestRejected(violations)
    cluster, user = selected.cluster, selected.user
    return Connection(
        server=cluster["server"].rstrip("/"),
        ca=_decode(cluster.get("certificate-authority-data")),
        token=user.get("token") or "",
        certificate=_decode(user.get("client-certificate-data")),
        key=_decode(user.get("client-key-data")),
        tls_server_name=cluster.get("tls-server-name") or None,
        insecure=cluster.get("insecure-skip-tls-verify") or False,
    )


def minify(selected: SelectedContext) -> dict[str, Any]:
    """A kubeconfig with only this context and the fields that it needs."""
    # Other fields are not stored, because a kubeconfig often contains credentials for other clusters.
    cluster = {name: value for name, value in selected.cluster.items() if name not in IGNORED_FIELDS}
    user = {name: value for name, value in selected.user.items() if name not in IGNORED_FIELDS}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": selected.context,
        "contexts": [{"name": selected.context, "context": {"cluster": "cluster", "user": "user"}}],
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
    }


def serialize_kubeconfig(selected: SelectedContext) -> bytes:
    """The minified kubeconfig as bytes, to be encrypted and stored."""
    return json.dumps(minify(selected)).encode()


def parse_serialized(content: bytes) -> tuple[str, Connection]:
    """The context name and the connection from a serialized kubeconfig."""
    selected = select_context(json.loads(content))
    return selected.context, to_connection(selected)


def _entries(document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    """The entries of a list in the kubeconfig. Entries that are not mappings become empty."""
    entries = document.get(section)
    if not isinstance(entries, list | tuple):
        message = f"must be a list of mappings, found {_kind(entries)}"
        raise _reject(f"{ROOT}.{section}", "list", message, f"use kubectl's format for {section}")
    # Invalid entries are not removed, because violation paths contain the index of each entry.
    return [entry if isinstance(entry, Mapping) else {} for entry in entries]


def _names(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries if isinstance(entry.get("name"), str)]


def _find(document: Mapping[str, Any], kind: str, name: Any, reference_path: str) -> tuple[Mapping[str, Any], str]:
    """The named context, cluster or user, with its path."""
    section = f"{kind}s"
    if not isinstance(name, str) or not name:
        message = f"must be the name of a {kind}, found {short_repr(name)}"
        raise _reject(reference_path, "required", message, f"use a name from {section}")
    entries = _entries(document, section)
    indexes = [index for index, entry in enumerate(entries) if entry.get("name") == name]
    if not indexes:
        hint = suggest_names(name, _names(entries), "known: {known}")
        raise _reject(reference_path, f"unknown_{kind}", f"unknown {kind} {short_repr(name)}", hint)
    path = f"{ROOT}.{section}[{indexes[-1]}]"
    # kubectl also rejects duplicate names.
    if len(indexes) > 1:
        message = f"{len(indexes)} {section} have the name {short_repr(name)}"
        raise _reject(f"{path}.name", "duplicate", message, "remove all but one")
    fields = entries[indexes[0]].get(kind)
    if not isinstance(fields, Mapping) or not all(isinstance(field, str) for field in fields):
        message = f"must be a mapping, found {_kind(fields)}"
        raise _reject(f"{path}.{kind}", "mapping", message, f"use kubectl's format for the {kind}")
    return fields, f"{path}.{kind}"


def _check_cluster(selected: SelectedContext) -> Iterator[Violation]:
    fields, path = selected.cluster, selected.cluster_path
    yield from _check_fields(fields, path, CLUSTER_FIELDS, ("certificate-authority",))
    yield from _check_server(fields.get("server"), f"{path}.server")
    yield from _check_pem(fields, path, "certificate-authority-data")
    insecure = fields.get("insecure-skip-tls-verify")
    if not isinstance(insecure, bool | None):
        message = f"must be true or false, found {_kind(insecure)}"
        yield Violation(f"{path}.insecure-skip-tls-verify", "type", message, "use true or false")
    elif insecure and fields.get("certificate-authority-data"):
        # kubectl also rejects this combination.
        message = "cannot be combined with certificate-authority-data"
        yield Violation(f"{path}.insecure-skip-tls-verify", "contradiction", message, "remove it")
    name = fields.get("tls-server-name")
    if name is not None and not isinstance(name, str):
        yield Violation(f"{path}.tls-server-name", "text", f"must be text, found {_kind(name)}", "put it in quotes")
    elif name and not is_host(name):
        message = f"invalid host name {short_repr(name)}"
        yield Violation(f"{path}.tls-server-name", "host", message, "use the name in the certificate")


def _check_user(selected: SelectedContext) -> Iterator[Violation]:
    fields, path = selected.user, selected.user_path
    for name in PLUGINS:
        if fields.get(name) is not None:
            message = f"gets credentials from a program ({name}), which the server does not run"
            yield Violation(f"{path}.{name}", "plugin", message, USE_TOKEN)
    for name in BASIC_AUTH:
        if fields.get(name) is not None:
            message = "uses a password, which Kubernetes no longer supports"
            yield Violation(f"{path}.{name}", "password", message, USE_TOKEN)
    files = ("client-certificate", "client-key", "tokenFile")
    yield from _check_fields(fields, path, (*USER_FIELDS, *PLUGINS, *BASIC_AUTH), files)
    token = fields.get("token")
    if token is not None and (not isinstance(token, str) or (token and not TOKEN.fullmatch(token))):
        message = "invalid token"
        yield Violation(f"{path}.token", "token", message, "use a token on one line, without spaces")
    pair = ("client-certificate-data", "client-key-data")
    for name in pair:
        yield from _check_pem(fields, path, name)
    has = [name for name in pair if fields.get(name)]
    if len(has) == 1:
        (missing,) = set(pair) - set(has)
        if not fields.get(missing.removesuffix("-data")):  # otherwise _check_fields reports the file name
            yield Violation(f"{path}.{missing}", "required", f"is missing, but {has[0]} is set", f"set {missing}")
    if not any(fields.get(name) for name in (*USER_FIELDS, *PLUGINS, *BASIC_AUTH, *files)):
        yield Violation(path, "required", "has neither a token nor a client certificate", USE_TOKEN)


def _check_fields(
    fields: Mapping[str, Any], path: str, known: tuple[str, ...], files: tuple[str, ...]
) -> Iterator[Violation]:
    for name, value in fields.items():
        # kubectl treats empty fields as missing.
        if value in (None, "", [], {}):
            continue
        if name in files:
            # Embedded data takes precedence over a file, except for tokens, where kubectl prefers the file.
            if name == "tokenFile" or not fields.get(FILES[name]):
                yield Violation(
                    f"{path}.{name}", "file", f"is a file, which the server does not read: {_describe(value)}", EMBED
                )
        elif name in UNSUPPORTED:
            yield Violation(f"{path}.{name}", "not_built", f"{UNSUPPORTED[name]} is not supported", "remove it")
        elif name not in (*known, *IGNORED_FIELDS):
            hint = suggest_names(name, (*known, *files), "known fields: {known}")
            yield Violation(f"{path}.{name[:80]}", "unknown_field", f"unknown field {short_repr(name)}", hint)


def _check_server(server: Any, path: str) -> Iterator[Violation]:
    if not server:
        yield Violation(
            path, "required", "is missing", "set the address of the API server, for example https://host:6443"
        )
        return
    match = ADDRESS.fullmatch(server) if isinstance(server, str) and len(server) <= MAX_SERVER_LENGTH else None
    if match is None or not is_host(match["host"]) or not 0 < int(match["port"] or 443) <= MAX_PORT:
        shown = "" if "@" in str(server) else f": {short_repr(server)}"  # a password may precede the @
        yield Violation(path, "url", f"invalid API server address{shown}", "use an address such as https://host:6443")
    elif match["scheme"] == "http" and not is_loopback(match["host"]):
        # Without TLS, anyone on the network could read the token.
        message = f"http is only allowed for loopback addresses, found {short_repr(server)}"
        yield Violation(path, "tls", message, "use https:// and certificate-authority-data")


def _check_pem(fields: Mapping[str, Any], path: str, name: str) -> Iterator[Violation]:
    value = fields.get(name)
    if value in (None, ""):
        return
    try:
        text = _decode(value)
    except (binascii.Error, ValueError, TypeError, AttributeError):
        yield Violation(f"{path}.{name}", "base64", "invalid base64 text", "use kubectl's format")
        return
    if text is None or not PEM.search(text):
        message = "does not contain PEM text (-----BEGIN ...-----)"
        yield Violation(f"{path}.{name}", "pem", message, "encode the PEM text: base64 -w0 FILE")


def _decode(value: Any) -> str | None:
    """Decode base64 text, which may contain line breaks."""
    # `validate` is set because b64decode otherwise ignores invalid characters.
    return base64.b64decode("".join(value.split()), validate=True).decode("ascii") if value else None


def _reject(path: str, rule: str, message: str, hint: str) -> RequestRejected:
    return RequestRejected([Violation(path, rule, message, hint)])


def _kind(value: Any) -> str:
    """The type of a value. Never returns the value itself, which may be secret."""
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return "a number, true or false"


def _describe(value: Any) -> str:
    return short_repr(value) if isinstance(value, str) else _kind(value)


@dataclass(frozen=True)
class LoadedKubeconfig:
    """One context of a kubeconfig as a self-contained text, with its connection."""

    context: str
    files: tuple[Path, ...]
    connection: Connection
    text: str


def find_paths(path: Path | None, variable: str | None, home: Path) -> list[Path]:
    """The kubeconfig files: the given path, else those in $KUBECONFIG, else ~/.kube/config."""
    if path is not None:
        return [path]
    listed = [Path(part) for part in (variable or "").split(":") if part]
    return listed or [home / ".kube" / "config"]


def load_kubeconfig(paths: Sequence[Path], context: str | None = None) -> LoadedKubeconfig:
    """Load a context from the files that exist. Raise `RequestRejected` with all errors."""
    # kubectl ignores missing files in $KUBECONFIG. If all are missing, loading the first one reports the error.
    existing = [path for path in paths if path.exists()] or paths[:1]
    chosen = select_context(_merge([_load(path) for path in existing]), context)
    violations: list[Violation] = []
    embedded = replace(
        chosen,
        cluster=_embed(chosen.cluster, chosen.cluster_path, violations),
        user=_embed(chosen.user, chosen.user_path, violations),
    )
    if violations:
        raise RequestRejected(violations)
    # Only the selected context is sent to the server: the files may contain credentials for other clusters.
    connection, text = to_connection(embedded), yamls.format_documents([minify(embedded)])
    return LoadedKubeconfig(embedded.context, tuple(existing), connection, text)


def _load(path: Path) -> dict[str, Any]:
    loaded = yamls.load_file(path)
    if isinstance(loaded, Violation):
        raise RequestRejected([replace(loaded, path=ROOT, hint=ANOTHER if loaded.rule == "file" else loaded.hint)])
    [document, *more] = loaded or [None]
    if more or not isinstance(document, dict):
        raise RequestRejected([Violation(ROOT, "mapping", "is not a kubeconfig", ANOTHER, location=str(path))])
    _make_absolute(document, path.absolute().parent)
    return document


def _make_absolute(document: dict[str, Any], folder: Path) -> None:
    """Make paths absolute. Relative paths in a kubeconfig refer to its own folder."""
    for section, kind in SECTIONS.items():
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            fields = entry.get(kind) if isinstance(entry, dict) else None
            if isinstance(fields, dict):
                paths = {name: fields.get(name) for name in FILES}
                # Joining the folder with an absolute path returns that path unchanged.
                fields |= {name: str(folder / path) for name, path in paths.items() if path and isinstance(path, str)}


def _merge(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge kubeconfigs. The first entry with a name and the first current context take precedence."""
    merged: dict[str, Any] = {}
    for document in documents:
        for name, value in document.items():
            present = merged.get(name)
            if present in (None, "", []):
                merged[name] = value
            elif name in SECTIONS and isinstance(value, list) and isinstance(present, list):
                known = [entry.get("name") for entry in present if isinstance(entry, dict)]
                more = (entry for entry in value if isinstance(entry, dict))
                merged[name] = [*present, *(entry for entry in more if entry.get("name") not in known)]
    return merged


def _embed(fields: Mapping[str, Any], at: str, violations: list[Violation]) -> dict[str, Any]:
    """Return a cluster or user with file contents instead of paths. Inline data takes precedence."""
    embedded = {name: value for name, value in fields.items() if name not in FILES}
    for name, data in FILES.items():
        path = fields.get(name)
        if not isinstance(path, str) or not path:
            continue
        # kubectl uses the same precedence.
        if name == "tokenFile":  # overrides an inline token, because the file is rotated
            embedded[data] = _read(Path(path), f"{at}.{name}", violations).decode("utf-8", "replace").strip()
        elif not embedded.get(data):
            embedded[data] = base64.b64encode(_read(Path(path), f"{at}.{name}", violations)).decode()
    return embedded


def _read(path: Path, at: str, violations: list[Violation]) -> bytes:
    try:
        with path.open("rb") as file:
            # One byte more than allowed is enough to detect a larger file, even an endless one such as /dev/zero.
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        violations.append(Violation(at, "file", f"cannot be read: {path}: {reason}", "check the path and permissions"))
        return b""
    if len(content) > MAX_FILE_BYTES:
        violations.append(Violation(at, "file", f"is larger than {MAX_FILE_BYTES:,} bytes: {path}", "use another file"))
    return content
