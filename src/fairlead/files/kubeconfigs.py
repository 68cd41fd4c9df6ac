"""Kubeconfigs as kubectl finds them: several files as one, and what they keep in other files put in its place."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.core import kubeconfigs
from fairlead.core.kubeconfigs import FILES, ROOT
from fairlead.errors import RequestRejected
from fairlead.files import yamls
from fairlead.model.connections import Connection
from fairlead.model.plans import Violation

LARGEST_FILE = 1024 * 1024
SECTIONS = {"contexts": "context", "clusters": "cluster", "users": "user"}
ANOTHER = "name another one: --kubeconfig FILE"


@dataclass(frozen=True)
class LoadedKubeconfig:
    """One context of a kubeconfig, ready to be sent: whole, and with nothing beside it."""

    context: str
    files: tuple[Path, ...]
    connection: Connection
    text: str


def find_paths(said: Path | None, variable: str | None, home: Path) -> list[Path]:
    """Which files hold the kubeconfig: the one that is said, else those of the variable, else the one at home."""
    if said is not None:
        return [said]
    listed = [Path(part) for part in (variable or "").split(":") if part]
    return listed or [home / ".kube" / "config"]


def load_kubeconfig(paths: Sequence[Path], context: str | None = None) -> LoadedKubeconfig:
    """A context of the files that are there. Raise `RequestRejected` with what is wrong."""
    there = [path for path in paths if path.exists()] or paths[:1]
    chosen = kubeconfigs.select_context(_merge([_load(path) for path in there]), context)
    violations: list[Violation] = []
    whole = replace(
        chosen,
        cluster=_embed(chosen.cluster, chosen.cluster_at, violations),
        user=_embed(chosen.user, chosen.user_at, violations),
    )
    if violations:
        raise RequestRejected(violations)
    connection, text = kubeconfigs.to_connection(whole), yamls.format_documents([kubeconfigs.minify(whole)])
    return LoadedKubeconfig(whole.context, tuple(there), connection, text)


def _load(path: Path) -> dict[str, Any]:
    loaded = yamls.load_file(path)
    if isinstance(loaded, Violation):
        raise RequestRejected([replace(loaded, path=ROOT, hint=ANOTHER if loaded.rule == "file" else loaded.hint)])
    [document, *more] = loaded or [None]
    if more or not isinstance(document, dict):
        raise RequestRejected([Violation(ROOT, "mapping", "is no kubeconfig", ANOTHER, location=str(path))])
    _anchor(document, path.absolute().parent)
    return document


def _anchor(document: dict[str, Any], folder: Path) -> None:
    """Name files from the root on: their names count from the folder of the kubeconfig that says them."""
    for section, kind in SECTIONS.items():
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            said = entry.get(kind) if isinstance(entry, dict) else None
            if isinstance(said, dict):
                named = {name: said.get(name) for name in FILES}
                said |= {name: str(folder / file) for name, file in named.items() if file and isinstance(file, str)}


def _merge(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several kubeconfigs as one: of two things of one name, and of two current contexts, the first counts."""
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


def _embed(said: Mapping[str, Any], at: str, violations: list[Violation]) -> dict[str, Any]:
    """A cluster or a user with what stands in files in place of their names. Data that is there counts more."""
    whole = {name: value for name, value in said.items() if name not in FILES}
    for name, data in FILES.items():
        path = said.get(name)
        if not isinstance(path, str) or not path:
            continue
        if name == "tokenFile":  # counts more than a token: it is the newer one
            whole[data] = _read(Path(path), f"{at}.{name}", violations).decode("utf-8", "replace").strip()
        elif not whole.get(data):
            whole[data] = base64.b64encode(_read(Path(path), f"{at}.{name}", violations)).decode()
    return whole


def _read(path: Path, at: str, violations: list[Violation]) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        violations.append(Violation(at, "file", f"cannot be read: {path}: {reason}", "see whether it is there"))
        return b""
    if len(content) > LARGEST_FILE:
        violations.append(Violation(at, "file", f"is larger than {LARGEST_FILE:,} bytes: {path}", "name another file"))
    return content
