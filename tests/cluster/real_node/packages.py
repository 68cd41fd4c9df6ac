"""Debian packages as one tree of files, with all that they need: nothing is installed on this machine."""

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
LEFT_OUT = re.compile(r"usr/(include|share/(doc|man|locale|lintian)|lib/[^/]+/gconv)/")


class Missing(Exception):
    """A real node cannot run on this machine. The message says why."""


def keep(kind: str, source: str, write: Callable[[Path], None], variables: Mapping[str, str] = os.environ) -> Path:
    """A cached file that is built from packages; built if it is missing or its definition changed."""
    digest = hashlib.sha256()
    for file in (Path(source), Path(__file__), Path("/etc/os-release")):
        digest.update(file.read_bytes() + b"\0")
    cache = variables.get("XDG_CACHE_HOME") or Path(variables.get("HOME") or Path.home()) / ".cache"
    target = Path(cache) / "fairlead" / f"{kind}-{digest.hexdigest()[:12]}"
    if not target.exists():
        print(f"making {kind} for the tests of real pods, once (half a minute or so): {target}", flush=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as aside:
            write(Path(aside) / target.name)
            (Path(aside) / target.name).rename(target)
    return target


def write_tree(names: Sequence[str], file: Path, more: Sequence[tarfile.TarInfo] = ()) -> None:
    """Write packages and additional files into one archive."""
    with tempfile.TemporaryDirectory() as aside, tarfile.open(file, "w") as tree:
        for name in MERGED:
            tree.addfile(make_link(name, f"usr/{name}"))
        for package in _download(names, Path(aside)):
            _add_files(tree, package)
        for member in more:
            tree.addfile(member)


def make_link(name: str, target: str) -> tarfile.TarInfo:
    """A symbolic link of a tree."""
    link = tarfile.TarInfo(name)
    link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
    return link


def _download(names: Sequence[str], folder: Path) -> list[Path]:
    """Packages, and whatever they depend on: as for a machine on which nothing is installed."""
    (folder / "partial").mkdir()
    (folder / "status").touch()
    options = {"Dir::State::status": folder / "status", "Dir::Cache::archives": folder, "APT::Sandbox::User": "root"}
    install = [*INSTALL, *(f"--option={name}={value}" for name, value in options.items()), "install", *names]
    error = ""
    for command in (install, UPDATE, install):  # a machine that asked long ago what there is has to ask first
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if ended.returncode == 0 and command is install:
            return sorted(folder.glob("*.deb"))
        error = ended.stderr.strip() or error
    raise Missing(f"apt-get did not get {', '.join(names)}: {' '.join(error.split())[-400:]}")


def _add_files(tree: tarfile.TarFile, package: Path) -> None:
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
            for member in _merged(archive):
                tree.addfile(member, archive.extractfile(member) if member.isreg() else None)
        assert unpacking.stdout is not None
        unpacking.stdout.read()  # what pads the archive
    assert unpacking.returncode == 0, f"{package.name} cannot be unpacked"


def _merged(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of a package under the names that they have where MERGED are links."""
    for member in archive:
        member.name = _below_usr(member.name)
        if member.islnk():
            member.linkname = _below_usr(member.linkname)
        if member.name and member.name not in MERGED and not LEFT_OUT.match(member.name):
            member.mode &= 0o777  # no setuid programs in a cache folder
            yield member


def _below_usr(name: str) -> str:
    plain = name.removeprefix("./").rstrip("/")
    first = plain.partition("/")[0]
    return f"usr/{plain}" if first in MERGED and plain != first else plain
