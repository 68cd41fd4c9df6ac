"""The binaries of a Kubernetes control plane, from KUBEBUILDER_ASSETS or built from Go modules, and of Kueue.

A build takes minutes, so binaries are cached in the home folder under a name with the version and digest of the source.
Run as a program, this module builds what is missing and prints the duration.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
ASKED_OF_ASSETS = ("etcd", "kube-apiserver")  # envtest ships no more than these and kubectl
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

Commands = Mapping[str, tuple[str, ...]]  # how each part is started: its program, and the argument that names it


class Missing(Exception):
    """The binaries cannot be found or built. The message says what to do."""


class Program(NamedTuple):
    """A binary built from a package of a Go module."""

    title: str
    module: Path
    package: str
    source: str
    takes: str


KUBERNETES = Program("Kubernetes", HERE / "control_plane", ".", "k8s.io/kubernetes", "3 to 10 minutes")
KUEUE = Program("Kueue", HERE / "queueing", "sigs.k8s.io/kueue/cmd/kueue", "sigs.k8s.io/kueue", "1 to 5 minutes")


def find(variables: Mapping[str, str] = os.environ) -> Commands:
    """How each part is started. Builds what is neither given nor built."""
    ready = _assets(variables)
    missing = [part for part in PARTS if part not in ready]
    built = build(variables) if missing else None
    return {part: (str(ready[part]),) if part in ready else (str(built), part) for part in PARTS}


def build(variables: Mapping[str, str] = os.environ, program: Program = KUBERNETES) -> Path:
    """The path of a binary, which is built if it is missing. Kubernetes is built as one binary for all components."""
    target = cached(variables, program)
    if target.exists():
        return target
    go = _find_go(variables, program)
    title = f"{program.title} {version(program)}"
    print(f"building {title} for the tests, once ({program.takes}): {target}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as aside:
        made = Path(aside) / target.name
        words = [go, "build", "-trimpath", "-ldflags", " ".join(_flags()), "-o", str(made), program.package]
        ended = _run(words, cwd=program.module, env={**variables, "CGO_ENABLED": "0"})
        if ended.returncode:
            where = f"{' '.join(words[:2])} in {program.module}"
            raise Missing(f"{program.title} was not built: {where} said\n{ended.stderr[-4000:]}")
        made.replace(target)
    return target


def filter_command(variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """How the program is started that answers cases with the scheduler's own filters. Ready programs have none."""
    return (str(build(variables)), "filter")


def source_of(program: Program, variables: Mapping[str, str] = os.environ) -> Path:
    """The folder with the source of a binary, which is downloaded if it is missing."""
    go = _find_go(variables, program)
    fetched = _run([go, "mod", "download", "-json", program.source], cwd=program.module, env=variables)
    if fetched.returncode:
        raise Missing(
            f"the source of {program.title} was not fetched: {fetched.stdout[-4000:]}{fetched.stderr[-4000:]}"
        )
    return Path(json.loads(fetched.stdout)["Dir"])


def cached(variables: Mapping[str, str] = os.environ, program: Program = KUBERNETES) -> Path:
    """The cache path of the binary for the current source."""
    digest, module = hashlib.sha256(), program.module
    for file in sorted([*module.glob("*.go"), module / "go.mod", module / "go.sum"]):
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    cache = variables.get("XDG_CACHE_HOME") or Path(variables.get("HOME") or Path.home()) / ".cache"
    name = f"{module.name.replace('_', '-')}-{version(program)}-{digest.hexdigest()[:12]}"
    return Path(cache) / "fairlead" / name


def version(program: Program = KUBERNETES) -> str:
    """The version, such as v1.35.8."""
    return _said(program, rf"^require {re.escape(program.source)} (v\S+)")


def _assets(variables: Mapping[str, str]) -> dict[str, Path]:
    """The ready programs."""
    named = variables.get("KUBEBUILDER_ASSETS")
    if not named:
        return {}
    programs = {part: Path(named) / part for part in PARTS if os.access(Path(named) / part, os.X_OK)}
    missing = [part for part in ASKED_OF_ASSETS if part not in programs]
    if missing:
        suggestion = "name the folder that `setup-envtest use -p path` prints, or none to build from source"
        raise Missing(f"KUBEBUILDER_ASSETS is {named}, which lacks {' and '.join(missing)}: {suggestion}")
    return programs


def _find_go(variables: Mapping[str, str], program: Program) -> str:
    needed, title = _said(program, r"^go (\S+)"), f"{program.title} {version(program)}"
    suggestion = f"install Go {needed} or newer, or name a folder of ready programs in KUBEBUILDER_ASSETS"
    go = shutil.which("go", path=variables.get("PATH"))
    if go is None:
        raise Missing(f"Go is required to build {title}: {suggestion}")
    result = _run([go, "env", "GOVERSION"], cwd=Path("/"), env=variables)
    installed = result.stdout.strip().removeprefix("go")
    if _numbers(installed) < _numbers(needed):
        raise Missing(f"Go {installed or '?'} is too old to build {title}: {suggestion}")
    return go


def _flags() -> list[str]:
    """Without these, whatever of Kubernetes is in a program says that it is v0.0.0."""
    major, minor, _ = version().removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return ["-s", "-w", *(f"-X {package}.{key}={value}" for package in STAMPED for key, value in stamps.items())]


def _run(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=False, cwd=cwd, env=dict(env), capture_output=True, text=True)


def _said(program: Program, pattern: str) -> str:
    found = re.search(pattern, (program.module / "go.mod").read_text("utf-8"), re.MULTILINE)
    assert found, f"go.mod says nothing like {pattern}"
    return found[1]


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


if __name__ == "__main__":
    try:
        find()
        build(program=KUEUE)
    except Missing as missing:
        sys.exit(f"error: {missing}")
