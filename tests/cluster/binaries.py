"""Binaries for Kueue and a Kubernetes control plane, from KUBEBUILDER_ASSETS or built from Go modules.

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
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
REQUIRED_ASSETS = ("etcd", "kube-apiserver")  # envtest contains only these and kubectl
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

Commands = Mapping[
    str, tuple[str, ...]
]  # the command of each component: a program, and the component name if it is a combined binary


class Missing(Exception):
    """The binaries cannot be found or built. The message says what to do."""


class Program(NamedTuple):
    """A binary built from a package in a Go module."""

    title: str
    module: Path
    package: str
    source: str
    duration: str


KUBERNETES = Program("Kubernetes", HERE / "control_plane", ".", "k8s.io/kubernetes", "3 to 10 minutes")
KUEUE = Program("Kueue", HERE / "queueing", "sigs.k8s.io/kueue/cmd/kueue", "sigs.k8s.io/kueue", "1 to 5 minutes")


def find(variables: Mapping[str, str] = os.environ) -> Commands:
    """The command of each component. Builds the components that are missing."""
    ready = _assets(variables)
    missing = [component for component in COMPONENTS if component not in ready]
    built = build(variables) if missing else None
    return {
        component: (str(ready[component]),) if component in ready else (str(built), component)
        for component in COMPONENTS
    }


def build(variables: Mapping[str, str] = os.environ, program: Program = KUBERNETES) -> Path:
    """The path of a binary, which is built if it is missing. Kubernetes is built as one binary for all components."""
    target = cached(variables, program)
    if target.exists():
        return target
    go = _find_go(variables, program)
    title = f"{program.title} {version(program)}"
    print(f"building {title} for the tests, once ({program.duration}): {target}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        binary = Path(folder) / target.name
        command = [go, "build", "-trimpath", "-ldflags", " ".join(_flags()), "-o", str(binary), program.package]
        result = _run(command, cwd=program.module, env={**variables, "CGO_ENABLED": "0"})
        if result.returncode:
            description = f"{' '.join(command[:2])} in {program.module}"
            raise Missing(f"{program.title} was not built: {description} failed:\n{result.stderr[-4000:]}")
        binary.replace(target)
    return target


def filter_command(variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The command for the program that evaluates cases with kube-scheduler's filters. It is always built."""
    return (str(build(variables)), "filter")


def source_of(program: Program, variables: Mapping[str, str] = os.environ) -> Path:
    """The folder with a binary's source, which is downloaded if it is missing."""
    go = _find_go(variables, program)
    result = _run([go, "mod", "download", "-json", program.source], cwd=program.module, env=variables)
    if result.returncode:
        raise Missing(f"the source of {program.title} was not fetched: {result.stdout[-4000:]}{result.stderr[-4000:]}")
    return Path(json.loads(result.stdout)["Dir"])


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
    return _read_go_mod(program, rf"^require {re.escape(program.source)} (v\S+)")


def _assets(variables: Mapping[str, str]) -> dict[str, Path]:
    """The existing programs in KUBEBUILDER_ASSETS."""
    folder = variables.get("KUBEBUILDER_ASSETS")
    if not folder:
        return {}
    programs = {
        component: Path(folder) / component for component in COMPONENTS if os.access(Path(folder) / component, os.X_OK)
    }
    missing = [component for component in REQUIRED_ASSETS if component not in programs]
    if missing:
        suggestion = "set it to the folder that `setup-envtest use -p path` prints, or unset it to build from source"
        raise Missing(f"KUBEBUILDER_ASSETS is {folder}, which lacks {' and '.join(missing)}: {suggestion}")
    return programs


def _find_go(variables: Mapping[str, str], program: Program) -> str:
    needed, title = _read_go_mod(program, r"^go (\S+)"), f"{program.title} {version(program)}"
    suggestion = f"install Go {needed} or newer, or set KUBEBUILDER_ASSETS to a folder with the programs"
    go = shutil.which("go", path=variables.get("PATH"))
    if go is None:
        raise Missing(f"Go is required to build {title}: {suggestion}")
    result = _run([go, "env", "GOVERSION"], cwd=Path("/"), env=variables)
    installed = result.stdout.strip().removeprefix("go")
    if _parse_version(installed) < _parse_version(needed):
        raise Missing(f"Go {installed or '?'} is too old to build {title}: {suggestion}")
    return go


def _flags() -> list[str]:
    """The linker flags that set the Kubernetes version, which would otherwise be v0.0.0."""
    major, minor, _ = version().removeprefix("v").split(".", 2)
    variables = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    return [
        "-s",
        "-w",
        *(f"-X {package}.{key}={value}" for package in VERSION_PACKAGES for key, value in variables.items()),
    ]


def _run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, cwd=cwd, env=dict(env), capture_output=True, text=True)


def _read_go_mod(program: Program, pattern: str) -> str:
    match = re.search(pattern, (program.module / "go.mod").read_text("utf-8"), re.MULTILINE)
    assert match, f"go.mod does not contain {pattern}"
    return match[1]


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


if __name__ == "__main__":
    try:
        find()
        build(program=KUEUE)
    except Missing as missing:
        sys.exit(f"error: {missing}")
