"""Loads kubeconfigs like kubectl: merges several files and embeds certificates and tokens from other files."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.core import kubeconfigs
from fairlead.core.kubeconfigs import FILES, ROOT
from fairlead.errors import RequestRejected
from fairlead.files import yamls
from fairlead.model.plans import Violation
from fairlead.model.project_objects import Connection

MAX_FILE_BYTES = 1024 * 1024
SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
ANOTHER = "use another file: --kubeconfig FILE"


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
    chosen = kubeconfigs.select_context(_merge([_load(path) for path in existing]), context)
    violations: list[Violation] = []
    embedded = replace(
        chosen,
        cluster=_embed(chosen.cluster, chosen.cluster_path, violations),
        user=_embed(chosen.user, chosen.user_path, violations),
    )
    if violations:
        raise RequestRejected(violations)
    # Only the selected context is sent to the server: the files may contain credentials for other clusters.
    connection, text = kubeconfigs.to_connection(embedded), yamls.format_documents([kubeconfigs.minify(embedded)])
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
