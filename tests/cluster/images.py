"""Container images for a real node, built from Debian packages: one with Python, and the pause image.

They are cached as one archive that containerd can import.
"""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.real_node import packages

PYTHON, PAUSE = "fairlead.test/python:3", "fairlead.test/pause:1"
PACKAGES = ("python3", "busybox-static")
SHELL = ("sh", "sleep", "cat", "ls", "id")  # links to busybox
PAUSE_COMMAND = ["/bin/sleep", "1000000000"]
OCI = "application/vnd.oci.image"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def build() -> Path:
    """The archive with both images, built if it is missing."""
    return packages.cached("images", __file__, _write)


def write_archive(layer: Path, file: Path) -> None:
    """Write the images, which have the same files but different entrypoints."""
    with tarfile.open(file, "w") as archive:
        digest = f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"
        archive.add(layer, _blob_path(digest))
        descriptor = {"mediaType": f"{OCI}.layer.v1.tar", "digest": digest, "size": layer.stat().st_size}
        manifests = [
            {
                **_add(archive, f"{OCI}.manifest.v1+json", _manifest(archive, descriptor, entrypoint)),
                "annotations": {"io.containerd.image.name": name},
            }
            for name, entrypoint in ((PYTHON, []), (PAUSE, PAUSE_COMMAND))
        ]
        _add_file(archive, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _add_file(archive, "index.json", {"schemaVersion": 2, "manifests": manifests})


def _write(archive: Path) -> None:
    layer = archive.with_suffix(".layer")
    packages.write_tree(PACKAGES, layer, _additions())
    write_archive(layer, archive)


def _additions() -> list[tarfile.TarInfo]:
    tmp_folder = tarfile.TarInfo("tmp")
    tmp_folder.type, tmp_folder.mode = tarfile.DIRTYPE, 0o1777
    return [tmp_folder, *(packages.make_link(f"usr/bin/{name}", "busybox") for name in SHELL)]


def _manifest(archive: tarfile.TarFile, layer: Mapping[str, Any], entrypoint: list[str]) -> dict[str, Any]:
    machine = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True)
    config = {
        "architecture": machine.stdout.strip(),
        "os": "linux",
        "config": {"Env": [PATH], "Entrypoint": entrypoint},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    descriptor = _add(archive, f"{OCI}.config.v1+json", config)
    return {"schemaVersion": 2, "config": descriptor, "layers": [layer]}


def _add(archive: tarfile.TarFile, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Add a blob under its digest, and return its descriptor."""
    data = json.dumps(content).encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    _add_file(archive, _blob_path(digest), content)
    return {"mediaType": kind, "digest": digest, "size": len(data)}


def _add_file(archive: tarfile.TarFile, name: str, content: Mapping[str, Any]) -> None:
    data = json.dumps(content).encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
