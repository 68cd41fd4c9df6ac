"""A function's source files, packed so that equal code gives equal bytes."""

import gzip
import hashlib
import io
import tarfile
from importlib import resources
from pathlib import Path

from fairlead.core.drafts import Code

SKIPPED = ("__pycache__", ".git", ".venv", ".ipynb_checkpoints")


def load_code(source: Path | None) -> Code:
    """The bootstrap and, where the source is there, its code."""
    bootstrap = resources.files("fairlead").joinpath("bootstrap.py").read_text("utf-8")
    if source is None or not source.exists():
        return Code(bootstrap)
    archive = pack(source)
    return Code(bootstrap, archive, f"sha256:{hashlib.sha256(archive).hexdigest()}")


def pack(source: Path) -> bytes:
    """A file or folder as a compressed archive: names in order, no times, no owners."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for file in _list_sources(source):
            entry = tarfile.TarInfo(file.name if source.is_file() else file.relative_to(source).as_posix())
            content = file.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _list_sources(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    inside = sorted(file for file in source.rglob("*") if file.is_file())
    return [file for file in inside if not set(file.relative_to(source).parts) & set(SKIPPED)]
