"""Extracts Debian packages and their dependencies into one file tree. Nothing is installed on this machine."""

import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

UPDATE = ["apt-get", "--quiet", "update"]
INSTALL = ["apt-get", "--quiet", "--yes", "--no-install-recommends", "--download-only"]
MERGED = ("bin", "sbin", "lib", "lib64")  # links into usr, as on an installed Debian
IGNORED = re.compile(r"usr/(include|share/(doc|man|locale|lintian)|lib/[^/]+/gconv)/")


class Missing(Exception):
    """A real node cannot run on this machine. The message says why."""


def cached(kind: str, source: str, write: Callable[[Path], None], variables: Mapping[str, str] = os.environ) -> Path:
    """The path of a cached file, which is built if it is missing or its definition has changed."""
    digest = hashlib.sha256()
    for file in (Path(source), Path(__file__), Path("/etc/os-release")):
        digest.update(file.read_bytes() + b"\0")
    cache = variables.get("XDG_CACHE_HOME") or Path(variables.get("HOME") or Path.home()) / ".cache"
    target = Path(cache) / "fairlead" / f"{kind}-{digest.hexdigest()[:12]}"
    if not target.exists():
        print(f"building {kind} for the tests of real pods, once (about half a minute): {target}", flush=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            write(Path(folder) / target.name)
            (Path(folder) / target.name).rename(target)
    return target


def write_tree(names: Sequence[str], file: Path, extra_files: Sequence[tarfile.TarInfo] = ()) -> None:
    """Write packages and additional files into one archive."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(file, "w") as tree:
        for name in MERGED:
            tree.addfile(make_link(name, f"usr/{name}"))
        for package in _download(names, Path(folder)):
            _add_files(tree, package)
        for member in extra_files:
            tree.addfile(member)


def make_link(name: str, target: str) -> tarfile.TarInfo:
    """An archive entry for a symbolic link."""
    link = tarfile.TarInfo(name)
    link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
    return link


def _download(names: Sequence[str], folder: Path) -> list[Path]:
    """Download packages with all dependencies, as if for an empty machine."""
    (folder / "partial").mkdir()
    (folder / "status").touch()
    options = {"Dir::State::status": folder / "status", "Dir::Cache::archives": folder, "APT::Sandbox::User": "root"}
    install = [*INSTALL, *(f"--option={name}={value}" for name, value in options.items()), "install", *names]
    error = ""
    for command in (install, UPDATE, install):  # the package lists may be outdated
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode == 0 and command is install:
            return sorted(folder.glob("*.deb"))
        error = result.stderr.strip() or error
    raise Missing(f"apt-get did not get {', '.join(names)}: {' '.join(error.split())[-400:]}")


def _add_files(tree: tarfile.TarFile, package: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in _usr_merged_members(archive):
                tree.addfile(member, archive.extractfile(member) if member.isreg() else None)
        assert process.stdout is not None
        process.stdout.read()  # the archive's padding
    assert process.returncode == 0, f"{package.name} cannot be unpacked"


def _usr_merged_members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """A package's members, with names for a tree in which the MERGED folders are links into usr."""
    for member in archive:
        member.name = _move_to_usr(member.name)
        if member.islnk():
            member.linkname = _move_to_usr(member.linkname)
        if member.name and member.name not in MERGED and not IGNORED.match(member.name):
            member.mode &= 0o777  # no setuid programs in a cache folder
            yield member


def _move_to_usr(name: str) -> str:
    path = name.removeprefix("./").rstrip("/")
    first = path.partition("/")[0]
    return f"usr/{path}" if first in MERGED and path != first else path
