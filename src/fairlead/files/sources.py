"""A function's source files, packed so that equal code gives equal bytes."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from fairlead.core.drafts import Code
from fairlead.errors import Unreadable
from fairlead.model.plans import Finding, Violation, Warning
from fairlead.model.requests import Function

LARGEST_SOURCE = 10 * 1024 * 1024
SKIPPED = ("__pycache__", ".git", ".venv", ".ipynb_checkpoints")


def load_code(folder: Path, function: Function) -> tuple[Code, tuple[Finding, ...]]:
    """The bootstrap with the code of a function, and what keeps the code from being packed or run."""
    code = Code(resources.files("fairlead").joinpath("bootstrap.py").read_text("utf-8"))
    if function.kind != "python" or function.source is None:
        return code, ()
    try:
        archive = pack(folder, function.source)
    except (OSError, Unreadable) as error:
        return code, (_explain(error, folder / function.source),)
    code = Code(code.bootstrap, archive, f"sha256:{hashlib.sha256(archive).hexdigest()}")
    return code, tuple(_check_script(folder / function.source, function))


def pack(folder: Path, source: str) -> bytes:
    """A file or folder below a folder as a compressed archive: names in order, no times, no owners."""
    files = _list_sources(folder / source)
    if sum(file.stat().st_size for file in files) > LARGEST_SOURCE:
        raise Unreadable(f"has more than {LARGEST_SOURCE:,} bytes", "keep data out of the code: use a volume")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for file in files:
            content = file.read_bytes()
            entry = tarfile.TarInfo(file.relative_to(folder).as_posix())
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _list_sources(source: Path) -> list[Path]:
    if not source.is_dir():
        return [source]
    inside = sorted(file for file in source.rglob("*") if file.is_file())
    return [file for file in inside if not set(file.relative_to(source).parts) & set(SKIPPED)]


def _check_script(source: Path, function: Function) -> Iterator[Violation]:
    """A folder without a handler is a program only with a __main__.py."""
    if source.is_dir() and not (function.handler or function.command or (source / "__main__.py").exists()):
        message = f"{source} is a folder without __main__.py, and no handler is said"
        yield Violation("function.handler", "required", message, "say handler: module:function")


def _explain(error: OSError | Unreadable, source: Path) -> Finding:
    if isinstance(error, FileNotFoundError):
        message = f"there is no {source}: the manifests are without the function's code"
        return Warning("function.source", "missing", message, "give its path, seen from the request's folder")
    if isinstance(error, Unreadable):
        return Violation("function.source", "size", f"{source} {error}", error.hint)
    message = f"{source} cannot be read: {(error.strerror or str(error)).lower()}"
    return Violation("function.source", "file", message, "give a file that can be read")
